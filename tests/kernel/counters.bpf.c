// SPDX-License-Identifier: GPL-2.0
/*
 * Counters that timer callbacks of two CPUs count up, right and wrong, without a module: two bpf_timers that arm themselves again.
 * All callbacks are `bpf_timer_cb` to the kernel. Needs bpf_timer (5.15) and bpf_loop (5.17).
 */
#include <linux/types.h>

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define MONOTONIC 1
#define UPDATES 16
#define DWELL_NS 3000 /* between reading a counter and writing it back */
#define TURNS (1 << 12)

enum { PLAIN, ATOMIC, SOMETIMES, WAYS };

struct counters {
	__u64 word[WAYS];
	__u64 address;
	__u64 every_ns;
	__u64 runs;
};

struct port {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct port);
} ports SEC(".maps");

static long wait(__u32 index, void *until) { return bpf_ktime_get_ns() >= *(__u64 *)until; }

static long update(__u32 index, void *context)
{
	volatile struct counters *at = *(struct counters **)context;
	__u64 until = bpf_ktime_get_ns() + DWELL_NS, seen = at->word[PLAIN];

	bpf_loop(TURNS, wait, &until, 0);
	at->word[PLAIN] = seen + 1;
	__sync_fetch_and_add(&at->word[ATOMIC], 1);
	return 0;
}

static int expired(void *map, __u32 *key, struct port *port)
{
	__u32 zero = 0;
	struct counters *at = bpf_map_lookup_elem(&counters, &zero);

	if (!at || !at->every_ns)
		return 0;
	bpf_loop(UPDATES, update, &at, 0);
	if (bpf_get_prandom_u32() & 7)
		__sync_fetch_and_add(&at->word[SOMETIMES], UPDATES);
	__sync_fetch_and_add(&at->runs, 1);
	bpf_timer_start(&port->timer, at->every_ns, 0);
	return 0;
}

SEC("syscall") int begin(__u32 *index)
{
	__u32 zero = 0, number = *index;
	struct counters *at = bpf_map_lookup_elem(&counters, &zero);
	struct port *port = bpf_map_lookup_elem(&ports, &number);

	if (!at || !port)
		return 1;
	at->address = (__u64)at;
	bpf_timer_init(&port->timer, &ports, MONOTONIC);
	bpf_timer_set_callback(&port->timer, expired);
	return bpf_timer_start(&port->timer, at->every_ns, 0);
}
