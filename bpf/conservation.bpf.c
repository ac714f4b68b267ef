// SPDX-License-Identifier: GPL-2.0
/*
 * conservation: whether counters grow by what the timer callbacks that count them up should have added. No debug register, no root.
 *
 * When a callback begins while no other one of the same counter is inside, nobody holds an old value, so `ended` callbacks are in the
 * counter's value, whole: such a moment is quiet. Between two quiet moments, as seen by one CPU (a window), the counter must have grown
 * by at least (callbacks that ended) * step. If it did not, and callbacks overlapped meanwhile, updates were lost; no border is left to
 * argue about. If it lacks as much for each callback where none overlapped, the callback does not add `step` each time, or somebody
 * else takes away: then nothing is concluded. Other writers, and events that were not seen, only make it grow more: they hide, and
 * invent nothing. docs/decisions/0024-conservation.md
 *
 * `places` and `callbacks` are written by the loader alone: they hold kernel addresses, which agentd must not choose.
 */
#include "conservation.bpf.h"

static __always_inline void tell(struct gw_stats *own, struct conservation_place *place, volatile struct conservation_sum *sum,
				 struct conservation_row *row, __u64 function, __u64 now)
{
	struct conservation_event *event;

	if (!worth_telling(sum, row, now))
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		own->lost++;
		return;
	}
	row->told_ns = now;
	GW_HERE(event, now);
	event->address = place->address;
	event->step = place->step;
	event->length = place->length;
	event->calls = row->calls;
	event->alone = row->alone;
	event->expected = row->expected;
	event->growth = row->growth;
	event->deficit = row->deficit;
	event->windows = row->windows;
	event->alone_deficit = row->alone_deficit;
	event->falls = sum->falls;
	__builtin_memcpy(event->name, place->name, NAME);
	event->symbol[0] = event->callback[0] = 0;
	gw_symbol(event->symbol, place->address);
	gw_symbol(event->callback, function);
	bpf_ringbuf_submit(event, 0);
}

/* Weigh the window that a quiet moment ends, and begin the next. Gives whether something lacks. */
static __always_inline bool weigh(struct conservation_place *place, volatile struct conservation_sum *sum,
				  struct conservation_row *row, __u64 ended, __u64 value)
{
	__u64 most = place->length < 8 ? (1ULL << 8 * (place->length & 7)) - 1 : ~0ULL;
	__u64 calls = ended - row->ended, expected = calls * place->step, growth = (value - row->value) & most;
	__u64 overlaps = sum->overlaps;
	bool known = row->known && (__s64)calls >= 0 && expected <= most / 2, alone = overlaps == row->overlaps;

	row->ended = ended;
	row->value = value;
	row->overlaps = overlaps;
	row->known = 1;
	if (!known) /* the first, or so long that the value may have come round */
		return false;
	if (growth > most / 2 || (calls && !growth && !alone)) {
		__sync_fetch_and_add(&sum->falls, 1);
		return true;
	}
	row->calls += calls;
	row->expected += expected;
	row->growth += growth;
	if (alone)
		row->alone += calls;
	if (growth >= expected)
		return false;
	if (alone) {
		row->alone_deficit += expected - growth;
		row->shorts++;
		return true;
	}
	row->deficit += expected - growth;
	row->windows++;
	return true;
}

static __noinline void begun(struct gw_stats *own, __u32 index, __u64 function)
{
	struct conservation_place *place = bpf_map_lookup_elem(&places, &index);
	volatile struct conservation_sum *sum = bpf_map_lookup_elem(&sums, &index);
	struct conservation_row *row = bpf_map_lookup_elem(&rows, &index);
	__u64 ended, now, value[2] = {}; /* the second for the verifier: below 16 may be 15 */

	if (!place || !sum || !row)
		return;
	__sync_fetch_and_add(&sum->started, 1);
	/* Read before the value, `started` after it: equal but for us only if nobody else is inside. */
	ended = sum->ended;
	if (bpf_probe_read_kernel(value, place->length & 15, (void *)place->address)) {
		row->unread++;
		return;
	}
	now = bpf_ktime_get_ns();
	if (sum->started != ended + 1) {
		__sync_fetch_and_add(&sum->overlaps, 1);
		return;
	}
	if (now - sum->ended_ns < SETTLE_NS || row->busy)
		return;
	row->busy = 1;
	if (weigh(place, sum, row, ended, value[0]))
		tell(own, place, sum, row, function, now);
	row->busy = 0;
}

static __always_inline void over(struct inside *slot)
{
	__u64 now = bpf_ktime_get_ns();

#pragma unroll /* 6.1's verifier takes the loop for an endless one */
	for (__u32 i = 0; i < PLACES; i++) {
		__u32 index = i;
		struct conservation_sum *sum = bpf_map_lookup_elem(&sums, &index);

		if (!sum || !(slot->mask & 1U << i))
			continue;
		sum->ended_ns = now;
		__sync_fetch_and_add(&sum->ended, 1);
	}
	slot->mask = 0;
}

static __always_inline void entered(struct gw_stats *own, __u64 timer, __u64 function, __u32 kind)
{
	struct inside *slot = bpf_map_lookup_elem(&inside, &kind);
	__u32 *mask = bpf_map_lookup_elem(&callbacks, &function);

	if (slot && slot->mask) { /* its exit was not seen; it is over, as another one runs in its place */
		own->missed++;
		over(slot);
	}
	if (!slot || !mask)
		return;
	slot->timer = timer;
	slot->mask = *mask;
#pragma unroll
	for (__u32 i = 0; i < PLACES; i++)
		if (slot->mask & 1U << i)
			begun(own, i, function);
}

static __always_inline void left(__u64 timer, __u32 kind)
{
	struct inside *slot = bpf_map_lookup_elem(&inside, &kind);

	if (slot && slot->mask && slot->timer == timer)
		over(slot);
}

GW_HOOK(timer_expire_entry, HOOK_TIMER_ENTRY)
{
	struct timer_list *timer = (void *)ctx[0];

	entered(own, ctx[0], (__u64)GW_READ(timer, function), KIND_TIMER);
}

GW_HOOK(timer_expire_exit, HOOK_TIMER_EXIT) { left(ctx[0], KIND_TIMER); }

GW_HOOK(hrtimer_expire_entry, HOOK_HRTIMER_ENTRY)
{
	struct hrtimer *timer = (void *)ctx[0];

	entered(own, ctx[0], (__u64)GW_READ(timer, function), GW_READ(timer, is_soft) ? KIND_HRTIMER_SOFT : KIND_HRTIMER);
}

GW_HOOK(hrtimer_expire_exit, HOOK_HRTIMER_EXIT)
{
	left(ctx[0], KIND_HRTIMER);
	left(ctx[0], KIND_HRTIMER_SOFT);
}
