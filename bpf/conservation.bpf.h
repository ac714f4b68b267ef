/* SPDX-License-Identifier: GPL-2.0 */
/* Records and maps of conservation.bpf.c, and when there is something to tell. */
#ifndef GW_CONSERVATION_BPF_H
#define GW_CONSERVATION_BPF_H

#include "common.bpf.h"

enum { HOOK_TIMER_ENTRY, HOOK_TIMER_EXIT, HOOK_HRTIMER_ENTRY, HOOK_HRTIMER_EXIT, HOOKS };
enum { KIND_TIMER, KIND_HRTIMER, KIND_HRTIMER_SOFT, KINDS };

#define PLACES 8	/* counters: each is a read of memory at each of its callbacks */
#define CALLBACKS 64	/* PLACES * 8 */
#define NAME 64		/* of a place as it is configured */
#define REASON 128	/* why it could not be found */
#define SETTLE_NS 10000 /* until a weakly ordered CPU sees what another one wrote, and more */
#define ENOUGH 16	/* windows of a kind that are no chance; these four are mirrored by agent/probes/conservation.py */
#define CLEARLY 4	/* times as much lacks for each callback that overlaps as for one that does not */
#define MANY 1024	/* callbacks */
#define FEW 16		/* one in so many without overlap: they cannot tell */
#define TELL_NS 10000000000ULL /* one event of a place and CPU in so long */

struct conservation_ctl {
	struct gw_ctl head;
};

struct conservation_place {
	__u64 address; /* 0: none, see `reason` */
	__u64 step;
	__u32 length;
	__u32 _pad;
	char name[NAME];
	char reason[REASON];
};

/* Of all CPUs. */
struct conservation_sum {
	__u64 started;
	__u64 ended;
	__u64 ended_ns;
	__u64 overlaps;
	__u64 falls; /* windows in which it fell, or with overlap did not grow at all */
};

/* Of one CPU. The sums are over its windows, which do not overlap; those of two
 * CPUs do. */
struct conservation_row {
	__u64 ended;
	__u64 value;
	__u64 overlaps;
	__u32 known;   /* the three above are those of a quiet moment */
	__u32 busy;    /* written to by what this interrupt has interrupted */
	__u32 doubted; /* and told */
	__u32 _pad;
	__u64 calls;
	__u64 alone; /* calls in windows without overlap */
	__u64 expected;
	__u64 growth;
	__u64 deficit;	     /* of windows with overlap */
	__u64 windows;	     /* with a deficit */
	__u64 alone_deficit; /* of windows without overlap */
	__u64 shorts;	     /* such windows with a deficit */
	__u64 unread;
	__u64 told_ns;
};

struct conservation_event {
	__u64 t_ns;
	__u64 address;
	__u64 step;
	__u64 calls;
	__u64 alone;
	__u64 expected;
	__u64 growth;
	__u64 deficit;
	__u64 windows;
	__u64 alone_deficit;
	__u64 falls;
	__u32 length;
	__u32 cpu;
	__u32 pid;
	__u32 _pad;
	char comm[16];
	char name[NAME];
	char symbol[GW_SYMBOL];	  /* what lies at `address` now: another name is another
                             module's */
	char callback[GW_SYMBOL]; /* the one that ended the window */
};
GW_KEEP(conservation_event);

/* A callback of ours that runs on this CPU. */
struct inside {
	__u64 timer;
	__u32 mask; /* of its places */
	__u32 _pad;
};

GW_PROBE(conservation_ctl, HOOKS);
GW_MAP_ARRAY(places, struct conservation_place, PLACES, 0);
GW_MAP_HASH(callbacks, BPF_MAP_TYPE_HASH, __u64, __u32, CALLBACKS);
GW_MAP_ARRAY(sums, struct conservation_sum, PLACES, 0);
GW_MAP_PERCPU(rows, struct conservation_row, PLACES);
GW_MAP_PERCPU(inside, struct inside, KINDS);

/*
 * Whether so many deficits would hardly fall all into windows with overlap by chance, which hold `overlapping` of `calls`: the share to
 * the power of `windows`, below 2^-24.
 */
static __always_inline bool no_chance(__u64 overlapping, __u64 calls, __u64 windows)
{
	__u64 chance = 1 << 24;

	if (!calls)
		return false;
#pragma unroll
	for (__u64 i = 0; i < ENOUGH; i++)
		if (i < windows)
			chance = chance * overlapping / calls;
	return !chance;
}

/*
 * Whether there is something to tell. As much lacks where no callbacks overlap, or it fell: that, once. Else a deficit is told when at
 * its rate windows without overlap would have lacked too by now, several times, and when nearly all callbacks overlap, so that none can
 * tell, after many.
 */
static __always_inline bool worth_telling(volatile struct conservation_sum *sum, struct conservation_row *row, __u64 now)
{
	__u64 alone = row->alone, overlapping = row->calls - alone;

	if (sum->falls || (row->alone_deficit && row->alone_deficit * overlapping * CLEARLY >= row->deficit * alone)) {
		if (row->doubted || (!sum->falls && row->shorts < ENOUGH))
			return false;
		row->doubted = 1;
		return true;
	}
	if (row->alone_deficit || !no_chance(overlapping, row->calls, row->windows)) {
		if (row->windows < ENOUGH)
			return false;
		if (row->windows * alone < ENOUGH * overlapping && (row->calls < MANY || alone * FEW > row->calls))
			return false;
	}
	return !row->told_ns || now - row->told_ns >= TELL_NS;
}

#endif
