/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every planted module shares. Each is one fault of a driver's timer handling and its repair, chosen by the parameter
 * `fixed`; each stops by itself after `seconds`, at the latest when it is removed, and none can hang or corrupt the guest.
 *
 * A module writes a function `static void owner_round(void)`: what the driver's owner does once, in a kernel thread on CPU 0. The
 * faulty callback runs on CPU 1. PLANTED(begin, end) makes the rest; what happened is printed when the module is removed.
 */
#ifndef PLANTED_H
#define PLANTED_H

#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/timer.h>
#include <linux/version.h>
#include <linux/workqueue.h>

#define OWNER_CPU 0
#define TIMER_CPU 1
#define WORK_MS 50	/* of a callback, at most */
#define PATIENCE_MS 250 /* how long the owner waits for a callback that a busy host holds up */

static int fixed;
module_param(fixed, int, 0444);
MODULE_PARM_DESC(fixed, "0: the fault; 1: its repair (lost_*: 1 atomic, 2 under a lock)");

static int seconds = 20;
module_param(seconds, int, 0444);
MODULE_PARM_DESC(seconds, "how long it runs");

static struct task_struct *planted_owner;
static unsigned long planted_end;
static unsigned int rounds; /* what the owner did */
static unsigned int faults; /* how often the fault was there, by the module's own knowledge */

static inline bool planted_over(void) { return time_after(jiffies, READ_ONCE(planted_end)); }

/*
 * What makes the interleaving certain, on a host of whatever load: the callback says that it runs and goes on until the owner has
 * acted on it, and the owner waits until it runs. Both give up in time.
 */
static int running, acted;

static inline void callback_works(void)
{
	ktime_t limit = ktime_add_ms(ktime_get(), WORK_MS);

	WRITE_ONCE(running, 1);
	while (!READ_ONCE(acted) && ktime_before(ktime_get(), limit))
		cpu_relax();
}

static inline void callback_ends(void) { WRITE_ONCE(running, 0); }

static inline void owner_expects(void) { WRITE_ONCE(acted, 0); }

static inline bool owner_sees_it_run(void)
{
	ktime_t limit = ktime_add_ms(ktime_get(), PATIENCE_MS);

	while (!READ_ONCE(running)) {
		if (ktime_after(ktime_get(), limit))
			return false;
		cpu_relax();
	}
	return true;
}

static inline void owner_acted(void) { WRITE_ONCE(acted, 1); }

static void owner_round(void);

static int planted_thread(void *unused)
{
	while (!kthread_should_stop() && !planted_over()) {
		owner_round();
		rounds++;
		msleep(20);
	}
	return 0;
}

static int __init planted_start(void)
{
	planted_end = jiffies + seconds * HZ;
	planted_owner = kthread_create(planted_thread, NULL, KBUILD_MODNAME);
	if (IS_ERR(planted_owner))
		return PTR_ERR(planted_owner);
	get_task_struct(planted_owner); /* it may end by itself, before it is stopped */
	kthread_bind(planted_owner, OWNER_CPU);
	wake_up_process(planted_owner);
	return 0;
}

static void planted_stop(void)
{
	WRITE_ONCE(planted_end, jiffies - 1);
	kthread_stop(planted_owner);
	put_task_struct(planted_owner);
}

static inline void planted_print(void)
{
	pr_info("planted %s: fixed=%d rounds=%u faults=%u\n", KBUILD_MODNAME, fixed, rounds, faults);
}

/* `begin` sets the timers up, `end` stops them for good. */
#define PLANTED(begin, end)                                                                                                    \
	static int __init planted_init(void)                                                                                   \
	{                                                                                                                      \
		begin();                                                                                                       \
		return planted_start();                                                                                        \
	}                                                                                                                      \
	static void __exit planted_exit(void)                                                                                  \
	{                                                                                                                      \
		planted_stop();                                                                                                \
		end();                                                                                                         \
		planted_print();                                                                                               \
	}                                                                                                                      \
	module_init(planted_init);                                                                                             \
	module_exit(planted_exit);                                                                                             \
	MODULE_LICENSE("GPL");                                                                                                 \
	MODULE_DESCRIPTION("A planted timer fault and its repair, for tests in a virtual machine")

#endif
