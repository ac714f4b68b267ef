// SPDX-License-Identifier: GPL-2.0
/*
 * process_exit: deaths that matter, at once: of watched processes and commands, OOM victims, and core dumps.
 *
 * One event for a process, when its last thread leaves. The code is what wait(2) will give its parent: do_group_exit() and
 * a fatal signal leave it in signal->group_exit_code under SIGNAL_GROUP_EXIT, else it is the leader's own exit_code
 * (wait_task_zombie() in kernel/exit.c). do_coredump() has put the core bit, 0x80, into the former by then.
 */
#include "common.bpf.h"
#include "drift.bpf.h"

enum { HOOK_EXIT, HOOKS };

#ifndef GW_BCC
#define SIGNAL_GROUP_EXIT 0x00000004 /* include/linux/sched/signal.h */
#endif
#define CODE_SIGNAL 0x7f
#define CODE_CORE 0x80
#define COMMS 128 /* [probes.process_exit] comm and [[workload]] may have 64 each */
#define PIDS 256  /* workloads of one gateway, their helpers included */
#define TOLD 1024 /* deaths whose last threads may still be on their way out */

struct process_exit_ctl {
	struct gw_ctl head;
};

struct process_exit_total {
	__u64 exits;
	__u64 signalled;
	__u64 oom;
};

struct process_exit_event {
	__u64 t_ns;
	__u32 pid;
	__u32 tgid;
	__u32 code; /* as wait(2) gives it */
	__u32 oom;
	__u32 cpu;
	__u32 _pad;
	char comm[16];
};
GW_KEEP(process_exit_event);
GW_KEEP(process_exit_total);

struct death {
	__u64 signal;
	__u64 start_ns;
};

struct comm {
	char text[16];
};

GW_PROBE(process_exit_ctl, HOOKS);
GW_MAP_HASH(comms, BPF_MAP_TYPE_HASH, struct comm, __u8, COMMS);
GW_MAP_HASH(pids, BPF_MAP_TYPE_HASH, __u32, __u8, PIDS);
GW_MAP_HASH(told, BPF_MAP_TYPE_LRU_HASH, struct death, __u8, TOLD);
GW_MAP_PERCPU(total, struct process_exit_total, 1);

/* Where the kernel does not say who is the last thread, the first that sees nobody alive is taken, and the others left out. */
static __always_inline bool last(__u64 *ctx, struct task_struct *task)
{
	enum gw_group group = gw_group_dead(ctx, task);
	struct death death;
	__u8 one = 1;

	if (group != GW_GROUP_PERHAPS)
		return group == GW_GROUP_DEAD;
	death.signal = (__u64)BPF_CORE_READ(task, signal);
	death.start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	return !bpf_map_update_elem(GW_MAP(told), &death, &one, BPF_NOEXIST);
}

GW_HOOK(sched_process_exit, HOOK_EXIT)
{
	struct task_struct *task = (void *)ctx[0];
	struct process_exit_event *event;
	struct process_exit_total *all;
	__u32 zero = 0, tgid, code;
	struct comm comm = {};
	bool oom;

	if (!last(ctx, task))
		return;
	all = bpf_map_lookup_elem(GW_MAP(total), &zero);
	if (!all)
		return;
	if (GW_READ2(task, signal, flags) & SIGNAL_GROUP_EXIT)
		code = GW_READ2(task, signal, group_exit_code);
	else
		code = GW_READ2(task, group_leader, exit_code);
	oom = GW_READ2(task, signal, oom_mm);
	all->exits++;
	all->signalled += !!(code & CODE_SIGNAL);
	all->oom += oom;
	tgid = GW_READ(task, tgid);
	BPF_CORE_READ_STR_INTO(&comm.text, task, group_leader, comm);
	if (!oom && !(code & CODE_CORE) && !bpf_map_lookup_elem(GW_MAP(comms), &comm) &&
	    !bpf_map_lookup_elem(GW_MAP(pids), &tgid))
		return;
	event = bpf_ringbuf_reserve(GW_MAP(events), sizeof(*event), 0);
	if (!event) {
		own->lost++;
		return;
	}
	event->t_ns = bpf_ktime_get_ns();
	event->pid = GW_READ(task, pid);
	event->tgid = tgid;
	event->code = code;
	event->oom = oom;
	event->cpu = bpf_get_smp_processor_id();
	event->_pad = 0;
	__builtin_memcpy(event->comm, comm.text, sizeof(event->comm));
	bpf_ringbuf_submit(event, 0);
}
