/* SPDX-License-Identifier: Apache-2.0 */
/* Start, and one turn of the supervisor. */
#include "internal.h"

#define CHUNK 64
#define CHUNKS 4       /* in one turn, so that a flood of bytes does not starve the self-checks */
#define OVERDUE_MS 200 /* so late, the timer is dead */

static int complete(const struct gw_port *port)
{
	return port && port->now_ms && port->entropy && port->lock && port->unlock && port->rx_take && port->tx &&
	       port->timer_set && port->power && port->self_check && port->own_watchdog && port->board;
}

static int sensible(const struct gw_config *config)
{
	if (!config || !config->ttl_min_ms || config->ttl_min_ms > config->ttl_max_ms || config->ttl_max_ms > GW_LONGEST_MS)
		return 0;
	if (!config->off_ms || config->off_ms > config->off_max_ms || config->off_max_ms > GW_LONGEST_MS)
		return 0;
	if (!config->phase_total_ms[GW_PHASE_MAINT] || config->proto_min > config->proto_max ||
	    config->healthy_ms > GW_LONGEST_MS)
		return 0;
	for (int phase = 0; phase < GW_PHASES; phase++)
		if (!config->phase_ttl_ms[phase] || config->phase_ttl_ms[phase] > GW_LONGEST_MS ||
		    config->phase_total_ms[phase] > GW_LONGEST_MS)
			return 0;
	return 1;
}

int gw_start(struct gw_watchdog *wd, const struct gw_port *port, const struct gw_config *config, struct gw_retained *kept,
	     uint8_t reset)
{
	static const struct gw_watchdog blank;
	uint32_t key;
	int result;

	if (!wd || !kept || !complete(port) || !sensible(config))
		return GW_EINVAL;
	*wd = blank;
	wd->port = port;
	wd->config = config;
	wd->kept = kept;
	wd->reset = reset;
	wd->ttl_min_ms = config->ttl_min_ms;
	wd->ttl_max_ms = config->ttl_max_ms;
	key = gw_lock(wd);
	gw_kept_open(wd);
	gw_count(&kept->boots);
	if (reset == GW_RESET_POWER_ON || reset == GW_RESET_BROWNOUT) /* so did the gateway */
		kept->power_reason = GW_REASON_MCU_START;
	wd->boot_nonce = port->entropy(port->ctx);
	/* A reset of the MCU alone leaves the gateway running: power is on already, and it gets the time of a boot to say HELLO. */
	result = gw_power_on(wd, GW_REASON_NONE);
	gw_log(wd, GW_REASON_MCU_START, reset);
	gw_unlock(wd, key);
	return result;
}

static void count_error(struct gw_watchdog *wd, int error)
{
	gw_count(error == GW_ECRC ? &wd->count.crc_errors : &wd->count.frame_errors);
}

static int serve(struct gw_watchdog *wd)
{
	uint8_t bytes[CHUNK];
	struct gw_frame frame;
	int served = 0;

	for (int turn = 0; turn < CHUNKS; turn++) {
		size_t n = wd->port->rx_take(wd->port->ctx, bytes, sizeof(bytes));

		for (size_t i = 0; i < n && i < sizeof(bytes); i++) {
			int result = gw_receive(&wd->receiver, bytes[i], &frame);

			if (result < 0)
				count_error(wd, result);
			if (result <= 0)
				continue;
			wd->count.frames++;
			served++;
			gw_answer(wd, &frame);
		}
		if (n < sizeof(bytes))
			break;
	}
	return served;
}

/* The timer's interrupt did not come: act in its place, and let the own watchdog reset an MCU whose timer is dead. */
static int overdue(struct gw_watchdog *wd)
{
	uint32_t key = gw_lock(wd);
	int late = (int32_t)(gw_now(wd) - wd->deadline_ms) > OVERDUE_MS;

	gw_unlock(wd, key);
	if (late)
		gw_timer_expired(wd);
	return late;
}

int gw_supervise(struct gw_watchdog *wd)
{
	int served = serve(wd), late = overdue(wd), failed = wd->port->self_check(wd->port->ctx);
	uint32_t key;

	if (!late && !failed) {
		wd->port->own_watchdog(wd->port->ctx);
		return served;
	}
	key = gw_lock(wd);
	if (!wd->count.self_checks) /* the first since the MCU started: the log is short */
		gw_log(wd, GW_REASON_SELF_CHECK, (uint8_t)(late ? 0 : -failed));
	gw_count(&wd->count.self_checks);
	gw_unlock(wd, key);
	return GW_ECHECK;
}
