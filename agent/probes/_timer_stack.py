"""What the kernel stack of a timer event says: who called, and in which context."""

from __future__ import annotations

from collections.abc import Sequence

# The tracer itself, and the kernel's ways to it.
_OURS = (
    "bpf_prog_", "__bpf_trace_", "bpf_trace_run", "__traceiter_", "bpf_get_stack", "bpf_trampoline_", "ftrace_",
    "trace_call_bpf", "kprobe_", "aggr_pre_handler", "__perf_event_", "perf_trace_", "perf_call_bpf_",
)  # fmt: skip
# The timer, work and memory interfaces: whoever calls these is the actor.
_INTERFACE = frozenset(
    """add_timer add_timer_on add_timer_global add_timer_local mod_timer mod_timer_pending __mod_timer timer_reduce
    enqueue_timer internal_add_timer __internal_add_timer init_timer_key do_init_timer timer_delete del_timer
    timer_delete_sync del_timer_sync timer_delete_sync_try try_to_del_timer_sync __try_to_del_timer_sync
    __timer_delete_sync __timer_delete __timer_delete_sync_try timer_shutdown timer_shutdown_sync detach_if_pending
    detach_timer hrtimer_start_range_ns __hrtimer_start_range_ns hrtimer_start_range_ns_user enqueue_hrtimer
    hrtimer_init hrtimer_setup __hrtimer_init hrtimer_setup_on_stack hrtimer_sleeper_start_expires hrtimer_try_to_cancel
    hrtimer_cancel remove_hrtimer __remove_hrtimer __run_hrtimer hrtimer_start_expires kfree kvfree kfree_sensitive
    kmem_cache_free __kmem_cache_free kmem_cache_free_bulk slab_free""".split()  # noqa: SIM905
)
_HARD = ("asm_sysvec_", "sysvec_", "asm_common_interrupt", "common_interrupt", "el1h_64_irq", "el0t_64_irq", "gic_handle_irq")
_SOFT = ("__do_softirq", "handle_softirqs", "run_ksoftirqd", "run_ktimerd", "do_softirq")
_WITHIN = ("", "softirq", "hardirq", "softirq")  # by 1 + kind of the timer callback
_IDLE = 0


def frames(lines: Sequence[str]) -> list[str]:
    """Give a stack without the tracer's own frames."""
    return [line for line in lines if not line.startswith(_OURS)]


def function(frame: str) -> str:
    """Give the function of `function+0x1f/0x40 [module]`."""
    return frame.split("+", 1)[0]


def actor(lines: Sequence[str]) -> str:
    """Give the frame of whoever called the interface: the first that is not of it; empty without a stack."""
    return next((line for line in lines if function(line) not in _INTERFACE), "")


def context(lines: Sequence[str], within: int, pid: int) -> str:
    """Give task, softirq or hardirq: that of the timer callback that it happened in, else what the stack shows."""
    if 0 < within < len(_WITHIN):
        return _WITHIN[within]
    for line in lines:
        if line.startswith(_HARD):
            return "hardirq"
        if line.startswith(_SOFT):
            return "softirq"
    return "hardirq" if pid == _IDLE else "task"
