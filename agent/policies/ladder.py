"""ladder: what is done to a workload that does not work, one rung after the other, each within its budget, and back down again.

    finding (critical) ── enters by its cause (ENTRIES) ──► rung ── settled, and still (or again) critical ──► the next (RUNGS)
    a rung without budget is passed over; one that cools down is waited for; after the last one the first that has budget again
    quiet for CURED_S: the next finding begins no higher than `restart`; for STABLE_S: one rung down, and one profile back up

The tables are in `_rungs.py`. Nothing is decided for what is on hold, nor in safe mode; nothing here is ever latched: there is
always a next rung, with its time. Time is that of the findings and ticks; a step back changes nothing. docs/watchdog.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from agent.config import Workload
from agent.errors import StoreError
from agent.model import Data, Decision, Finding, Json
from agent.policies import _kept
from agent.policies._budget import Budgets
from agent.policies._hold import Holds
from agent.policies._rungs import ENTRIES, GROUND, INDEX, RUNGS, Entry, Rung, Spec, specs, takes
from agent.policies._standing import RESTORE_S, Standing, standing

NS = 1_000_000_000
CURED_S = 120.0
RETRY_S = 900.0
RESTORE_MOST_S = 86400.0
WORKLOADS = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """The next rung of a workload, and when."""

    rung: Rung
    at_ns: int
    victim: Spec
    """Who is degraded; else the workload itself."""


class Ladder:
    """`ports.Policy`, `ports.Timed` and `ports.Remembers`. One for all workloads."""

    def __init__(self, boot_id: str) -> None:
        """Know no workload; `learn` names them."""
        self.revision = 0
        """Grows with each change that is worth writing."""
        self.safe = ""
        """Why the machine is in safe mode; empty: it is not."""
        self._boot_id = boot_id
        self._specs: dict[str, Spec] = {}
        self._mcu = False
        self._standings: dict[str, Standing] = {}
        self._budgets = Budgets()
        self._holds = Holds()
        self._restore_s = RESTORE_S
        self._restored_ns: int | None = None
        self._now_ns = 0

    def learn(self, workloads: Sequence[Workload], *, mcu: bool, supervised: Collection[str] = ()) -> None:
        """Take the configuration; `mcu`: something can cut the power; `supervised`: units with a Restart= of their own."""
        self._specs, self._mcu = specs(workloads, frozenset(supervised)), mcu
        self._standings = {name: self._standings.get(name, Standing()) for name in self._specs}
        for name, spec in self._specs.items():
            self._standings[name].profile = min(self._standings[name].profile, len(spec.profiles))

    def decide(self, finding: Finding) -> Iterator[Decision]:
        """Take a finding in; one that is not about a workload, or has no cause of ours, is passed over."""
        now = self._now_ns = finding.t_mono_ns
        one = self._standings.get(finding.subject)
        if one is None:
            return
        if finding.state != "critical":
            if one.open.pop(finding.detector, None) is not None and not one.open:
                one.quiet_ns = now
            return
        if finding.data.get("cause") in ENTRIES:
            one.resume(finding, now, CURED_S)
            yield from self._climb(finding.subject, now)

    def tick(self, now_ns: int) -> Iterator[Decision]:
        """Let time pass: take the rungs that are due, the most important workload first, and come down again."""
        self._now_ns = now_ns
        if self._holds.expire(now_ns):
            self.revision += 1
        for spec in sorted(self._specs.values(), key=lambda spec: (spec.priority, spec.order)):
            if self._standings[spec.name].open:
                yield from self._climb(spec.name, now_ns)
            elif self._standings[spec.name].descend(now_ns):
                self.revision += 1
        yield from self._restore(now_ns)

    def next_due_ns(self) -> int | None:
        """Give when the next rung of an open finding is due, or the hold that keeps it ends."""
        found = []
        for name, one in self._standings.items():
            if one.open and not self.safe:
                hold, plan = self._holds.of(name, self._now_ns), self._plan(name, self._now_ns)
                found += [hold.until_ns] if hold else [plan.at_ns] if plan else []
        return min(found, default=None)

    def hold(self, name: str | None, until_ns: int, why: str) -> None:
        """Do nothing to `name` (None: to anything) until then."""
        self._holds.put(name, until_ns, why)
        self.revision += 1

    def resume(self, name: str | None) -> bool:
        """End a hold (None: all holds); gives whether there was one. What waited is due at the next tick."""
        self.revision += 1
        return self._holds.lift(name)

    def held(self, name: str | None, now_ns: int) -> bool:
        """Whether `name` (None: anything) is on hold."""
        return (self._holds.any(now_ns) if name is None else self._holds.of(name, now_ns)) is not None

    def held_itself(self, name: str, now_ns: int) -> bool:
        """Whether `name` itself is on hold, and not just everything."""
        return self._holds.itself(name, now_ns)

    def row(self, name: str, now_ns: int) -> Data:
        """Give what `agentctl workloads` shows of one workload; nothing of an unknown one. Times are seconds from now."""
        one = self._standings.get(name)
        if one is None:
            return {}
        hold, plan = self._holds.of(name, now_ns), self._plan(name, now_ns)
        waits = bool(one.open) and plan is not None and not hold and not self.safe
        spec = self._specs[name]
        return {
            "last_rung": one.last or None,
            "next_rung": plan.rung.name if plan and not self.safe else None,
            "next_in_s": round(max(0, plan.at_ns - now_ns) / NS, 3) if plan and waits else None,
            "hold_s": round((hold.until_ns - now_ns) / NS, 3) if hold else None,
            "hold_why": hold.why if hold else None,
            "profile": spec.profiles[one.profile - 1] if one.profile else None,
            "causes": list[Json](sorted({str(finding.data.get("cause")) for finding in one.open.values()})),
        }

    def plain(self, now_ns: int) -> Data:
        """Give what is to be kept: positions, budgets, holds."""
        return {
            "schema": 1,
            "boot_id": self._boot_id,
            "now_ns": now_ns,
            "restore_s": self._restore_s,
            "holds": self._holds.plain(),
            "taken": self._budgets.plain(),
            "workloads": {name: one.plain() for name, one in self._standings.items()},
        }

    def restore(self, data: Json, now_ns: int) -> None:
        """Take back what `plain` gave; after another boot all times are moved to this one's clock. Raises StoreError."""
        kept = _kept.row(data)
        if kept.get("schema") != 1:
            raise StoreError("the ladder's state is not of schema 1")
        shift = 0 if kept.get("boot_id") == self._boot_id else now_ns - _kept.time(kept, "now_ns")
        found = {name: standing(one, shift, now_ns) for name, one in _kept.table(kept.get("workloads"), WORKLOADS).items()}
        restore_s = min(max(_kept.seconds(kept, "restore_s"), RESTORE_S), RESTORE_MOST_S)
        holds, budgets = Holds(), Budgets()
        holds.restore(kept.get("holds"), shift, now_ns)
        budgets.restore(kept.get("taken"), shift, now_ns)
        self._standings, self._restore_s, self._holds, self._budgets = found, restore_s, holds, budgets

    def _climb(self, name: str, now: int) -> Iterator[Decision]:
        """Take the rungs that are due, one unless it is no cure."""
        if self.safe or self._holds.of(name, now):
            return
        for _rung in RUNGS:
            plan = self._plan(name, now)
            if plan is None or now < plan.at_ns:
                return
            yield self._take(name, plan, now)
            if plan.rung.settle_s:
                return

    def _take(self, name: str, plan: Plan, now: int) -> Decision:
        one, rung = self._standings[name], plan.rung
        finding, _entry = self._gravest(name)
        assert finding is not None
        self._budgets.charge(name, rung, now)
        one.taken(rung, finding, now)
        self.revision += 1
        arguments: Data = {"workload": plan.victim.name, "rung": INDEX[rung.name] + 1, "cause": finding.data.get("cause")}
        if rung.name == "degrade":
            victim = self._standings[plan.victim.name]
            victim.profile += 1
            arguments["profile"] = plan.victim.profiles[victim.profile - 1]
            if self._restored_ns is not None and now - self._restored_ns < self._restore_s * NS:
                self._restore_s = min(2 * self._restore_s, RESTORE_MOST_S)
        reason = f"{finding.detector}: {finding.summary} (rung {INDEX[rung.name] + 1} of {len(RUNGS)})"
        return Decision(now, rung.name, finding, reason, arguments)

    def _plan(self, name: str, now: int) -> Plan | None:
        """Give the next rung; None if there is none for this cause (a unit that systemd still restarts)."""
        spec, one = self._specs[name], self._standings[name]
        finding, entry = self._gravest(name)
        if finding is not None and spec.supervised and finding.data.get("cause") != "gave_up":
            return None
        first, waits = self._first(name, entry, now)
        ready = one.ready_ns
        if one.at < first:  # a cause that enters higher does not wait until a lower rung has settled
            ready = one.opened_ns + one.patience_ns if waits else now
        # What was tried for causes of another kind says nothing about this one.
        same = one.at == GROUND or ENTRIES.get(one.why, entry).rung == entry.rung
        for rung in RUNGS[max(first, one.start if same else 0) : INDEX[entry.top] + 1]:
            victim = self._victim(spec, rung, entry, now)
            if victim is None or self._budgets.spent(name, rung, now):
                continue
            cool = self._budgets.cool_ns(name, rung)
            if cool > max(now, ready) and not rung.settle_s:
                continue
            return Plan(rung, max(ready, cool), victim)
        return self._retry(name, entry, first, now)

    def _retry(self, name: str, entry: Entry, first: int, now: int) -> Plan | None:
        """Give the rung that has budget again first: nothing is given up for ever."""
        spec, one = self._specs[name], self._standings[name]
        again = [
            Plan(rung, max(self._budgets.free_ns(name, rung), one.taken_ns + round(RETRY_S * NS)), victim)
            for rung in RUNGS[min(first, INDEX["restart"]) : INDEX[entry.top] + 1]
            if rung.settle_s and (victim := self._victim(spec, rung, entry, now)) is not None
        ]
        return min(again, key=lambda plan: plan.at_ns, default=None)

    def _first(self, name: str, entry: Entry, now: int) -> tuple[int, bool]:
        """Give the index of the rung where a cause enters, and whether that one is to wait."""
        spec, rung = self._specs[name], RUNGS[INDEX[entry.rung]]
        if entry.otherwise and self._victim(spec, rung, entry, now) is None:
            return INDEX[entry.otherwise], entry.patient
        return INDEX[entry.rung], False

    def _victim(self, spec: Spec, rung: Rung, entry: Entry, now: int) -> Spec | None:
        """Give to whom `rung` would be done; None if it does not exist for this workload, or must not be now."""
        if not takes(spec, rung, mcu=self._mcu) or (rung.machine and self._holds.any(now)):
            return None
        if rung.name != "degrade":
            return spec
        # Memory is everybody's: the least important one gives up first. Else only the workload itself is to blame.
        others = [spec] if not entry.patient else [one for one in self._specs.values() if one.priority >= spec.priority]
        able = [
            one for one in others if self._standings[one.name].profile < len(one.profiles) and not self._holds.of(one.name, now)
        ]
        return max(able, key=lambda one: (one.priority, one is spec, -one.order), default=None)

    def _gravest(self, name: str) -> tuple[Finding | None, Entry]:
        """Give the open finding that enters highest."""
        found = [(finding, ENTRIES[str(finding.data["cause"])]) for finding in self._standings[name].open.values()]
        return max(found, key=lambda pair: INDEX[pair[1].rung], default=(None, ENTRIES["deadline"]))

    def _restore(self, now: int) -> Iterable[Decision]:
        """Give one profile back when everything has been quiet for long enough, to the most important workload first."""
        lowered = [spec for spec in self._specs.values() if self._standings[spec.name].profile]
        if not lowered or self.safe or any(one.open for one in self._standings.values()):
            if not lowered and self._restored_ns is not None and now - self._restored_ns >= self._restore_s * NS:
                self._restore_s, self._restored_ns = RESTORE_S, None
            return []
        since = max(max(one.quiet_ns, one.taken_ns) for one in self._standings.values())
        able = [spec for spec in lowered if not self._holds.of(spec.name, now)]
        if not able or now - max(since, self._restored_ns or since) < self._restore_s * NS:
            return []
        spec = min(able, key=lambda spec: (spec.priority, spec.order))
        one = self._standings[spec.name]
        one.profile -= 1
        self._restored_ns = now
        self.revision += 1
        profile = spec.profiles[one.profile - 1] if one.profile else ""
        summary = f"{spec.name} goes back to {profile or 'its full profile'}: quiet for {self._restore_s:g} s"
        finding = Finding(now, "ladder", spec.name, "ok", summary)
        action = "degrade" if profile else "restore"
        arguments: Data = {"workload": spec.name, "cause": "stable", **({"profile": profile} if profile else {})}
        return [Decision(now, action, finding, summary, arguments)]
