/* SPDX-License-Identifier: Apache-2.0 */
/* One frame to bytes and back. COBS (Cheshire and Baker, 1999): each zero becomes the distance to the next, 00 delimits. */
#include "gatewarden/frame.h"

/* At most GW_RAW_MAX < 254 bytes: one byte more, never a block that ends without a zero. */
static size_t cobs_encode(const uint8_t *raw, size_t n, uint8_t *out)
{
	size_t code = 0, fill = 1;

	for (size_t i = 0; i < n; i++) {
		if (raw[i]) {
			out[fill++] = raw[i];
			continue;
		}
		out[code] = (uint8_t)(fill - code);
		code = fill++;
	}
	out[code] = (uint8_t)(fill - code);
	return fill;
}

static int cobs_decode(const uint8_t *in, size_t n, uint8_t *out, size_t room)
{
	size_t fill = 0, at = 0;

	while (at < n) {
		size_t end = at + in[at];

		if (!in[at] || end > n)
			return GW_ECOBS;
		for (at++; at < end; at++) {
			if (!in[at])
				return GW_ECOBS;
			if (fill == room)
				return GW_ESIZE;
			out[fill++] = in[at];
		}
		if (at == n)
			break;
		if (fill == room)
			return GW_ESIZE;
		out[fill++] = 0;
	}
	return (int)fill;
}

int gw_encode(const struct gw_frame *frame, uint8_t *out, size_t room)
{
	uint8_t raw[GW_RAW_MAX];
	size_t n = GW_HEADER_SIZE + (size_t)frame->len;

	if (frame->len > GW_PAYLOAD_MAX)
		return GW_ELEN;
	if (room < n + GW_CRC_SIZE + 2)
		return GW_ESIZE;
	raw[0] = frame->ver;
	raw[1] = frame->type;
	gw_put16(raw + 2, frame->seq);
	raw[4] = frame->flags;
	raw[5] = frame->len;
	for (size_t i = 0; i < frame->len; i++)
		raw[GW_HEADER_SIZE + i] = frame->payload[i];
	gw_put16(raw + n, gw_crc16(raw, n));
	n = cobs_encode(raw, n + GW_CRC_SIZE, out);
	out[n] = 0;
	return (int)n + 1;
}

int gw_decode(const uint8_t *bytes, size_t n, struct gw_frame *out)
{
	uint8_t raw[GW_RAW_MAX];
	int got = cobs_decode(bytes, n, raw, sizeof(raw));

	if (got < 0)
		return got;
	if (got < GW_HEADER_SIZE + GW_CRC_SIZE || raw[5] > GW_PAYLOAD_MAX || got != GW_HEADER_SIZE + raw[5] + GW_CRC_SIZE)
		return GW_ELEN;
	got -= GW_CRC_SIZE;
	if (gw_get16(raw + got) != gw_crc16(raw, (size_t)got))
		return GW_ECRC;
	out->ver = raw[0];
	out->type = raw[1];
	out->seq = gw_get16(raw + 2);
	out->flags = raw[4];
	out->len = raw[5];
	for (size_t i = 0; i < out->len; i++)
		out->payload[i] = raw[GW_HEADER_SIZE + i];
	return 0;
}

int gw_receive(struct gw_receiver *receiver, uint8_t byte, struct gw_frame *out)
{
	int result = 0;

	if (byte) {
		if (receiver->fill == sizeof(receiver->bytes))
			receiver->skip = 1;
		else
			receiver->bytes[receiver->fill++] = byte;
		return 0;
	}
	if (receiver->skip)
		result = GW_ESIZE;
	else if (receiver->fill)
		result = gw_decode(receiver->bytes, receiver->fill, out);
	else
		return 0;
	receiver->fill = 0;
	receiver->skip = 0;
	return result ? result : 1;
}
