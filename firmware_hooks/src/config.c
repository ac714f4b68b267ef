/* SPDX-License-Identifier: Apache-2.0 */
/* Times that suit a gateway that boots in a few minutes; a board with others copies this struct. */
#include "gatewarden/watchdog.h"

#define S 1000u
#define MIN (60u * S)
#define H (60u * MIN)

const struct gw_config gw_config_default = {
	.firmware = 0x00010000,
	.ttl_min_ms = 5 * S,
	.ttl_max_ms = 2 * MIN,
	/* BOOT covers a file system check; SHUTDOWN covers the first phase of a shutdown, which nothing else watches. */
	.phase_ttl_ms = {10 * MIN, 2 * MIN, 15 * MIN, 3 * MIN, 30 * MIN},
	.phase_total_ms = {20 * MIN, 0, 1 * H, 6 * MIN, 8 * H},
	.off_ms = 10 * S, /* long enough for the capacitors of most supplies */
	.off_max_ms = 1 * H,
	.healthy_ms = 10 * MIN,
	.tries = 3,
	.proto_min = GW_PROTO_MIN,
	.proto_max = GW_PROTO_MAX,
};
