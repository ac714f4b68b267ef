/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What our two compilers do not share. clang makes the objects that ship, for libbpf (CO-RE). BCC, on a kernel without BTF, compiles
 * the same sources on the gateway against that kernel's headers (GW_BCC): agent/linux/bcc.py makes the maps, as the object
 * describes them, gives the fd of each as the macro GW_FD_<map>, and adds the entry points.
 *
 *	GW_MAP(map)			the map, as helpers take it
 *	GW_READ… BPF_CORE_READ…	a member of a kernel struct
 *	GW_HAS_ARGUMENTS(tp, type)	whether the tracepoint has the parameters of this function type (`btf_trace_<tp>` of BTF)
 *	GW_FORGET(value)		makes BCC's optimiser, which is more eager, forget what it knows of a value
 *	GW_MAP_DEFINE(…)		the definition of a map; none for BCC
 *	GW_PROGRAMS(tp)		the two programs of a hook; for BCC only what they call
 */
#ifndef GW_COMPILER_BPF_H
#define GW_COMPILER_BPF_H

#ifdef GW_BCC

#define GW_MAP(map) ((void *)bpf_pseudo_fd(1, GW_FD_##map)) /* BPF_PSEUDO_MAP_FD */
#define GW_MAP_DEFINE(_name, ...) struct gw_defined_##_name
#define GW_KEEP(type) struct type
#define GW_FORGET(value) asm volatile("" : "+r"(value))
#define GW_PROGRAMS(tp)

/* A tracepoint's probes are what register_trace_<tp>() takes: the header's form of `btf_trace_<tp>`. */
#define GW_HAS_ARGUMENTS(tp, type) __builtin_types_compatible_p(typeof(&register_trace_##tp), int (*)(type, void *))

#define GW_1(p, a)                                                                                                             \
	({                                                                                                                     \
		typeof((p)->a) _value;                                                                                         \
		bpf_probe_read_kernel(&_value, sizeof(_value), &(p)->a);                                                       \
		_value;                                                                                                        \
	})
#define GW_2(p, a, b) GW_1(GW_1(p, a), b)
#define GW_3(p, a, b, c) GW_1(GW_2(p, a, b), c)
#define GW_4(p, a, b, c, d) GW_1(GW_3(p, a, b, c), d)
#define GW_NTH(_1, _2, _3, _4, n, ...) n
#define GW_STR_1(dst, p, a) bpf_probe_read_kernel_str(dst, sizeof(*(dst)), &(p)->a)
#define GW_STR_2(dst, p, a, b) GW_STR_1(dst, GW_1(p, a), b)

/* libbpf's macros by their names. */
#define BPF_CORE_READ(p, ...) GW_NTH(__VA_ARGS__, GW_4, GW_3, GW_2, GW_1)(p, __VA_ARGS__)
#define BPF_CORE_READ_STR_INTO(dst, p, ...) GW_NTH(__VA_ARGS__, , , GW_STR_2, GW_STR_1)(dst, p, __VA_ARGS__)

#define GW_READ(p, field) GW_1(p, field)
#define GW_READ2(p, first, second) GW_2(p, first, second)

#else

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define GW_MAP(map) (&(map))
#define GW_FORGET(value)
#define GW_MAP_DEFINE(_name, ...)                                                                                              \
	struct {                                                                                                               \
		__VA_ARGS__                                                                                                    \
	} _name SEC(".maps")

/* The struct that a ring buffer record is must be named by a global pointer, or clang leaves it out of BTF. */
#define GW_KEEP(type) const struct type *const gw_keep_##type __attribute__((unused)) = 0

#define GW_PROGRAMS(tp)                                                                                                        \
	SEC("tp_btf/" #tp) int tp##_btf(__u64 *ctx) { return tp##_run(ctx, true); }                                            \
	SEC("raw_tp/" #tp) int tp##_raw(__u64 *ctx) { return tp##_run(ctx, false); }

#define GW_HAS_ARGUMENTS(tp, type) bpf_core_type_exists(type)

/*
 * Read a member: directly where the verifier knows the pointer's type (tp_btf), else by a probe read (raw_tp). `btf` is a
 * compile-time constant after inlining, so only one of the two is left.
 */
#define GW_READ(p, field) (btf ? (p)->field : BPF_CORE_READ(p, field))
#define GW_READ2(p, first, second) (btf ? (p)->first->second : BPF_CORE_READ(p, first, second))

#endif
#endif
