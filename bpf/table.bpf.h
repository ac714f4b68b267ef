/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A set-associative table over two plain arrays: one cache line finds an entry among GW_WAYS, and in a full set the longest unseen
 * gives way. Against an LRU hash: no hashing, no free lists that hoard entries per CPU, user space reads it whole (through an
 * mmap, or where it may only read, as agentd on pinned maps, by one system call that copies it).
 *
 *	GW_TABLE(callbacks, struct timers_callback, SETS)   defines `callbacks` (the last entry is for the sum of all that gave way)
 *	                                                     and `callbacks_sets`
 */
#ifndef GW_TABLE_BPF_H
#define GW_TABLE_BPF_H

#include "common.bpf.h"

#define GW_WAYS 8
#define GW_USED_SHIFT 26 /* 67 ms: how finely the ways of a set are told apart by age */

struct gw_set {
	__u32 key[GW_WAYS]; /* 0: free */
	__u32 used[GW_WAYS];
};

#define GW_TABLE(_name, _value, _count)                                                                                        \
	GW_MAP_ARRAY(_name, _value, (_count) * GW_WAYS + 1, BPF_F_MMAPABLE);                                                   \
	GW_MAP_ARRAY(_name##_sets, struct gw_set, _count, BPF_F_MMAPABLE)

/*
 * Which way of `set` holds `key`, taken from the longest unseen if none does. Two CPUs may take the same one at the same moment,
 * and then the set may name the key of one, and the entry be that of the other. So the caller compares the entry's own key, and
 * makes the entry anew if it is not the one asked for.
 */
static __always_inline __u32 gw_way(struct gw_set *set, __u32 key, __u64 now)
{
	__u32 found = GW_WAYS, oldest = 0, used = now >> GW_USED_SHIFT;

#pragma unroll
	for (__u32 way = 0; way < GW_WAYS; way++)
		if (set->key[way] == key)
			found = way;
	if (found == GW_WAYS) {
#pragma unroll
		for (__u32 way = 1; way < GW_WAYS; way++)
			if (set->used[way] < set->used[oldest & (GW_WAYS - 1)])
				oldest = way;
		found = oldest;
		set->key[found & (GW_WAYS - 1)] = key;
	}
	found &= GW_WAYS - 1;
	if (set->used[found] != used)
		set->used[found] = used;
	return found;
}

#endif
