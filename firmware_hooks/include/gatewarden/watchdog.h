/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease watchdog. The gateway holds a lease and renews it with the token of the last ACK; when it expires the gateway's
 * power is cycled: a few times after `off_ms`, then after intervals that double up to `off_max_ms`, for ever. No memory is
 * allocated; the caller owns the three structs and keeps them for good.
 */
#ifndef GATEWARDEN_WATCHDOG_H
#define GATEWARDEN_WATCHDOG_H

#include "gatewarden/frame.h"
#include "gatewarden/port.h"

#define GW_LOG_SIZE 32
#define GW_LONGEST_MS 0x3fffffffu /* 12 days: differences of a wrapping clock stay unambiguous */

enum gw_power { GW_POWER_OFF, GW_POWER_ON, GW_POWER_PENDING /* on, and a cycle is confirmed */ };

struct gw_config {
	uint32_t firmware;
	uint32_t ttl_min_ms, ttl_max_ms;    /* bounds of the adaptive ttl in RUN */
	uint32_t phase_ttl_ms[GW_PHASES];   /* the longest single lease; BOOT: what power-on grants */
	uint32_t phase_total_ms[GW_PHASES]; /* absolute maximum since the last RUN lease; 0: none */
	uint32_t off_ms, off_max_ms;	    /* how long power stays off */
	uint32_t healthy_ms;		    /* so long in RUN, and the tries are forgotten */
	uint8_t tries;			    /* power cycles before the off-intervals grow */
	uint8_t proto_min, proto_max;
};

extern const struct gw_config gw_config_default;

struct gw_entry {
	uint32_t t_ms, ttl_ms;
	uint16_t boot, seq;
	uint8_t reason, phase, detail, unused;
};

/* Survives a reset of the MCU (no-init RAM); checked by its CRC, and begun anew when that is wrong. */
struct gw_retained {
	struct gw_entry log[GW_LOG_SIZE];
	uint16_t boots, cycles, expiries;
	uint8_t logged, head, tries, power_reason;
	uint16_t crc;
};

struct gw_counters {
	uint32_t frames;
	uint16_t crc_errors, frame_errors, gaps, repeats, bad_tokens, self_checks;
};

struct gw_cycle { /* a POWER_CYCLE that waits for its CONFIRM, or for its time */
	uint32_t nonce, code, delay_ms, off_ms, asked_ms;
	uint8_t reason, open;
};

struct gw_watchdog {
	const struct gw_port *port;
	const struct gw_config *config;
	struct gw_retained *kept;
	struct gw_receiver receiver;
	struct gw_counters count;
	struct gw_cycle cycle;
	uint32_t deadline_ms, ttl_ms;	 /* of the lease, or of the off-interval */
	uint32_t ttl_min_ms, ttl_max_ms; /* negotiated */
	uint32_t since_ms[GW_PHASES];	 /* first lease of each phase after the last RUN lease */
	uint32_t run_since_ms, margin_ms, token, boot_nonce, hello_nonce;
	uint16_t seq, lease_seq;
	uint8_t phase, power, session, leased, entered, running, reset;
};

/*
 * Starts: the gateway gets power and a BOOT lease. `reset` is an enum gw_reset. Returns 0, GW_EINVAL for a missing callback
 * or a configuration that contradicts itself, or GW_EPOWER.
 */
int gw_start(struct gw_watchdog *wd, const struct gw_port *port, const struct gw_config *config, struct gw_retained *kept,
	     uint8_t reset);

/*
 * One turn of the supervisor: serve what came in, check, feed the own watchdog. Call it whenever the idle-line interrupt woke the
 * main loop, and at least twice in the time of the own watchdog. Returns the number of frames served, or GW_ECHECK: the own
 * watchdog was not fed.
 */
int gw_supervise(struct gw_watchdog *wd);

/* From the interrupt of the one hardware timer. */
void gw_timer_expired(struct gw_watchdog *wd);

/* Milliseconds until the lease expires, or until power comes back. */
uint32_t gw_remaining_ms(const struct gw_watchdog *wd);

/* How long power would stay off if the lease expired now. */
uint32_t gw_next_off_ms(const struct gw_watchdog *wd);

#endif
