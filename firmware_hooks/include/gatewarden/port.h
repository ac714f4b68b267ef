/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a board must offer: one struct of callbacks and its context. port/template explains each with a blank to fill in;
 * port/host is a whole one, for Linux.
 *
 * Who runs where: `gw_supervise` in the main loop or in one task; `gw_timer_expired` in the interrupt of the one hardware
 * timer. They share state under `lock`.
 */
#ifndef GATEWARDEN_PORT_H
#define GATEWARDEN_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cumulative counters of the board, wrapping; they are told in STATUS. */
struct gw_board {
	uint16_t spi_timeouts, i2c_timeouts, overruns;
};

struct gw_port {
	void *ctx;

	/* Milliseconds since the MCU started, wrapping. Any context. */
	uint32_t (*now_ms)(void *ctx);

	/* 32 bits that an outsider cannot foretell: a hardware generator, ADC noise, the chip's id mixed with a counter. */
	uint32_t (*entropy)(void *ctx);

	/* Keeps the timer's interrupt out, and lets it in again. Gives, and takes back, the former mask: they may nest. */
	uint32_t (*lock)(void *ctx);
	void (*unlock)(void *ctx, uint32_t key);

	/*
	 * Copies out what came in since the last call, at most `room` bytes, and returns their number. Reception is by circular
	 * DMA; the idle-line interrupt (and half and full transfer) wakes the main loop and does nothing else.
	 */
	size_t (*rx_take)(void *ctx, uint8_t *to, size_t room);

	/* Sends one frame (at most GW_WIRE_MAX bytes, copied). Returns 0, or GW_EBUSY: the answer is dropped, the peer asks again. */
	int (*tx)(void *ctx, const uint8_t *bytes, size_t n);

	/*
	 * Sets the one hardware timer, replacing what it was set to; a pending interrupt of it is cleared. It calls
	 * gw_timer_expired once after `ms`. A timer that cannot count so far may fire early: it is set again then.
	 */
	void (*timer_set)(void *ctx, uint32_t ms);

	/* Switches the gateway's supply. Returns 0, or GW_EPOWER if the sense line disagrees. Interrupt context. */
	int (*power)(void *ctx, bool on);

	/* RX DMA runs, the timer counts, the power FET is as it was switched. Returns 0, or the negative number of what fails. */
	int (*self_check)(void *ctx);

	/* Feeds the MCU's own independent watchdog. Called by gw_supervise alone, after the self-checks. */
	void (*own_watchdog)(void *ctx);

	/* Reads the board's counters. */
	void (*board)(void *ctx, struct gw_board *out);
};

#endif
