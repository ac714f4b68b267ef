// SPDX-License-Identifier: GPL-2.0
/*
 * timers: lateness, run time, period deviation and re-arm storms of timer_list and hrtimer, by callback function.
 *
 * late      hrtimer: now - hard expiry. timer_list: jiffies - bucket expiry (`baseclk`), since the wheel is late by design against
 *           `expires`; deferrable timers are left out, expiries on an idle CPU are kept apart.
 * deviation |late(n) - late(n-1)| of the same timer object: what its period strayed from the one it was armed for.
 * past      armed with an expiry that has passed already; many in a window starve the CPU.
 */
#include "common.bpf.h"

enum { HOOK_TIMER_START, HOOK_TIMER_ENTRY, HOOK_TIMER_EXIT, HOOK_HRTIMER_START, HOOK_HRTIMER_ENTRY, HOOK_HRTIMER_EXIT, HOOKS };
enum { KIND_TIMER, KIND_HRTIMER, KIND_HRTIMER_SOFT, KINDS };
enum { WHAT_LATE, WHAT_OVERLONG, WHAT_STORM };

#define TIMER_DEFERRABLE 0x00080000 /* include/linux/timer.h, unchanged since 4.8 */
#define CALLBACKS 512		    /* an idle Debian shows about 60; an LRU map hoards up to 128 free entries per CPU */
#define OBJECTS 4096		    /* direct-mapped: a collision costs one deviation sample, nothing else */
#define JIFFY_SPAN 100		    /* jiffies over which the length of one is measured (CONFIG_HZ may be unreadable) */

struct timers_ctl {
	struct gw_ctl head;
	__u64 hrtimer_late_ns;
	__u64 wheel_late_jiffies;
	__u64 run_ns;
	__u64 past_per_window; /* starts in the past by one callback within GW_LIMIT_NS */
};

struct timers_callback {
	char name[GW_SYMBOL];
	__u32 kind;
	__u32 past_in_window;
	__u64 window_ns;
	__u64 starts;
	__u64 past_starts;
	__u64 expiries;
	__u64 run_total_ns;
	__u64 cpus; /* bit per CPU, the last for 63 and above */
	__u64 late_max;
	__u64 idle_late_max;
	__u64 run_max;
	__u64 deviation_max;
	__u32 late[GW_BUCKETS];
	__u32 idle_late[GW_BUCKETS];
	__u32 run[GW_BUCKETS];
	__u32 deviation[GW_BUCKETS];
};

/* Everything, so that what an eviction forgot can still be shown as "other": these minus the callbacks that are left. */
struct timers_total {
	__u64 expiries;
	__u64 late_max;
	__u64 run_max;
	__u32 late[GW_BUCKETS];
	__u32 run[GW_BUCKETS];
};

struct timers_event {
	__u64 t_ns;
	__u64 function;
	__u64 timer;
	__u64 value_ns; /* WHAT_STORM: starts in the past within the window */
	__u64 budget_ns;
	__u32 what;
	__u32 kind;
	__u32 cpu;
	__u32 pid;
	char comm[16];
	char name[GW_SYMBOL];
	struct gw_stack stack;
};
GW_KEEP(timers_event);

struct running {
	__u64 timer;
	__u64 function;
	__u64 start_ns;
};

struct object {
	__u64 timer;
	__u64 late_ns;
};

struct jiffy {
	__u64 start_ns;
	__u64 start;
	__u64 ns;
};

GW_PROBE(timers_ctl, HOOKS);
GW_MAP_HASH(callbacks, BPF_MAP_TYPE_LRU_HASH, __u64, struct timers_callback, CALLBACKS);
GW_MAP_PERCPU(total, struct timers_total, 1);
GW_MAP_PERCPU(running, struct running, KINDS);
GW_MAP_ARRAY(objects, struct object, OBJECTS, 0);
GW_MAP_PERCPU(jiffy, struct jiffy, 1);

static const struct timers_callback fresh;

static __always_inline struct timers_callback *callback_of(__u64 function, __u32 kind, struct gw_stats *own)
{
	struct timers_callback *entry = bpf_map_lookup_elem(&callbacks, &function);

	if (entry)
		return entry;
	bpf_map_update_elem(&callbacks, &function, &fresh, BPF_NOEXIST);
	entry = bpf_map_lookup_elem(&callbacks, &function);
	if (!entry) {
		own->missed++;
		return 0;
	}
	entry->kind = kind;
	gw_symbol(entry->name, function);
	return entry;
}

static __always_inline void violation(void *ctx, struct gw_stats *own, struct timers_callback *entry, __u64 function,
				      __u64 timer, __u64 now, __u32 what, __u64 value, __u64 budget)
{
	struct timers_event *event;

	if (!gw_allow(own, now))
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
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
	event->kind = entry->kind;
	event->cpu = bpf_get_smp_processor_id();
	event->pid = bpf_get_current_pid_tgid();
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	__builtin_memcpy(event->name, entry->name, GW_SYMBOL);
	gw_take_stack(ctx, &event->stack);
	bpf_ringbuf_submit(event, 0);
}

static __always_inline void deviation_of(struct timers_callback *entry, __u64 timer, __u64 late)
{
	/* Timers lie at least 64 bytes apart mostly; fold the upper bits in so that slab neighbours differ. */
	__u32 index = ((timer >> 6) ^ (timer >> 18)) & (OBJECTS - 1);
	struct object *object = bpf_map_lookup_elem(&objects, &index);
	__u64 deviation;

	if (!object)
		return;
	if (object->timer == timer) {
		deviation = late > object->late_ns ? late - object->late_ns : object->late_ns - late;
		gw_count(entry->deviation, deviation);
		gw_max(&entry->deviation_max, deviation);
	}
	object->timer = timer;
	object->late_ns = late;
}

static __always_inline void expired(struct timers_callback *entry, struct gw_stats *own, void *timer, __u64 function, __u32 kind,
				    __u64 late, bool idle, __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id(), zero = 0;
	struct running *slot = bpf_map_lookup_elem(&running, &kind);
	struct timers_total *all = bpf_map_lookup_elem(&total, &zero);

	if (all) {
		all->expiries++;
		gw_count(all->late, late);
		gw_max(&all->late_max, late);
	}
	__sync_fetch_and_add(&entry->expiries, 1);
	entry->cpus |= 1ULL << (cpu < 63 ? cpu : 63);
	gw_count(idle ? entry->idle_late : entry->late, late);
	gw_max(idle ? &entry->idle_late_max : &entry->late_max, late);
	if (!slot)
		return;
	if (slot->timer)
		own->missed++; /* an exit that we did not see */
	slot->timer = (__u64)timer;
	slot->function = function;
	slot->start_ns = now;
	/* Read back from the map the address is a number; as an argument it is a pointer, which the verifier lets nobody hash. */
	deviation_of(entry, *(volatile __u64 *)&slot->timer, late);
}

/* The exit hooks must not read the timer: it may be freed by now. */
static __always_inline bool finished(void *ctx, gw_ctl_t *cfg, struct gw_stats *own, __u64 timer, __u32 kind)
{
	struct running *slot = bpf_map_lookup_elem(&running, &kind);
	struct timers_callback *entry;
	struct timers_total *all;
	__u32 zero = 0;
	__u64 now, run;

	if (!slot || slot->timer != timer)
		return false;
	slot->timer = 0;
	if (slot->start_ns < cfg->head.since_ns)
		return false;
	now = bpf_ktime_get_ns();
	run = now - slot->start_ns;
	all = bpf_map_lookup_elem(&total, &zero);
	if (all) {
		gw_count(all->run, run);
		gw_max(&all->run_max, run);
	}
	entry = bpf_map_lookup_elem(&callbacks, &slot->function);
	if (!entry)
		return true;
	__sync_fetch_and_add(&entry->run_total_ns, run);
	gw_count(entry->run, run);
	gw_max(&entry->run_max, run);
	if (run > cfg->run_ns)
		violation(ctx, own, entry, slot->function, timer, now, WHAT_OVERLONG, run, cfg->run_ns);
	return true;
}

static __always_inline void started(void *ctx, gw_ctl_t *cfg, struct gw_stats *own, __u64 timer, __u64 function, __u32 kind, bool past,
				    __u64 now)
{
	struct timers_callback *entry = callback_of(function, kind, own);

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
		violation(ctx, own, entry, function, timer, now, WHAT_STORM, entry->past_in_window, cfg->past_per_window);
}

/* Nanoseconds of one jiffy, 0 until measured on this CPU. */
static __always_inline __u64 jiffy_ns(__u64 now, __u64 jiffies)
{
	__u32 zero = 0;
	struct jiffy *j = bpf_map_lookup_elem(&jiffy, &zero);

	if (!j)
		return 0;
	if (!j->start_ns) {
		j->start_ns = now;
		j->start = jiffies;
	} else if (!j->ns && jiffies - j->start >= JIFFY_SPAN) {
		j->ns = (now - j->start_ns) / (jiffies - j->start);
	}
	return j->ns;
}

GW_HOOK(timer_start, HOOK_TIMER_START)
{
	struct timer_list *timer = (void *)ctx[0];
	__u64 jiffies = bpf_jiffies64();

	started(ctx, cfg, own, (__u64)timer, (__u64)GW_READ(timer, function), KIND_TIMER,
		(long)(GW_READ(timer, expires) - (unsigned long)jiffies) < 0, bpf_ktime_get_ns());
}

GW_HOOK(timer_expire_entry, HOOK_TIMER_ENTRY)
{
	struct timer_list *timer = (void *)ctx[0];
	__u64 function = (__u64)GW_READ(timer, function), now = bpf_ktime_get_ns(), jiffies = bpf_jiffies64();
	struct timers_callback *entry = callback_of(function, KIND_TIMER, own);
	__u64 late = (unsigned long)jiffies - (unsigned long)ctx[1], length = jiffy_ns(now, jiffies);
	bool idle = !(__u32)bpf_get_current_pid_tgid();

	if (!entry || !length)
		return;
	if (GW_READ(timer, flags) & TIMER_DEFERRABLE)
		late = 0;
	expired(entry, own, timer, function, KIND_TIMER, late * length, idle, now);
	if (late > cfg->wheel_late_jiffies && !idle)
		violation(ctx, own, entry, function, (__u64)timer, now, WHAT_LATE, late * length, cfg->wheel_late_jiffies * length);
}

GW_HOOK(timer_expire_exit, HOOK_TIMER_EXIT)
{
	finished(ctx, cfg, own, ctx[0], KIND_TIMER);
}

GW_HOOK(hrtimer_start, HOOK_HRTIMER_START)
{
	struct hrtimer *timer = (void *)ctx[0];
	__u64 now = bpf_ktime_get_ns();
	__s64 left = GW_READ(timer, node.expires) - (__s64)now - GW_READ2(timer, base, offset);

	started(ctx, cfg, own, (__u64)timer, (__u64)GW_READ(timer, function), KIND_HRTIMER, left <= 0, now);
}

GW_HOOK(hrtimer_expire_entry, HOOK_HRTIMER_ENTRY)
{
	struct hrtimer *timer = (void *)ctx[0];
	__u64 function = (__u64)GW_READ(timer, function), now = bpf_ktime_get_ns();
	/* Not the `now` argument: it is read once per interrupt, so the second timer of a slow interrupt would look punctual. */
	__s64 late = (__s64)now + GW_READ2(timer, base, offset) - GW_READ(timer, node.expires);
	__u32 kind = GW_READ(timer, is_soft) ? KIND_HRTIMER_SOFT : KIND_HRTIMER;
	struct timers_callback *entry = callback_of(function, kind, own);

	if (!entry)
		return;
	if (late < 0)
		late = 0; /* the coarse clock of the other side */
	expired(entry, own, timer, function, kind, late, !(__u32)bpf_get_current_pid_tgid(), now);
	if ((__u64)late > cfg->hrtimer_late_ns)
		violation(ctx, own, entry, function, (__u64)timer, now, WHAT_LATE, late, cfg->hrtimer_late_ns);
}

GW_HOOK(hrtimer_expire_exit, HOOK_HRTIMER_EXIT)
{
	if (!finished(ctx, cfg, own, ctx[0], KIND_HRTIMER) && !finished(ctx, cfg, own, ctx[0], KIND_HRTIMER_SOFT))
		own->missed++;
}
