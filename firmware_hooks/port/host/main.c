/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator's main loop: what a board has interrupts for is waited for by poll(2). */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
	(void)number;
	ended = 1;
}

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

static int wait_ms(const struct board *board)
{
	uint64_t now = now_ms(board), due = earlier(board->vanish_ms, board->return_ms);

	due = earlier(due, earlier(board->own_ms, line_due(&board->tx)));
	if (!board->frozen) {
		due = earlier(due, earlier(board->timer_ms, line_due(&board->rx)));
		due = earlier(due, earlier(board->freeze_ms, now + 500)); /* the supervisor's turn before the own watchdog's */
	}
	if (board->options.end_ms)
		due = earlier(due, board->options.end_ms);
	return due <= now ? 0 : due - now > 60000 ? 60000 : (int)(due - now);
}

/* The cable: pulled once, and put in again, at another port. */
static int cable(struct board *board)
{
	uint64_t now = now_ms(board);

	if (now >= board->vanish_ms) {
		board->vanish_ms = NEVER;
		board->return_ms = now + board->options.vanish_for_ms;
		pty_close(board);
	}
	if (now >= board->return_ms) {
		board->return_ms = NEVER;
		return pty_open(board);
	}
	return 0;
}

/* The processor: its timer's interrupt, its main loop, and its own watchdog when it hangs. */
static int processor(struct board *board)
{
	uint64_t now = now_ms(board);

	if (!board->frozen && now >= board->freeze_ms) {
		board->freeze_ms = NEVER;
		board->frozen = true;
		say(board, "\"event\":\"frozen\"");
	}
	if (board->frozen && now >= board->own_ms)
		return board_start(board, GW_RESET_WATCHDOG);
	if (board->frozen)
		return 0;
	if (now >= board->timer_ms) {
		board->timer_ms = NEVER;
		gw_timer_expired(&board->wd);
	}
	if (gw_supervise(&board->wd) < 0 && now >= board->own_ms)
		return board_start(board, GW_RESET_WATCHDOG);
	return 0;
}

static int run(struct board *board)
{
	int result = 0;

	while (!ended && !result && !(board->options.end_ms && now_ms(board) >= board->options.end_ms)) {
		struct pollfd fds[2] = {{.fd = board->master, .events = POLLIN}, {.fd = STDIN_FILENO, .events = 0}};

		poll(fds, 2, wait_ms(board));
		if (fds[1].revents & (POLLHUP | POLLERR)) /* whoever started us is gone */
			break;
		if (fds[0].revents & POLLIN)
			result = pty_read(board);
		if (!result)
			result = processor(board);
		if (!result)
			result = pty_write(board);
		if (!result)
			result = cable(board);
		if (result == GW_EPOWER)
			result = 0; /* told; the board goes on */
	}
	return result;
}

int main(int argc, char **argv)
{
	static struct board board;
	struct sigaction action = {.sa_handler = on_signal};
	int result = options_read(&board.options, argc, argv);

	if (result)
		return result == 1 ? 0 : result;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	board_init(&board);
	result = pty_open(&board);
	if (!result)
		result = board_start(&board, GW_RESET_POWER_ON);
	if (!result || result == GW_EPOWER)
		result = run(&board);
	pty_close(&board);
	if (result == GW_EINVAL)
		fprintf(stderr, "gatewarden-mcu: these times contradict each other: ttl-min <= ttl-max, 0 < off <= off-max, no "
				"phase of 0\n");
	else if (result)
		fprintf(stderr, "gatewarden-mcu: %s\n", strerror(-result));
	return result ? 1 : 0;
}
