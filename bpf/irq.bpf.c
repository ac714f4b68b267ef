// SPDX-License-Identifier: GPL-2.0
/*
 * irq: handler time by line, storms, spurious interrupts.
 *
 * A shared line calls all its handlers one after the other for each interrupt. It is counted once, at the last of them (whose
 * `next` is NULL), as /proc/interrupts does, and is spurious if none of them took it (IRQ_NONE). Run times are per handler.
 */
#include "common.bpf.h"

enum { HOOK_ENTRY, HOOK_EXIT, HOOKS };
enum { WHAT_SLOW, WHAT_STORM, WHAT_SPURIOUS };

#define LINES 256	    /* a server shows about 100; one that finds no room is counted as missed */
#define NAME_BYTES 32	    /* action names are the drivers' choice: "nvme0q12", "0000:00:05.0-virtio4-input" */
#define SPURIOUS_LEAST 1000 /* interrupts in a window of which nine in ten nobody took: far before the kernel's own 100,000 */

struct irq_ctl {
	struct gw_ctl head;
	__u64 run_ns;
	__u64 storm_per_window; /* interrupts of one line within GW_LIMIT_NS */
};

struct irq_line {
	char name[NAME_BYTES];
	__u64 count;
	__u64 spurious;
	__u64 run_max;
	__u64 window_ns;
	__u32 window_count;
	__u32 window_spurious;
	__u32 told; /* bit per WHAT_… in this window */
	__u32 _pad;
	__u32 run[GW_BUCKETS];
};

struct irq_event {
	__u64 t_ns;
	__u64 value; /* ns, or interrupts in the window */
	__u64 budget;
	__u64 spurious; /* of these interrupts */
	__u32 what;
	__u32 line;
	__u32 cpu;
	__u32 pid;
	char comm[16];
	char name[NAME_BYTES];
	struct gw_stack stack;
};
GW_KEEP(irq_event);

/* Handlers run with interrupts off, so there is one at a time on a CPU. */
struct handling {
	__u64 start_ns;
	__u32 line;
	__u32 taken;
};

GW_PROBE(irq_ctl, HOOKS);
GW_MAP_HASH(lines, BPF_MAP_TYPE_HASH, __u32, struct irq_line, LINES);
GW_MAP_PERCPU(handling, struct handling, 1);

static const struct irq_line fresh;

static __always_inline struct irq_line *line_of(__u32 line, struct irqaction *action, const bool btf, struct gw_stats *own)
{
	struct irq_line *entry = bpf_map_lookup_elem(&lines, &line);

	if (entry)
		return entry;
	bpf_map_update_elem(&lines, &line, &fresh, BPF_NOEXIST);
	entry = bpf_map_lookup_elem(&lines, &line);
	if (entry)
		bpf_probe_read_kernel_str(entry->name, sizeof(entry->name), GW_READ(action, name));
	else
		own->missed++;
	return entry;
}

static __always_inline void violation(void *ctx, struct gw_stats *own, struct irq_line *entry, __u32 line, __u64 now,
				      __u32 what, __u64 value, __u64 budget)
{
	struct irq_event *event;

	if (!gw_allow(own, now))
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		own->lost++;
		return;
	}
	GW_HERE(event, now);
	event->value = value;
	event->budget = budget;
	event->spurious = entry->window_spurious;
	event->what = what;
	event->line = line;
	__builtin_memcpy(event->name, entry->name, NAME_BYTES);
	gw_take_stack(ctx, &event->stack);
	bpf_ringbuf_submit(event, 0);
}

/* One interrupt is over. A line that several CPUs serve may be told twice in a window, never not at all. */
static __always_inline void counted(void *ctx, gw_ctl_t *cfg, struct gw_stats *own, struct irq_line *entry, __u32 line,
				    __u64 now, bool taken)
{
	__u32 count, spurious, what;

	if (now - entry->window_ns > GW_LIMIT_NS) {
		entry->window_ns = now;
		entry->window_count = entry->window_spurious = entry->told = 0;
	}
	__sync_fetch_and_add(&entry->count, 1);
	__sync_fetch_and_add(&entry->window_count, 1);
	if (!taken) {
		__sync_fetch_and_add(&entry->spurious, 1);
		__sync_fetch_and_add(&entry->window_spurious, 1);
	}
	count = entry->window_count;
	spurious = entry->window_spurious;
	if (count > cfg->storm_per_window)
		what = WHAT_STORM;
	else if (count >= SPURIOUS_LEAST && spurious * 10ULL > count * 9ULL)
		what = WHAT_SPURIOUS;
	else
		return;
	if (entry->told & 1 << what)
		return;
	entry->told |= 1 << what;
	violation(ctx, own, entry, line, now, what, count, what == WHAT_STORM ? cfg->storm_per_window : SPURIOUS_LEAST);
}

GW_HOOK(irq_handler_entry, HOOK_ENTRY)
{
	__u32 zero = 0, line = ctx[0];
	struct handling *slot = bpf_map_lookup_elem(&handling, &zero);

	if (!slot)
		return;
	if (slot->line != line)
		slot->taken = 0; /* the rest of a chain whose end was not seen */
	slot->line = line;
	slot->start_ns = bpf_ktime_get_ns();
}

GW_HOOK(irq_handler_exit, HOOK_EXIT)
{
	struct irqaction *action = (void *)ctx[1];
	__u32 zero = 0, line = ctx[0];
	struct handling *slot = bpf_map_lookup_elem(&handling, &zero);
	__u64 now = bpf_ktime_get_ns(), run;
	struct irq_line *entry;
	bool taken;

	if (!slot)
		return;
	if (slot->line != line || slot->start_ns < cfg->head.since_ns) {
		own->missed++;
		return;
	}
	run = now - slot->start_ns;
	slot->start_ns = 0;
	taken = slot->taken || (__s32)ctx[2]; /* IRQ_HANDLED or IRQ_WAKE_THREAD */
	slot->taken = taken;
	entry = line_of(line, action, btf, own);
	if (!entry)
		return;
	gw_count(entry->run, run);
	gw_max(&entry->run_max, run);
	if (run > cfg->run_ns)
		violation(ctx, own, entry, line, now, WHAT_SLOW, run, cfg->run_ns);
	if (GW_READ(action, next))
		return;
	slot->taken = 0;
	counted(ctx, cfg, own, entry, line, now, taken);
}
