// SPDX-License-Identifier: GPL-2.0
/*
 * Data to watch: 64-bit words of a map, written by programs that tests run by BPF_PROG_TEST_RUN, on which CPU they like. No module,
 * no timer: it works on every kernel with BPF. ctx[0] is how often.
 */
#include <linux/types.h>

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

enum { PLAIN, ATOMIC, FLAGS, BALANCE, HOT, SPARE, SCRATCH, WORDS };

struct words {
	__u64 word[WORDS];
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

/* What a driver does between reading a word and writing it back. */
static __always_inline void dwell(volatile struct words *at)
{
#pragma unroll
	for (int i = 0; i < 16; i++)
		at->word[SCRATCH] = i;
}

#define CHANGE(at, index, how)                                                                                                 \
	({                                                                                                                     \
		__u64 seen = (at)->word[index];                                                                                \
		dwell(at);                                                                                                     \
		(at)->word[index] = seen how;                                                                                  \
	})

/* A program that does `body` ctx[0] times with the words `at`. */
#define PROGRAM(name, body)                                                                                                    \
	SEC("raw_tp") int name(__u64 *ctx)                                                                                     \
	{                                                                                                                      \
		volatile struct words *at = found();                                                                           \
		__u64 times = ctx[0];                                                                                          \
                                                                                                                               \
		if (!at)                                                                                                       \
			return 0;                                                                                              \
		for (__u64 i = 0; i < 1024 && i < times; i++) {                                                                \
			body;                                                                                                  \
		}                                                                                                              \
		return 0;                                                                                                      \
	}

/* Where the words lie: programs of root may know. */
PROGRAM(locate, at->address = (__u64)at)
PROGRAM(plain, CHANGE(at, PLAIN, +1))
PROGRAM(atomic, __sync_fetch_and_add(&at->word[ATOMIC], 1))
PROGRAM(hot, at->word[HOT] += 1)
PROGRAM(up, CHANGE(at, BALANCE, +1))
PROGRAM(down, CHANGE(at, BALANCE, -1))
PROGRAM(owner, CHANGE(at, FLAGS, | 1); CHANGE(at, FLAGS, | 2); CHANGE(at, FLAGS, | 4); CHANGE(at, FLAGS, &~7ULL))
PROGRAM(other, CHANGE(at, FLAGS, | 16); CHANGE(at, FLAGS, &~16ULL))
