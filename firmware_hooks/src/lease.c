/* SPDX-License-Identifier: Apache-2.0 */
/* The lease: who may renew it, for how long. */
#include "internal.h"

uint32_t gw_remaining_ms(const struct gw_watchdog *wd)
{
	int32_t left = (int32_t)(wd->deadline_ms - gw_now(wd));

	return left > 0 ? (uint32_t)left : 0;
}

void gw_lease_set(struct gw_watchdog *wd, uint32_t now, uint32_t ms)
{
	wd->ttl_ms = ms;
	wd->deadline_ms = now + ms;
	wd->port->timer_set(wd->port->ctx, ms);
}

void gw_lease_boot(struct gw_watchdog *wd, uint32_t now)
{
	wd->phase = GW_PHASE_BOOT;
	wd->running = 0;
	wd->leased = 0;
	wd->session = 0;
	wd->cycle.open = 0;
	wd->entered = 1u << GW_PHASE_BOOT;
	wd->since_ms[GW_PHASE_BOOT] = now;
	gw_lease_set(wd, now, wd->config->phase_ttl_ms[GW_PHASE_BOOT]);
}

/* Never 0, never the one before: what repeats itself cannot feed. */
uint32_t gw_token_fresh(struct gw_watchdog *wd)
{
	uint32_t token = wd->port->entropy(wd->port->ctx);

	while (!token || token == wd->token)
		token = token * 1664525u + 1013904223u;
	wd->token = token;
	return token;
}

/* Newer modulo 2^16 is accepted; what was left out is counted as lost on the way. */
uint8_t gw_seq_take(struct gw_watchdog *wd, uint16_t seq)
{
	uint16_t step = (uint16_t)(seq - wd->seq);

	if (!step) {
		gw_count(&wd->count.repeats);
		return GW_RESULT_REPEATED;
	}
	if (step & 0x8000)
		return GW_RESULT_STALE;
	wd->seq = seq;
	step = (uint16_t)(step - 1);
	wd->count.gaps = step > UINT16_MAX - wd->count.gaps ? UINT16_MAX : (uint16_t)(wd->count.gaps + step);
	return GW_RESULT_OK;
}

/* All phases but RUN end by themselves: their time counts from their first lease after the last RUN lease. */
static uint32_t allowed_ms(struct gw_watchdog *wd, uint8_t phase, uint32_t now)
{
	uint32_t total = wd->config->phase_total_ms[phase], most = wd->config->phase_ttl_ms[phase], used;

	if (phase == GW_PHASE_RUN)
		return wd->ttl_max_ms;
	if (!(wd->entered & 1u << phase)) {
		wd->entered |= (uint8_t)(1u << phase);
		wd->since_ms[phase] = now;
	}
	used = now - wd->since_ms[phase];
	if (!total)
		return most;
	if (used >= total)
		return 0;
	return total - used < most ? total - used : most;
}

/* The gateway works: forget what was before. */
static void run(struct gw_watchdog *wd, uint32_t now)
{
	wd->entered = 0;
	if (!wd->running) {
		wd->running = 1;
		wd->run_since_ms = now;
	}
	if (wd->kept->tries && now - wd->run_since_ms >= wd->config->healthy_ms) {
		wd->kept->tries = 0;
		gw_kept_seal(wd);
	}
	if (wd->kept->power_reason != GW_REASON_NONE) { /* told by now: the next HELLO is not about this boot */
		wd->kept->power_reason = GW_REASON_NONE;
		gw_kept_seal(wd);
	}
}

static uint8_t judge(struct gw_watchdog *wd, uint16_t seq, uint32_t token, uint8_t phase)
{
	uint8_t order;

	if (!wd->session)
		return GW_RESULT_NO_SESSION;
	if (wd->leased && seq == wd->lease_seq) {
		gw_count(&wd->count.repeats);
		return GW_RESULT_REPEATED;
	}
	order = gw_seq_take(wd, seq);
	if (order != GW_RESULT_OK)
		return GW_RESULT_STALE;
	if (token != wd->token) {
		gw_count(&wd->count.bad_tokens);
		return GW_RESULT_BAD_TOKEN;
	}
	if (phase >= GW_PHASES)
		return GW_RESULT_BAD_PHASE;
	return wd->power == GW_POWER_ON ? GW_RESULT_OK : GW_RESULT_CYCLING;
}

uint8_t gw_lease_take(struct gw_watchdog *wd, uint16_t seq, uint32_t token, uint8_t phase, uint32_t ttl_ms)
{
	uint8_t result = judge(wd, seq, token, phase);
	uint32_t now = gw_now(wd), most;

	if (result != GW_RESULT_OK)
		return result;
	if (!gw_remaining_ms(wd)) /* its interrupt is about to come: the last word is said */
		return GW_RESULT_CYCLING;
	most = allowed_ms(wd, phase, now);
	if (!most)
		return GW_RESULT_EXHAUSTED;
	if (phase == GW_PHASE_RUN)
		run(wd, now);
	else
		wd->running = 0;
	wd->margin_ms = gw_remaining_ms(wd);
	if (phase != wd->phase) {
		wd->phase = phase;
		gw_log(wd, GW_REASON_PHASE, wd->kept->tries);
	}
	gw_lease_set(wd, now, gw_clamp(ttl_ms, wd->ttl_min_ms < most ? wd->ttl_min_ms : most, most));
	gw_token_fresh(wd);
	wd->lease_seq = seq;
	wd->leased = 1;
	return GW_RESULT_OK;
}
