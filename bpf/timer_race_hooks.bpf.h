/* SPDX-License-Identifier: GPL-2.0 */
/* timer_race: its tracepoints and functions; included at the end of timer_race.bpf.c. */

/* F8 has no event of its own: is this timer, by the kernel's own fields, still queued long after its time? */
static __noinline int look_after(gw_ctl_t *cfg, struct gw_stats *own, __u32 index, __u64 now)
{
	struct object *object = bpf_map_lookup_elem(&objects, &index);
	__s64 over, offset;
	__u64 timer; /* BPF_CORE_READ would take object->timer for a kernel field */

	if (!object || object->armed.t_ns <= cfg->head.since_ns || object->reported || object->slot)
		return 0;
	timer = object->timer;
	if (object->kind == KIND_TIMER) {
		over = (__s64)((__u64)bpf_jiffies64() - object->deadline) - STUCK_JIFFIES;
		if (over > 0) /* mod_timer() within one bucket moves the expiry without an event */
			over = (long)((__u64)bpf_jiffies64() - BPF_CORE_READ((struct timer_list *)timer, expires)) -
			       STUCK_JIFFIES;
	} else {
		if (now - object->armed.t_ns < cfg->stuck_ns)
			return 0;
		offset = BPF_CORE_READ((struct hrtimer *)timer, base, offset);
		over = (__s64)now + offset - BPF_CORE_READ((struct hrtimer *)timer, node.expires) - (__s64)cfg->stuck_ns;
	}
	if (over <= 0)
		return 0;
	if (!queued(timer, object->kind)) { /* an expiry or a cancel that we did not see */
		own->missed++;
		object->armed.t_ns = 0;
		return 0;
	}
	object->reported = 1;
	tell_armer(own, object, STUCK, BY_KERNEL, now - object->armed.t_ns, &object->armed, now);
	return 0;
}

/* One round over all timers in PATROL_NS or more, some at each expiry of any hrtimer. */
static __always_inline void patrol(gw_ctl_t *cfg, struct gw_stats *own, __u64 now)
{
	__u32 zero = 0;
	struct beat *beat = bpf_map_lookup_elem(&beats, &zero);

	if (!beat)
		return;
	if (beat->next >= OBJECTS) {
		if (now - beat->start_ns < PATROL_NS)
			return;
		beat->start_ns = now;
		beat->next = 0;
	}
	for (int i = 0; i < PATROL_STEP; i++)
		look_after(cfg, own, beat->next++, now);
}

GW_HOOK(timer_init, HOOK_TIMER_INIT) { initialised(ctx, cfg, own, argument(ctx, 0)); }

GW_HOOK(timer_start, HOOK_TIMER_START)
{
	struct timer_list *timer = (void *)ctx[0];
	__u64 now = bpf_ktime_get_ns(), jiffies = bpf_jiffies64(), expires = GW_READ(timer, expires);
	__s64 left_over = (long)(expires - jiffies);
	__u64 slack = left_over > 0 ? left_over >> 3 : 0; /* a wheel rounds up by at most an eighth: LVL_CLK_SHIFT */
	struct object *object = follow(argument(ctx, 0), (__u64)BPF_CORE_READ(timer, function), KIND_TIMER);

	if (!object)
		return;
	started(ctx, cfg, own, object, jiffies + left_over + slack, left_over, now);
	if (GW_READ(timer, flags) & TIMER_DEFERRABLE)
		object->reported = 1; /* it may sleep as long as its CPU does */
}

GW_HOOK(timer_expire_entry, HOOK_TIMER_ENTRY)
{
	struct timer_list *timer = (void *)ctx[0];
	__u64 now = bpf_ktime_get_ns();
	struct object *object = follow(argument(ctx, 0), (__u64)BPF_CORE_READ(timer, function), KIND_TIMER);

	if (object)
		entered(ctx, own, object, KIND_TIMER, now);
}

GW_HOOK(timer_expire_exit, HOOK_TIMER_EXIT) { left(ctx, cfg, own, argument(ctx, 0), false); }

GW_HOOK(timer_cancel, HOOK_TIMER_CANCEL) { cancelled(ctx, argument(ctx, 0)); }

GW_HOOK(hrtimer_init, HOOK_HRTIMER_INIT) { initialised(ctx, cfg, own, argument(ctx, 0)); }

GW_HOOK(hrtimer_setup, HOOK_HRTIMER_SETUP) { initialised(ctx, cfg, own, argument(ctx, 0)); }

GW_HOOK(hrtimer_start, HOOK_HRTIMER_START)
{
	struct hrtimer *timer = (void *)ctx[0];
	__u64 now = bpf_ktime_get_ns(), expires = GW_READ(timer, node.expires);
	__u32 kind = GW_READ(timer, is_soft) ? KIND_HRTIMER_SOFT : KIND_HRTIMER;
	struct object *object = follow(argument(ctx, 0), (__u64)BPF_CORE_READ(timer, function), kind);

	if (!object)
		return;
	if ((__u32)ctx[1] == HRTIMER_MODE_ABS)
		check_period(ctx, cfg, own, object, expires, now);
	started(ctx, cfg, own, object, expires, (__s64)(expires - now - GW_READ2(timer, base, offset)), now);
}

GW_HOOK(hrtimer_expire_entry, HOOK_HRTIMER_ENTRY)
{
	struct hrtimer *timer = (void *)ctx[0];
	__u64 now = bpf_ktime_get_ns(), expires = GW_READ(timer, node.expires), late;
	__u32 kind = GW_READ(timer, is_soft) ? KIND_HRTIMER_SOFT : KIND_HRTIMER;
	struct object *object = follow(argument(ctx, 0), (__u64)BPF_CORE_READ(timer, function), kind);

	if (!object)
		return;
	if (object->armed.t_ns > cfg->head.since_ns) {
		late = now + GW_READ2(timer, base, offset) - expires;
		if ((__s64)late > (__s64)(now - object->armed.t_ns)) /* armed in the past: nobody is late for that */
			late = now - object->armed.t_ns;
		if ((__s64)late > (__s64)cfg->late_ns)
			tell_here(ctx, own, object, LATE, BY_KERNEL, late, &object->armed, now);
	}
	entered(ctx, own, object, kind, now);
	object->fired_for = expires;
	patrol(cfg, own, now);
}

GW_HOOK(hrtimer_expire_exit, HOOK_HRTIMER_EXIT) { left(ctx, cfg, own, argument(ctx, 0), true); }

GW_HOOK(hrtimer_cancel, HOOK_HRTIMER_CANCEL) { cancelled(ctx, argument(ctx, 0)); }

/* F10: a callback that queues a work which arms the timer again is a loop; to end it takes more than deleting the timer. */
GW_HOOK(workqueue_queue_work, HOOK_QUEUE_WORK)
{
	__u64 work = argument(ctx, 2), timer, *loop;
	__u32 kind, pid = bpf_get_current_pid_tgid();
	struct side *slot = inside(&kind);
	struct object *object;

	if (slot) {
		timer = slot->timer;
		object = known(timer);
		if (object && object->work != work) {
			object->work = work;
			if (bpf_map_update_elem(&loops, &work, &timer, BPF_ANY))
				own->lost++;
		}
		return;
	}
	loop = bpf_map_lookup_elem(&loops, &work);
	object = loop ? known(*loop) : 0;
	if (object && object->stop.pid == pid) /* who stopped the timer starts the loop again */
		object->stop.t_ns = object->rearmed = 0;
}

GW_HOOK(workqueue_execute_start, HOOK_WORK_START)
{
	__u64 work = argument(ctx, 0);
	__u32 pid = bpf_get_current_pid_tgid();

	if (bpf_map_lookup_elem(&loops, &work) && bpf_map_update_elem(&works, &pid, &work, BPF_ANY))
		own->lost++;
}

GW_HOOK(workqueue_execute_end, HOOK_WORK_END)
{
	__u32 pid = bpf_get_current_pid_tgid();

	bpf_map_delete_elem(&works, &pid);
}

GW_HOOK(kfree, HOOK_KFREE)
{
	if (cfg->free_ns)
		freed(ctx, cfg, own, argument(ctx, 1), 0);
}

GW_HOOK(kmem_cache_free, HOOK_CACHE_FREE)
{
	if (cfg->free_ns)
		freed(ctx, cfg, own, argument(ctx, 1), gw_cache_length(argument(ctx, 2)));
}

/*
 * Somebody takes a timer away; `waits_for`: until its callback has ended. The frames of a trampoline or a kprobe are left to user space
 * to take off: there are more or fewer of them.
 */
static __always_inline void deleted(void *ctx, gw_ctl_t *cfg, struct gw_stats *own, __u64 timer, bool waits_for)
{
	__u32 kind, sure = BY_STATE, cpu = bpf_get_smp_processor_id();
	struct object *object = known(timer);
	struct side *slot = inside(&kind), *other, actor = {};
	__u64 now = bpf_ktime_get_ns(), *mine = bpf_map_lookup_elem(&waits, &cpu), *theirs;
	struct story story = {.now = now, .timer = timer, .what = DELETE_RUNNING};

	if (!object)
		return;
	other = runs_elsewhere(own, cfg, object, &sure);
	if (!slot && (object->work || object->slot)) { /* deleting a timer that is not pending has no tracepoint */
		take_side_from(ctx, &object->stop, timer, now, 0);
		object->rearmed = 0;
	}
	if (!other)
		return;
	story.function = object->function;
	story.kind = object->kind;
	story.sure = sure;
	if (slot && mine && slot->timer != timer) {
		*mine = timer;
		cpu = other->cpu;
		theirs = bpf_map_lookup_elem(&waits, &cpu);
		if (theirs && *theirs == slot->timer)
			story.what = CROSS_CANCEL;
	}
	if (waits_for && story.what != CROSS_CANCEL)
		return;
	take_side_from(ctx, &actor, timer, now, 0);
	tell(own, &story, &actor, other);
}

GW_CALL(timer_delete, HOOK_DELETE) { deleted(ctx, cfg, own, first, false); }
GW_CALL(timer_delete_sync, HOOK_DELETE_SYNC) { deleted(ctx, cfg, own, first, true); }
GW_CALL(timer_shutdown_sync, HOOK_SHUTDOWN_SYNC) { deleted(ctx, cfg, own, first, true); }
GW_CALL(timer_delete_sync_try, HOOK_TRY_DELETE) { deleted(ctx, cfg, own, first, false); }
GW_CALL(hrtimer_try_to_cancel, HOOK_TRY_CANCEL) { deleted(ctx, cfg, own, first, false); }
