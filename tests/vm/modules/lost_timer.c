// SPDX-License-Identifier: GPL-2.0
/*
 * F6: a lost update in timer_list callbacks. Two ports' timers expire on two CPUs in the same jiffy and count frames into one
 * counter by reading it, and writing it back one larger; what the other CPU wrote in between is lost.
 *
 * After "can: bcm: add locking for bcm_op runtime updates" (c2aba69d0c36): counters that a timer and a system call wrote without a
 * lock. Repairs: an atomic increment (fixed=1), or the same two steps under a lock (fixed=2). lost_timer_patch.c puts the first
 * into the running module.
 */
#include "lost_timer.h"
#include "planted.h"

static atomic64_t lost_timer_frames;
static struct tally tally = {.frames = &lost_timer_frames, .lock = __RAW_SPIN_LOCK_UNLOCKED(tally.lock)};
static struct port ports[2];

static void lost_timer_tick(struct timer_list *timer)
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
	port_next(port);
}

static void owner_round(void) {}

static void begin(void)
{
	int cpu;

	for (cpu = 0; cpu < 2; cpu++) {
		ports[cpu].tally = &tally;
		timer_setup(&ports[cpu].timer, lost_timer_tick, TIMER_PINNED);
		ports[cpu].end = jiffies + seconds * HZ;
		ports[cpu].timer.expires = jiffies + 2;
		add_timer_on(&ports[cpu].timer, cpu);
	}
}

static void end(void)
{
	timer_shutdown_sync(&ports[0].timer);
	timer_shutdown_sync(&ports[1].timer);
	faults = tally_lost(&tally, ports[0].counted + ports[1].counted);
}

PLANTED(begin, end);
