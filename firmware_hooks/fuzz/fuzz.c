/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: arbitrary bytes into the whole watchdog (receiver, decoder, all answers, timer), over a port that keeps time by the
 * bytes served. A first byte that is odd wraps the rest into frames with a right CRC, and now and then the right token: no fuzzer
 * would guess those. What must hold: each answer is one frame that decodes, power is never off without a timer set, the log and
 * the deadline stay in their bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "gatewarden/watchdog.h"

struct bench {
	const uint8_t *in;
	size_t left;
	uint32_t now, timer, random;
	bool on;
};

static struct gw_watchdog wd;

static uint32_t now_ms(void *ctx) { return ((struct bench *)ctx)->now; }
static uint32_t entropy(void *ctx) { return ((struct bench *)ctx)->random += 0x9e3779b9u; }
static uint32_t lock(void *ctx) { return ((struct bench *)ctx)->now; }
static void unlock(void *ctx, uint32_t key) { (void)ctx, (void)key; }

static size_t rx_take(void *ctx, uint8_t *to, size_t room)
{
	struct bench *bench = ctx;
	size_t n = bench->left < room ? bench->left : room;

	memcpy(to, bench->in, n);
	bench->in += n;
	bench->left -= n;
	bench->now += (uint32_t)n * 50;
	return n;
}

static int tx(void *ctx, const uint8_t *bytes, size_t n)
{
	struct gw_frame frame;

	(void)ctx;
	if (n > GW_WIRE_MAX || bytes[n - 1] || gw_decode(bytes, n - 1, &frame))
		abort();
	return 0;
}

static void timer_set(void *ctx, uint32_t ms)
{
	struct bench *bench = ctx;

	if (!ms && !bench->on)
		abort();
	bench->timer = bench->now + ms;
}

static int power(void *ctx, bool on)
{
	((struct bench *)ctx)->on = on;
	return 0;
}

static int self_check(void *ctx) { return ((struct bench *)ctx)->random % 97 ? 0 : GW_ECHECK; }
static void own_watchdog(void *ctx) { (void)ctx; }
static void board(void *ctx, struct gw_board *out) { out->spi_timeouts = (uint16_t)((struct bench *)ctx)->random; }

/* Makes frames of the input: type, seq, version and length by a byte each, then the payload. Gives the number of bytes. */
static size_t wrapped(const uint8_t *data, size_t size, uint8_t *out, size_t room)
{
	size_t fill = 0;

	while (size > 4 && room - fill > GW_WIRE_MAX) {
		struct gw_frame frame = {.type = data[0] % 8, .seq = data[1], .ver = data[2] % 16 ? 1 : data[2]};
		int n;

		frame.len = data[3] % (GW_PAYLOAD_MAX + 1) < size - 4 ? data[3] % (GW_PAYLOAD_MAX + 1) : (uint8_t)(size - 4);
		memcpy(frame.payload, data + 4, frame.len);
		data += 4 + frame.len;
		size -= 4 + frame.len;
		n = gw_encode(&frame, out + fill, room - fill);
		if (n < 0)
			abort();
		fill += (size_t)n;
	}
	return fill;
}

/* One frame, with the token and the code that only the peer knows put in where the input asks for it by zeros. */
static size_t informed(const uint8_t *frames, size_t size, uint8_t *out, size_t room)
{
	const uint8_t *end = memchr(frames, 0, size);
	size_t n = end ? (size_t)(end - frames) + 1 : size;
	struct gw_frame frame;
	int made = 0;

	if (n > 1 && !gw_decode(frames, n - 1, &frame)) {
		uint32_t secret = frame.type == GW_TYPE_CONFIRM ? wd.cycle.code : wd.token;

		if (frame.len >= 8 && !gw_get32(frame.payload + 4))
			gw_put32(frame.payload + 4, secret);
		made = gw_encode(&frame, out, room);
	}
	return made > 0 ? (size_t)made : 0;
}

static void turn(struct bench *bench, const struct gw_retained *kept)
{
	do {
		gw_supervise(&wd);
		if ((int32_t)(bench->timer - bench->now) <= 0)
			gw_timer_expired(&wd);
		if (kept->head >= GW_LOG_SIZE || kept->logged > GW_LOG_SIZE || gw_remaining_ms(&wd) > GW_LONGEST_MS)
			abort();
	} while (bench->left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gw_retained kept;
	static uint8_t frames[8192];
	struct bench bench = {0};
	const struct gw_port port = {&bench, now_ms,	entropy, lock,	     unlock,	   rx_take,
				     tx,     timer_set, power,	 self_check, own_watchdog, board};
	uint8_t one[GW_WIRE_MAX];
	size_t n, at = 0;

	memcpy(&kept, data, size < sizeof(kept) ? size : sizeof(kept));
	if (gw_start(&wd, &port, &gw_config_default, &kept, GW_RESET_POWER_ON))
		abort();
	if (!size || !(data[0] & 1)) {
		bench.in = data;
		bench.left = size;
		turn(&bench, &kept);
		return 0;
	}
	n = wrapped(data + 1, size - 1, frames, sizeof(frames));
	while (at < n) {
		bench.in = one;
		bench.left = informed(frames + at, n - at, one, sizeof(one));
		bench.now += frames[at] * 1000u;
		at += strlen((const char *)frames + at) + 1;
		turn(&bench, &kept);
	}
	return 0;
}
