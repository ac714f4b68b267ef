"""The watchdogs as agentd owns them: opened, fed by the gate alone, watched, given back. Composition; `feeding` thinks.

A report of work comes in on the loop; if it was the last one wanted, the feeding thread is poked. No timer is involved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from agent.config.model import Watchdog
from agent.linux import kmsg, memlock, pstore, sdnotify, watchdog, watchdogfacts
from agent.linux.feedthread import FeedThread
from agent.linux.pretimeout import PretimeoutLog
from agent.linux.watchdog import Closed, KernelWatchdog
from agent.linux.watchdogfacts import WatchdogFacts
from agent.model import Data, Json, Severity, Sighting
from agent.ports import Clock, Loop
from agent.resets.lastwords import LastWords
from agent.watchdogs import rows
from agent.watchdogs.delegation import Plan, decide
from agent.watchdogs.feeding import AGENTD, NS, Feeder, Gate, Margins
from agent.watchdogs.rows import Held

RETRY_S = 60.0  # between two attempts on a device that somebody else has
_SHARE = 3.0  # at least so many ticks of agentd fit into every time-out


@dataclass(frozen=True, slots=True)
class Machine:
    """What of this machine it takes; `here` gives the real one. `kmsg_fd` raises OSError or GatewardenError."""

    facts: Callable[[], tuple[WatchdogFacts, ...]]
    acquire: Callable[[WatchdogFacts, Watchdog], KernelWatchdog | Closed]
    systemd_s: Callable[[], float]
    kmsg_fd: Callable[[], int]
    notify: Callable[[str], None]
    notify_s: float | None
    service: bool
    lock: Callable[[], str]


def here(opener: Callable[[str], int] = watchdog.open_fd, kmsg_fd: Callable[[], int] = kmsg.open_kmsg) -> Machine:
    """Give this machine; `opener` and `kmsg_fd` may go by the broker."""

    def acquire(facts: WatchdogFacts, settings: Watchdog) -> KernelWatchdog | Closed:
        kept = bool(pstore.backend())
        return watchdog.acquire(facts, settings.timeout_s, settings.pretimeout_s, pstore=kept, opener=opener)

    return Machine(
        facts=watchdogfacts.read,
        acquire=acquire,
        systemd_s=watchdogfacts.systemd_s,
        kmsg_fd=kmsg_fd,
        notify=sdnotify.notify,
        notify_s=sdnotify.watchdog_s(),
        service=sdnotify.supervised(),
        lock=memlock.lock,
    )


class Watchdogs:
    """`report` what works; `tick` at the end of each tick of agentd. All but `FeedThread`'s own call belongs to the loop."""

    def __init__(
        self,
        settings: Watchdog,
        loop: Loop,
        clock: Clock,
        words: LastWords,
        seen: Callable[[Sighting], None],
        machine: Machine,
    ) -> None:
        """Touch nothing yet."""
        self.last_rung: str | None = None
        """The last rung that the ladder took for any workload; whoever runs the ladder sets it."""
        self.plan = Plan()
        self.memory = "not locked (no watchdog is fed here)"
        self._settings, self._loop, self._clock, self._words = settings, loop, clock, words
        self._seen, self._machine = seen, machine
        self._gate = Gate(clock.mono_ns())
        self._held: dict[str, Held] = {}
        self._closed: dict[str, tuple[WatchdogFacts, Closed]] = {}
        self._missing: tuple[str, ...] = ()
        self._tried_ns = clock.mono_ns()
        self._log: PretimeoutLog | None = None
        self._thread = FeedThread(self._feed)

    def start(self) -> None:
        """Decide who owns what, and arm what is ours. Never raises: what cannot be had is a row with its reason."""
        machine = self._machine
        self.plan = decide(self._settings, machine.facts(), machine.systemd_s(), service=machine.service)
        for facts in self.plan.own:
            self._acquire(facts)
        if self._held:
            self.memory = machine.lock()

    @property
    def tick_s(self) -> float | None:
        """How often `tick` must be called at least, for every watchdog to be fed in time; None if nothing asks."""
        spans = [held.feeder.ttl_s for held in self._held.values()]
        spans += [self._machine.notify_s] if self._machine.notify_s else []
        return min(spans) / _SHARE if spans else None

    @property
    def delegated(self) -> bool:
        """Whether systemd hears of the gate instead of a watchdog of ours."""
        return bool(self.plan.delegated) and not self._held

    def add(self, feeder: Feeder, row: Callable[[], Data]) -> None:
        """Feed something else too (the microcontroller's lease); `row` gives what its row says besides."""
        self._held[feeder.name] = Held(feeder, Margins(feeder.ttl_s, self._clock.mono_ns()), row)

    def require(self, names: Iterable[str]) -> None:
        """Feed only while these report."""
        self._gate.require(names, self._clock.mono_ns())

    def report(self, name: str, t_ns: int) -> None:
        """Take in that `name` worked at `t_ns`; feeds at once if everybody has."""
        self._gate.report(name, t_ns)
        now = self._clock.mono_ns()
        if self._gate.take(now):
            self._fed_again()
            if self.delegated:
                self._machine.notify("WATCHDOG=1")
            if self._held:
                self._thread.poke()

    def excuse(self, name: str, until_ns: int) -> None:
        """Count `name` as working until then: it starts or reloads within its deadline, or the machine is starved."""
        self._gate.excuse(name, until_ns)

    def hold(self, on: bool) -> None:  # noqa: FBT001 - a state
        """Maintenance: feed on agentd's own word alone."""
        self._gate.hold = on

    def tick(self) -> None:
        """Take in that agentd's own tick is through; look after everything that does not report by itself."""
        now = self._clock.mono_ns()
        if not self.delegated:
            self._machine.notify("WATCHDOG=1")  # systemd watches agentd then, nothing more
        self.report(AGENTD, now)
        self._judge(now)
        self._words.alive()
        if self._closed and now - self._tried_ns >= RETRY_S * NS:
            self._tried_ns = now
            for facts, _why in list(self._closed.values()):
                self._acquire(facts)

    def rows(self) -> list[Json]:
        """Give `status.watchdogs`."""
        now = self._clock.mono_ns()
        return [
            *(rows.held(held, now, self._missing, self.last_rung) for held in self._held.values()),
            *(rows.unheld(facts, closed.condition, closed.reason, closed.remedy) for facts, closed in self._closed.values()),
            *(rows.unheld(facts, "delegated", self.plan.why, owner="systemd") for facts in self.plan.delegated),
            *(rows.unheld(facts, "off", self.plan.why) for facts in self.plan.idle),
        ]

    def protection(self) -> Data:
        """Give how this process is protected itself."""
        adj = memlock.oom_score_adj()
        return {"memory": self.memory, "feeding_thread": self._thread.priority, "oom_score_adj": adj, "why": self.plan.why}

    def close(self, *, shutdown: bool) -> None:
        """Give every device back: disarmed, or counting on for a while to cover a `shutdown`. Writes the last words."""
        self._thread.close()
        self._words.end()
        for held in self._held.values():
            if isinstance(held.feeder, KernelWatchdog):
                said = held.feeder.close(shutdown=shutdown)
                self._tell("info", "watchdog.closed", held.feeder.name, {"condition": "closed", "reason": said})
        self._held.clear()
        if self._log is not None:
            self._log.close()

    def _acquire(self, facts: WatchdogFacts) -> None:
        found = self._machine.acquire(facts, self._settings)
        if isinstance(found, Closed):
            known = self._closed.get(facts.name)
            self._closed[facts.name] = (facts, found)
            if known is None or known[1] != found:
                self._tell("warning", "watchdog.closed", facts.name, {"condition": found.condition, "reason": found.reason})
            return
        self._closed.pop(facts.name, None)
        self.add(found, partial(rows.ours, found))
        self._watch_pretimeout(found)
        data: Data = {"ttl_s": found.ttl_s, "pretimeout_s": found.pretimeout_s, "evidence": found.evidence}
        self._tell("info", "watchdog.armed", found.name, data | {"nowayout": facts.nowayout})
        self._say_armed()

    def _say_armed(self) -> None:
        feeders = [held.feeder for held in self._held.values()]
        self._words.armed({one.facts.label: one.tells for one in feeders if isinstance(one, KernelWatchdog)})

    def _watch_pretimeout(self, found: KernelWatchdog) -> None:
        fd = found.pretimeout_fd
        if fd is not None:
            self._loop.on_readable(fd, partial(self._pretimeout_fd, found, fd), f"pretimeout of {found.name}")
        elif found.evidence == "kmsg" and self._log is None:
            try:
                self._log = PretimeoutLog(self._loop, self._machine.kmsg_fd(), self._pretimeout)
            except Exception as error:  # noqa: BLE001 - the guard itself does not depend on its evidence
                found.evidence = "none"
                self._tell("warning", "watchdog.closed", found.name, {"condition": "failed", "reason": f"kernel log: {error}"})

    def _pretimeout_fd(self, found: KernelWatchdog, fd: int) -> None:
        found.drain(fd)
        self._pretimeout(found.name)

    def _pretimeout(self, device: str) -> None:
        held = self._held.get(device)
        if held is None or not isinstance(held.feeder, KernelWatchdog):
            return
        left = max(0.0, held.margins.margin_s(self._clock.mono_ns()))
        who = ", ".join(self._gate.missing(self._clock.mono_ns())) or "the machine"
        self._words.phase("pretimeout", f"supervisor: {who} missed its deadline, pretimeout of {device}")
        self._tell("critical", "watchdog.pretimeout", device, {"evidence": held.feeder.evidence, "left_s": round(left, 1)})

    def _feed(self) -> None:
        """On the feeding thread: feed each, and tell the loop."""
        done: list[tuple[str, int, OSError | None]] = []
        for held in list(self._held.values()):
            try:
                held.feeder.feed()
            except OSError as error:
                done.append((held.feeder.name, self._clock.mono_ns(), error))
            else:
                done.append((held.feeder.name, self._clock.mono_ns(), None))
        self._loop.call_soon_threadsafe(partial(self._fed, done))

    def _fed(self, done: list[tuple[str, int, OSError | None]]) -> None:
        for name, t_ns, error in done:
            held = self._held.get(name)
            if held is None:
                continue
            if error is None:
                held.margins.fed(t_ns)
                held.margins.ttl_s = held.feeder.ttl_s  # the microcontroller's adapts
            elif isinstance(held.feeder, KernelWatchdog):
                self._lose(held.feeder, error)

    def _lose(self, found: KernelWatchdog, error: OSError) -> None:
        """Let go of a device that takes no feed: unplugged, or its driver gone; it is tried anew."""
        self._held.pop(found.name)
        if (fd := found.pretimeout_fd) is not None:
            self._loop.forget(fd)
        found.close(shutdown=False)
        reason = f"{found.facts.path}: {error.strerror}"
        self._closed[found.name] = (found.facts, Closed("failed", reason, f"dmesg | grep -i {found.name}"))
        self._tell("error", "watchdog.closed", found.name, {"condition": "lost", "reason": reason})
        self._say_armed()

    def _judge(self, now: int) -> None:
        """Say so once half of the shortest time-out has gone by without a feed: it is what the reset, if one comes, was for."""
        spans = [held.feeder.ttl_s for held in self._held.values()] or (
            [self._machine.notify_s or 0.0] if self.delegated else []
        )
        missing = self._gate.missing(now)
        silent = (now - self._gate.since_ns) / NS
        if not spans or not missing or silent < min(spans) / 2 or missing == self._missing:
            return
        if not self._missing:
            for held in self._held.values():
                held.misses += 1
        self._missing = missing
        self._words.phase("missed", f"supervisor: {', '.join(missing)} missed its deadline")
        data: Data = {"missing": list(missing), "silent_s": round(silent, 1), "left_s": round(min(spans) - silent, 1)}
        self._tell("critical", "watchdog.missed", "feeding", data)

    def _fed_again(self) -> None:
        if self._missing:
            self._tell("info", "watchdog.recovered", "feeding", {"missing": list(self._missing)})
            self._missing = ()
        self._words.phase("run")

    def _tell(self, severity: Severity, kind: str, subject: str, data: Data) -> None:
        self._seen(Sighting(self._clock.mono_ns(), "agent", kind, subject, severity, data))
