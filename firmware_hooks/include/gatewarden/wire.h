/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes between the gateway and its microcontroller, protocol 1 (docs/mcu.md). Every number here has its twin in
 * agent/mcu/wire.py; a test compares them by name.
 *
 *     COBS( ver u8 | type u8 | seq u16 | flags u8 | len u8 | payload[0..48] | crc u16 ) 00
 *
 * All numbers are little-endian. The CRC (CRC-16/CCITT-FALSE: polynomial 0x1021, start 0xffff) covers all that stands before
 * it. The envelope is the same in all versions, so a HELLO is always understood. A payload may be longer than known here: the
 * rest is for newer peers. A shorter one is an error.
 */
#ifndef GATEWARDEN_WIRE_H
#define GATEWARDEN_WIRE_H

#define GW_PROTO_MIN 1
#define GW_PROTO_MAX 1
#define GW_PAYLOAD_MAX 48
#define GW_HEADER_SIZE 6
#define GW_CRC_SIZE 2
#define GW_RAW_MAX 56	    /* header, payload, CRC */
#define GW_WIRE_MAX 58	    /* and one byte of COBS, and the delimiter: a frame fits a DMA half-buffer of 64 */
#define GW_FLAG_REPEAT 0x01 /* this very frame was sent before, with this seq */

enum gw_type {
	/* gateway -> MCU; an answer carries the seq of what it answers, and its type has the top bit */
	GW_TYPE_HELLO_ASK = 0x01,
	GW_TYPE_LEASE = 0x02,
	GW_TYPE_STATUS_ASK = 0x03,
	GW_TYPE_EVENTLOG_ASK = 0x04,
	GW_TYPE_POWER_CYCLE = 0x05,
	GW_TYPE_CONFIRM = 0x06,
	GW_TYPE_HELLO = 0x81,
	GW_TYPE_ACK = 0x82,
	GW_TYPE_STATUS = 0x83,
	GW_TYPE_EVENTLOG = 0x84,
	GW_TYPE_CHALLENGE = 0x85,
	GW_TYPE_CYCLE_ACK = 0x86,
	GW_TYPE_UNSUPPORTED = 0xff,
};

enum gw_phase { GW_PHASE_BOOT, GW_PHASE_RUN, GW_PHASE_UPDATE, GW_PHASE_SHUTDOWN, GW_PHASE_MAINT, GW_PHASES };

enum gw_result {
	GW_RESULT_OK = 0,
	GW_RESULT_REPEATED = 1,	  /* had this frame already: answered again, the lease is not extended */
	GW_RESULT_BAD_TOKEN = 2,  /* not the token that was given last */
	GW_RESULT_STALE = 3,	  /* older than what was accepted last */
	GW_RESULT_NO_SESSION = 4, /* HELLO first: the MCU was reset, or the protocols do not meet */
	GW_RESULT_BAD_PHASE = 5,
	GW_RESULT_EXHAUSTED = 6, /* the absolute maximum of this phase is used up: only RUN renews now */
	GW_RESULT_CYCLING = 7,	 /* a power cycle is under way */
	GW_RESULT_BAD_NONCE = 8, /* a confirmation of nothing that is pending */
};

enum gw_reset { /* why the MCU itself started */
		GW_RESET_UNKNOWN = 0,
		GW_RESET_POWER_ON = 1,
		GW_RESET_BROWNOUT = 2,
		GW_RESET_PIN = 3,
		GW_RESET_SOFTWARE = 4,
		GW_RESET_WATCHDOG = 5, /* its own independent watchdog */
};

enum gw_reason { /* what the event log tells, and why the gateway was powered last */
		 GW_REASON_NONE = 0,
		 GW_REASON_MCU_START = 1,
		 GW_REASON_LEASE_EXPIRED = 2,
		 GW_REASON_REQUESTED = 3,
		 GW_REASON_POWERED = 4, /* power is back after an off-interval */
		 GW_REASON_PHASE = 5,	/* another phase than before */
		 GW_REASON_SELF_CHECK = 6,
};

enum gw_capability { GW_CAP_POWER_CYCLE = 0x01, GW_CAP_EVENTLOG = 0x02, GW_CAP_SENSE = 0x04 };

/* Offsets of the payloads; *_SIZE is the least length. */
enum {
	GW_HELLO_ASK_NONCE = 0,
	GW_HELLO_ASK_TTL_MIN_MS = 4, /* what the gateway would like the adaptive ttl of RUN to stay within */
	GW_HELLO_ASK_TTL_MAX_MS = 8,
	GW_HELLO_ASK_PROTO_MIN = 12,
	GW_HELLO_ASK_PROTO_MAX = 13,
	GW_HELLO_ASK_SIZE = 14,
};
enum {
	GW_HELLO_NONCE = 0, /* the asker's */
	GW_HELLO_BOOT_NONCE = 4,
	GW_HELLO_TOKEN = 8,
	GW_HELLO_FIRMWARE = 12,
	GW_HELLO_TTL_MIN_MS = 16, /* what holds */
	GW_HELLO_TTL_MAX_MS = 20,
	GW_HELLO_MAINT_MAX_MS = 24,
	GW_HELLO_CAPABILITIES = 28,
	GW_HELLO_BOOTS = 30,
	GW_HELLO_CYCLES = 32,
	GW_HELLO_EXPIRIES = 34,
	GW_HELLO_PROTO_MIN = 36,
	GW_HELLO_PROTO_MAX = 37,
	GW_HELLO_RESET = 38,
	GW_HELLO_POWER_REASON = 39, /* why the gateway was powered; NONE once it has held a RUN lease */
	GW_HELLO_SIZE = 40,
};
enum {
	GW_LEASE_TTL_MS = 0,
	GW_LEASE_TOKEN = 4,
	GW_LEASE_PHASE = 8,
	GW_LEASE_SIZE = 9,
};
enum {
	GW_ACK_REMAINING_MS = 0,
	GW_ACK_NEXT_TOKEN = 4, /* 0 unless the lease is accepted, or was */
	GW_ACK_MARGIN_MS = 8,  /* what was left when it was renewed */
	GW_ACK_RESULT = 12,
	GW_ACK_PHASE = 13,
	GW_ACK_SIZE = 14,
};
enum {
	GW_STATUS_UPTIME_MS = 0,
	GW_STATUS_REMAINING_MS = 4,
	GW_STATUS_NEXT_OFF_MS = 8, /* how long power would stay off if the lease expired now */
	GW_STATUS_FRAMES = 12,
	GW_STATUS_CRC_ERRORS = 16,
	GW_STATUS_FRAME_ERRORS = 18, /* COBS, length, payload */
	GW_STATUS_GAPS = 20,
	GW_STATUS_REPEATS = 22,
	GW_STATUS_BAD_TOKENS = 24,
	GW_STATUS_SPI_TIMEOUTS = 26,
	GW_STATUS_I2C_TIMEOUTS = 28,
	GW_STATUS_OVERRUNS = 30,
	GW_STATUS_SELF_CHECKS = 32, /* failed ones */
	GW_STATUS_PHASE = 34,
	GW_STATUS_POWER = 35, /* enum gw_power */
	GW_STATUS_TRIES = 36, /* power cycles since the gateway was last healthy */
	GW_STATUS_SIZE = 37,
};
enum { GW_EVENTLOG_ASK_FIRST = 0, GW_EVENTLOG_ASK_SIZE = 1 };
enum {
	GW_EVENTLOG_TOTAL = 0,
	GW_EVENTLOG_FIRST = 1, /* 0 is the newest */
	GW_EVENTLOG_COUNT = 2,
	GW_EVENTLOG_SIZE = 3, /* then COUNT entries */
	GW_EVENTLOG_MOST = 3,
};
enum {
	GW_ENTRY_T_MS = 0, /* since the MCU started */
	GW_ENTRY_TTL_MS = 4,
	GW_ENTRY_BOOT = 8,
	GW_ENTRY_SEQ = 10,
	GW_ENTRY_REASON = 12,
	GW_ENTRY_PHASE = 13,
	GW_ENTRY_DETAIL = 14, /* MCU_START: enum gw_reset; REQUESTED: the asker's reason; SELF_CHECK: which; else tries */
	GW_ENTRY_SIZE = 15,
};
enum {
	GW_POWER_CYCLE_NONCE = 0,
	GW_POWER_CYCLE_DELAY_MS = 4,
	GW_POWER_CYCLE_OFF_MS = 8,
	GW_POWER_CYCLE_REASON = 12,
	GW_POWER_CYCLE_SIZE = 13,
};
enum { GW_CHALLENGE_NONCE = 0, GW_CHALLENGE_CODE = 4, GW_CHALLENGE_RESULT = 8, GW_CHALLENGE_SIZE = 9 };
enum { GW_CONFIRM_NONCE = 0, GW_CONFIRM_CODE = 4, GW_CONFIRM_SIZE = 8 };
enum { GW_CYCLE_ACK_NONCE = 0, GW_CYCLE_ACK_IN_MS = 4, GW_CYCLE_ACK_RESULT = 8, GW_CYCLE_ACK_SIZE = 9 };
enum { GW_UNSUPPORTED_TYPE = 0, GW_UNSUPPORTED_PROTO_MIN = 1, GW_UNSUPPORTED_PROTO_MAX = 2, GW_UNSUPPORTED_SIZE = 3 };

#endif
