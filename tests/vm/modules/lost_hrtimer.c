// SPDX-License-Identifier: GPL-2.0
/*
 * F6: a lost update in hrtimer callbacks: as in lost_timer.c, from two hrtimers of 2 ms on two CPUs.
 *
 * After "hrtimer: Preserve timer state in remove_hrtimer()" (f13d4f979c51), where a plain read and write of a state word lost the bit
 * that another CPU had set in it. Repairs: an atomic increment (fixed=1), or the same two steps under a lock (fixed=2).
 */
#include "lost.h"
#include "planted.h"

#define PERIOD_NS (2 * NSEC_PER_MSEC)

struct port {
	struct hrtimer timer;
	struct tally *tally;
	u64 counted;
};

static atomic64_t lost_hrtimer_frames;
static struct tally tally = {.frames = &lost_hrtimer_frames, .lock = __RAW_SPIN_LOCK_UNLOCKED(tally.lock)};
static struct port ports[2];
static ktime_t first; /* both ring at the same moments */

static enum hrtimer_restart lost_hrtimer_tick(struct hrtimer *timer)
{
	struct port *port = container_of(timer, struct port, timer);
	int i;

	for (i = 0; i < UPDATES; i++)
		if (fixed == 2)
			tally_locked(port->tally);
		else if (fixed)
			tally_atomic(port->tally);
		else
			tally_racy(port->tally);
	port->counted += UPDATES;
	hrtimer_forward_now(timer, PERIOD_NS);
	return planted_over() ? HRTIMER_NORESTART : HRTIMER_RESTART;
}

static void arm(void *port) { hrtimer_start(&((struct port *)port)->timer, first, HRTIMER_MODE_ABS_PINNED); }

static void owner_round(void)
{
	int cpu;

	if (rounds)
		return;
	first = ktime_add_ns(ktime_get(), 10 * NSEC_PER_MSEC);
	for (cpu = 0; cpu < 2; cpu++)
		smp_call_function_single(cpu, arm, &ports[cpu], true);
}

static void begin(void)
{
	int cpu;

	for (cpu = 0; cpu < 2; cpu++) {
		ports[cpu].tally = &tally;
		hrtimer_init(&ports[cpu].timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED);
		ports[cpu].timer.function = lost_hrtimer_tick;
	}
}

static void end(void)
{
	hrtimer_cancel(&ports[0].timer);
	hrtimer_cancel(&ports[1].timer);
	faults = tally_lost(&tally, ports[0].counted + ports[1].counted);
}

PLANTED(begin, end);
