/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where kernels differ, decided by what the running kernel's BTF has, never by its version: stable series change too.
 *
 * A tracepoint's parameter list is asked for through its `btf_trace_<name>` typedef: a type exists for CO-RE only if its
 * function prototype agrees in number and kind of parameters. The loader has refused every list that no branch here knows. For BCC the
 * kernel's own headers say all of this (GW_HAS_ARGUMENTS in compiler.bpf.h; macros that came with a change).
 */
#ifndef GW_DRIFT_BPF_H
#define GW_DRIFT_BPF_H

#include "compiler.bpf.h"
#include "kernel.bpf.h"

#ifndef GW_BCC
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* state became __state, and narrower, in 5.14: 2f064a59a11f ("sched: Change task_struct::state"). */
struct task_struct___before_5_14 {
	long state;
};

struct task_struct___since_5_14 {
	unsigned int __state;
};

#pragma clang attribute pop
#endif

/* prev_state came in 5.18, fa2c3254d7cf, and went to the end in 9c2136be0878 ("sched/tracing: Append prev_state to tp args"). */
typedef void (*btf_trace_sched_switch___with_state)(void *, bool, struct task_struct *, struct task_struct *, unsigned int);

/*
 * The state in which `prev` leaves the CPU. Without the argument it is read from the task, which another CPU may be waking
 * already: such a sleeper then looks preempted, as for every tool on those kernels.
 */
static __always_inline unsigned int gw_prev_state(__u64 *ctx, struct task_struct *prev)
{
	if (GW_HAS_ARGUMENTS(sched_switch, btf_trace_sched_switch___with_state))
		return ctx[3];
#ifndef GW_BCC
	if (bpf_core_field_exists(((struct task_struct___since_5_14 *)0)->__state))
		return BPF_CORE_READ((struct task_struct___since_5_14 *)prev, __state);
	return BPF_CORE_READ((struct task_struct___before_5_14 *)prev, state);
#elif defined(task_is_running) /* came with the name: b03fbd4ff24c ("sched: Introduce task_is_running()") */
	return BPF_CORE_READ(prev, __state);
#else
	return BPF_CORE_READ(prev, state);
#endif
}

/* group_dead came between 6.12 and 6.18. */
typedef void (*btf_trace_sched_process_exit___with_dead)(void *, struct task_struct *, bool);

enum gw_group { GW_GROUP_ALIVE, GW_GROUP_DEAD, GW_GROUP_PERHAPS };

/*
 * Whether `task` is the last thread of its process. Without the argument several threads that leave together all see a count
 * of zero: do_exit() takes itself off `live` long before the tracepoint. Then the answer is PERHAPS.
 */
static __always_inline enum gw_group gw_group_dead(__u64 *ctx, struct task_struct *task)
{
	if (GW_HAS_ARGUMENTS(sched_process_exit, btf_trace_sched_process_exit___with_dead))
		return (ctx[1] & 1) ? GW_GROUP_DEAD : GW_GROUP_ALIVE;
	return BPF_CORE_READ(task, signal, live.counter) ? GW_GROUP_ALIVE : GW_GROUP_PERHAPS;
}

#ifndef GW_BCC
/* The cache came in 6.1, 2c1d697fb8ba ("mm/slab_common: drop kmem_alloc & avoid dereferencing fields when not using"). */
typedef void (*btf_trace_kmem_cache_free___with_cache)(void *, unsigned long, const void *, const struct kmem_cache *);

/* The length of an object that is given back to its cache; 0 if the tracepoint does not say. */
static __always_inline __u64 gw_cache_length(__u64 cache)
{
	if (bpf_core_type_exists(btf_trace_kmem_cache_free___with_cache))
		return BPF_CORE_READ((struct kmem_cache *)cache, object_size);
	return 0;
}
#endif

#endif
