/* What the supervisors are to keep alive: notes on start its pid and CLOCK_MONOTONIC in ns behind the file that it is given, and waits. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec now;
	char line[64];
	int fd, length;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (argc != 2 || (fd = open(argv[1], O_WRONLY | O_APPEND)) < 0)
		return 2;
	length = snprintf(line, sizeof(line), "%d %lld%09ld\n", getpid(), (long long)now.tv_sec, now.tv_nsec);
	if (write(fd, line, length) != length)
		return 2;
	for (;;)
		pause();
}
