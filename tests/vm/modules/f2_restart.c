// SPDX-License-Identifier: GPL-2.0
/*
 * F2: a timer is started by another CPU while its callback runs.
 *
 * After "hrtimer: Preserve timer state in remove_hrtimer()" (f13d4f979c51, a panic in tc-htb): one CPU ran the callback, the other
 * started the timer anew under it. Repair: wait for the callback, then start.
 */
#include "planted.h"

static struct hrtimer timer;

static enum hrtimer_restart f2_shape(struct hrtimer *unused)
{
	callback_works();
	callback_ends();
	return HRTIMER_NORESTART;
}

static void arm(void *unused) { hrtimer_start(&timer, NSEC_PER_MSEC, HRTIMER_MODE_REL_PINNED); }

static void owner_round(void)
{
	owner_expects();
	smp_call_function_single(TIMER_CPU, arm, NULL, true);
	if (!owner_sees_it_run())
		return;
	if (fixed) {
		owner_acted();
		hrtimer_cancel(&timer);
	} else {
		faults++;
	}
	hrtimer_start(&timer, 4 * NSEC_PER_MSEC, HRTIMER_MODE_REL_PINNED);
	owner_acted();
	msleep(12);
	hrtimer_cancel(&timer); /* ends the round: the next one starts on the timer's CPU again */
}

static void begin(void)
{
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	timer.function = f2_shape;
}

static void end(void) { hrtimer_cancel(&timer); }

PLANTED(begin, end);
