/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator's command line: every option is a name and a whole number, by one table. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

#define AT(member) offsetof(struct options, member)

static const struct {
	const char *name;
	size_t at;
	const char *help;
} table[] = {
	{"--boot-ms", AT(config.phase_ttl_ms[GW_PHASE_BOOT]), "lease that power-on grants"},
	{"--ttl-min-ms", AT(config.ttl_min_ms), "lower bound of the ttl in RUN"},
	{"--ttl-max-ms", AT(config.ttl_max_ms), "upper bound of it"},
	{"--shutdown-ms", AT(config.phase_ttl_ms[GW_PHASE_SHUTDOWN]), "longest lease in SHUTDOWN"},
	{"--maint-ms", AT(config.phase_ttl_ms[GW_PHASE_MAINT]), "longest single lease in MAINT"},
	{"--maint-max-ms", AT(config.phase_total_ms[GW_PHASE_MAINT]), "absolute maximum of MAINT"},
	{"--off-ms", AT(config.off_ms), "how long power stays off"},
	{"--off-max-ms", AT(config.off_max_ms), "the longest off-interval"},
	{"--healthy-ms", AT(config.healthy_ms), "so long in RUN, and the tries are forgotten"},
	{"--tries", AT(config.tries), "power cycles before the off-intervals grow"},
	{"--proto", AT(config.proto_min), "speak this protocol version only"},
	{"--own-watchdog-ms", AT(own_watchdog_ms), "time-out of the MCU's own watchdog; 0: it has none"},
	{"--lose", AT(fault.lose), "bytes lost, of 10,000"},
	{"--double", AT(fault.twice), "bytes that come twice, of 10,000"},
	{"--corrupt", AT(fault.corrupt), "bytes with a wrong bit, of 10,000"},
	{"--late", AT(fault.late), "bytes that come late, and all behind them, of 10,000"},
	{"--late-ms", AT(fault.late_ms), "how late"},
	{"--replay", AT(fault.replay), "chunks that come twice, of 10,000"},
	{"--freeze-after-ms", AT(freeze_ms), "then the MCU hangs, once; 0: never"},
	{"--vanish-after-ms", AT(vanish_ms), "then the port is gone, once; 0: never"},
	{"--vanish-for-ms", AT(vanish_for_ms), "so long; it returns under another name"},
	{"--stuck-fet", AT(stuck_fet), "1: the power FET does not obey"},
	{"--spi-timeouts", AT(spi_timeouts), "what STATUS tells of the SPI bus"},
	{"--i2c-timeouts", AT(i2c_timeouts), "and of the I2C bus"},
	{"--seed", AT(seed), "of the faults"},
	{"--run-ms", AT(end_ms), "end after; 0: when stdin ends or on SIGTERM"},
};

static void help(void)
{
	printf("usage: gatewarden-mcu [--link PATH] [OPTION NUMBER]...\n\n"
	       "Simulates the microcontroller on a pseudo-terminal; what it does is told on stdout, a line of JSON each.\n\n"
	       "  %-20s %s\n",
	       "--link", "keep a symbolic link to the terminal here, as udev does for a serial port");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		printf("  %-20s %s\n", table[i].name, table[i].help);
}

static int wrong(const char *name, const char *what)
{
	fprintf(stderr, "gatewarden-mcu: %s: %s (see --help)\n", name, what);
	return 2;
}

static bool is_byte(size_t at) { return at == AT(config.tries) || at == AT(config.proto_min); }

static int number(struct options *options, size_t at, const char *name, const char *text)
{
	char *end, *base = (char *)options;
	unsigned long value;
	uint32_t word;
	uint8_t byte;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || value > (is_byte(at) ? UINT8_MAX : GW_LONGEST_MS))
		return wrong(name, "takes a whole number, not so large");
	word = (uint32_t)value;
	byte = (uint8_t)value;
	if (is_byte(at))
		memcpy(base + at, &byte, sizeof(byte));
	else
		memcpy(base + at, &word, sizeof(word));
	if (at == AT(config.proto_min))
		options->config.proto_max = byte;
	return 0;
}

int options_read(struct options *options, int argc, char **argv)
{
	const size_t n = sizeof(table) / sizeof(table[0]);

	memset(options, 0, sizeof(*options));
	options->config = gw_config_default;
	options->own_watchdog_ms = 2000;
	options->seed = 1;
	for (int i = 1; i < argc; i += 2) {
		size_t at = 0;

		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			help();
			return 1;
		}
		if (i + 1 == argc)
			return wrong(argv[i], "takes a value");
		if (!strcmp(argv[i], "--link")) {
			options->link = argv[i + 1];
			continue;
		}
		while (at < n && strcmp(table[at].name, argv[i]))
			at++;
		if (at == n)
			return wrong(argv[i], "there is no such option");
		if (number(options, table[at].at, argv[i], argv[i + 1]))
			return 2;
	}
	return 0;
}
