/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian numbers at any address, and the CRC. */
#include "gatewarden/frame.h"

void gw_put16(uint8_t *to, uint16_t value)
{
	to[0] = (uint8_t)value;
	to[1] = (uint8_t)(value >> 8);
}

void gw_put32(uint8_t *to, uint32_t value)
{
	gw_put16(to, (uint16_t)value);
	gw_put16(to + 2, (uint16_t)(value >> 16));
}

uint16_t gw_get16(const uint8_t *from) { return (uint16_t)(from[0] | from[1] << 8); }

uint32_t gw_get32(const uint8_t *from) { return gw_get16(from) | (uint32_t)gw_get16(from + 2) << 16; }

/* CRC-16/CCITT-FALSE, four bits at a time: 32 bytes of table instead of 512. */
uint16_t gw_crc16(const uint8_t *bytes, size_t n)
{
	static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
					   0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
	uint16_t crc = 0xffff;

	for (size_t i = 0; i < n; i++) {
		crc = (uint16_t)(crc << 4 ^ table[(crc >> 12 ^ bytes[i] >> 4) & 15]);
		crc = (uint16_t)(crc << 4 ^ table[(crc >> 12 ^ bytes[i]) & 15]);
	}
	return crc;
}
