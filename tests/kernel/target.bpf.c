// SPDX-License-Identifier: GPL-2.0
/*
 * Data to watch: eight 64-bit words of a map, written by programs that tests run by BPF_PROG_TEST_RUN, on which CPU they like. No
 * module, no timer: it works on every kernel with BPF. ctx[0] is how often, ctx[1] how long to dwell between read and write.
 */
#include <linux/types.h>

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

struct words {
	__u64 word[8];
	__u64 address;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct words);
} words SEC(".maps");

static __always_inline volatile struct words *found(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&words, &zero);
}

/* Where the words lie: BPF programs of root may know. */
SEC("raw_tp")
int locate(__u64 *ctx)
{
	volatile struct words *at = found();

	if (at)
		at->address = (__u64)at;
	return 0;
}

#define TIMES(ctx) (ctx[0] & 63)

SEC("raw_tp")
int plain(__u64 *ctx)
{
	volatile struct words *at = found();
	__u64 times = TIMES(ctx), dwell = ctx[1] & 63;

	if (!at)
		return 0;
	for (__u64 i = 0; i < 64 && i < times; i++) {
		__u64 seen = at->word[0];

		for (__u64 k = 0; k < 64 && k < dwell; k++)
			at->word[7] = k;
		at->word[0] = seen + 1;
	}
	return 0;
}

SEC("raw_tp")
int atomic(__u64 *ctx)
{
	volatile struct words *at = found();
	__u64 times = TIMES(ctx);

	if (!at)
		return 0;
	for (__u64 i = 0; i < 64 && i < times; i++)
		__sync_fetch_and_add(&at->word[1], 1);
	return 0;
}

SEC("raw_tp")
int set_bit(__u64 *ctx)
{
	volatile struct words *at = found();

	if (at)
		at->word[2] = at->word[2] | 1;
	return 0;
}

SEC("raw_tp")
int down(__u64 *ctx)
{
	volatile struct words *at = found();

	if (at)
		at->word[3] = at->word[3] - 1;
	return 0;
}

SEC("raw_tp")
int up(__u64 *ctx)
{
	volatile struct words *at = found();

	if (at)
		at->word[3] = at->word[3] + 1;
	return 0;
}
