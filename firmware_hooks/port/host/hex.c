/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames as text, for tests that compare this codec with another: each line of stdin is `encode VER TYPE SEQ FLAGS PAYLOAD` or
 * `decode BYTES` (hexadecimal, `-` for nothing); the answer is one line. `decode` prints an item for each frame or error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gatewarden/frame.h"

#define LINE 8192

static int nibble(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Gives the number of bytes, or -1. */
static int unhex(const char *text, uint8_t *to, size_t room)
{
	size_t n = 0;

	if (!strcmp(text, "-"))
		return 0;
	for (; text[0]; text += 2, n++) {
		int high = nibble(text[0]), low = nibble(text[1]);

		if (high < 0 || low < 0 || n == room)
			return -1;
		to[n] = (uint8_t)(high << 4 | low);
	}
	return (int)n;
}

static void print_hex(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%02x", bytes[i]);
	if (!n)
		printf("-");
}

static void encode(char *words)
{
	struct gw_frame frame = {0};
	uint8_t wire[GW_WIRE_MAX];
	unsigned int ver, type, seq, flags;
	char hex[LINE];
	int n = sscanf(words, "%u %u %u %u %8191s", &ver, &type, &seq, &flags, hex) == 5 ? 0 : -1;

	n = n ? n : unhex(hex, frame.payload, sizeof(frame.payload));
	if (n < 0) {
		printf("bad line\n");
		return;
	}
	frame.ver = (uint8_t)ver;
	frame.type = (uint8_t)type;
	frame.seq = (uint16_t)seq;
	frame.flags = (uint8_t)flags;
	frame.len = (uint8_t)n;
	n = gw_encode(&frame, wire, sizeof(wire));
	print_hex(wire, n > 0 ? (size_t)n : 0);
	printf("\n");
}

static void decode(char *words)
{
	static uint8_t bytes[LINE];
	struct gw_receiver receiver = {0};
	struct gw_frame frame;
	int n = unhex(words, bytes, sizeof(bytes));

	for (int i = 0; i < n; i++) {
		int result = gw_receive(&receiver, bytes[i], &frame);

		if (result < 0)
			printf("error:%d ", result);
		if (result <= 0)
			continue;
		printf("%u:%u:%u:%u:", frame.ver, frame.type, frame.seq, frame.flags);
		print_hex(frame.payload, frame.len);
		printf(" ");
	}
	printf("\n");
}

int main(void)
{
	static char line[2 * LINE];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "encode ", 7))
			encode(line + 7);
		else if (!strncmp(line, "decode ", 7))
			decode(line + 7);
		else
			printf("bad line\n");
		fflush(stdout);
	}
	return 0;
}
