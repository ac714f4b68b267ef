/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's supply: cycles on request and on expiry, off-intervals that grow, and never off for ever. */
#include "internal.h"

#define CONFIRM_MS 5000u     /* an unconfirmed request is forgotten */
#define DELAY_MAX_MS 600000u /* nothing may keep the lease waiting longer */

uint32_t gw_next_off_ms(const struct gw_watchdog *wd)
{
	uint32_t off = wd->config->off_ms;

	/* `tries` counts the cycles already made; the next one is tries + 1 */
	for (uint8_t i = wd->config->tries; i <= wd->kept->tries && off < wd->config->off_max_ms; i++)
		off = off > wd->config->off_max_ms / 2 ? wd->config->off_max_ms : off * 2;
	return off;
}

static int switch_to(struct gw_watchdog *wd, bool on)
{
	int result = wd->port->power(wd->port->ctx, on);

	if (result) {
		gw_count(&wd->count.self_checks);
		gw_log(wd, GW_REASON_SELF_CHECK, (uint8_t)-result);
	}
	return result;
}

int gw_power_on(struct gw_watchdog *wd, uint8_t reason)
{
	wd->power = GW_POWER_ON;
	gw_lease_boot(wd, gw_now(wd));
	if (reason != GW_REASON_NONE)
		gw_log(wd, reason, wd->kept->tries);
	return switch_to(wd, true);
}

void gw_power_off(struct gw_watchdog *wd)
{
	bool asked = wd->power == GW_POWER_PENDING;
	uint32_t off = asked ? wd->cycle.off_ms : gw_next_off_ms(wd);

	wd->power = GW_POWER_OFF;
	wd->session = 0;
	gw_count(&wd->kept->cycles);
	if (!asked)
		gw_count(&wd->kept->expiries);
	if (!asked && wd->kept->tries != UINT8_MAX)
		wd->kept->tries++;
	wd->kept->power_reason = asked ? GW_REASON_REQUESTED : GW_REASON_LEASE_EXPIRED;
	gw_log(wd, wd->kept->power_reason, asked ? wd->cycle.reason : wd->kept->tries);
	/* The timer first: if the switch fails, or we do, power comes back all the same. */
	gw_lease_set(wd, gw_now(wd), off);
	switch_to(wd, false);
}

void gw_timer_expired(struct gw_watchdog *wd)
{
	uint32_t key = gw_lock(wd), left = gw_remaining_ms(wd);

	if (left) /* renewed meanwhile, or a timer that cannot count so far */
		wd->port->timer_set(wd->port->ctx, left);
	else if (wd->power == GW_POWER_OFF)
		gw_power_on(wd, GW_REASON_POWERED);
	else
		gw_power_off(wd);
	gw_unlock(wd, key);
}

uint8_t gw_cycle_ask(struct gw_watchdog *wd, const uint8_t *payload)
{
	struct gw_cycle *cycle = &wd->cycle;
	const struct gw_config *config = wd->config;

	if (wd->power != GW_POWER_ON)
		return GW_RESULT_CYCLING;
	if (!wd->session)
		return GW_RESULT_NO_SESSION;
	cycle->nonce = gw_get32(payload + GW_POWER_CYCLE_NONCE);
	cycle->delay_ms = gw_clamp(gw_get32(payload + GW_POWER_CYCLE_DELAY_MS), 0, DELAY_MAX_MS);
	cycle->off_ms = gw_clamp(gw_get32(payload + GW_POWER_CYCLE_OFF_MS), config->off_ms, config->off_max_ms);
	cycle->reason = payload[GW_POWER_CYCLE_REASON];
	cycle->code = wd->port->entropy(wd->port->ctx);
	cycle->asked_ms = gw_now(wd);
	cycle->open = 1;
	return GW_RESULT_OK;
}

uint8_t gw_cycle_confirm(struct gw_watchdog *wd, uint32_t nonce, uint32_t code)
{
	struct gw_cycle *cycle = &wd->cycle;
	uint32_t now = gw_now(wd), left = gw_remaining_ms(wd);
	bool ours = nonce == cycle->nonce && code == cycle->code;

	if (wd->power == GW_POWER_PENDING)
		return ours ? GW_RESULT_OK : GW_RESULT_CYCLING; /* its answer was lost */
	if (!cycle->open || !ours || now - cycle->asked_ms > CONFIRM_MS)
		return GW_RESULT_BAD_NONCE;
	cycle->open = 0;
	wd->power = GW_POWER_PENDING;
	gw_lease_set(wd, now, cycle->delay_ms < left ? cycle->delay_ms : left);
	return GW_RESULT_OK;
}
