/* SPDX-License-Identifier: Apache-2.0 */
/* The wire, with its faults. */
#include "host.h"

/* xorshift32 */
uint32_t draw(struct board *board)
{
	uint32_t x = board->random ? board->random : 1;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	board->random = x;
	return x;
}

static bool chance(struct board *board, uint32_t of_10000) { return of_10000 && draw(board) % 10000 < of_10000; }

static void put(struct line *line, uint8_t byte, uint64_t due_ms)
{
	size_t last = (line->head + line->fill + LINE_SIZE - 1) % LINE_SIZE, at = (line->head + line->fill) % LINE_SIZE;

	if (line->fill == LINE_SIZE) {
		line->overruns++;
		return;
	}
	if (line->fill && line->due_ms[last] > due_ms)
		due_ms = line->due_ms[last]; /* a wire keeps the order */
	line->bytes[at] = byte;
	line->due_ms[at] = due_ms;
	line->fill++;
}

static void put_all(struct line *line, struct board *board, const uint8_t *bytes, size_t n)
{
	const struct fault *fault = &board->options.fault;
	uint64_t due = now_ms(board);

	for (size_t i = 0; i < n; i++) {
		uint8_t byte = bytes[i];

		if (chance(board, fault->late))
			due += fault->late_ms;
		if (chance(board, fault->lose))
			continue;
		if (chance(board, fault->corrupt))
			byte = (uint8_t)(byte ^ 1u << draw(board) % 8);
		put(line, byte, due);
		if (chance(board, fault->twice))
			put(line, byte, due);
	}
}

void line_put(struct line *line, struct board *board, const uint8_t *bytes, size_t n)
{
	put_all(line, board, bytes, n);
	if (chance(board, board->options.fault.replay))
		put_all(line, board, bytes, n);
}

size_t line_take(struct line *line, uint64_t now, uint8_t *to, size_t room)
{
	size_t n = 0;

	while (n < room && line->fill && line->due_ms[line->head] <= now) {
		to[n++] = line->bytes[line->head];
		line->head = (line->head + 1) % LINE_SIZE;
		line->fill--;
	}
	return n;
}

uint64_t line_due(const struct line *line) { return line->fill ? line->due_ms[line->head] : NEVER; }
