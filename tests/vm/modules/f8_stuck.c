// SPDX-License-Identifier: GPL-2.0
/*
 * F8: an armed timer that never fires, because the expiry of another one was changed while that was queued.
 *
 * After "tick/sched: Do not mess with an enqueued hrtimer" (1f71addd34f4): the tree of timers is ordered by expiry, and the one at
 * its front now lies, so that nothing behind it is looked at. On CLOCK_TAI, which nothing else in the guest uses: there it stops
 * only these two timers, and both are cancelled at the end of the round. Repair: cancel, change, start.
 */
#include "planted.h"

static struct hrtimer front, victim;

static enum hrtimer_restart f8_front(struct hrtimer *unused) { return HRTIMER_NORESTART; }

static enum hrtimer_restart f8_victim(struct hrtimer *unused) { return HRTIMER_NORESTART; }

static ktime_t in_ms(unsigned int ms) { return ktime_add_ms(ktime_get_clocktai(), ms); }

static void arm(void *unused)
{
	hrtimer_start(&front, in_ms(200), HRTIMER_MODE_ABS_PINNED);
	hrtimer_start(&victim, in_ms(300), HRTIMER_MODE_ABS_PINNED);
	if (fixed) {
		hrtimer_try_to_cancel(&front);
		hrtimer_start(&front, in_ms(60000), HRTIMER_MODE_ABS_PINNED);
	} else {
		hrtimer_set_expires(&front, in_ms(60000));
	}
}

static void owner_round(void)
{
	unsigned int waited;

	smp_call_function_single(TIMER_CPU, arm, NULL, true);
	for (waited = 0; waited < 80 && !kthread_should_stop() && !planted_over(); waited++)
		msleep(100);
	faults += hrtimer_is_queued(&victim);
	hrtimer_cancel(&front);
	hrtimer_cancel(&victim);
}

static void begin(void)
{
	hrtimer_init(&front, CLOCK_TAI, HRTIMER_MODE_ABS_PINNED);
	hrtimer_init(&victim, CLOCK_TAI, HRTIMER_MODE_ABS_PINNED);
	front.function = f8_front;
	victim.function = f8_victim;
}

static void end(void) {}

PLANTED(begin, end);
