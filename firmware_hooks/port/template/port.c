/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port to begin with: copy this file beside your project and fill in what PORT: marks (the usual mark for such blanks is
 * reserved for unfinished work in this project, which this is not). The #error is the first to go. docs/mcu.md has the check
 * list to go through when it compiles.
 */
#ifndef GATEWARDEN_TEMPLATE_COMPILES /* the size report compiles the blanks as they are */
#error "port: fill in the PORT: marks below, then delete this line"
#endif

#include "gatewarden/watchdog.h"

#define RX_SIZE 128 /* two halves, each longer than a frame */

struct board {
	volatile uint8_t rx[RX_SIZE]; /* the circular DMA's target */
	size_t taken;		      /* up to where rx_take has read */
	struct gw_board counters;
};

static struct board board;
static struct gw_watchdog wd;
/* PORT: place it in memory that the start-up code does not clear, e.g. __attribute__((section(".noinit"))) */
static struct gw_retained kept;

static uint32_t now_ms(void *ctx)
{
	(void)ctx;
	/* PORT: a free-running counter of milliseconds (or a 32-bit timer, scaled). It may wrap; it may not stop in sleep. */
	return 0;
}

static uint32_t entropy(void *ctx)
{
	(void)ctx;
	/* PORT: the hardware random generator; without one, ADC noise or the low bits of a fast counter, mixed. */
	return 4;
}

static uint32_t lock(void *ctx)
{
	(void)ctx;
	/* PORT: read PRIMASK, then disable interrupts. It is held for some ten microseconds. */
	return 0;
}

static void unlock(void *ctx, uint32_t key)
{
	(void)ctx;
	(void)key;
	/* PORT: write PRIMASK back. */
}

static size_t dma_written(void)
{
	/* PORT: RX_SIZE minus the channel's remaining-count register. */
	return 0;
}

static size_t rx_take(void *ctx, uint8_t *to, size_t room)
{
	struct board *b = ctx;
	size_t n = 0, end = dma_written() % RX_SIZE;

	while (n < room && b->taken != end) {
		to[n++] = b->rx[b->taken];
		b->taken = (b->taken + 1) % RX_SIZE;
	}
	return n;
}

static int tx(void *ctx, const uint8_t *bytes, size_t n)
{
	(void)ctx;
	(void)bytes;
	(void)n;
	/* PORT: if the TX DMA is busy return GW_EBUSY; else copy to its buffer (GW_WIRE_MAX bytes) and start it. */
	return 0;
}

static void timer_set(void *ctx, uint32_t ms)
{
	(void)ctx;
	(void)ms;
	/* PORT: stop the timer, clear its flag and its pending interrupt, load ms (or its longest time if that is less), start. */
}

static int power(void *ctx, bool on)
{
	(void)ctx;
	(void)on;
	/* PORT: drive the FET's gate; return GW_EPOWER if the sense input does not follow within some microseconds. */
	return 0;
}

static int self_check(void *ctx)
{
	(void)ctx;
	/* PORT: the RX DMA channel is enabled without an error flag; the timer's count has changed; the FET's sense input is as
	 * it was switched. Return 0 or a negative number of yours for what fails: it is told in the event log. */
	return 0;
}

static void own_watchdog(void *ctx)
{
	(void)ctx;
	/* PORT: reload the independent watchdog (IWDG and the like), clocked by its own oscillator, started in main. */
}

static void counters(void *ctx, struct gw_board *out)
{
	/* PORT: count in your SPI and I2C drivers where a transfer ends by time-out; overruns in the UART's error interrupt. */
	*out = ((struct board *)ctx)->counters;
}

static const struct gw_port port = {&board, now_ms,    entropy, lock,	    unlock,	  rx_take,
				    tx,	    timer_set, power,	self_check, own_watchdog, counters};

/* PORT: name it as the vector table does. Its priority must let `lock` keep it out. */
void timer_interrupt(void);
void timer_interrupt(void) { gw_timer_expired(&wd); }

/* PORT: the UART's idle-line interrupt and the DMA's half and full transfer: clear the flag. Waking the core is all they do. */
void rx_interrupt(void);
void rx_interrupt(void) {}

int main(void)
{
	/* PORT: clocks, UART 115200 8N1 with circular RX DMA, timer, FET on, own watchdog at 1 to 4 s, then the reset cause. */
	uint8_t reset = GW_RESET_UNKNOWN;

	if (gw_start(&wd, &port, &gw_config_default, &kept, reset) == GW_EINVAL)
		for (;;) /* the own watchdog ends this: a configuration that contradicts itself must be seen on the bench */
			;
	for (;;) {
		gw_supervise(&wd);
		/* PORT: sleep (WFI) until an interrupt; a wake-up timer at half the own watchdog's time wakes a silent line's
		 * loop. It wakes, and feeds nothing: gw_supervise feeds, after its checks. */
	}
}
