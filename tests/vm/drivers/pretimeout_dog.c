// SPDX-License-Identifier: GPL-2.0
/* A watchdog with a pretimeout, as hardware has it: none of QEMU's goes through the watchdog core's governors. */
#include <linux/module.h>
#include <linux/reboot.h>
#include <linux/timer.h>
#include <linux/watchdog.h>

static struct watchdog_device dog;

static void near_the_end(struct timer_list *timer) { watchdog_notify_pretimeout(&dog); }

static void at_the_end(struct timer_list *timer) { emergency_restart(); }

static DEFINE_TIMER(near, near_the_end);
static DEFINE_TIMER(end, at_the_end);

static int dog_ping(struct watchdog_device *wdd)
{
	mod_timer(&end, jiffies + wdd->timeout * HZ);
	if (wdd->pretimeout)
		mod_timer(&near, jiffies + (wdd->timeout - wdd->pretimeout) * HZ);
	return 0;
}

static int dog_stop(struct watchdog_device *wdd)
{
	del_timer_sync(&near);
	del_timer_sync(&end);
	return 0;
}

static int dog_set_timeout(struct watchdog_device *wdd, unsigned int seconds)
{
	wdd->timeout = seconds;
	return 0;
}

static int dog_set_pretimeout(struct watchdog_device *wdd, unsigned int seconds)
{
	wdd->pretimeout = seconds;
	return dog_ping(wdd);
}

static const struct watchdog_info info = {
	.options = WDIOF_SETTIMEOUT | WDIOF_PRETIMEOUT | WDIOF_KEEPALIVEPING | WDIOF_MAGICCLOSE,
	.identity = "Pretimeout dog",
};

static const struct watchdog_ops ops = {
	.owner = THIS_MODULE,
	.start = dog_ping,
	.stop = dog_stop,
	.ping = dog_ping,
	.set_timeout = dog_set_timeout,
	.set_pretimeout = dog_set_pretimeout,
};

static struct watchdog_device dog = {
	.info = &info,
	.ops = &ops,
	.timeout = 30,
	.min_timeout = 1,
	.max_timeout = 3600,
};

static int __init dog_init(void) { return watchdog_register_device(&dog); }

static void __exit dog_exit(void) { watchdog_unregister_device(&dog); }

module_init(dog_init);
module_exit(dog_exit);
MODULE_DESCRIPTION("a watchdog with a pretimeout, for tests");
MODULE_LICENSE("GPL");
