/* SPDX-License-Identifier: GPL-2.0 */
/* timer_race: telling a suspicion. Each kind of it is counted in `found`, with both sides of its first occurrence. */
#ifndef GW_TIMER_RACE_TELL_BPF_H
#define GW_TIMER_RACE_TELL_BPF_H

#include "timer_race.bpf.h"

static __always_inline void name_frame(char *name, __u64 address)
{
	static const char format[] = "%pB"; /* of a return address: the call before it, with offset and module */

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_snprintf))
		bpf_snprintf(name, FRAME, format, &address, sizeof(address));
}

static __always_inline void name_function(char *name, __u64 address)
{
	static const char format[] = "%ps";

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_snprintf))
		bpf_snprintf(name, NAME, format, &address, sizeof(address));
}

#define COPY_SIDE(entry, s, side)                                                                                              \
	({                                                                                                                     \
		(entry)->s##_t_ns = (side)->t_ns;                                                                              \
		(entry)->s##_cpu = (side)->cpu;                                                                                \
		(entry)->s##_pid = (side)->pid;                                                                                \
		(entry)->s##_within = (side)->within;                                                                          \
		__builtin_memcpy((entry)->s##_comm, (side)->comm, sizeof((side)->comm));                                       \
		for (int i = 0; i < FRAMES; i++) {                                                                             \
			(entry)->s##_address[i] = (side)->address[i];                                                          \
			name_frame((entry)->s##_frame[i], (side)->address[i]); /* of 0 too: no branch, no state explosion */   \
		}                                                                                                              \
	})

/* Send the entry, unless it was sent a moment ago: its count goes on growing in the map. */
static __always_inline void send(struct gw_stats *own, struct timer_race_found *entry, __u64 now)
{
	struct timer_race_found *event;

	if (now - entry->sent_ns < RESEND_NS || !gw_allow(own, now))
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		own->lost++;
		return;
	}
	entry->sent_ns = now;
	bpf_probe_read_kernel(event, sizeof(*event), entry); /* a memcpy of this size is not inlined */
	bpf_ringbuf_submit(event, 0);
}

static __noinline int tell(struct gw_stats *own, struct story *story, struct side *actor, struct side *other)
{
	struct key key = {.function = story->function, .what = story->what};
	__u32 zero = 0;
	struct timer_race_found *entry, *blanks;
	bool made = false;

	for (int i = 0; i < 6; i++) /* those below are what was interrupted, which is different each time */
		key.path = key.path * 31 + (__u32)actor->address[i];
	entry = bpf_map_lookup_elem(&found, &key);
	if (!entry) {
		blanks = bpf_map_lookup_elem(&blank, &zero);
		made = blanks && !bpf_map_update_elem(&found, &key, blanks, BPF_NOEXIST);
		entry = bpf_map_lookup_elem(&found, &key);
	}
	if (!entry) { /* full, or the bucket is busy under us */
		own->lost++;
		return 0;
	}
	if (made) {
		entry->timer = story->timer;
		entry->function = story->function;
		entry->what = story->what;
		entry->kind = story->kind;
		entry->sure = story->sure;
		entry->value = story->value;
		name_function(entry->name, story->function);
		COPY_SIDE(entry, actor, actor);
		COPY_SIDE(entry, other, other);
	}
	__sync_fetch_and_add(&entry->count, 1);
	if (story->sure == BY_KERNEL)
		__sync_fetch_and_add(&entry->by_kernel, 1);
	if (entry->value < story->value)
		entry->value = story->value;
	if (!made && !entry->t_ns)
		return 0; /* another CPU is still writing it */
	entry->t_ns = story->now;
	send(own, entry, story->now);
	return 0;
}

/* The common case: the actor is who calls now. */
static __always_inline void tell_here(void *ctx, struct gw_stats *own, struct object *object, __u32 what, __u32 sure,
				      __u64 value, struct side *other, __u64 now)
{
	struct story story = {.now = now,
			      .timer = object->timer,
			      .function = object->function,
			      .value = value,
			      .what = what,
			      .kind = object->kind,
			      .sure = sure};
	struct side actor = {};

	take_side(ctx, &actor, object->timer, now);
	tell(own, &story, &actor, other);
}

/* The same of something that went on before: the actor is who armed the timer. */
static __always_inline void tell_armer(struct gw_stats *own, struct object *object, __u32 what, __u32 sure, __u64 value,
				       struct side *other, __u64 now)
{
	struct story story = {.now = now,
			      .timer = object->timer,
			      .function = object->function,
			      .value = value,
			      .what = what,
			      .kind = object->kind,
			      .sure = sure};

	tell(own, &story, &object->armed, other);
}

#endif
