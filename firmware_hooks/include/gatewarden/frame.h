/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and bytes: encoding, decoding, and a receiver for a stream that may be cut anywhere. Nothing here keeps state elsewhere. */
#ifndef GATEWARDEN_FRAME_H
#define GATEWARDEN_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "gatewarden/wire.h"

enum gw_error {
	GW_EINVAL = -1,
	GW_ESIZE = -2,
	GW_ECOBS = -3,
	GW_ELEN = -4,
	GW_ECRC = -5,
	GW_ECHECK = -6,
	GW_EPOWER = -7,
	GW_EBUSY = -8
};

struct gw_frame {
	uint8_t ver, type, flags, len;
	uint16_t seq;
	uint8_t payload[GW_PAYLOAD_MAX];
};

/* Puts `frame` with its delimiter into `out`. Returns the number of bytes, GW_ELEN or GW_ESIZE. */
int gw_encode(const struct gw_frame *frame, uint8_t *out, size_t room);

/* Reads the `n` bytes of one frame, its delimiter left out. Returns 0, GW_ESIZE, GW_ECOBS, GW_ELEN or GW_ECRC. */
int gw_decode(const uint8_t *bytes, size_t n, struct gw_frame *out);

/* Collects one frame; what is too long is dropped up to the next delimiter. All zero is a good start. */
struct gw_receiver {
	uint8_t bytes[GW_WIRE_MAX - 1];
	uint8_t fill;
	uint8_t skip;
};

/*
 * Takes one byte. Returns 1 when `out` holds a frame, 0 when more is needed, or what gw_decode returns. Empty frames (two
 * delimiters in a row) are no error: a sender may begin with a delimiter to end what noise began.
 */
int gw_receive(struct gw_receiver *receiver, uint8_t byte, struct gw_frame *out);

uint16_t gw_crc16(const uint8_t *bytes, size_t n);

void gw_put16(uint8_t *to, uint16_t value);
void gw_put32(uint8_t *to, uint32_t value);
uint16_t gw_get16(const uint8_t *from);
uint32_t gw_get32(const uint8_t *from);

#endif
