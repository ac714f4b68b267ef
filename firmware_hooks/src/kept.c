/* SPDX-License-Identifier: Apache-2.0 */
/* What survives a reset of the MCU: counters, the event log, why the gateway was powered last. */
#include "internal.h"

static uint16_t sum(const struct gw_retained *kept)
{
	return gw_crc16((const uint8_t *)kept, offsetof(struct gw_retained, crc));
}

void gw_kept_seal(struct gw_watchdog *wd) { wd->kept->crc = sum(wd->kept); }

void gw_kept_open(struct gw_watchdog *wd)
{
	struct gw_retained *kept = wd->kept;
	uint8_t *byte = (uint8_t *)kept;

	/* No-init RAM after power-on is noise: 2^-16 of it passes the CRC, so what is used as an index is checked too. */
	if (kept->crc == sum(kept) && kept->head < GW_LOG_SIZE && kept->logged <= GW_LOG_SIZE)
		return;
	for (size_t i = 0; i < sizeof(*kept); i++)
		byte[i] = 0;
}

void gw_log(struct gw_watchdog *wd, uint8_t reason, uint8_t detail)
{
	struct gw_retained *kept = wd->kept;
	struct gw_entry *entry = &kept->log[kept->head];

	entry->t_ms = gw_now(wd);
	entry->ttl_ms = wd->ttl_ms;
	entry->boot = kept->boots;
	entry->seq = wd->seq;
	entry->reason = reason;
	entry->phase = wd->phase;
	entry->detail = detail;
	entry->unused = 0;
	kept->head = (uint8_t)((kept->head + 1) % GW_LOG_SIZE);
	if (kept->logged < GW_LOG_SIZE)
		kept->logged++;
	gw_kept_seal(wd);
}
