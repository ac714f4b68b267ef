/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A live timer race without a module: a bpf_timer whose callback holds its CPU for `ns`, started from wherever the program `arm` is
 * run. Needs bpf_timer (5.15) and bpf_loop (5.17).
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define MONOTONIC 1
#define TURNS (1 << 20)

struct entry {
	struct bpf_timer timer;
	__u64 ns; /* how long the callback holds its CPU */
	__u64 runs;
	__u64 plain;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, struct entry);
} entries SEC(".maps");

struct order {
	__u32 index;
	__u32 init; /* 1: bpf_timer_init first; 2: cancel instead of start */
	__u64 hold_ns;
	__u64 in_ns;
};

static long turn(__u32 index, void *until) { return bpf_ktime_get_ns() >= *(__u64 *)until; }

static int expired(void *map, __u32 *key, struct entry *entry)
{
	__u64 until = bpf_ktime_get_ns() + entry->ns;

	entry->runs++;
	if (entry->ns)
		bpf_loop(TURNS, turn, &until, 0);
	return 0;
}

SEC("syscall") int arm(struct order *order)
{
	__u32 index = order->index;
	struct entry *entry = bpf_map_lookup_elem(&entries, &index);

	if (!entry)
		return 1;
	if (order->init == 1) {
		bpf_timer_init(&entry->timer, &entries, MONOTONIC);
		bpf_timer_set_callback(&entry->timer, expired);
	}
	if (order->init == 2)
		return bpf_timer_cancel(&entry->timer);
	entry->ns = order->hold_ns;
	return bpf_timer_start(&entry->timer, order->in_ns, 0);
}
