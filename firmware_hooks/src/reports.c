/* SPDX-License-Identifier: Apache-2.0 */
/* What the MCU tells of itself. */
#include "internal.h"

uint8_t gw_report_hello(struct gw_watchdog *wd, uint32_t nonce, uint8_t *to)
{
	const struct gw_config *config = wd->config;

	gw_put32(to + GW_HELLO_NONCE, nonce);
	gw_put32(to + GW_HELLO_BOOT_NONCE, wd->boot_nonce);
	gw_put32(to + GW_HELLO_TOKEN, wd->session ? wd->token : 0);
	gw_put32(to + GW_HELLO_FIRMWARE, config->firmware);
	gw_put32(to + GW_HELLO_TTL_MIN_MS, wd->ttl_min_ms);
	gw_put32(to + GW_HELLO_TTL_MAX_MS, wd->ttl_max_ms);
	gw_put32(to + GW_HELLO_MAINT_MAX_MS, config->phase_total_ms[GW_PHASE_MAINT]);
	gw_put16(to + GW_HELLO_CAPABILITIES, GW_CAP_POWER_CYCLE | GW_CAP_EVENTLOG | GW_CAP_SENSE);
	gw_put16(to + GW_HELLO_BOOTS, wd->kept->boots);
	gw_put16(to + GW_HELLO_CYCLES, wd->kept->cycles);
	gw_put16(to + GW_HELLO_EXPIRIES, wd->kept->expiries);
	to[GW_HELLO_PROTO_MIN] = config->proto_min;
	to[GW_HELLO_PROTO_MAX] = config->proto_max;
	to[GW_HELLO_RESET] = wd->reset;
	to[GW_HELLO_POWER_REASON] = wd->kept->power_reason;
	return GW_HELLO_SIZE;
}

uint8_t gw_report_status(struct gw_watchdog *wd, uint8_t *to)
{
	const struct gw_counters *count = &wd->count;
	struct gw_board board = {0, 0, 0};

	wd->port->board(wd->port->ctx, &board);
	gw_put32(to + GW_STATUS_UPTIME_MS, gw_now(wd));
	gw_put32(to + GW_STATUS_REMAINING_MS, gw_remaining_ms(wd));
	gw_put32(to + GW_STATUS_NEXT_OFF_MS, gw_next_off_ms(wd));
	gw_put32(to + GW_STATUS_FRAMES, count->frames);
	gw_put16(to + GW_STATUS_CRC_ERRORS, count->crc_errors);
	gw_put16(to + GW_STATUS_FRAME_ERRORS, count->frame_errors);
	gw_put16(to + GW_STATUS_GAPS, count->gaps);
	gw_put16(to + GW_STATUS_REPEATS, count->repeats);
	gw_put16(to + GW_STATUS_BAD_TOKENS, count->bad_tokens);
	gw_put16(to + GW_STATUS_SPI_TIMEOUTS, board.spi_timeouts);
	gw_put16(to + GW_STATUS_I2C_TIMEOUTS, board.i2c_timeouts);
	gw_put16(to + GW_STATUS_OVERRUNS, board.overruns);
	gw_put16(to + GW_STATUS_SELF_CHECKS, count->self_checks);
	to[GW_STATUS_PHASE] = wd->phase;
	to[GW_STATUS_POWER] = wd->power;
	to[GW_STATUS_TRIES] = wd->kept->tries;
	return GW_STATUS_SIZE;
}

static void put_entry(const struct gw_entry *entry, uint8_t *to)
{
	gw_put32(to + GW_ENTRY_T_MS, entry->t_ms);
	gw_put32(to + GW_ENTRY_TTL_MS, entry->ttl_ms);
	gw_put16(to + GW_ENTRY_BOOT, entry->boot);
	gw_put16(to + GW_ENTRY_SEQ, entry->seq);
	to[GW_ENTRY_REASON] = entry->reason;
	to[GW_ENTRY_PHASE] = entry->phase;
	to[GW_ENTRY_DETAIL] = entry->detail;
}

uint8_t gw_report_log(const struct gw_watchdog *wd, uint8_t first, uint8_t *to)
{
	const struct gw_retained *kept = wd->kept;
	uint8_t count = 0;

	while (count < GW_EVENTLOG_MOST && first + count < kept->logged) {
		size_t at = (size_t)(kept->head + 2 * GW_LOG_SIZE - 1 - first - count) % GW_LOG_SIZE;

		put_entry(&kept->log[at], to + GW_EVENTLOG_SIZE + count * GW_ENTRY_SIZE);
		count++;
	}
	to[GW_EVENTLOG_TOTAL] = kept->logged;
	to[GW_EVENTLOG_FIRST] = first;
	to[GW_EVENTLOG_COUNT] = count;
	return (uint8_t)(GW_EVENTLOG_SIZE + count * GW_ENTRY_SIZE);
}
