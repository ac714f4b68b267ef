// SPDX-License-Identifier: GPL-2.0
/*
 * softirq: from raise to entry, and from entry to exit, by vector and CPU.
 *
 * A softirq runs on the CPU that raised it, so all state is per CPU. One that is raised again while it is pending runs once:
 * the first raise counts.
 */
#include "common.bpf.h"

enum { HOOK_RAISE, HOOK_ENTRY, HOOK_EXIT, HOOK_HOTPLUG, HOOKS };
enum { WHAT_STALL, WHAT_OVERLONG };

#define CPUS 1024  /* of which it is known when they went off or on */
#define VECTORS 10 /* include/linux/interrupt.h NR_SOFTIRQS, unchanged since 2.6.35 */

struct softirq_ctl {
	struct gw_ctl head;
	__u64 latency_ns;
	__u64 run_ns;
};

struct softirq_vector {
	__u64 raised_ns;  /* 0: not pending */
	__u64 entered_ns; /* 0: not running */
	__u64 raised;
	__u64 count;
	__u64 latency_max;
	__u64 run_max;
	__u32 latency[GW_BUCKETS];
	__u32 run[GW_BUCKETS];
};

struct softirq_event {
	__u64 t_ns;
	__u64 value_ns;
	__u64 budget_ns;
	__u32 what;
	__u32 vector;
	__u32 cpu;
	__u32 pid;
	char comm[16];
	struct gw_stack stack;
};
GW_KEEP(softirq_event);

GW_PROBE(softirq_ctl, HOOKS);
GW_MAP_PERCPU(vectors, struct softirq_vector, VECTORS);
GW_MAP_ARRAY(switched_ns, __u64, CPUS, 0);

/* From when on a raise is believed: a softirq that was pending when its CPU went off runs elsewhere, or never. */
static __always_inline __u64 believed_from(gw_ctl_t *cfg)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 *last = bpf_map_lookup_elem(&switched_ns, &cpu);

	return last && *last > cfg->head.since_ns ? *last : cfg->head.since_ns;
}

static __always_inline void violation(void *ctx, struct gw_stats *own, __u32 vector, __u64 now, __u32 what, __u64 value,
				      __u64 budget)
{
	struct softirq_event *event;

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
	event->vector = vector;
	gw_take_stack(ctx, &event->stack);
	bpf_ringbuf_submit(event, 0);
}

GW_HOOK(softirq_raise, HOOK_RAISE)
{
	__u32 index = ctx[0];
	struct softirq_vector *vector = bpf_map_lookup_elem(&vectors, &index);

	if (!vector)
		return;
	vector->raised++;
	if (vector->raised_ns < believed_from(cfg))
		vector->raised_ns = bpf_ktime_get_ns();
}

GW_HOOK(softirq_entry, HOOK_ENTRY)
{
	__u32 index = ctx[0];
	struct softirq_vector *vector = bpf_map_lookup_elem(&vectors, &index);
	__u64 now = bpf_ktime_get_ns(), raised, latency;

	if (!vector)
		return;
	raised = vector->raised_ns;
	vector->raised_ns = 0;
	vector->entered_ns = now;
	vector->count++;
	/* The clock of one CPU does not go back, but an interrupt may raise this vector again between the lines above. */
	if (raised < believed_from(cfg) || raised > now) {
		own->missed++;
		return;
	}
	latency = now - raised;
	gw_count_local(vector->latency, latency);
	if (latency > vector->latency_max)
		vector->latency_max = latency;
	if (latency > cfg->latency_ns)
		violation(ctx, own, index, now, WHAT_STALL, latency, cfg->latency_ns);
}

GW_HOOK(softirq_exit, HOOK_EXIT)
{
	__u32 index = ctx[0];
	struct softirq_vector *vector = bpf_map_lookup_elem(&vectors, &index);
	__u64 now = bpf_ktime_get_ns(), run;

	if (!vector)
		return;
	if (vector->entered_ns < cfg->head.since_ns) {
		own->missed++;
		return;
	}
	run = now - vector->entered_ns;
	vector->entered_ns = 0;
	gw_count_local(vector->run, run);
	if (run > vector->run_max)
		vector->run_max = run;
	if (run > cfg->run_ns)
		violation(ctx, own, index, now, WHAT_OVERLONG, run, cfg->run_ns);
}

/* Each step of taking a CPU off or on, wherever that step runs. */
GW_HOOK(cpuhp_enter, HOOK_HOTPLUG)
{
	__u32 cpu = ctx[0];
	__u64 *last = bpf_map_lookup_elem(&switched_ns, &cpu);

	if (last)
		*last = bpf_ktime_get_ns();
}
