/* SPDX-License-Identifier: GPL-2.0 */
/*
 * timer_race: memory given back while a timer in it is armed or its callback runs. `pages` knows which timers lie in a page of
 * memory, so that a free costs one look-up. How long the freed block is: from its cache, else (no vmemmap symbols, kernels before
 * 5.17) at most what its alignment allows, which is a guess.
 */
#ifndef GW_TIMER_RACE_FREE_BPF_H
#define GW_TIMER_RACE_FREE_BPF_H

#include "drift.bpf.h"
#include "timer_race_tell.bpf.h"

#define PAGES 2048    /* pages with timers in them, direct-mapped */
#define PER_PAGE 8    /* timers known in one page, the longest unseen gives way */
#define PAGE_SHIFT 12 /* coarser pages of other machines only make ours a part of one */
#define SPAN 4	      /* pages of a freed block that are looked at: 16 KiB, which holds any net_device */
#define LARGEST (1 << 16)

struct page_timers {
	__u64 page;
	__u32 next;
	__u32 _pad;
	__u64 timer[PER_PAGE];
};

GW_MAP_ARRAY(pages, struct page_timers, PAGES, 0);

extern const void vmemmap_base __ksym __weak;
extern const void page_offset_base __ksym __weak;

static __always_inline struct page_timers *timers_in(__u64 page)
{
	__u32 index = page * 0x9E3779B97F4A7C15ULL >> 53; /* to 11 bits: PAGES */

	return bpf_map_lookup_elem(&pages, &index);
}

/* Note that `timer` lies where it lies. */
static __always_inline void place(__u64 timer)
{
	__u64 page = timer >> PAGE_SHIFT;
	struct page_timers *set = timers_in(page);

	if (!set)
		return;
	if (set->page != page) {
		__builtin_memset(set, 0, sizeof(*set));
		set->page = page;
	}
#pragma unroll
	for (int i = 0; i < PER_PAGE; i++)
		if (set->timer[i] == timer)
			return;
	set->timer[set->next++ & (PER_PAGE - 1)] = timer;
}

/* The length of the slab object at `address`, by its cache; 0 if that cannot be told. */
static __always_inline __u64 length_of(__u64 address)
{
	__u64 pages_at = 0, memory_at = 0, page, head, offset;
	struct kmem_cache *cache;
	__u32 size, length;

	if (!&vmemmap_base || !&page_offset_base || !bpf_core_type_exists(struct slab))
		return 0;
	bpf_probe_read_kernel(&pages_at, sizeof(pages_at), &vmemmap_base);
	bpf_probe_read_kernel(&memory_at, sizeof(memory_at), &page_offset_base);
	page = pages_at + ((address - memory_at) >> PAGE_SHIFT) * bpf_core_type_size(struct page);
	head = BPF_CORE_READ((struct page *)page, compound_head);
	if (head & 1)
		page = head - 1;
	cache = BPF_CORE_READ((struct slab *)page, slab_cache);
	size = BPF_CORE_READ(cache, size);
	length = BPF_CORE_READ(cache, object_size);
	/* A page of another use has something else in that field: what is read must hang together. */
	if (length < 8 || length > size || size > LARGEST)
		return 0;
	offset = address - memory_at - ((page - pages_at) / bpf_core_type_size(struct page) << PAGE_SHIFT);
	return offset % size ? 0 : length;
}

static __always_inline void freed_timer(void *ctx, gw_ctl_t *cfg, struct gw_stats *own, __u64 timer, bool guessed, __u64 now)
{
	struct object *object = known(timer);
	struct side *other;
	__u32 sure = BY_STATE;

	if (!object || object->armed.t_ns < cfg->head.since_ns)
		object = object && object->slot ? object : 0;
	if (!object)
		return;
	other = runs_elsewhere(own, cfg, object, &sure);
	if (other) {
		tell_here(ctx, own, object, FREE_RUNNING, guessed ? BY_GUESS : sure, 0, other, now);
	} else if (object->armed.t_ns && queued(timer, object->kind)) {
		if (object->rearmed)
			tell_armer(own, object, REARMED_FREED, BY_KERNEL, now - object->armed.t_ns, &object->stop, now);
		else
			tell_here(ctx, own, object, FREE_ARMED, guessed ? BY_GUESS : BY_KERNEL, 0, &object->armed, now);
	}
	if (!guessed) {
		forget(object);
		take_side(ctx, &object->stop, timer, now);
		object->freed = 1;
	}
}

/* Whether the budget allows to look at one more free. */
static __always_inline bool affordable(gw_ctl_t *cfg, __u64 now)
{
	__u32 zero = 0;
	struct timer_race_frees *count = bpf_map_lookup_elem(&frees, &zero);

	if (!count || now - cfg->head.since_ns > cfg->free_ns)
		return false;
	if (now - count->window_ns > GW_LIMIT_NS) {
		count->window_ns = now;
		count->in_window = 0;
	}
	if (++count->in_window > cfg->frees_per_window) {
		count->skipped++;
		return false;
	}
	count->looked++;
	return true;
}

/* A block at `address` of `length` bytes (0: not known) is given back. Two timers of it are looked at, of those that are followed. */
static __always_inline void freed(void *ctx, gw_ctl_t *cfg, struct gw_stats *own, __u64 address, __u64 length)
{
	__u64 now = bpf_ktime_get_ns(), page = address >> PAGE_SHIFT, first = 0, second = 0;
	bool guessed = false;

	if (address <= 16 || !affordable(cfg, now)) /* kfree(ZERO_SIZE_PTR) */
		return;
	for (int i = 0; i < SPAN; i++) {
		struct page_timers *set = timers_in(page + i);

		if (!set || set->page != page + i)
			continue;
		for (int j = 0; j < PER_PAGE; j++)
			if (set->timer[j] >= address) {
				second = set->timer[j] - address < second - address ? first : second;
				first = set->timer[j] - address < first - address ? set->timer[j] : first;
			}
	}
	if (!first) /* no timer behind it within SPAN */
		return;
	if (!length) {
		length = length_of(address);
		guessed = !length;
		if (guessed) /* an object of a power of two is aligned to it */
			length = address & -address;
		if (guessed && length > 1 << PAGE_SHIFT)
			length = 1 << PAGE_SHIFT;
	}
	if (first - address < length)
		freed_timer(ctx, cfg, own, first, guessed, now);
	if (second && second != first && second - address < length)
		freed_timer(ctx, cfg, own, second, guessed, now);
}

#endif
