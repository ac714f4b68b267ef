/* SPDX-License-Identifier: Apache-2.0 */
/* One frame in, one frame out, by a table of the types that the gateway may send. */
#include "internal.h"

typedef uint8_t (*answer_fn)(struct gw_watchdog *wd, const struct gw_frame *in, uint8_t *out); /* gives the length */

static uint8_t hello(struct gw_watchdog *wd, const struct gw_frame *in, uint8_t *out)
{
	const struct gw_config *config = wd->config;
	const uint8_t *asked = in->payload;
	uint32_t least = gw_get32(asked + GW_HELLO_ASK_TTL_MIN_MS), most = gw_get32(asked + GW_HELLO_ASK_TTL_MAX_MS);
	uint32_t nonce = gw_get32(asked + GW_HELLO_ASK_NONCE);

	/* Asked again because its answer was late: the session that it began goes on, or the token given before would be void. */
	if (wd->session && nonce == wd->hello_nonce)
		return gw_report_hello(wd, nonce, out);
	wd->session = asked[GW_HELLO_ASK_PROTO_MIN] <= config->proto_max && asked[GW_HELLO_ASK_PROTO_MAX] >= config->proto_min;
	wd->hello_nonce = nonce;
	wd->seq = in->seq;
	wd->leased = 0;
	wd->ttl_min_ms = gw_clamp(least, config->ttl_min_ms, config->ttl_max_ms);
	wd->ttl_max_ms = gw_clamp(most, wd->ttl_min_ms, config->ttl_max_ms);
	gw_token_fresh(wd);
	return gw_report_hello(wd, nonce, out);
}

static uint8_t lease(struct gw_watchdog *wd, const struct gw_frame *in, uint8_t *out)
{
	const uint8_t *asked = in->payload;
	uint32_t ttl = gw_get32(asked + GW_LEASE_TTL_MS), token = gw_get32(asked + GW_LEASE_TOKEN);
	uint8_t result = gw_lease_take(wd, in->seq, token, asked[GW_LEASE_PHASE], ttl);
	/* The token goes only to who holds the lease: anything else that repeats itself learns nothing to feed with. */
	bool holds = result == GW_RESULT_OK || result == GW_RESULT_REPEATED || result == GW_RESULT_EXHAUSTED;

	gw_put32(out + GW_ACK_REMAINING_MS, gw_remaining_ms(wd));
	gw_put32(out + GW_ACK_NEXT_TOKEN, holds ? wd->token : 0);
	gw_put32(out + GW_ACK_MARGIN_MS, wd->margin_ms);
	out[GW_ACK_RESULT] = result;
	out[GW_ACK_PHASE] = wd->phase;
	return GW_ACK_SIZE;
}

static uint8_t status(struct gw_watchdog *wd, const struct gw_frame *in, uint8_t *out)
{
	gw_seq_take(wd, in->seq);
	return gw_report_status(wd, out);
}

static uint8_t eventlog(struct gw_watchdog *wd, const struct gw_frame *in, uint8_t *out)
{
	gw_seq_take(wd, in->seq);
	return gw_report_log(wd, in->payload[GW_EVENTLOG_ASK_FIRST], out);
}

static uint8_t power_cycle(struct gw_watchdog *wd, const struct gw_frame *in, uint8_t *out)
{
	uint8_t order = gw_seq_take(wd, in->seq), result = order;
	bool known = order == GW_RESULT_REPEATED && wd->cycle.open;

	if (order == GW_RESULT_OK || known)
		result = known ? GW_RESULT_OK : gw_cycle_ask(wd, in->payload);
	gw_put32(out + GW_CHALLENGE_NONCE, gw_get32(in->payload + GW_POWER_CYCLE_NONCE));
	gw_put32(out + GW_CHALLENGE_CODE, result == GW_RESULT_OK ? wd->cycle.code : 0);
	out[GW_CHALLENGE_RESULT] = result;
	return GW_CHALLENGE_SIZE;
}

static uint8_t confirm(struct gw_watchdog *wd, const struct gw_frame *in, uint8_t *out)
{
	uint32_t nonce = gw_get32(in->payload + GW_CONFIRM_NONCE);

	gw_seq_take(wd, in->seq);
	out[GW_CYCLE_ACK_RESULT] = gw_cycle_confirm(wd, nonce, gw_get32(in->payload + GW_CONFIRM_CODE));
	gw_put32(out + GW_CYCLE_ACK_NONCE, nonce);
	gw_put32(out + GW_CYCLE_ACK_IN_MS, wd->power == GW_POWER_PENDING ? gw_remaining_ms(wd) : 0);
	return GW_CYCLE_ACK_SIZE;
}

static const struct {
	answer_fn answer;
	uint8_t type, least, answer_type;
} table[] = {
	{hello, GW_TYPE_HELLO_ASK, GW_HELLO_ASK_SIZE, GW_TYPE_HELLO},
	{lease, GW_TYPE_LEASE, GW_LEASE_SIZE, GW_TYPE_ACK},
	{status, GW_TYPE_STATUS_ASK, 0, GW_TYPE_STATUS},
	{eventlog, GW_TYPE_EVENTLOG_ASK, GW_EVENTLOG_ASK_SIZE, GW_TYPE_EVENTLOG},
	{power_cycle, GW_TYPE_POWER_CYCLE, GW_POWER_CYCLE_SIZE, GW_TYPE_CHALLENGE},
	{confirm, GW_TYPE_CONFIRM, GW_CONFIRM_SIZE, GW_TYPE_CYCLE_ACK},
};

static uint8_t unsupported(const struct gw_watchdog *wd, const struct gw_frame *in, struct gw_frame *out)
{
	out->type = GW_TYPE_UNSUPPORTED;
	out->payload[GW_UNSUPPORTED_TYPE] = in->type;
	out->payload[GW_UNSUPPORTED_PROTO_MIN] = wd->config->proto_min;
	out->payload[GW_UNSUPPORTED_PROTO_MAX] = wd->config->proto_max;
	return GW_UNSUPPORTED_SIZE;
}

static void send(struct gw_watchdog *wd, const struct gw_frame *frame)
{
	uint8_t wire[GW_WIRE_MAX];
	int n = gw_encode(frame, wire, sizeof(wire));

	if (n > 0)
		wd->port->tx(wd->port->ctx, wire, (size_t)n);
}

void gw_answer(struct gw_watchdog *wd, const struct gw_frame *in)
{
	struct gw_frame out = {.ver = in->ver, .seq = in->seq};
	bool known = in->ver >= wd->config->proto_min && in->ver <= wd->config->proto_max;
	uint32_t key = gw_lock(wd);
	size_t i = 0;

	if (!known) /* say so in the newest version of ours; HELLO is understood in all */
		out.ver = wd->config->proto_max;
	while (i < sizeof(table) / sizeof(table[0]) && table[i].type != in->type)
		i++;
	if (i == sizeof(table) / sizeof(table[0]) || (!known && in->type != GW_TYPE_HELLO_ASK)) {
		out.len = unsupported(wd, in, &out);
	} else if (in->len < table[i].least) {
		gw_count(&wd->count.frame_errors);
		out.len = unsupported(wd, in, &out);
	} else {
		out.type = table[i].answer_type;
		out.len = table[i].answer(wd, in, out.payload);
	}
	gw_unlock(wd, key);
	send(wd, &out);
}
