// SPDX-License-Identifier: GPL-2.0
/*
 * timer_race: the life of each timer object, and what happens to it in a state in which it should not: initialised while armed or
 * running, started or deleted while its callback runs elsewhere, freed while armed or running, re-armed while somebody tears
 * it down, armed and never fired. agent/detectors/_race_rules.py has the rules; here only what can matter to them is kept, asked of
 * the kernel's own fields at that moment (`sure`), and sent with both sides.
 */
#include "timer_race_free.bpf.h"

static __always_inline void initialised(void *ctx, gw_ctl_t *cfg, struct gw_stats *own, __u64 timer)
{
	struct object *object = known(timer);
	__u64 now = bpf_ktime_get_ns();
	struct side *other;
	__u32 sure;

	if (!object)
		return;
	other = runs_elsewhere(own, cfg, object, &sure);
	if (other)
		tell_here(ctx, own, object, INIT_RUNNING, sure, 0, other, now);
	/* The tracepoint lies before the fields are overwritten (kernel/time/timer.c init_timer_key, hrtimer.c). */
	else if (object->armed.t_ns > cfg->head.since_ns && queued(timer, object->kind))
		tell_here(ctx, own, object, INIT_ARMED, BY_KERNEL, 0, &object->armed, now);
	forget(object);
}

/* `left` is until the expiry: ns, or jiffies. */
static __always_inline void started(void *ctx, gw_ctl_t *cfg, struct gw_stats *own, struct object *object, __u64 deadline,
				    __s64 left, __u64 now)
{
	struct side *other;
	__u32 sure, pid = bpf_get_current_pid_tgid();
	__u64 *work;

	other = runs_elsewhere(own, cfg, object, &sure);
	if (other)
		tell_here(ctx, own, object, START_RUNNING, sure, 0, other, now);
	if (object->freed) {
		tell_here(ctx, own, object, START_FREED, BY_STATE, 0, &object->stop, now);
		object->freed = object->stop.t_ns = 0;
	}
	if (object->rearmed && !object->armed.t_ns) /* stopped once more, and then started */
		object->rearmed = object->stop.t_ns = 0;
	if (object->stop.t_ns > cfg->head.since_ns) {
		work = bpf_map_lookup_elem(&works, &pid);
		if (object->stop.pid != pid && ((work && *work == object->work) || (object->slot && !other)))
			object->rearmed = 1; /* by the loop, or by its callback that was running meanwhile */
		else
			object->stop.t_ns = 0; /* whoever else arms it means to */
	}
	take_side(ctx, &object->armed, object->timer, now);
	object->deadline = deadline;
	object->reported = 0;
	place(object->timer);
	if (left > 0)
		return;
	if (now - object->window_ns > GW_LIMIT_NS) {
		object->window_ns = now;
		object->past = 0;
	}
	if (++object->past == cfg->past_per_window)
		tell_here(ctx, own, object, STORM, BY_KERNEL, object->past, &object->armed, now);
}

/* A periodic timer that its own restart moves on by more than one period has missed the others. */
static __always_inline void check_period(void *ctx, gw_ctl_t *cfg, struct gw_stats *own, struct object *object, __u64 expires,
					 __u64 now)
{
	__u64 gap = expires - object->fired_for;

	if (!object->fired_for || !object->exit_ns || now - object->exit_ns > RESTART_NS)
		return;
	if (gap == object->period) {
		object->steady++;
		return;
	}
	if (object->steady >= 3 && gap > object->period + cfg->late_ns && !(gap % object->period))
		tell_here(ctx, own, object, PERIODS_MISSED, BY_KERNEL, gap / object->period - 1, &object->armed, now);
	else
		object->steady = 0, object->period = gap ? gap : 1;
}

static __always_inline void entered(void *ctx, struct gw_stats *own, struct object *object, __u32 kind, __u64 now)
{
	__u32 index = bpf_get_smp_processor_id() * KINDS + kind;
	struct side *slot = running_at(index);

	if (!slot) {
		own->missed++;
		return;
	}
	if (!object->armed.t_ns) /* a timer that expires was not cancelled: that event was the expiry's own */
		object->armed.t_ns = object->armed_ns;
	if (object->rearmed && object->armed.t_ns > object->stop.t_ns)
		tell_armer(own, object, REARMED_EXPIRED, BY_KERNEL, now - object->armed.t_ns, &object->stop, now);
	object->rearmed = object->reported = 0;
	object->armed.t_ns = object->stop.t_ns = 0; /* a timer_cancel just now was that of this expiry */
	object->kind = kind;
	own->missed += !!slot->timer;
	slot->timer = 0; /* so that the side is not inside itself */
	take_side(ctx, slot, object->timer, now);
	object->slot = index + 1;
}

static __always_inline void left(void *ctx, gw_ctl_t *cfg, struct gw_stats *own, __u64 timer, bool high)
{
	__u32 kind, cpu = bpf_get_smp_processor_id();
	struct side *slot = inside(&kind), *other = slot;
	struct object *object = known(timer);
	__u64 now = bpf_ktime_get_ns(), *waiting;

	if (!slot || slot->timer != timer || (kind != KIND_TIMER) != high) {
		own->missed++;
		return;
	}
	slot->timer = 0;
	waiting = bpf_map_lookup_elem(&waits, &cpu);
	if (waiting)
		*waiting = 0;
	if (!object || object->slot != cpu * KINDS + kind + 1)
		return;
	object->slot = 0;
	object->exit_ns = now;
	if (now - slot->t_ns > cfg->run_ns && slot->t_ns > cfg->head.since_ns)
		tell_here(ctx, own, object, OVERLONG, BY_KERNEL, now - slot->t_ns, other, now);
}

static __always_inline void cancelled(void *ctx, __u64 timer)
{
	struct object *object = known(timer);
	__u64 now = bpf_ktime_get_ns();
	__u32 kind;

	if (!object)
		return;
	if (object->armed.t_ns)
		object->armed_ns = object->armed.t_ns;
	object->armed.t_ns = 0;
	if (object->rearmed)
		return; /* its expiry, or whoever stopped it stops it again: which, is seen at the entry */
	/* By a task, not by an expiry or a callback; a start that follows at once (mod_timer) takes it back. */
	if (object->work && (__u32)bpf_get_current_pid_tgid() && !inside(&kind))
		take_side(ctx, &object->stop, timer, now);
}

#include "timer_race_hooks.bpf.h"
