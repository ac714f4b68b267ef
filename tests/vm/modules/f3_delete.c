// SPDX-License-Identifier: GPL-2.0
/*
 * F3: a delete that does not wait, while the callback runs on another CPU; then what the callback uses is taken away.
 *
 * After CVE-2024-38630 (drivers/watchdog/cpu5wdt.c): remove called del_timer() and released the port region, while the trigger was
 * still writing to it on another CPU. Repaired there as here: the delete that waits.
 */
#include "planted.h"

static struct timer_list timer;
static int region; /* the resource: 1 while it is ours */

static void f3_trigger(struct timer_list *unused)
{
	callback_works(); /* it talks to slow hardware ... */
	if (!READ_ONCE(region))
		faults++; /* ... which is not ours any more */
	callback_ends();
}

static void owner_round(void)
{
	WRITE_ONCE(region, 1);
	owner_expects();
	timer.expires = jiffies + 1;
	add_timer_on(&timer, TIMER_CPU);
	if (owner_sees_it_run()) {
		if (fixed) {
			owner_acted();
			timer_delete_sync(&timer);
		} else {
			timer_delete(&timer);
		}
		WRITE_ONCE(region, 0);
		owner_acted();
	}
	timer_delete_sync(&timer); /* ends the round: the module itself stays sound */
}

static void begin(void) { timer_setup(&timer, f3_trigger, TIMER_PINNED); }

static void end(void) { timer_shutdown_sync(&timer); }

PLANTED(begin, end);
