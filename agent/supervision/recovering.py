"""Recovery put together: the ladder and what it remembers, boot loops, holds, and which action waits for which."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from agent import __version__
from agent.config import Config
from agent.errors import BadRequest
from agent.model import Data, Decision, Json, Outcome, Sighting
from agent.policies._hold import ALL, LONGEST_NS
from agent.policies.boots import Boots
from agent.policies.ladder import Ladder
from agent.ports import Clock, Detector
from agent.supervision.remembering import EVERY_S, Remembering, those_of

GATEWAY = "gateway"
"""Subject of a hold of everything."""
HOLD_MOST_S = LONGEST_NS / 1e9
CURES = frozenset({"terminate", "restart", "restart_dependants", "degrade"})
URGENT = frozenset({"machine", "memory"})
"""Lanes that wait for no other: a reboot, and its last words."""
_MACHINE = frozenset({"reboot", "power_cycle", "usb_reset"})
_WORKLOAD = CURES | {"capture", "restore"}
_NS = 1_000_000_000


def lane(decision: Decision) -> str:
    """Give who waits for whom: the rungs of one workload keep their order; nothing holds up what concerns the whole machine."""
    if decision.action in _MACHINE:
        return "machine"
    return f"of {decision.arguments.get('workload')}" if decision.action in _WORKLOAD else "evidence"


class Effects(Protocol):
    """What a hold, or safe mode, changes elsewhere."""

    def held(self, everything: bool, names: Collection[str]) -> None:  # noqa: FBT001 - a state
        """Hear that everything, or just `names`, is on hold now."""
        ...

    def ordered(self, verb: str, name: str, reason: str) -> None:
        """Have the keeper do `verb`, some time soon; a workload that is not the keeper's is left alone."""
        ...

    def told(self, sighting: Sighting) -> None:
        """Take an event."""
        ...


class Recovering:
    """One per agentd, on the loop's thread. `submit(key, job)` runs a job behind those of the same key, where it may block."""

    def __init__(
        self,
        settings: Config,
        boot_id: str,
        clock: Clock,
        detectors: Sequence[Detector],
        submit: Callable[[str, Callable[[], None]], bool],
        say: Callable[[str], None],
    ) -> None:
        """Read nothing yet."""
        self._settings = settings
        self._boot_id = boot_id
        self._clock = clock
        self._submit = submit
        self.ladder = Ladder(boot_id)
        self.boots = Boots()
        parts: dict[str, object] = {one.name: one for one in detectors} | {"ladder": self.ladder, "boot_loop": self.boots}
        self._remembering = Remembering(
            settings.paths.state_dir, those_of(parts), clock, lambda job: submit("memory", job), say
        )
        self._mcu = False
        self._revision = 0
        self._saved_ns = clock.mono_ns()
        self._held: tuple[bool, frozenset[str]] = (False, frozenset())
        self._put_off: set[str] = set()
        """What is to be started when its hold is over."""
        self._took_ms: dict[str, float] = {}
        self.effects: Effects | None = None
        self.last_rung: str | None = None

    def later(self, job: Callable[[], None]) -> bool:
        """Run `job` behind everything that is being written."""
        return self._submit("memory", job)

    def start(self, *, mcu: bool) -> None:
        """Remember. `mcu`: something can cut the power."""
        self._mcu = mcu
        self._remembering.restore()
        self.supervised(())
        self._announce_kept()
        self._settle_holds()

    def supervised(self, names: Collection[str]) -> None:
        """Hear which workloads somebody else restarts, too: those are only watched until he gives up."""
        self.ladder.learn(self._settings.workload, mcu=self._mcu, supervised=names)

    def judged(self, cause: str) -> None:
        """Take in how the last boot ended: several that ended soon are a loop."""
        self.boots.begin(self._boot_id, cause, __version__, self._uptime_s())
        self._enter_or_leave_safe_mode()

    def tick(self) -> None:
        """Look at what time alone changes, and keep what changed."""
        stable = self.boots.tick(self._uptime_s())
        self._enter_or_leave_safe_mode()
        self._settle_holds()
        old = self._clock.mono_ns() - self._saved_ns >= EVERY_S * _NS
        if stable or old or self.ladder.revision != self._revision:
            self._save()

    def close(self) -> None:
        """Keep everything; it is on the disk once the worker is closed."""
        self._remembering.save()

    def submit(self, decision: Decision, job: Callable[[], None]) -> bool:
        """Run the action of a decision; what the ladder thinks is on its way to the disk before the rung is taken."""
        if lane(decision) != "evidence":
            self._save()
            self.last_rung = decision.action
        return self._submit(lane(decision), job)

    def done(self, decision: Decision, outcome: Outcome) -> None:
        """Take note of how long a cure took, from the finding on."""
        if outcome.ok and decision.action in CURES:
            name = str(decision.arguments.get("workload", outcome.subject))
            self._took_ms[name] = round((outcome.t_mono_ns - decision.finding.t_mono_ns) / 1e6, 1)

    def view(self, name: str, now_ns: int) -> Data:
        """Give the ladder's part of a workload's row."""
        row = self.ladder.row(name, now_ns)
        hold_s = row.pop("hold_s", None)
        until = round(self._clock.wall() + hold_s, 1) if isinstance(hold_s, int | float) else None
        took: Data = {"last_recovery_ms": self._took_ms[name]} if name in self._took_ms else {}
        return {**row, "hold_until": until, **took}

    def hold(self, request: Data) -> Json:
        """Answer the verb: nothing is done to `workload` (all without one) for `seconds`. Raises BadRequest."""
        name, seconds, why = self._named(request), request.get("seconds"), request.get("why")
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= HOLD_MOST_S:
            raise BadRequest(f"hold: seconds must be above 0, at most {HOLD_MOST_S:g} ({HOLD_MOST_S / 86400:g} days)")
        if not isinstance(why, str) or not why.strip():
            raise BadRequest("hold: say why, for whoever finds it in force")
        until_ns = self._clock.mono_ns() + round(seconds * _NS)
        self.ladder.hold(name, until_ns, why)
        self._announce(name or GATEWAY, until_ns, why)
        if name and self.effects:
            self.effects.ordered("hold", name, why)
        self._settle_holds()
        self._save()
        return {"workload": name, "until": round(self._clock.wall() + seconds, 1), "why": why[:200]}

    def resume(self, request: Data) -> Json:
        """Answer the verb: end the hold of `workload`, every hold without one. Raises BadRequest."""
        name = self._named(request)
        ended = self.ladder.resume(name)
        self._settle_holds()
        self._save()
        return {"workload": name, "ended": ended}

    def agree(self, name: str, state: str, held: bool) -> None:  # noqa: FBT001 - a fact
        """Have the keeper do what it could not be told while there was no link to it, or no agentd."""
        if self.effects is None:
            return
        if self.ladder.safe and state not in ("stopping", "stopped"):
            self.effects.ordered("stop", name, self.ladder.safe)
        elif not self.ladder.safe and state == "stopped":
            self._start(name, "no safe mode asks for a stop")
        wanted = self.ladder.held_itself(name, self._clock.mono_ns())
        if held != wanted:
            self.effects.ordered("hold" if wanted else "resume", name, "as the holds in force want it")

    def _start(self, name: str, why: str) -> None:
        """Have it started; what is held by name, when its hold is over."""
        if self.ladder.held_itself(name, self._clock.mono_ns()):
            self._put_off.add(name)
        elif self.effects is not None:
            self.effects.ordered("start", name, why)

    def _named(self, request: Data) -> str | None:
        name = request.get("workload")
        known = [one.name for one in self._settings.workload]
        if name is None or (isinstance(name, str) and name in known):
            return name
        raise BadRequest(f"no workload is called {str(name)[:64]!r}, known: {', '.join(known) or 'none'}")

    def _settle_holds(self) -> None:
        """Let everybody know what is on hold now, if that is another than it was."""
        now = self._clock.mono_ns()
        names = frozenset(one.name for one in self._settings.workload if self.ladder.held(one.name, now))
        found, before = (self.ladder.held(ALL, now), names), self._held
        if found == before or self.effects is None:
            return
        self._held = found
        for subject in sorted(before[1] - names) + [GATEWAY] * (before[0] > found[0]):
            self._announce(subject, 0, "")
        for name in before[1] - names:
            self.effects.ordered("resume", name, "the hold is over")
            if name in self._put_off and not self.ladder.safe:
                self.effects.ordered("start", name, "the hold is over")
        self._put_off &= names
        self.effects.held(*found)

    def _announce_kept(self) -> None:
        """Tell the detectors of holds that an earlier agentd was given."""
        now = self._clock.mono_ns()
        for one in self._settings.workload:
            row = self.ladder.row(one.name, now)
            if isinstance(row.get("hold_s"), int | float):
                self._announce(one.name, now + round(float(str(row["hold_s"])) * _NS), str(row.get("hold_why")))

    def _announce(self, subject: str, until_ns: int, why: str) -> None:
        if self.effects is not None:
            data: Data = {"until_ns": until_ns, "why": why[:200]}
            self.effects.told(Sighting(self._clock.mono_ns(), "agent", "workload.hold", subject, "info", data))

    def _enter_or_leave_safe_mode(self) -> None:
        """Stop the workloads of a machine that boots again and again, or try them again."""
        why = self.boots.safe(self._uptime_s())
        if bool(why) != bool(self.ladder.safe) and self.effects is not None:
            for one in self._settings.workload:
                if why:
                    self.effects.ordered("stop", one.name, why)
                else:
                    self._start(one.name, "safe mode is over")
        self.ladder.safe = why

    def _uptime_s(self) -> float:
        return self._clock.mono_ns() / 1e9

    def _save(self) -> None:
        self._revision, self._saved_ns = self.ladder.revision, self._clock.mono_ns()
        self._remembering.save()
