// SPDX-License-Identifier: GPL-2.0
/*
 * run_queue: how long tasks that could run waited for a CPU, by process; switches, migrations, tasks blocked beyond a limit.
 *
 * wait         from the wake-up, or from the preemption, to running.
 * voluntary    switches in after a wake-up; involuntary: after a preemption (counted when the task returns, as its wait is).
 * migration    a switch in on another CPU than the one that the task last ran on.
 * blocked      in TASK_UNINTERRUPTIBLE without TASK_NOLOAD, from the switch out to the wake-up.
 *
 * sched_switch is the hottest hook of all. So a task's state is one word in a direct-mapped array, and one cache line
 * finds its process.
 */
#include "common.bpf.h"
#include "drift.bpf.h"

enum { HOOK_WAKEUP, HOOK_WAKEUP_NEW, HOOK_SWITCH, HOOKS };
enum { STATE_NONE, STATE_WOKEN, STATE_PREEMPTED, STATE_BLOCKED };
enum { WHAT_LATENCY, WHAT_BLOCKED };

#define TASK_UNINTERRUPTIBLE 0x0002 /* include/linux/sched.h; 0x400 since 4.14 */
#define TASK_NOLOAD 0x0400
#define SLOTS 32768	  /* pids beyond the default pid_max share slots: a collision costs one sample and is counted */
#define SETS 128	  /* processes: a busy gateway has some 300, kernel threads included; SETS * WAYS find room … */
#define WAYS 8		  /* … in sets by the low bits of the tgid; in a full set the longest unseen gives way */
#define OTHER (SETS * WAYS) /* the sum of all that gave way */
#define REFRESH_FIRST 16  /* comm and cgroup are read again at each of the first switches (fork, exec, move) … */
#define REFRESH_MASK 63   /* … and then at one in 64 */
#define NO_CPU 0xffff

/* A word: pid (22 bits, PID_MAX_LIMIT) | state (2) | time in units of 64 ns (40: half of its range is 9.7 h). */
#define TIME_SHIFT 6
#define TIME_BITS 40
#define TIME_MASK ((1ULL << TIME_BITS) - 1)
#define STATE_SHIFT TIME_BITS
#define PID_SHIFT (TIME_BITS + 2)
#define USED_SHIFT 26 /* 67 ms: how finely the ways of a set are told apart by age */

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
	__u32 seen; /* when to refresh, no exact count */
	char comm[16];
	__u64 cgroup;
	__u64 max;
	__u64 involuntary;
	__u64 migrations;
	__u32 wait[GW_BUCKETS];
};

/* One cache line to find a process by. The newest `used` also tells user space what time it is here. */
struct run_queue_set {
	__u32 tgid[WAYS];
	__u32 used[WAYS];
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
GW_KEEP(run_queue_set);

GW_PROBE(run_queue_ctl, HOOKS);
GW_MAP_ARRAY(slots, struct run_queue_slot, SLOTS, BPF_F_MMAPABLE);
GW_MAP_ARRAY(sets, struct run_queue_set, SETS, BPF_F_MMAPABLE);
GW_MAP_ARRAY(processes, struct run_queue_process, SETS * WAYS + 1, BPF_F_MMAPABLE); /* the last is OTHER */

/* The low 15 bits of a pid, turned so that neighbours, which often run on different CPUs, do not share a cache line. */
static __always_inline struct run_queue_slot *slot_of(__u32 pid)
{
	__u32 index = (pid << 2 | (pid >> 13 & 3)) & (SLOTS - 1);

	return bpf_map_lookup_elem(&slots, &index);
}

static __always_inline __u64 word_of(__u32 pid, __u64 state, __u64 now)
{
	return (__u64)pid << PID_SHIFT | state << STATE_SHIFT | (now >> TIME_SHIFT & TIME_MASK);
}

static __always_inline void violation(void *ctx, struct gw_stats *own, struct task_struct *task, __u64 now, __u32 what,
				      __u64 value, __u64 budget)
{
	struct run_queue_event *event;

	if (!gw_allow(own, now))
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		own->lost++;
		return;
	}
	GW_HERE(event, now);
	event->value_ns = value;
	event->budget_ns = budget;
	event->what = what;
	event->task = BPF_CORE_READ(task, pid);
	event->tgid = BPF_CORE_READ(task, tgid);
	event->_pad = 0;
	BPF_CORE_READ_STR_INTO(&event->task_comm, task, comm);
	if (what == WHAT_LATENCY)
		gw_take_stack(ctx, &event->stack);
	else
		__builtin_memset(&event->stack, 0, sizeof(event->stack));
	bpf_ringbuf_submit(event, 0);
}

static __always_inline void woken(void *ctx, const bool btf, gw_ctl_t *cfg, struct gw_stats *own, struct task_struct *task)
{
	__u64 now = bpf_ktime_get_ns(), word, blocked;
	__u32 pid = GW_READ(task, pid);
	struct run_queue_slot *slot = slot_of(pid);

	if (!slot)
		return;
	word = slot->word;
	slot->word = word_of(pid, STATE_WOKEN, now);
	if (word >> PID_SHIFT != pid) {
		slot->cpu = NO_CPU;
		return;
	}
	if ((word >> STATE_SHIFT & 3) != STATE_BLOCKED)
		return;
	blocked = now - (((__u64)slot->high << TIME_BITS | (word & TIME_MASK)) << TIME_SHIFT);
	if ((__s64)blocked > (__s64)cfg->blocked_ns && blocked <= now - cfg->head.since_ns)
		violation(ctx, own, task, now, WHAT_BLOCKED, blocked, cfg->blocked_ns);
}

static __always_inline void switched_out(__u32 pid, bool runnable, __u32 state, __u64 now, __u16 cpu)
{
	struct run_queue_slot *slot = slot_of(pid);
	__u64 next = STATE_NONE;

	if (!slot)
		return;
	if (runnable) {
		next = STATE_PREEMPTED;
	} else if ((state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) == TASK_UNINTERRUPTIBLE) {
		next = STATE_BLOCKED;
		slot->high = now >> (TIME_SHIFT + TIME_BITS);
	}
	slot->word = word_of(pid, next, now);
	slot->cpu = cpu;
}

/*
 * Which way of `set` holds `tgid`, taken from the longest unseen if none does. Two CPUs may take the same one at the same moment:
 * the later wins, and the other's process takes another at its next switch.
 */
static __always_inline __u32 way_of(struct run_queue_set *set, __u32 tgid, bool *taken)
{
	__u32 oldest = 0;

#pragma unroll
	for (__u32 way = 0; way < WAYS; way++)
		if (set->tgid[way] == tgid)
			return way;
#pragma unroll
	for (__u32 way = 1; way < WAYS; way++)
		if (set->used[way] < set->used[oldest & (WAYS - 1)])
			oldest = way;
	set->tgid[oldest & (WAYS - 1)] = tgid;
	*taken = true;
	return oldest;
}

static __always_inline void clear(struct run_queue_process *entry)
{
	__u32 index = OTHER;
	struct run_queue_process *other = bpf_map_lookup_elem(&processes, &index);

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
	__u32 tgid = GW_READ(task, tgid), index = tgid & (SETS - 1), way, used, seen;
	struct run_queue_set *set = bpf_map_lookup_elem(&sets, &index);
	struct run_queue_process *entry;
	bool taken = false;

	if (!set)
		return 0;
	way = way_of(set, tgid, &taken);
	used = now >> USED_SHIFT;
	if (set->used[way & (WAYS - 1)] != used)
		set->used[way & (WAYS - 1)] = used;
	index = index * WAYS + way;
	entry = bpf_map_lookup_elem(&processes, &index);
	if (!entry)
		return 0;
	if (taken) {
		clear(entry);
		entry->tgid = tgid;
	}
	seen = entry->seen++;
	if (seen < REFRESH_FIRST || !(seen & REFRESH_MASK)) {
		BPF_CORE_READ_STR_INTO(&entry->comm, task, group_leader, comm);
		entry->cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	}
	return entry;
}

static __always_inline void switched_in(void *ctx, const bool btf, gw_ctl_t *cfg, struct gw_stats *own, struct task_struct *task,
					__u64 now, __u16 cpu)
{
	__u32 pid = GW_READ(task, pid);
	struct run_queue_slot *slot = slot_of(pid);
	struct run_queue_process *entry;
	__u64 word, state, wait;
	bool moved;

	if (!slot)
		return;
	word = slot->word;
	state = word >> STATE_SHIFT & 3;
	wait = (now >> TIME_SHIFT) - word & TIME_MASK;
	if (wait >> (TIME_BITS - 1))
		wait = 0; /* another CPU's clock is a little ahead */
	wait <<= TIME_SHIFT;
	if (word >> PID_SHIFT != pid || (state != STATE_WOKEN && state != STATE_PREEMPTED) || wait > now - cfg->head.since_ns) {
		own->missed += !!word; /* empty: it was waiting already when the probe was loaded */
		return;
	}
	/*
	 * It runs: should its switch out go unseen (seen on a guest kernel, for some tasks always), the next switch in must not
	 * find this wait again.
	 */
	slot->word = word_of(pid, STATE_NONE, now);
	moved = slot->cpu != cpu && slot->cpu != NO_CPU;
	entry = process_of(task, btf, now);
	if (!entry)
		return;
	gw_count(entry->wait, wait);
	gw_max(&entry->max, wait);
	if (state == STATE_PREEMPTED)
		__sync_fetch_and_add(&entry->involuntary, 1);
	if (moved)
		__sync_fetch_and_add(&entry->migrations, 1);
	if (wait > cfg->latency_ns)
		violation(ctx, own, task, now, WHAT_LATENCY, wait, cfg->latency_ns);
}

GW_HOOK(sched_wakeup, HOOK_WAKEUP)
{
	woken(ctx, btf, cfg, own, (void *)ctx[0]);
}

GW_HOOK(sched_wakeup_new, HOOK_WAKEUP_NEW)
{
	woken(ctx, btf, cfg, own, (void *)ctx[0]);
}

GW_HOOK(sched_switch, HOOK_SWITCH)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u64 now = bpf_ktime_get_ns();
	__u32 cpu = bpf_get_smp_processor_id(), state = gw_prev_state(ctx, prev), pid = GW_READ(prev, pid);

	if (pid) /* the idle task waits for nobody */
		switched_out(pid, !state || (ctx[0] & 1), state, now, cpu);
	if (GW_READ(next, pid))
		switched_in(ctx, btf, cfg, own, next, now, cpu);
}
