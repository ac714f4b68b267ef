"""Innocents that look guilty: what the kernel's own callbacks may do, and why. Data, reviewed as a list.

Timer events do not show locks and references, so code that is right by those alone looks like a race. A row is for callbacks
of the kernel itself and says what makes it right; a callback of a loadable module (`name [module]`) matches none.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Allowed(NamedTuple):
    """`faults` of callbacks like `callback` are benign because of `reason`."""

    callback: str
    faults: frozenset[str]
    reason: str


def _of(callback: str, faults: str, reason: str) -> Allowed:
    return Allowed(callback, frozenset(faults.split()), reason)


ALLOWED = (
    _of("process_timeout", "F1 F4 F5", "lies on the stack of schedule_timeout(): one address, many lives"),
    _of("hrtimer_wakeup", "F1 F4 F5", "lies on the stack of a sleeper: one address, many lives"),
    _of(
        "hrtimer_wakeup",
        "F3",
        "the sleeper waits for it: hrtimer_cancel() is compiled into do_nanosleep() and schedule_hrtimeout()",
    ),
    _of("hrtimer_wakeup", "F7 F9", "armed by a process for itself: nanosleep(0) in a loop harms nobody else"),
    _of("tick_nohz_handler", "F7 F8", "the tick stops on an idle CPU, and stays armed on one that is offline"),
    _of("tick_sched_timer", "F7 F8", "the tick (until 6.9) stops on an idle CPU, and stays armed on one that is offline"),
    _of("blk_stat_timer_fn", "F2", "re-armed by request completion under its own locks"),
    _of("dev_watchdog", "F2 F3", "re-armed under netif_tx_lock, which its callback takes"),
    _of("tcp_*", "F2 F3", "serialised by the socket lock: the callback waits for it or leaves its work to the owner"),
    _of("reqsk_timer_handler", "F1 F2 F3", "holds a reference to its request; it may free it itself"),
    _of("tw_timer_handler", "F1 F3", "frees its own socket"),
    _of("writeout_period", "F2", "re-armed by the first writer after a pause; its state is a percpu_ref"),
    _of(
        "delayed_work_timer_fn", "F2 F3 F10", "the workqueue core claims the work by an atomic bit before it touches the timer"
    ),
    _of("neigh_timer_handler", "F2 F3", "under neigh->lock"),
    _of("posix_timer_fn", "F2 F3", "posix timers retry with the callback's lock dropped (hrtimer_try_to_cancel == -1)"),
    _of("timerfd_tmrproc", "F2 F3", "timerfd_settime() retries until the callback is done"),
    _of("it_real_fn", "F2 F3", "setitimer() retries until the callback is done"),
    _of("perf_mux_hrtimer_handler", "F2", "under cpc->hrtimer_lock"),
    _of("sched_rt_period_timer", "F2", "under rt_b->rt_runtime_lock"),
    _of("sched_cfs_period_timer", "F2", "under cfs_b->lock"),
    _of("sched_cfs_slack_timer", "F2 F3", "under cfs_b->lock"),
    _of("dl_task_timer", "F2 F3", "under the runqueue's lock"),
    _of("hrtick", "F2 F3", "under the runqueue's lock"),
    _of("qdisc_watchdog", "F2 F3", "re-armed under the qdisc's lock; its callback only schedules the qdisc"),
    _of("igmp_*", "F2 F3", "under im->lock, with a reference"),
)


def allowed(callback: str, fault: str) -> str:
    """Give why this is benign; empty if it is not known to be."""
    return next((row.reason for row in ALLOWED if fault in row.faults and fnmatchcase(callback, row.callback)), "")
