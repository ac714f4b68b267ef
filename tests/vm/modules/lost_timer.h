/* SPDX-License-Identifier: GPL-2.0 */
/* What the handler of lost_timer.c works on, for its live patch (lost_timer_patch.c) too. */
#ifndef LOST_TIMER_H
#define LOST_TIMER_H

#include "lost.h"
#include <linux/jiffies.h>
#include <linux/timer.h>

struct port {
	struct timer_list timer;
	struct tally *tally;
	u64 counted; /* by this port alone */
	unsigned long end;
};

/* Ends one callback: ring again at the next jiffy, on the same CPU. */
static inline void port_next(struct port *port)
{
	port->counted += UPDATES;
	if (time_before(jiffies, port->end))
		mod_timer(&port->timer, jiffies + 1);
}

#endif
