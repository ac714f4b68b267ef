/* SPDX-License-Identifier: GPL-2.0 */
/* timer_race: its records and maps, the state of one timer object, and what is told of a suspicion. */
#ifndef GW_TIMER_RACE_BPF_H
#define GW_TIMER_RACE_BPF_H

#include "calls.bpf.h"
#include "common.bpf.h"

enum {
	HOOK_TIMER_INIT,
	HOOK_TIMER_START,
	HOOK_TIMER_ENTRY,
	HOOK_TIMER_EXIT,
	HOOK_TIMER_CANCEL,
	HOOK_HRTIMER_INIT,
	HOOK_HRTIMER_SETUP,
	HOOK_HRTIMER_START,
	HOOK_HRTIMER_ENTRY,
	HOOK_HRTIMER_EXIT,
	HOOK_HRTIMER_CANCEL,
	HOOK_QUEUE_WORK,
	HOOK_WORK_START,
	HOOK_WORK_END,
	HOOK_KFREE,
	HOOK_CACHE_FREE,
	HOOK_DELETE,
	HOOK_DELETE_SYNC,
	HOOK_SHUTDOWN_SYNC,
	HOOK_TRY_DELETE,
	HOOK_TRY_CANCEL,
	HOOKS
};
enum { KIND_TIMER, KIND_HRTIMER, KIND_HRTIMER_SOFT, KINDS };
/* What happened to the timer, in which state it was. Mirrored by agent/probes/timer_race.py TRANSITIONS. */
enum {
	INIT_ARMED,
	INIT_RUNNING,
	START_RUNNING,
	DELETE_RUNNING,
	FREE_ARMED,
	FREE_RUNNING,
	LATE,
	OVERLONG,
	PERIODS_MISSED,
	STUCK,
	STORM,
	REARMED_EXPIRED,
	REARMED_FREED,
	CROSS_CANCEL,
	START_FREED
};
/* How sure: the kernel's own fields say so; our record of entry and exit does; a free whose size is guessed. */
enum { BY_STATE, BY_KERNEL, BY_GUESS };

#define OBJECTS 4096		/* timers followed at a time, in sets of two: one that gives way is only followed no longer */
#define CPUS 128		/* whose running callbacks are known; an edge machine has fewer */
#define FRAMES 10		/* of each side's stack */
#define FRAME 48		/* bytes of one resolved frame: symbol+0xoffset/0xsize [module] */
#define NAME 64			/* bytes of a callback's name with its module */
#define FOUND 128		/* different suspicions kept; a machine that has more is beyond counting */
#define LOOPS 256		/* works that a timer callback queues */
#define RESEND_NS 1000000000ULL /* one suspicion is sent again after this at the earliest */
#define TIMER_DEFERRABLE 0x00080000 /* include/linux/timer.h, unchanged since 4.8 */
#define STUCK_JIFFIES 1000	    /* a timer_list armed for so long past its bucket is stuck: 1 s to 10 s, by CONFIG_HZ */

#define RESTART_NS 20000	/* the core restarts a timer right after its exit; anybody else later */
#define HRTIMER_MODE_ABS 0	/* include/linux/hrtimer.h: as the core restarts it */
#define PATROL_NS 1000000000ULL /* how often all timers are looked after */
#define PATROL_STEP 32		/* at one expiry, some 0.5 us */

struct timer_race_ctl {
	struct gw_ctl head;
	__u64 late_ns;		/* an hrtimer this late, or that missed periods of this length together */
	__u64 run_ns;		/* a callback that holds its CPU for longer */
	__u64 stuck_ns;		/* an hrtimer armed for so long past its expiry */
	__u64 past_per_window;	/* starts of one timer in the past within GW_LIMIT_NS */
	__u64 free_ns;		/* for so long, from when it is switched on, kfree and kmem_cache_free are looked at */
	__u64 frees_per_window; /* … and at most so many per CPU within GW_LIMIT_NS, the rest counted as skipped */
};

/* One side of a suspicion: who did it, or what was going on meanwhile. */
struct side {
	__u64 t_ns; /* 0: never */
	__u64 timer;
	__u32 cpu;
	__u32 pid;
	__u32 within; /* 1 + kind of the timer callback that it happened in; 0: in none */
	__u32 _pad;
	char comm[16];
	__u64 address[FRAMES];
};

#define SIDE_FIELDS(s)                                                                                                         \
	__u64 s##_t_ns;                                                                                                        \
	__u32 s##_cpu;                                                                                                         \
	__u32 s##_pid;                                                                                                         \
	__u32 s##_within;                                                                                                      \
	__u32 _##s##_pad;                                                                                                      \
	char s##_comm[16];                                                                                                     \
	__u64 s##_address[FRAMES];                                                                                             \
	char s##_frame[FRAMES][FRAME]

/* A kind of suspicion, counted; its first occurrence is kept with both sides. Also the ring buffer record. */
struct timer_race_found {
	__u64 t_ns; /* of the last; 0: still being written */
	__u64 count;
	__u64 by_kernel;
	__u64 sent_ns;
	__u64 timer;
	__u64 function;
	__u64 value; /* by `what`: ns late, ns run, periods, starts */
	__u32 what;
	__u32 kind;
	__u32 sure;
	__u32 _pad;
	char name[NAME];
	SIDE_FIELDS(actor);
	SIDE_FIELDS(other);
};
GW_KEEP(timer_race_found);

struct timer_race_frees {
	__u64 looked;
	__u64 skipped;
	__u64 window_ns;
	__u64 in_window;
};

struct key {
	__u64 function;
	__u32 what;
	__u32 path; /* digest of the actor's innermost frames */
};

/* What is remembered of a timer. */
struct object {
	__u64 timer; /* its address; 0: free */
	__u64 function;
	__u64 deadline;	 /* ns of its clock for an hrtimer, jiffies for a timer_list */
	__u64 fired_for; /* expiry of the last run, in the same unit */
	__u64 exit_ns;
	__u64 armed_ns; /* when it was armed that has just been cancelled: each expiry cancels first */
	__u64 period;
	__u64 window_ns;
	__u64 work; /* that its callback queues last */
	__u32 past;
	__u32 steady; /* how often the period has come out the same */
	__u32 kind;
	__u32 slot;	/* 1 + index into `running` while its callback runs */
	__u32 rearmed;	/* by `work`, after `stop` and without the stopper's doing */
	__u32 reported; /* as stuck */
	__u32 freed;	/* its memory was, by `stop` */
	__u32 _pad;
	struct side armed; /* by whom; t_ns 0: not armed */
	struct side stop;  /* last deleted by, outside callbacks */
};

struct story {
	__u64 now;
	__u64 timer;
	__u64 function;
	__u64 value;
	__u32 what;
	__u32 kind;
	__u32 sure;
};

/* How far the round has come on this CPU. */
struct beat {
	__u64 start_ns;
	__u32 next;
	__u32 _pad;
};

GW_PROBE(timer_race_ctl, HOOKS);
GW_MAP_ARRAY(objects, struct object, OBJECTS, 0);
GW_MAP_ARRAY(running, struct side, CPUS *KINDS, 0); /* the callback of each kind on each CPU */
GW_MAP_ARRAY(waits, __u64, CPUS, 0);		    /* the timer whose callback the one on this CPU waits for */
GW_MAP_HASH(found, BPF_MAP_TYPE_HASH, struct key, struct timer_race_found, FOUND);
GW_MAP_ARRAY(blank, struct timer_race_found, 1, 0);
GW_MAP_HASH(loops, BPF_MAP_TYPE_LRU_HASH, __u64, __u64, LOOPS); /* work -> timer whose callback queues it */
GW_MAP_HASH(works, BPF_MAP_TYPE_LRU_HASH, __u32, __u64, LOOPS); /* worker's pid -> work that it runs */
GW_MAP_PERCPU(beats, struct beat, 1);
GW_MAP_PERCPU(frees, struct timer_race_frees, 1);

/* In a kernel without KALLSYMS_ALL these are zero, and our own record has to do. */
extern const void timer_bases __ksym __weak;
extern const void __per_cpu_offset __ksym __weak;

/* An argument as a number: the verifier allows no arithmetic on the typed pointers of tp_btf. */
static __always_inline __u64 argument(__u64 *ctx, int index)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), ctx + index);
	return value;
}

/* One of the two places of a timer; Fibonacci hashing to 12 bits: OBJECTS. */
static __always_inline struct object *place_of(__u64 timer, __u32 way)
{
	__u32 index = ((timer >> 3) * 0x9E3779B97F4A7C15ULL >> 52) ^ way;

	return bpf_map_lookup_elem(&objects, &index);
}

/* The record of a timer that is followed already. */
static __always_inline struct object *known(__u64 timer)
{
	struct object *object = place_of(timer, 0);

	if (object && object->timer != timer)
		object = place_of(timer, 1);
	return object && object->timer == timer ? object : 0;
}

/* How easily a record gives way: an idle one first, then the one armed last; a running one (armed: 0) last. */
static __always_inline __u64 ease(struct object *object)
{
	return object->armed.t_ns || object->slot ? object->armed.t_ns : ~0ULL;
}

/*
 * Which of its two places a new timer takes. Sleepers arm timers on their stacks for a moment, by the thousand; what has been armed
 * for long may be stuck (F8), and is not found if it gives way to them.
 */
static __always_inline struct object *place_for(__u64 timer)
{
	struct object *one = place_of(timer, 0), *other = place_of(timer, 1);

	if (!one || !other)
		return 0;
	return ease(one) >= ease(other) ? one : other;
}

/* The end of a life. Starts in the past are counted on: timerfd_settime() initialises its timer each time. */
static __always_inline void forget(struct object *object)
{
	object->function = 0;
	object->armed.t_ns = object->stop.t_ns = 0;
	object->fired_for = object->exit_ns = object->armed_ns = object->period = object->work = 0;
	object->steady = object->slot = object->rearmed = object->reported = object->freed = 0;
}

/* The record of a timer, taken from the one that had the place if need be. */
static __always_inline struct object *follow(__u64 timer, __u64 function, __u32 kind)
{
	struct object *object = known(timer);

	if (!object)
		object = place_for(timer);
	if (!object)
		return 0;
	if (object->timer != timer) {
		object->timer = timer;
		object->window_ns = object->past = 0;
		forget(object);
	}
	if (object->function != function) {
		if (object->function) /* a new one without an initialisation that we saw */
			forget(object);
		object->function = function;
		object->kind = kind;
	}
	return object;
}

static __always_inline struct side *running_at(__u32 index) { return bpf_map_lookup_elem(&running, &index); }

/*
 * The timer callback in which this CPU is, the innermost first. A callback in a thread (PREEMPT_RT) may have been preempted by
 * another task, which is in none; one in an interrupt has the interrupted task as its own.
 */
static __always_inline struct side *inside(__u32 *kind)
{
	static const __u32 order[KINDS] = {KIND_HRTIMER, KIND_HRTIMER_SOFT, KIND_TIMER};
	__u32 base = bpf_get_smp_processor_id() * KINDS, pid = bpf_get_current_pid_tgid();

#pragma unroll
	for (int i = 0; i < KINDS; i++) {
		struct side *slot = running_at(base + order[i]);

		if (slot && slot->timer && slot->pid == pid) {
			*kind = order[i];
			return slot;
		}
	}
	return 0;
}

static __always_inline void take_side_from(void *ctx, struct side *side, __u64 timer, __u64 now, __u64 skip)
{
	__u32 kind;

	side->timer = timer;
	side->cpu = bpf_get_smp_processor_id();
	side->pid = bpf_get_current_pid_tgid();
	side->within = inside(&kind) ? kind + 1 : 0;
	bpf_get_current_comm(side->comm, sizeof(side->comm));
	__builtin_memset(side->address, 0, sizeof(side->address));
	bpf_get_stack(ctx, side->address, sizeof(side->address), skip);
	side->t_ns = now;
}

static __always_inline void take_side(void *ctx, struct side *side, __u64 timer, __u64 now)
{
	take_side_from(ctx, side, timer, now, GW_STACK_SKIP);
}

/* Whether the kernel itself says that the callback of `timer` runs on `cpu`: 1, 0, or -1 where it cannot be asked. */
static __always_inline int runs(__u64 timer, __u32 kind, __u32 cpu)
{
	__u64 offset = 0, current = 0, base;

	if (kind != KIND_TIMER)
		return (__u64)BPF_CORE_READ((struct hrtimer *)timer, base, running) == timer;
	if (!&timer_bases || !&__per_cpu_offset || !bpf_core_field_exists(((struct timer_base *)0)->running_timer))
		return -1;
	bpf_probe_read_kernel(&offset, sizeof(offset), (void *)((__u64)&__per_cpu_offset + cpu * sizeof(__u64)));
	base = (__u64)&timer_bases + offset + bpf_core_field_offset(((struct timer_base *)0)->running_timer);
#pragma unroll
	for (int i = 0; i < 3; i++) { /* two wheels per CPU, three since 6.9; what lies behind them is no timer's address */
		bpf_probe_read_kernel(&current, sizeof(current), (void *)base);
		if (current == timer)
			return 1;
		base += bpf_core_type_size(struct timer_base);
	}
	return 0;
}

/*
 * Whether the kernel's own fields say that `timer` is queued. Its memory may be anything by now (a stack that is in use again), so
 * the queue must point back to it.
 */
static __always_inline bool queued(__u64 timer, __u32 kind)
{
	struct timer_list *wheel = (void *)timer;
	struct hrtimer *high = (void *)timer;
	struct rb_node *parent;
	__u64 node, back = 0;

	if (kind == KIND_TIMER) {
		bpf_probe_read_kernel(&back, sizeof(back), BPF_CORE_READ(wheel, entry.pprev));
		return back == timer + bpf_core_field_offset(((struct timer_list *)0)->entry);
	}
	if (!(BPF_CORE_READ(high, state) & 1)) /* HRTIMER_STATE_ENQUEUED */
		return false;
	node = timer + bpf_core_field_offset(((struct hrtimer *)0)->node.node);
	parent = (void *)(BPF_CORE_READ(high, node.node.__rb_parent_color) & ~3UL);
	if (!parent)
		return (__u64)BPF_CORE_READ(high, base, active.rb_root.rb_root.rb_node) == node;
	return (__u64)BPF_CORE_READ(parent, rb_left) == node || (__u64)BPF_CORE_READ(parent, rb_right) == node;
}

/* The callback of `object` while it runs somewhere else than here, confirmed as far as the kernel can be asked. */
static __always_inline struct side *runs_elsewhere(struct gw_stats *own, gw_ctl_t *cfg, struct object *object, __u32 *sure)
{
	struct side *slot = object->slot ? running_at(object->slot - 1) : 0;
	int answer;

	if (!slot || slot->timer != object->timer || slot->t_ns < cfg->head.since_ns)
		return 0;
	/* On a PREEMPT_RT kernel callbacks run in threads, so another task on the same CPU is elsewhere too. */
	if (slot->cpu == bpf_get_smp_processor_id() && slot->pid == (__u32)bpf_get_current_pid_tgid())
		return 0;
	answer = runs(object->timer, object->kind, slot->cpu);
	if (!answer) { /* an exit that we did not see */
		own->missed++;
		object->slot = 0;
		return 0;
	}
	*sure = answer > 0 ? BY_KERNEL : BY_STATE;
	return slot;
}

#endif
