// SPDX-License-Identifier: GPL-2.0
/*
 * F1: an armed timer is initialised again, which forgets that it hangs in the timer wheel.
 *
 * After "ALSA: aloop: Sync stale timer before release" (67a01afaf3d3), where prepare() set up a timer that was still in use. Left
 * alone, the wheel's list is broken; so the damage is mended at once, on the timer's own CPU with interrupts off: what remains is
 * the event. Repair: the delete that waits, before the setup.
 */
#include "planted.h"

static struct timer_list timer;

static void f1_stale(struct timer_list *unused) {}

/* Sets the timer up as a careless prepare() does, then gives it back its place in the wheel. */
static void setup_while_armed(void)
{
	struct timer_list before;
	unsigned long flags;

	local_irq_save(flags);
	before = timer;
	if (timer_pending(&timer)) {
		faults++;
		timer_setup(&timer, f1_stale, TIMER_PINNED);
		timer.entry.pprev = before.entry.pprev;
		timer.flags = before.flags;
	}
	local_irq_restore(flags);
}

static void owner_round(void)
{
	mod_timer(&timer, jiffies + HZ / 10); /* the owner runs on OWNER_CPU, and so does its pinned timer */
	msleep(8);
	if (fixed) {
		timer_delete_sync(&timer);
		timer_setup(&timer, f1_stale, TIMER_PINNED);
	} else {
		setup_while_armed();
	}
}

static void begin(void) { timer_setup(&timer, f1_stale, TIMER_PINNED); }

static void end(void) { timer_shutdown_sync(&timer); }

PLANTED(begin, end);
