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
#include "drift.bpf.h"
#include "run_queue.bpf.h"

static __always_inline void violation(void *ctx, struct gw_stats *own, struct task_struct *task, __u64 now, __u32 what,
				      __u64 value, __u64 budget)
{
	struct run_queue_event *event;

	if (!gw_allow(own, now))
		return;
	event = bpf_ringbuf_reserve(GW_MAP(events), sizeof(*event), 0);
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
	__u64 now = bpf_ktime_get_ns(), word, state, blocked;
	__u32 pid = GW_READ(task, pid);
	struct run_queue_slot *slot = slot_of(pid);

	if (!slot)
		return;
	word = slot->word;
	state = word >> PID_SHIFT == pid ? word >> STATE_SHIFT & 3 : STATE_OTHERS;
	if (state == STATE_WOKEN || state == STATE_PREEMPTED)
		return; /* preempted on its way to sleep: it waits since then already */
	slot->word = word_of(pid, STATE_WOKEN, now);
	if (state == STATE_OTHERS)
		slot->cpu = NO_CPU;
	if (state != STATE_BLOCKED)
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

static __always_inline void switched_in(void *ctx, const bool btf, gw_ctl_t *cfg, struct gw_stats *own,
					struct task_struct *task, __u64 now, __u16 cpu)
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

GW_HOOK(sched_wakeup, HOOK_WAKEUP) { woken(ctx, btf, cfg, own, (void *)ctx[0]); }

GW_HOOK(sched_wakeup_new, HOOK_WAKEUP_NEW) { woken(ctx, btf, cfg, own, (void *)ctx[0]); }

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
