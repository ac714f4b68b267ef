/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hooks on kernel functions (tier A), which have other names in other kernels: the loader chooses the function, and fentry or a
 * kprobe. GW_CALL(timer_delete, HOOK_DELETE) { body } makes the programs <name>_fentry and <name>_kprobe; the body sees `first`, the
 * function's first argument as a number, and ctx, cfg and own as in GW_HOOK.
 */
#ifndef GW_CALLS_BPF_H
#define GW_CALLS_BPF_H

#include "common.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs___x86 {
	unsigned long di;
};

struct pt_regs___arm64 {
	__u64 regs[31];
};

#pragma clang attribute pop

static __always_inline __u64 gw_first(void *regs)
{
	if (bpf_core_field_exists(((struct pt_regs___x86 *)0)->di))
		return BPF_CORE_READ((struct pt_regs___x86 *)regs, di);
	if (bpf_core_field_exists(((struct pt_regs___arm64 *)0)->regs))
		return BPF_CORE_READ((struct pt_regs___arm64 *)regs, regs[0]);
	return 0;
}

#define GW_CALL(name, hook)                                                                                                    \
	static __always_inline void name##_body(void *ctx, __u64 first, gw_ctl_t *cfg, struct gw_stats *own);                  \
	static __always_inline int name##_run(void *ctx, __u64 first)                                                          \
	{                                                                                                                      \
		__u32 zero = 0, index = hook;                                                                                  \
		gw_ctl_t *cfg = bpf_map_lookup_elem(&ctl, &zero);                                                              \
		struct gw_stats *own = bpf_map_lookup_elem(&stats, &index);                                                    \
		if (!cfg || !own || !cfg->head.enabled)                                                                        \
			return 0;                                                                                              \
		__u64 start = (++own->runs & GW_SAMPLE_MASK) ? 0 : bpf_ktime_get_ns();                                         \
		name##_body(ctx, first, cfg, own);                                                                             \
		if (start) {                                                                                                   \
			own->timed_ns += bpf_ktime_get_ns() - start;                                                           \
			own->timed_runs++;                                                                                     \
		}                                                                                                              \
		return 0;                                                                                                      \
	}                                                                                                                      \
	SEC("fentry") int name##_fentry(__u64 *ctx)                                                                            \
	{                                                                                                                      \
		__u64 first = 0;                                                                                               \
		bpf_probe_read_kernel(&first, sizeof(first), ctx);                                                             \
		return name##_run(ctx, first);                                                                                 \
	}                                                                                                                      \
	SEC("kprobe") int name##_kprobe(void *ctx) { return name##_run(ctx, gw_first(ctx)); }                                  \
	static __always_inline void name##_body(void *ctx GW_UNUSED, __u64 first GW_UNUSED, gw_ctl_t *cfg GW_UNUSED,           \
						struct gw_stats *own GW_UNUSED)

#endif
