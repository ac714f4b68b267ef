/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The few kernel structs that the probes read, by hand instead of a 2.8 MB vmlinux.h. Only names count: offsets are relocated
 * against the running kernel's BTF (CO-RE), so members may be left out and their order does not matter. BCC takes the kernel's own.
 */
#ifndef GW_KERNEL_BPF_H
#define GW_KERNEL_BPF_H

#include "compiler.bpf.h"

#ifdef GW_BCC
#include <linux/cgroup.h>
#include <linux/hrtimer.h>
#include <linux/kernfs.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/timer.h>
#include <trace/events/sched.h>
#include <trace/events/timer.h>
#else

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct mm_struct;

struct signal_struct {
	atomic_t live;
	int group_exit_code;
	unsigned int flags;
	struct mm_struct *oom_mm;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	void *stack;
	int pid;
	int tgid;
	char comm[16];
	int exit_code;
	__u64 start_boottime;
	struct signal_struct *signal;
	struct css_set *cgroups;
	struct task_struct *group_leader;
};

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct timer_list {
	struct hlist_node entry;
	unsigned long expires;
	void (*function)(struct timer_list *);
	__u32 flags;
};

struct rb_node {
	unsigned long __rb_parent_color;
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

struct timerqueue_node {
	struct rb_node node;
	__s64 expires;
};

struct timerqueue_head {
	struct rb_root_cached rb_root;
};

struct timer_base {
	struct timer_list *running_timer;
};

struct hrtimer;

struct hrtimer_clock_base {
	struct hrtimer *running;
	struct timerqueue_head active;
	__s64 offset;
};

struct hrtimer {
	struct timerqueue_node node;
	void *function;
	struct hrtimer_clock_base *base;
	__u8 state;
	__u8 is_soft;
};

struct kmem_cache {
	unsigned int size;
	unsigned int object_size;
};

/* Since 5.17, d122019bf061 ("mm: Split slab into its own type"). */
struct slab {
	struct kmem_cache *slab_cache;
};

struct page {
	unsigned long compound_head;
};

struct irqaction {
	const char *name;
	struct irqaction *next;
};

#pragma clang attribute pop

#endif
#endif
