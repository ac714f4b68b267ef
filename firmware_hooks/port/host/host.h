/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator: a microcontroller whose UART is a pseudo-terminal, and whose power FET is a line of JSON on stdout. */
#ifndef GATEWARDEN_HOST_H
#define GATEWARDEN_HOST_H

#include "gatewarden/watchdog.h"

#define LINE_SIZE 4096
#define NEVER UINT64_MAX

/* What goes wrong on the wire: chances of a byte (of a chunk, for `replay`) in 10,000. */
struct fault {
	uint32_t lose, twice, corrupt, late, late_ms, replay;
};

/* One direction of the wire: bytes with the time from which they can be taken. What does not fit is lost (an overrun). */
struct line {
	uint8_t bytes[LINE_SIZE];
	uint64_t due_ms[LINE_SIZE];
	size_t head, fill;
	uint16_t overruns;
};

struct options {
	struct gw_config config;
	struct fault fault;
	const char *link;
	uint32_t seed, own_watchdog_ms, freeze_ms, vanish_ms, vanish_for_ms, end_ms, spi_timeouts, i2c_timeouts, stuck_fet;
};

struct board {
	struct options options;
	struct gw_port port;
	struct gw_watchdog wd;
	struct gw_retained kept;
	struct line rx, tx;
	uint64_t start_ms, timer_ms, own_ms, vanish_ms, return_ms, freeze_ms;
	uint32_t random;
	int master, slave;
	bool on, frozen;
	char name[64]; /* of the terminal, the last one too */
};

/* options.c: 0, or 2 after saying what is wrong on stderr; 1 after --help */
int options_read(struct options *options, int argc, char **argv);

/* line.c */
void line_put(struct line *line, struct board *board, const uint8_t *bytes, size_t n);
size_t line_take(struct line *line, uint64_t now_ms, uint8_t *to, size_t room);
uint64_t line_due(const struct line *line);
uint32_t draw(struct board *board);

/* pty.c: 0, or a negative errno */
int pty_open(struct board *board);
void pty_close(struct board *board);
int pty_read(struct board *board);
int pty_write(struct board *board);

/* board.c */
void board_init(struct board *board);
int board_start(struct board *board, uint8_t reset);
uint64_t now_ms(const struct board *board);
void say(const struct board *board, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
