// SPDX-License-Identifier: GPL-2.0
/*
 * timers: lateness, run time, period deviation and re-arm storms of timer_list and hrtimer, by callback function.
 *
 * late      hrtimer: now - hard expiry, but not more than the time since it was armed (whoever arms it in the past makes nobody
 *           late). timer_list: jiffies - bucket expiry (`baseclk`), since the wheel is late by design against `expires`.
 *           Deferrable timers have none, expiries on an idle CPU are kept apart.
 * deviation |late(n) - late(n-1)| of the same timer: what its period strayed from the one it was armed for. A timer on the stack
 *           of whoever arms it has no period: next time its address may be another one's.
 * past      armed with an expiry that has passed already; many in a window starve the CPU.
 *
 * The expiry only notes what it sees; its exit books everything, with one look-up of the callback.
 */
#include "timers.bpf.h"

static __always_inline void violation(void *ctx, struct gw_stats *own, __u64 function, __u32 kind, __u64 timer, __u64 now,
				      __u32 what, __u64 value, __u64 budget)
{
	struct timers_event *event;

	if (!gw_allow(own, now))
		return;
	event = bpf_ringbuf_reserve(GW_MAP(events), sizeof(*event), 0);
	if (!event) {
		own->lost++;
		return;
	}
	event->t_ns = now;
	event->function = function;
	event->timer = timer;
	event->value_ns = value;
	event->budget_ns = budget;
	event->what = what;
	event->kind = kind;
	event->cpu = bpf_get_smp_processor_id();
	event->pid = bpf_get_current_pid_tgid();
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	event->name[0] = 0;
	gw_symbol(event->name, function);
	gw_take_stack(ctx, &event->stack);
	bpf_ringbuf_submit(event, 0);
}

/* `function` must be a number, not a pointer that the verifier knows: it is looked up. */
static __always_inline void started(void *ctx, const bool btf, gw_ctl_t *cfg, struct gw_stats *own, void *timer, __u64 function,
				    __u32 kind, bool past, __u64 now)
{
	struct timers_callback *entry = callback_of(function, kind, now);
	struct object *object = object_of(number_of(timer, btf));

	if (object) {
		if (object->timer != (__u64)timer) {
			object->timer = (__u64)timer;
			object->expired = 0;
		}
		object->armed_ns = now;
		if (object->expired && on_stack(*(volatile __u64 *)&object->timer))
			object->expired = 0;
	}
	if (!entry)
		return;
	__sync_fetch_and_add(&entry->starts, 1);
	if (!past)
		return;
	__sync_fetch_and_add(&entry->past_starts, 1);
	if (now - entry->window_ns > GW_LIMIT_NS) {
		entry->window_ns = now;
		entry->past_in_window = 0;
	}
	if (++entry->past_in_window == cfg->past_per_window)
		violation(ctx, own, function, kind, (__u64)timer, now, WHAT_STORM, entry->past_in_window, cfg->past_per_window);
}

/* Note that `timer` expires now; gives its lateness, 0 if it has none, or none that is known since nobody saw it armed. */
static __always_inline __u64 expired(const bool btf, gw_ctl_t *cfg, struct gw_stats *own, void *timer, __u64 function,
				     __u32 kind, __u64 late, __u64 now)
{
	struct running *slot = bpf_map_lookup_elem(GW_MAP(running), &kind);
	__u64 number = number_of(timer, btf);
	struct object *object = object_of(number);
	bool due = late != NO_LATENESS, known = due && kind == KIND_TIMER;

	if (!slot || !object)
		return 0;
	if (due && !known && object->timer == (__u64)timer && object->armed_ns > cfg->head.since_ns) {
		known = true;
		if (late > now - object->armed_ns)
			late = now - object->armed_ns;
	}
	own->missed += (due && !known) || slot->timer; /* armed before our time or forgotten; an exit that we did not see */
	slot->timer = (__u64)timer;
	slot->function = function;
	slot->start_ns = now;
	slot->object = number;
	slot->late_ns = late;
	slot->idle = !(__u32)bpf_get_current_pid_tgid();
	slot->known = known;
	return known ? late : 0;
}

static __always_inline void book_late(struct timers_callback *entry, struct running *slot, __u64 timer)
{
	struct object *object = object_of(slot->object);
	__u64 late = slot->late_ns, deviation;

	gw_count(slot->idle ? entry->idle_late : entry->late, late);
	gw_max(slot->idle ? &entry->idle_late_max : &entry->late_max, late);
	if (!object)
		return;
	if (object->timer == timer && object->expired) {
		deviation = late > object->late_ns ? late - object->late_ns : object->late_ns - late;
		gw_count(entry->deviation, deviation);
		gw_max(&entry->deviation_max, deviation);
	}
	object->timer = timer;
	object->late_ns = late;
	object->expired = 1;
}

/* The exit hooks must not read the timer: it may be freed by now. Gives false if `timer` is not what runs here as `kind`. */
static __always_inline bool finished(void *ctx, gw_ctl_t *cfg, struct gw_stats *own, __u64 timer, __u32 kind)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct running *slot = bpf_map_lookup_elem(GW_MAP(running), &kind);
	struct timers_callback *entry;
	__u64 now = bpf_ktime_get_ns(), run;

	if (!slot || slot->timer != timer)
		return false;
	slot->timer = 0;
	entry = callback_of(slot->function, kind, now);
	if (!entry || slot->start_ns < cfg->head.since_ns)
		return true;
	run = now - slot->start_ns;
	entry->cpus |= 1ULL << (cpu < 63 ? cpu : 63);
	__sync_fetch_and_add(&entry->run_total_ns, run);
	gw_count(entry->run, run);
	gw_max(&entry->run_max, run);
	if (slot->known)
		book_late(entry, slot, timer);
	if (run > cfg->run_ns)
		violation(ctx, own, slot->function, kind, timer, now, WHAT_OVERLONG, run, cfg->run_ns);
	return true;
}

GW_HOOK(timer_start, HOOK_TIMER_START)
{
	struct timer_list *timer = (void *)ctx[0];
	bool past = (long)(GW_READ(timer, expires) - (unsigned long)bpf_jiffies64()) < 0;

	started(ctx, btf, cfg, own, timer, (__u64)BPF_CORE_READ(timer, function), KIND_TIMER, past, bpf_ktime_get_ns());
}

GW_HOOK(timer_expire_entry, HOOK_TIMER_ENTRY)
{
	struct timer_list *timer = (void *)ctx[0];
	__u64 function = (__u64)GW_READ(timer, function), now = bpf_ktime_get_ns(), jiffies = bpf_jiffies64();
	__u64 late = (unsigned long)jiffies - (unsigned long)ctx[1], length = jiffy_ns(now, jiffies);

	if (!length)
		return; /* in the first JIFFY_SPAN only */
	late = GW_READ(timer, flags) & TIMER_DEFERRABLE ? NO_LATENESS : late * length;
	late = expired(btf, cfg, own, timer, function, KIND_TIMER, late, now);
	if (late > cfg->wheel_late_jiffies * length && (__u32)bpf_get_current_pid_tgid())
		violation(ctx, own, function, KIND_TIMER, (__u64)timer, now, WHAT_LATE, late, cfg->wheel_late_jiffies * length);
}

GW_HOOK(timer_expire_exit, HOOK_TIMER_EXIT) { own->missed += !finished(ctx, cfg, own, ctx[0], KIND_TIMER); }

GW_HOOK(hrtimer_start, HOOK_HRTIMER_START)
{
	struct hrtimer *timer = (void *)ctx[0];
	__u64 now = bpf_ktime_get_ns();
	__s64 left = GW_READ(timer, node.expires) - (__s64)now - GW_READ2(timer, base, offset);

	started(ctx, btf, cfg, own, timer, (__u64)BPF_CORE_READ(timer, function), KIND_HRTIMER, left <= 0, now);
}

GW_HOOK(hrtimer_expire_entry, HOOK_HRTIMER_ENTRY)
{
	struct hrtimer *timer = (void *)ctx[0];
	__u64 function = (__u64)GW_READ(timer, function), now = bpf_ktime_get_ns();
	/* Not the `now` argument: it is read once per interrupt, so the second timer of a slow interrupt would look punctual. */
	__s64 late = (__s64)now + GW_READ2(timer, base, offset) - GW_READ(timer, node.expires);
	__u32 kind = GW_READ(timer, is_soft) ? KIND_HRTIMER_SOFT : KIND_HRTIMER;

	/* < 0: the coarse clock of the other side */
	late = expired(btf, cfg, own, timer, function, kind, late < 0 ? 0 : late, now);
	if ((__u64)late > cfg->hrtimer_late_ns)
		violation(ctx, own, function, kind, (__u64)timer, now, WHAT_LATE, late, cfg->hrtimer_late_ns);
}

GW_HOOK(hrtimer_expire_exit, HOOK_HRTIMER_EXIT)
{
	if (!finished(ctx, cfg, own, ctx[0], KIND_HRTIMER))
		own->missed += !finished(ctx, cfg, own, ctx[0], KIND_HRTIMER_SOFT);
}
