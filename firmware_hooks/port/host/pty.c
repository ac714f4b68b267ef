/* SPDX-License-Identifier: Apache-2.0 */
/* The pseudo-terminal that stands for the UART, and the link that stands for udev's stable name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "host.h"

static int link_to(const char *link, const char *name)
{
	char fresh[4096];

	if (snprintf(fresh, sizeof(fresh), "%s.new", link) >= (int)sizeof(fresh))
		return -ENAMETOOLONG;
	unlink(fresh);
	return symlink(name, fresh) || rename(fresh, link) ? -errno : 0;
}

/* The slave is held open here too: without it a terminal that nobody has open yet reads as an error, over and over. */
static int open_both(struct board *board, char *name, size_t size)
{
	struct termios raw;
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC), slave;

	if (master < 0)
		return -errno;
	if (grantpt(master) || unlockpt(master) || ptsname_r(master, name, size))
		goto failed;
	slave = open(name, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (slave < 0)
		goto failed;
	if (!tcgetattr(slave, &raw)) {
		cfmakeraw(&raw);
		tcsetattr(slave, TCSANOW, &raw);
	}
	board->master = master;
	board->slave = slave;
	return 0;
failed:
	close(master);
	return -EIO;
}

/* Another name than the last one: the kernel would give the same number again. */
int pty_open(struct board *board)
{
	char name[sizeof(board->name)];
	int result = open_both(board, name, sizeof(name)), master = board->master, slave = board->slave;
	bool same = !result && !strcmp(name, board->name);

	if (same) {
		result = open_both(board, name, sizeof(name));
		close(slave);
		close(master);
	}
	if (result)
		return result;
	strcpy(board->name, name);
	if (board->options.link)
		result = link_to(board->options.link, name);
	if (!result)
		say(board, "\"event\":\"port\",\"name\":\"%s\"", name);
	return result;
}

void pty_close(struct board *board)
{
	if (board->master < 0)
		return;
	if (board->options.link)
		unlink(board->options.link);
	close(board->slave);
	close(board->master);
	board->master = board->slave = -1;
	say(board, "\"event\":\"port\",\"name\":null");
}

int pty_read(struct board *board)
{
	uint8_t bytes[512];
	ssize_t n = read(board->master, bytes, sizeof(bytes));

	/* A gateway without power says nothing: what its software sends then is a test's convenience, not its supply's. */
	if (n > 0 && board->on)
		line_put(&board->rx, board, bytes, (size_t)n);
	return n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
}

int pty_write(struct board *board)
{
	uint8_t bytes[64];
	size_t n = line_take(&board->tx, now_ms(board), bytes, sizeof(bytes));

	/* What nobody reads is lost, as on a UART. */
	while (n) {
		if (board->master >= 0 && write(board->master, bytes, n) < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		n = line_take(&board->tx, now_ms(board), bytes, sizeof(bytes));
	}
	return 0;
}
