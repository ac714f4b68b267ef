// SPDX-License-Identifier: GPL-2.0
/*
 * F6: a lost update in an object on the heap, as most drivers keep theirs: no symbol names the counter, only a pointer leads to it.
 *
 * After "can: bcm: add locking for bcm_op runtime updates" (c2aba69d0c36), whose counters lie in a struct bcm_op, as lost_timer.c.
 * Repairs: an atomic increment (fixed=1), or the same steps under a lock (fixed=2).
 */
#include "planted.h"
#include <linux/atomic.h>
#include <linux/spinlock.h>

#define UPDATES 6

struct device {
	unsigned long frames;
	atomic64_t counted;
	raw_spinlock_t lock;
	struct timer_list timers[2];
};

static struct device *lost_heap_device;

static void count_frame(struct device *device)
{
	unsigned long frames = READ_ONCE(device->frames);

	ndelay(500);
	WRITE_ONCE(device->frames, frames + 1);
}

static void lost_heap_poll(struct timer_list *timer)
{
	struct device *device = lost_heap_device;
	unsigned long flags;
	int i;

	for (i = 0; i < UPDATES; i++) {
		if (fixed == 2) {
			raw_spin_lock_irqsave(&device->lock, flags);
			count_frame(device);
			raw_spin_unlock_irqrestore(&device->lock, flags);
		} else if (fixed) {
			atomic_long_inc((atomic_long_t *)&device->frames);
		} else {
			count_frame(device);
		}
		atomic64_inc(&device->counted);
	}
	if (!planted_over())
		mod_timer(timer, jiffies + 1);
}

static void owner_round(void) {}

static void begin(void)
{
	int cpu;

	lost_heap_device = kzalloc(sizeof(*lost_heap_device), GFP_KERNEL | __GFP_NOFAIL);
	raw_spin_lock_init(&lost_heap_device->lock);
	planted_end = jiffies + seconds * HZ;
	for (cpu = 0; cpu < 2; cpu++) {
		timer_setup(&lost_heap_device->timers[cpu], lost_heap_poll, TIMER_PINNED);
		lost_heap_device->timers[cpu].expires = jiffies + 2;
		add_timer_on(&lost_heap_device->timers[cpu], cpu);
	}
}

static void end(void)
{
	timer_shutdown_sync(&lost_heap_device->timers[0]);
	timer_shutdown_sync(&lost_heap_device->timers[1]);
	faults = atomic64_read(&lost_heap_device->counted) - lost_heap_device->frames;
	kfree(lost_heap_device);
}

PLANTED(begin, end);
