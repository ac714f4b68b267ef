// SPDX-License-Identifier: GPL-2.0
/*
 * F10: a timer starts a work, the work starts the timer: teardown stops the one, then the other, and the timer is armed again.
 *
 * After CVE-2023-4134 (cyttsp4_core, dbe836576f12) and CVE-2023-6039 (lan78xx, 1e7417c188d0): del_timer_sync(), then
 * cancel_work_sync(), while the work was between the two. There the object was freed with its timer armed; here it is static, and the
 * round ends with what should have been done first. Repair: timer_shutdown_sync(), after which no start counts.
 */
#include "planted.h"

static struct timer_list timer;
static struct work_struct work;

static void f10_watchdog(struct timer_list *unused)
{
	schedule_work_on(TIMER_CPU, &work);
	mod_timer(&timer, jiffies + HZ / 10); /* the watchdog goes on, unless the work finds something to say */
}

static void f10_check(struct work_struct *unused)
{
	callback_works();		      /* it asks the device ... */
	mod_timer(&timer, jiffies + HZ / 50); /* ... and starts the watchdog anew */
	callback_ends();
}

static void owner_round(void)
{
	owner_expects();
	timer_setup(&timer, f10_watchdog, TIMER_PINNED);
	timer.expires = jiffies + 1;
	add_timer_on(&timer, TIMER_CPU);
	if (owner_sees_it_run()) {
		if (fixed)
			timer_shutdown_sync(&timer);
		else
			timer_delete_sync(&timer);
		owner_acted();
		cancel_work_sync(&work);
		faults += timer_pending(&timer);
		msleep(40); /* the driver is gone, its timer is not */
	}
	timer_shutdown_sync(&timer);
	cancel_work_sync(&work);
}

static void begin(void) { INIT_WORK(&work, f10_check); }

static void end(void) {}

PLANTED(begin, end);
