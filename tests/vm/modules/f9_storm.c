// SPDX-License-Identifier: GPL-2.0
/*
 * F9: a callback that arms its timer again in the past, so that it is called again at once and its CPU does nothing else.
 *
 * After "hrtimer: Provide hrtimer_start_range_ns_user()" (April 2026: a process that sets a timerfd to 1 ns starves the timer
 * interrupt). Here it goes on for BURST calls, then rests for 100 ms, so that the guest lives. Repair: hrtimer_forward_now(), which
 * skips the periods that are over.
 */
#include "planted.h"

#define BURST 2000
#define REST_NS (100 * NSEC_PER_MSEC)
#define PERIOD_NS (10 * NSEC_PER_MSEC)

static struct hrtimer timer;
static unsigned int burst;

static enum hrtimer_restart f9_poll(struct hrtimer *unused)
{
	if (planted_over())
		return HRTIMER_NORESTART;
	if (fixed) {
		hrtimer_forward_now(&timer, PERIOD_NS);
	} else if (++burst % BURST) {
		faults++;
		hrtimer_add_expires_ns(&timer, 1); /* "the next period", which is over already */
	} else {
		hrtimer_set_expires(&timer, ktime_add_ns(ktime_get(), REST_NS));
	}
	return HRTIMER_RESTART;
}

static void arm(void *unused) { hrtimer_start(&timer, NSEC_PER_MSEC, HRTIMER_MODE_REL_PINNED); }

static void owner_round(void)
{
	if (!rounds)
		smp_call_function_single(TIMER_CPU, arm, NULL, true);
}

static void begin(void)
{
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	timer.function = f9_poll;
}

static void end(void) { hrtimer_cancel(&timer); }

PLANTED(begin, end);
