/* SPDX-License-Identifier: Apache-2.0 */
/* The port: each callback as Linux can give it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "host.h"

static uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t now_ms(const struct board *board) { return clock_ms() - board->start_ms; }

void say(const struct board *board, const char *format, ...)
{
	va_list arguments;

	printf("{\"t_ms\":%llu,", (unsigned long long)now_ms(board));
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("}\n");
	fflush(stdout);
}

static uint32_t port_now(void *ctx) { return (uint32_t)now_ms(ctx); }

static uint32_t port_entropy(void *ctx)
{
	uint32_t value = draw(ctx);

	return getrandom(&value, sizeof(value), 0) == sizeof(value) ? value : draw(ctx);
}

/* One thread and no signal handlers: nothing can come between. */
static uint32_t port_lock(void *ctx)
{
	(void)ctx;
	return 0;
}

static void port_unlock(void *ctx, uint32_t key)
{
	(void)ctx;
	(void)key;
}

static size_t port_rx_take(void *ctx, uint8_t *to, size_t room)
{
	struct board *board = ctx;

	return line_take(&board->rx, now_ms(board), to, room);
}

static int port_tx(void *ctx, const uint8_t *bytes, size_t n)
{
	struct board *board = ctx;

	line_put(&board->tx, board, bytes, n);
	return 0;
}

static void port_timer_set(void *ctx, uint32_t ms)
{
	struct board *board = ctx;

	board->timer_ms = now_ms(board) + ms;
}

static int port_power(void *ctx, bool on)
{
	static const char *const reasons[] = {"none", "mcu_start", "lease_expired", "requested"};
	struct board *board = ctx;
	uint8_t reason = board->kept.power_reason;

	if (board->options.stuck_fet && board->on != on) {
		say(board, "\"event\":\"power\",\"on\":%s,\"wanted\":%s", board->on ? "true" : "false", on ? "true" : "false");
		return GW_EPOWER;
	}
	board->on = on;
	if (on)
		say(board, "\"event\":\"power\",\"on\":true,\"tries\":%u", board->kept.tries);
	else
		say(board, "\"event\":\"power\",\"on\":false,\"reason\":\"%s\",\"off_ms\":%lu,\"tries\":%u",
		    reason < 4 ? reasons[reason] : "unknown", (unsigned long)board->wd.ttl_ms, board->kept.tries);
	return 0;
}

/* The terminal and the clock are the kernel's; the FET is what may disobey here. */
static int port_self_check(void *ctx)
{
	const struct board *board = ctx;

	return board->on == (board->wd.power != GW_POWER_OFF) ? 0 : GW_EPOWER;
}

static void port_own_watchdog(void *ctx)
{
	struct board *board = ctx;

	board->own_ms = board->options.own_watchdog_ms ? now_ms(board) + board->options.own_watchdog_ms : NEVER;
}

static void port_board(void *ctx, struct gw_board *out)
{
	const struct board *board = ctx;

	out->spi_timeouts = (uint16_t)board->options.spi_timeouts;
	out->i2c_timeouts = (uint16_t)board->options.i2c_timeouts;
	out->overruns = board->rx.overruns;
}

void board_init(struct board *board)
{
	board->start_ms = clock_ms();
	board->random = board->options.seed;
	board->master = board->slave = -1;
	board->timer_ms = board->return_ms = NEVER;
	board->freeze_ms = board->options.freeze_ms ? board->options.freeze_ms : NEVER;
	board->vanish_ms = board->options.vanish_ms ? board->options.vanish_ms : NEVER;
	board->on = board->options.stuck_fet;
	board->port = (struct gw_port){
		.ctx = board,
		.now_ms = port_now,
		.entropy = port_entropy,
		.lock = port_lock,
		.unlock = port_unlock,
		.rx_take = port_rx_take,
		.tx = port_tx,
		.timer_set = port_timer_set,
		.power = port_power,
		.self_check = port_self_check,
		.own_watchdog = port_own_watchdog,
		.board = port_board,
	};
}

int board_start(struct board *board, uint8_t reset)
{
	board->frozen = false;
	board->rx.fill = board->tx.fill = 0;
	port_own_watchdog(board);
	say(board, "\"event\":\"mcu_start\",\"reset\":%u", reset);
	return gw_start(&board->wd, &board->port, &board->options.config, &board->kept, reset);
}
