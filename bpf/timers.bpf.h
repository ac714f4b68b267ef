/* SPDX-License-Identifier: GPL-2.0 */
/* timers: its records, its maps, and how to find things in them. */
#ifndef GW_TIMERS_BPF_H
#define GW_TIMERS_BPF_H

#include "table.bpf.h"

enum { HOOK_TIMER_START, HOOK_TIMER_ENTRY, HOOK_TIMER_EXIT, HOOK_HRTIMER_START, HOOK_HRTIMER_ENTRY, HOOK_HRTIMER_EXIT, HOOKS };
enum { KIND_TIMER, KIND_HRTIMER, KIND_HRTIMER_SOFT, KINDS };
enum { WHAT_LATE, WHAT_OVERLONG, WHAT_STORM };

#ifndef GW_BCC
#define TIMER_DEFERRABLE 0x00080000 /* include/linux/timer.h, unchanged since 4.8 */
#endif
#define SETS 64		       /* of callbacks: 512 in all; an idle Debian shows about 60 */
#define OTHER (SETS * GW_WAYS) /* the sum of all that gave way */
#define OBJECTS 4096	       /* direct-mapped: a collision costs one sample of lateness, and never gives a wrong one */
#define STACK_BYTES 16384      /* THREAD_SIZE of x86-64 and, with pages of 4 KiB, aarch64 */
#define NO_LATENESS (~0ULL)    /* a deferrable timer may wait for as long as its CPU idles */
#define JIFFY_SPAN 100	       /* jiffies over which the length of one is measured (CONFIG_HZ may be unreadable) */

struct timers_ctl {
	struct gw_ctl head;
	__u64 hrtimer_late_ns;
	__u64 wheel_late_jiffies;
	__u64 run_ns;
	__u64 past_per_window; /* starts in the past by one callback within GW_LIMIT_NS */
};

struct timers_callback {
	__u64 function;
	__u64 made_ns; /* tells an entry from an earlier one of the same function */
	__u64 run_total_ns;
	__u64 cpus; /* bit per CPU, the last for 63 and above */
	__u64 late_max;
	__u64 idle_late_max;
	__u64 run_max;
	__u64 deviation_max;
	__u64 starts;
	__u64 past_starts;
	__u64 window_ns;
	__u32 past_in_window;
	__u32 kind;
	char name[GW_SYMBOL];
	__u32 late[GW_BUCKETS];
	__u32 idle_late[GW_BUCKETS];
	__u32 run[GW_BUCKETS];
	__u32 deviation[GW_BUCKETS];
};
GW_KEEP(timers_callback);

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

/* A callback that runs on this CPU, as its expiry left it for its exit. */
struct running {
	__u64 timer;
	__u64 function;
	__u64 start_ns;
	__u64 object; /* number_of(timer) */
	__u64 late_ns;
	__u32 idle;
	__u32 known; /* late_ns is */
};

/* What is remembered of a timer from one expiry to the next. */
struct object {
	__u64 timer;
	__u64 armed_ns; /* 0: not since the probe was switched on */
	__u64 late_ns;
	__u64 expired; /* late_ns is that of an earlier expiry */
};

struct jiffy {
	__u64 start_ns;
	__u64 start;
	__u64 ns;
};

GW_PROBE(timers_ctl, HOOKS);
GW_TABLE(callbacks, struct timers_callback, SETS);
GW_MAP_PERCPU(running, struct running, KINDS);
GW_MAP_ARRAY(objects, struct object, OBJECTS, 0);
GW_MAP_PERCPU(jiffy, struct jiffy, 1);

/* Move a histogram. */
static __always_inline void fold(__u32 *into, __u32 *from)
{
	for (int i = 0; i < GW_BUCKETS; i++)
		__sync_fetch_and_add(&into[i], from[i]), from[i] = 0;
}

/* Make `entry` new, what it held going to OTHER. */
static __always_inline void clear(struct timers_callback *entry)
{
	__u32 index = OTHER;
	struct timers_callback *other = bpf_map_lookup_elem(GW_MAP(callbacks), &index);

	if (other && entry->function) {
		fold(other->late, entry->late);
		fold(other->idle_late, entry->idle_late);
		fold(other->run, entry->run);
		fold(other->deviation, entry->deviation);
		gw_max(&other->late_max, entry->late_max);
		gw_max(&other->idle_late_max, entry->idle_late_max);
		gw_max(&other->run_max, entry->run_max);
		gw_max(&other->deviation_max, entry->deviation_max);
		__sync_fetch_and_add(&other->run_total_ns, entry->run_total_ns);
		__sync_fetch_and_add(&other->starts, entry->starts);
		__sync_fetch_and_add(&other->past_starts, entry->past_starts);
	}
	__builtin_memset(entry, 0, offsetof(struct timers_callback, late));
}

/* Kernel text and modules lie within 4 GiB: the low word of an address names a function. */
static __always_inline struct timers_callback *callback_of(__u64 function, __u32 kind, __u64 now)
{
	__u32 index = (function >> 4 ^ function >> 10) & (SETS - 1), way;
	struct gw_set *set = bpf_map_lookup_elem(GW_MAP(callbacks_sets), &index);
	struct timers_callback *entry;

	if (!set)
		return 0;
	way = gw_way(set, function, now);
	index = index * GW_WAYS + way;
	entry = bpf_map_lookup_elem(GW_MAP(callbacks), &index);
	if (entry && entry->function != function) {
		clear(entry);
		gw_symbol(entry->name, function);
		entry->kind = kind;
		entry->made_ns = now;
		entry->function = function;
	}
	return entry;
}

/*
 * A number that stands for a timer object. With BTF the address is a pointer, on which the verifier allows no arithmetic but the
 * difference to another pointer: that to a map of ours is as good a name.
 */
static __always_inline __u64 number_of(void *timer, const bool btf)
{
	return btf ? (__u64)timer - (__u64)GW_MAP(objects) : (__u64)timer;
}

static __always_inline struct object *object_of(__u64 number)
{
	/* Timers lie at least 64 bytes apart mostly; fold the upper bits in so that slab neighbours differ. */
	__u32 index = ((number >> 6) ^ (number >> 18)) & (OBJECTS - 1);

	return bpf_map_lookup_elem(GW_MAP(objects), &index);
}

/* Whether the timer at this address (a number, not a pointer that the verifier knows) lies on the stack of the current task. */
static __always_inline bool on_stack(__u64 address)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return address - (__u64)BPF_CORE_READ(task, stack) < STACK_BYTES;
}

/* Nanoseconds of one jiffy, 0 until measured on this CPU. */
static __always_inline __u64 jiffy_ns(__u64 now, __u64 jiffies)
{
	__u32 zero = 0;
	struct jiffy *j = bpf_map_lookup_elem(GW_MAP(jiffy), &zero);

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

#endif
