/* SPDX-License-Identifier: GPL-2.0 */
/* An oracle for the live tests: how many of the timer_list expiries were of deferrable timers. */
#include <linux/bpf.h>

#include "../../bpf/kernel.bpf.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define TIMER_DEFERRABLE 0x00080000 /* include/linux/timer.h */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} deferrable SEC(".maps");

SEC("raw_tp/timer_expire_entry") int timer_expire_entry_raw(__u64 *ctx)
{
	struct timer_list *timer = (void *)ctx[0];
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&deferrable, &zero);

	if (count && BPF_CORE_READ(timer, flags) & TIMER_DEFERRABLE)
		__sync_fetch_and_add(count, 1);
	return 0;
}
