// SPDX-License-Identifier: GPL-2.0
/*
 * collider: every write to at most four kernel addresses, by hardware watchpoints. No probe: root's `agentctl race prove|hunt` load
 * it for the moment, agentd never does (docs/decisions/0020-watchpoint-proof.md).
 *
 * x86 traps after the write and before the next instruction, so at any moment each CPU has at most one write that is done but
 * not counted yet. A hit therefore notes the count before and after it reads the value: at the time of the read, the number of
 * writes done lay between `before` and `after` + (CPUs - 1). What user space concludes rests on these two numbers alone, not on
 * the order in which records arrive.
 *
 * It returns 1: since 6.10 ("perf/bpf: Allow a BPF program to suppress all sample side effects") a 0 would also hide the hit from
 * the limit of PERF_EVENT_IOC_REFRESH, by which the kernel disarms the watchpoint even if no process ever runs again.
 */
#include <linux/types.h>

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define SLOTS 4	     /* debug registers of x86 */
#define WORDS 21     /* struct pt_regs of x86-64 */
#define IP_WORD 16   /* rip in it */
#define DEPTH 24     /* frames: enough to see out of a timer callback to the interrupt below it */
#define STACKS 1024  /* different ones in one run; further ones are shown without */
#define RECORDS 2048 /* of each CPU in one window: more than any window's limit */
#define BYTES 256    /* of one peek */

struct collider_slot {
	__u64 address;
	__u64 limit; /* hits since arming, counted or not, after which nothing is recorded any more */
	__u64 seen;  /* hits since arming */
	__u64 hits;  /* of these, while `open` */
	__u64 lost;  /* no room to record it */
	__u32 length;
	__u32 open; /* set once every CPU is armed */
};

struct collider_hit {
	__u64 t_ns;
	__u64 ip;
	__u64 value;
	__u64 before;
	__u64 after;
	__u32 slot;
	__u32 cpu;
	__u32 pid;
	__s32 stack;
	char comm[16];
	__u64 regs[WORDS];
};

struct collider_bytes {
	__s64 result;
	__u8 data[BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct collider_slot);
} slots SEC(".maps");

/*
 * Each CPU has RECORDS hits of its own. A ring buffer would not do: a debug trap counts as an NMI, in which bpf_ringbuf_reserve()
 * gives up when another CPU holds the ring's lock, which is just when two CPUs write at the same time. User space sets
 * max_entries to the CPUs that there are.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RECORDS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct collider_hit);
} hits SEC(".maps");

/* How many of them are in use. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} used SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, STACKS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, DEPTH * sizeof(__u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct collider_bytes);
} peeked SEC(".maps");

/* Give the next free record of this CPU. */
static __always_inline struct collider_hit *next_hit(__u32 cpu)
{
	__u64 *count = bpf_map_lookup_elem(&used, &cpu);
	__u32 index;

	if (!count || *count >= RECORDS)
		return 0;
	index = cpu * RECORDS + *count;
	*count += 1;
	return bpf_map_lookup_elem(&hits, &index);
}

static __always_inline void record(struct bpf_perf_event_data *ctx, volatile struct collider_slot *slot, __u32 index)
{
	__u64 *words = (__u64 *)ctx;
	struct collider_hit *hit;
	__u64 now = bpf_ktime_get_ns(), value = 0, before, after;
	__u32 length = slot->length, cpu = bpf_get_smp_processor_id();

	if (length > sizeof(value))
		return;
	__sync_fetch_and_add(&slot->hits, 1);
	before = slot->hits;
	bpf_probe_read_kernel(&value, length, (void *)slot->address);
	after = slot->hits;
	hit = next_hit(cpu);
	if (!hit) {
		__sync_fetch_and_add(&slot->lost, 1);
		return;
	}
	hit->t_ns = now;
	hit->ip = words[IP_WORD];
	hit->value = value;
	hit->before = before;
	hit->after = after;
	hit->slot = index;
	hit->cpu = cpu;
	hit->pid = bpf_get_current_pid_tgid();
	hit->stack = bpf_get_stackid(ctx, &stacks, BPF_F_FAST_STACK_CMP);
	bpf_get_current_comm(hit->comm, sizeof(hit->comm));
#pragma unroll
	for (int i = 0; i < WORDS; i++)
		hit->regs[i] = words[i];
}

SEC("perf_event")
int collider_write(struct bpf_perf_event_data *ctx)
{
	for (__u32 i = 0; i < SLOTS; i++) {
		__u32 index = i;
		volatile struct collider_slot *slot = bpf_map_lookup_elem(&slots, &index);

		if (!slot || slot->address != ctx->addr)
			continue;
		__sync_fetch_and_add(&slot->seen, 1);
		if (slot->open && slot->seen <= slot->limit)
			record(ctx, slot, i);
		break;
	}
	return 1;
}

/* Read kernel memory for user space, by BPF_PROG_TEST_RUN: ctx[0] is the address, ctx[1] how many bytes. */
SEC("raw_tp")
int collider_peek(__u64 *ctx)
{
	__u32 zero = 0;
	struct collider_bytes *out = bpf_map_lookup_elem(&peeked, &zero);
	__u64 length = ctx[1] & (2 * BYTES - 1);

	if (!out || length > BYTES)
		return 0;
	out->result = bpf_probe_read_kernel(out->data, length, (void *)ctx[0]);
	return 0;
}
