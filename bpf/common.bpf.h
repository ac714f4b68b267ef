/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all probes share: the two attach types over one body, the ctl and stats maps, histograms, rate limits, stacks.
 *
 * A probe is a .bpf.c that defines `enum { HOOK_…, HOOKS };`, `struct ctl` (first member `struct gw_ctl head`), includes this
 * header, and writes one GW_HOOK(tracepoint, index) { body } per tracepoint. The body gets `ctx` (the raw arguments), `btf`
 * (a constant: true where pointers may be read directly), `ctl` and `stats`.
 */
#ifndef GW_COMMON_BPF_H
#define GW_COMMON_BPF_H

#include "compiler.bpf.h"
#include "kernel.bpf.h"

#ifndef GW_BCC /* which says so itself */
char LICENSE[] SEC("license") = "GPL";
#endif

#define GW_BUCKETS 128		  /* 4 per octave, 128 ns .. 275 s: agent/histogram.py */
#define GW_SAMPLE_MASK 63	  /* the first run of 64 is timed: the two clock reads cost more than most bodies */
#define GW_STACK 12		  /* frames of a violation's kernel stack: what fits one glance */
#define GW_STACK_SKIP 3		  /* our own program, __bpf_trace_run* and __bpf_trace_<tracepoint> */
#define GW_SYMBOL 40		  /* bytes of one resolved frame, NUL included */
#define GW_RING_BYTES (64 * 1024) /* about 80 violations with stacks; more in one gulp is a storm, and is counted */
#define GW_LIMIT_NS 100000000ULL  /* window in which storms are counted */
#define GW_SECOND 1000000000ULL	  /* violations are rate limited on each CPU: in a second … */
#define GW_LIMIT_EVENTS 8	  /* … this many of one hook, the rest is counted as suppressed */

/*
 * Written by the agent through an mmap of the `ctl` map; all-zero (just loaded, no agent yet) means off. `since_ns` is written
 * zero by the agent and set here at the first event after it: state that is older was left by an earlier time on, and the
 * events in between were not seen, so it says nothing.
 */
struct gw_ctl {
	__u32 enabled;
	__u32 _pad;
	__u64 since_ns;
};

/* One per hook and CPU. Mirrored by agent/linux/bpf.py STATS. */
struct gw_stats {
	__u64 runs;
	__u64 timed_runs;
	__u64 timed_ns;
	__u64 lost;	  /* ring buffer full: an event that nobody will see */
	__u64 missed;	  /* state that did not match: an entry without its exit, a reused slot */
	__u64 suppressed; /* over the rate limit */
	__u64 window_ns;
	__u64 window_events;
};

#define GW_MAP_ARRAY(_name, _value, _entries, _flags)                                                                          \
	GW_MAP_DEFINE(_name, __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, _entries); __uint(map_flags, _flags);       \
		      __type(key, __u32); __type(value, _value);)

#define GW_MAP_PERCPU(_name, _value, _entries)                                                                                 \
	GW_MAP_DEFINE(_name, __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, _entries); __type(key, __u32);       \
		      __type(value, _value);)

#define GW_MAP_HASH(_name, _type, _key, _value, _entries)                                                                      \
	GW_MAP_DEFINE(_name, __uint(type, _type); __uint(max_entries, _entries); __type(key, _key); __type(value, _value);)

#define GW_RING(_name) GW_MAP_DEFINE(_name, __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, GW_RING_BYTES);)

/* ctl, stats and events of every probe. */
#define GW_PROBE(ctl_type, hooks)                                                                                              \
	GW_MAP_ARRAY(ctl, struct ctl_type, 1, BPF_F_MMAPABLE);                                                                 \
	GW_MAP_PERCPU(stats, struct gw_stats, hooks);                                                                          \
	GW_RING(events);                                                                                                       \
	typedef struct ctl_type gw_ctl_t

#define GW_UNUSED __attribute__((unused))

/*
 * One tracepoint of a probe: GW_HOOK(sched_switch, HOOK_SWITCH) { body }. Makes <tp>_btf and <tp>_raw; the loader picks one by BTF.
 * Seen by the body: ctx (raw arguments), btf, cfg (the probe's ctl struct) and own (this hook's stats on this CPU).
 */
#define GW_HOOK(tp, hook)                                                                                                      \
	static __always_inline void tp##_body(__u64 *ctx, const bool btf, gw_ctl_t *cfg, struct gw_stats *own);                \
	static __always_inline int tp##_run(__u64 *ctx, const bool btf)                                                        \
	{                                                                                                                      \
		__u32 zero = 0, index = hook;                                                                                  \
		gw_ctl_t *cfg = bpf_map_lookup_elem(GW_MAP(ctl), &zero);                                                       \
		if (!cfg || !cfg->head.enabled)                                                                                \
			return 0;                                                                                              \
		struct gw_stats *own = bpf_map_lookup_elem(GW_MAP(stats), &index);                                             \
		if (!own)                                                                                                      \
			return 0;                                                                                              \
		if (!cfg->head.since_ns)                                                                                       \
			cfg->head.since_ns = bpf_ktime_get_ns();                                                               \
		__u64 start = (own->runs++ & GW_SAMPLE_MASK) ? 0 : bpf_ktime_get_ns();                                         \
		tp##_body(ctx, btf, cfg, own);                                                                                 \
		if (start) {                                                                                                   \
			own->timed_ns += bpf_ktime_get_ns() - start;                                                           \
			own->timed_runs++;                                                                                     \
		}                                                                                                              \
		return 0;                                                                                                      \
	}                                                                                                                      \
	GW_PROGRAMS(tp)                                                                                                        \
	static __always_inline void tp##_body(__u64 *ctx GW_UNUSED, const bool btf GW_UNUSED, gw_ctl_t *cfg GW_UNUSED,         \
					      struct gw_stats *own GW_UNUSED)

static __always_inline __u32 gw_log2(__u64 v)
{
	__u32 r = 0, s;

	s = (v > 0xffffffffULL) << 5, v >>= s, r |= s;
	s = (v > 0xffff) << 4, v >>= s, r |= s;
	s = (v > 0xff) << 3, v >>= s, r |= s;
	s = (v > 0xf) << 2, v >>= s, r |= s;
	s = (v > 0x3) << 1, v >>= s, r |= s;
	return r | (v >> 1);
}

static __always_inline __u32 gw_bucket(__u64 ns)
{
	__u32 high, index;

	if (ns < 128)
		return 0;
	high = gw_log2(ns);
	index = 1 + ((high - 7) << 2) + ((ns >> (high - 2)) & 3);
	return index < GW_BUCKETS ? index : GW_BUCKETS - 1;
}

/* The same, bounded in a way that the verifier sees: what the compiler knows of it already it would leave out. */
static __always_inline __u32 gw_index(__u64 ns)
{
	__u32 index = gw_bucket(ns);

	GW_FORGET(index);
	return index & (GW_BUCKETS - 1);
}

static __always_inline void gw_count(__u32 *buckets, __u64 ns) { __sync_fetch_and_add(&buckets[gw_index(ns)], 1); }

/* The same for buckets that only this CPU writes. */
static __always_inline void gw_count_local(__u32 *buckets, __u64 ns) { buckets[gw_index(ns)]++; }

/*
 * Keep the exact maximum of an entry that several CPUs share. There is no compare-and-swap before 5.12, so the store is read
 * back: a larger value that another CPU wrote in between is overwritten only if it does so three times in a row.
 */
static __always_inline void gw_max(volatile __u64 *slot, __u64 value)
{
	if (value > *slot)
		*slot = value;
	if (value > *slot)
		*slot = value;
	if (value > *slot)
		*slot = value;
}

/* Whether this hook may send one more event from this CPU in the current window. */
static __always_inline bool gw_allow(struct gw_stats *own, __u64 now)
{
	if (now - own->window_ns > GW_SECOND) {
		own->window_ns = now;
		own->window_events = 0;
	}
	if (++own->window_events <= GW_LIMIT_EVENTS)
		return true;
	own->suppressed++;
	return false;
}

/*
 * Resolve a kernel address to a name inside the kernel, where kptr_restrict does not matter. bpf_snprintf is 5.13+ (7b15523a989b);
 * before it the name stays empty and user space shows the address.
 */
static __always_inline void gw_symbol(char *name, __u64 address)
{
#ifndef GW_BCC
	static const char format[] = "%ps";

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_snprintf))
		bpf_snprintf(name, GW_SYMBOL, format, &address, sizeof(address));
#elif defined(GW_FD_format) /* BCC knows no constants: the text is a map's one value (BPF_PSEUDO_MAP_VALUE) */
	static long (*gw_snprintf)(char *, __u32, const char *, __u64 *, __u32) = (void *)165;

	gw_snprintf(name, GW_SYMBOL, (const char *)bpf_pseudo_fd(2, GW_FD_format), &address, sizeof(address));
#endif
}

/* Fill the members that say when, where and under whom an event happened. */
#define GW_HERE(event, now)                                                                                                    \
	({                                                                                                                     \
		(event)->t_ns = now;                                                                                           \
		(event)->cpu = bpf_get_smp_processor_id();                                                                     \
		(event)->pid = bpf_get_current_pid_tgid();                                                                     \
		bpf_get_current_comm((event)->comm, sizeof((event)->comm));                                                    \
	})

struct gw_stack {
	__u64 address[GW_STACK];
	char frame[GW_STACK][GW_SYMBOL];
};

/* Fill `stack` with the kernel stack of this CPU; unused frames stay zero. `stack` must lie in zeroed or fresh ring memory. */
static __always_inline void gw_take_stack(void *ctx, struct gw_stack *stack)
{
	__builtin_memset(stack->address, 0, sizeof(stack->address));
	bpf_get_stack(ctx, stack->address, sizeof(stack->address), GW_STACK_SKIP);
#pragma unroll
	for (int i = 0; i < GW_STACK; i++) {
		stack->frame[i][0] = 0;
		if (stack->address[i])
			gw_symbol(stack->frame[i], stack->address[i]);
	}
}

#endif
