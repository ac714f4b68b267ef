/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the watchdog share. All of it is called with the lock held, except gw_answer. */
#ifndef GATEWARDEN_INTERNAL_H
#define GATEWARDEN_INTERNAL_H

#include "gatewarden/watchdog.h"

static inline uint32_t gw_now(const struct gw_watchdog *wd) { return wd->port->now_ms(wd->port->ctx); }

static inline uint32_t gw_lock(const struct gw_watchdog *wd) { return wd->port->lock(wd->port->ctx); }

static inline void gw_unlock(const struct gw_watchdog *wd, uint32_t key) { wd->port->unlock(wd->port->ctx, key); }

static inline uint32_t gw_clamp(uint32_t value, uint32_t least, uint32_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* Counters that stop at their end: a wrapped error counter would look healthy. */
static inline void gw_count(uint16_t *counter)
{
	if (*counter != UINT16_MAX)
		(*counter)++;
}

/* kept.c */
void gw_kept_open(struct gw_watchdog *wd);
void gw_kept_seal(struct gw_watchdog *wd);
void gw_log(struct gw_watchdog *wd, uint8_t reason, uint8_t detail); /* seals too */

/* lease.c */
void gw_lease_set(struct gw_watchdog *wd, uint32_t now, uint32_t ms);
void gw_lease_boot(struct gw_watchdog *wd, uint32_t now);
uint32_t gw_token_fresh(struct gw_watchdog *wd);
uint8_t gw_lease_take(struct gw_watchdog *wd, uint16_t seq, uint32_t token, uint8_t phase, uint32_t ttl_ms);
uint8_t gw_seq_take(struct gw_watchdog *wd, uint16_t seq); /* OK, REPEATED or STALE */

/* power.c */
int gw_power_on(struct gw_watchdog *wd, uint8_t reason);
void gw_power_off(struct gw_watchdog *wd);
uint8_t gw_cycle_ask(struct gw_watchdog *wd, const uint8_t *payload);
uint8_t gw_cycle_confirm(struct gw_watchdog *wd, uint32_t nonce, uint32_t code);

/* answer.c */
void gw_answer(struct gw_watchdog *wd, const struct gw_frame *frame);

/* reports.c: each fills a payload and gives its length */
uint8_t gw_report_hello(struct gw_watchdog *wd, uint32_t nonce, uint8_t *to);
uint8_t gw_report_status(struct gw_watchdog *wd, uint8_t *to);
uint8_t gw_report_log(const struct gw_watchdog *wd, uint8_t first, uint8_t *to);

#endif
