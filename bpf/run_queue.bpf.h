/* SPDX-License-Identifier: GPL-2.0 */
/* run_queue: its records, its maps, and how to find things in them. */
#ifndef GW_RUN_QUEUE_BPF_H
#define GW_RUN_QUEUE_BPF_H

#include "table.bpf.h"

enum { HOOK_WAKEUP, HOOK_WAKEUP_NEW, HOOK_SWITCH, HOOKS };
enum { STATE_NONE, STATE_WOKEN, STATE_PREEMPTED, STATE_BLOCKED, STATE_OTHERS /* the slot is another pid's; not in a word */ };
enum { WHAT_LATENCY, WHAT_BLOCKED };

#ifndef GW_BCC
#define TASK_UNINTERRUPTIBLE 0x0002 /* include/linux/sched.h; 0x400 since 4.14 */
#define TASK_NOLOAD 0x0400
#endif
#define SLOTS 32768	       /* pids beyond the default pid_max share slots: a collision costs one sample and is counted */
#define SETS 128	       /* of processes, by the low bits of the tgid: 1,024 in all; a busy gateway has some 300 */
#define OTHER (SETS * GW_WAYS) /* the sum of all that gave way */
#define REFRESH_FIRST 16       /* comm and cgroup are read again at each of the first switches (fork, exec, move) … */
#define REFRESH_MASK 63	       /* … which `seen` counts in these bits; the others say when: then once in 67 ms */
#define NO_CPU 0xffff

/* A word: pid (22 bits, PID_MAX_LIMIT) | state (2) | time in units of 64 ns (40: half of its range is 9.7 h). */
#define TIME_SHIFT 6
#define TIME_BITS 40
#define TIME_MASK ((1ULL << TIME_BITS) - 1)
#define STATE_SHIFT TIME_BITS
#define PID_SHIFT (TIME_BITS + 2)

struct run_queue_ctl {
	struct gw_ctl head;
	__u64 latency_ns;
	__u64 blocked_ns;
};

struct run_queue_slot {
	__u64 word;
	__u32 high; /* of a blocked task: the bits of its time above TIME_BITS, since that may last for days */
	__u16 cpu;
	__u16 _pad;
};

struct run_queue_process {
	__u32 tgid;
	__u32 seen; /* what of the task was read when */
	char comm[16];
	__u64 cgroup;
	__u64 made_ns; /* tells an entry from an earlier one of the same tgid */
	__u64 max;
	__u64 involuntary;
	__u64 migrations;
	__u32 wait[GW_BUCKETS];
};

struct run_queue_event {
	__u64 t_ns;
	__u64 value_ns;
	__u64 budget_ns;
	__u32 what;
	__u32 cpu;
	__u32 pid; /* whom the CPU left (latency), who woke it up (blocked) */
	__u32 task;
	__u32 tgid;
	__u32 _pad;
	char comm[16];
	char task_comm[16];
	struct gw_stack stack;
};
GW_KEEP(run_queue_event);
GW_KEEP(run_queue_slot);

GW_PROBE(run_queue_ctl, HOOKS);
GW_MAP_ARRAY(slots, struct run_queue_slot, SLOTS, BPF_F_MMAPABLE);
GW_TABLE(processes, struct run_queue_process, SETS); /* the newest `used` tells user space what time it is here */

/* The low 15 bits of a pid, turned so that neighbours, which often run on different CPUs, do not share a cache line. */
static __always_inline struct run_queue_slot *slot_of(__u32 pid)
{
	__u32 index = (pid << 2 | (pid >> 13 & 3)) & (SLOTS - 1);

	return bpf_map_lookup_elem(GW_MAP(slots), &index);
}

static __always_inline __u64 word_of(__u32 pid, __u64 state, __u64 now)
{
	return (__u64)pid << PID_SHIFT | state << STATE_SHIFT | (now >> TIME_SHIFT & TIME_MASK);
}

/* Make `entry` new, what it held going to OTHER. */
static __always_inline void clear(struct run_queue_process *entry)
{
	__u32 index = OTHER;
	struct run_queue_process *other = bpf_map_lookup_elem(GW_MAP(processes), &index);

	if (other && entry->tgid) {
		for (int i = 0; i < GW_BUCKETS; i++)
			__sync_fetch_and_add(&other->wait[i], entry->wait[i]);
		gw_max(&other->max, entry->max);
		__sync_fetch_and_add(&other->involuntary, entry->involuntary);
		__sync_fetch_and_add(&other->migrations, entry->migrations);
	}
	__builtin_memset(entry, 0, sizeof(*entry));
}

static __always_inline struct run_queue_process *process_of(struct task_struct *task, const bool btf, __u64 now)
{
	__u32 tgid = GW_READ(task, tgid), index = tgid & (SETS - 1), way, seen, stamp;
	struct gw_set *set = bpf_map_lookup_elem(GW_MAP(processes_sets), &index);
	struct run_queue_process *entry;

	if (!set)
		return 0;
	way = gw_way(set, tgid, now);
	index = index * GW_WAYS + way;
	entry = bpf_map_lookup_elem(GW_MAP(processes), &index);
	if (!entry)
		return 0;
	if (entry->tgid != tgid) {
		clear(entry);
		entry->made_ns = now;
		entry->tgid = tgid;
	}
	seen = entry->seen & REFRESH_MASK;
	stamp = (__u32)(now >> GW_USED_SHIFT) * (REFRESH_MASK + 1);
	if (seen < REFRESH_FIRST || entry->seen - seen != stamp) {
		entry->seen = stamp + (seen < REFRESH_FIRST ? seen + 1 : seen);
		BPF_CORE_READ_STR_INTO(&entry->comm, task, group_leader, comm);
		entry->cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	}
	return entry;
}

#endif
