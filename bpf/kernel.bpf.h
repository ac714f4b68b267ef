/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The few kernel structs that the probes read, by hand instead of a 2.8 MB vmlinux.h. Only names count: offsets are relocated
 * against the running kernel's BTF (CO-RE), so members may be left out and their order does not matter.
 */
#ifndef GW_KERNEL_BPF_H
#define GW_KERNEL_BPF_H

#include <linux/types.h>
#include <stdbool.h>

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
	int pid;
	int tgid;
	char comm[16];
	int exit_code;
	__u64 start_boottime;
	struct signal_struct *signal;
	struct css_set *cgroups;
	struct task_struct *group_leader;
};

struct timer_list {
	unsigned long expires;
	void (*function)(struct timer_list *);
	__u32 flags;
};

struct rb_node;

struct timerqueue_node {
	__s64 expires;
};

struct hrtimer_clock_base {
	__s64 offset;
};

struct hrtimer {
	struct timerqueue_node node;
	void *function;
	struct hrtimer_clock_base *base;
	__u8 is_soft;
};

struct irqaction {
	const char *name;
	struct irqaction *next;
};

#pragma clang attribute pop

#endif
