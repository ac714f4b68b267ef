// SPDX-License-Identifier: GPL-2.0
/*
 * F5: an object is freed while the callback of the timer inside it runs on another CPU.
 *
 * After "watchdog: Fix possible use-after-free by calling del_timer_sync()" (db222f1477ad): "it is not pending, so it is over" is
 * wrong, since an expired timer is not pending while its callback runs. The callback touches no member once it has said that it runs,
 * nor does the kernel touch a timer after its callback, so that the freed memory is left alone. Repair: the delete that waits.
 */
#include "planted.h"

struct device_state {
	char name[48];
	struct timer_list timer;
	char buffer[256];
};

static void f5_poll(struct timer_list *unused)
{
	callback_works();
	callback_ends();
}

static void owner_round(void)
{
	struct device_state *state = kzalloc(sizeof(*state), GFP_KERNEL);

	if (!state)
		return;
	owner_expects();
	timer_setup(&state->timer, f5_poll, TIMER_PINNED);
	state->timer.expires = jiffies + 1;
	add_timer_on(&state->timer, TIMER_CPU);
	if (!owner_sees_it_run() || fixed || timer_pending(&state->timer)) {
		owner_acted();
		timer_shutdown_sync(&state->timer);
	} else {
		faults++;
	}
	kfree(state);
	owner_acted();
	while (READ_ONCE(running)) /* the module itself stays until the last callback is over */
		cpu_relax();
}

static void begin(void) {}

static void end(void) { msleep(50); }

PLANTED(begin, end);
