/* SPDX-License-Identifier: GPL-2.0 */
/* A frame counter that two ports share, counted up wrong and right: what the lost_* modules have in common. */
#ifndef LOST_H
#define LOST_H

#include <linux/atomic.h>
#include <linux/jhash.h>
#include <linux/module.h>
#include <linux/spinlock.h>

#define UPDATES 16 /* per callback: with some 130 callbacks a second on each of two CPUs, 4,000 writes a second */
#define LOOK 1000  /* rounds of a hash: some microseconds, more where the machine is emulated */

struct tally {
	atomic64_t *frames; /* shared by all ports */
	raw_spinlock_t lock;
	u32 last;
};

/* What a driver does between reading a counter and writing it back: it looks at the frame. */
static inline void tally_look(struct tally *tally)
{
	u32 hash = 0;
	int i;

	for (i = 0; i < LOOK; i++)
		hash = jhash_1word(i, hash);
	WRITE_ONCE(tally->last, hash);
}

static inline void tally_racy(struct tally *tally)
{
	s64 seen = atomic64_read(tally->frames);

	tally_look(tally);
	atomic64_set(tally->frames, seen + 1); /* what another CPU added meanwhile is gone */
}

static inline void tally_atomic(struct tally *tally)
{
	tally_look(tally);
	atomic64_inc(tally->frames);
}

static inline void tally_locked(struct tally *tally)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&tally->lock, flags);
	tally_racy(tally);
	raw_spin_unlock_irqrestore(&tally->lock, flags);
}

/* `counted` is what the ports counted each for itself, and so what the counter should say: gives by how much it says less. */
static inline s64 tally_lost(struct tally *tally, u64 counted)
{
	s64 frames = atomic64_read(tally->frames);

	pr_info("planted %s: counted=%llu frames=%lld\n", KBUILD_MODNAME, counted, frames);
	return counted - frames;
}

#endif
