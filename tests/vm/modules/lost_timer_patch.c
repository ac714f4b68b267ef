// SPDX-License-Identifier: GPL-2.0
/*
 * The repair of lost_timer.c as a live patch: its handler, replaced while its timers run. The data stays as it is, which is all that
 * a live patch may assume: the handler finds everything through the timer that it is called with.
 *
 * `insmod` applies it; /sys/kernel/livepatch/lost_timer_patch/transition says 0 when it is in force everywhere.
 */
#include "lost_timer.h"
#include <linux/livepatch.h>

static void patched_tick(struct timer_list *timer)
{
	struct port *port = container_of(timer, struct port, timer);
	int i;

	for (i = 0; i < UPDATES; i++)
		tally_atomic(port->tally);
	port_next(port);
}

static struct klp_func functions[] = {{.old_name = "lost_timer_tick", .new_func = patched_tick}, {}};
static struct klp_object objects[] = {{.name = "lost_timer", .funcs = functions}, {}};
static struct klp_patch patch = {.mod = THIS_MODULE, .objs = objects};

static int __init patch_init(void) { return klp_enable_patch(&patch); }

/* Runs only after the patch was disabled through sysfs: the module is busy until then. */
static void __exit patch_exit(void) {}

module_init(patch_init);
module_exit(patch_exit);
MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");
MODULE_DESCRIPTION("Live patch: lost_timer counts its frames by atomic increments");
