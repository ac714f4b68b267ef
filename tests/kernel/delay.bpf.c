/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fault injection for the live tests: hold a CPU for `ns` at the beginning of a softirq vector, an interrupt line's handler or
 * an expiring hrtimer, `left` times. Needs bpf_loop (5.17).
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define TURNS (1 << 20) /* a bound: each turn takes some 40 ns */
#define ANY 0xffffffff

struct delay {
	__u64 ns;
	__u32 left;
	__u32 only; /* this vector or line, or ANY */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct delay);
} delay SEC(".maps");

static long turn(__u32 index, void *until)
{
	return bpf_ktime_get_ns() >= *(__u64 *)until;
}

static int hold(__u32 which)
{
	__u32 zero = 0;
	struct delay *plan = bpf_map_lookup_elem(&delay, &zero);
	__u64 until = bpf_ktime_get_ns();

	if (!plan || !plan->left || (plan->only != ANY && plan->only != which))
		return 0;
	plan->left--;
	until += plan->ns;
	bpf_loop(TURNS, turn, &until, 0);
	return 0;
}

SEC("raw_tp/softirq_entry") int softirq_entry_raw(__u64 *ctx) { return hold(ctx[0]); }
SEC("raw_tp/irq_handler_entry") int irq_handler_entry_raw(__u64 *ctx) { return hold(ctx[0]); }
SEC("raw_tp/hrtimer_expire_entry") int hrtimer_expire_entry_raw(__u64 *ctx) { return hold(ANY); }
