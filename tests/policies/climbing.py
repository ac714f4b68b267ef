"""A ladder over a few workloads, driven by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable

from agent.config import Workload
from agent.model import Data, Decision, Finding, State
from agent.policies.ladder import NS, Ladder

CAMERA = Workload("camera", command=("/usr/bin/camera",), degrade=("low", "lowest"), priority=3)
DETECTOR = Workload("detector", command=("/usr/bin/detector",), after=("camera",), degrade=("cpu",), priority=5)
RECORDER = Workload("recorder", command=("/usr/bin/recorder",), after=("detector",), required=False, priority=9)
UNIT = Workload("unit", unit="vision.service")
ALL = (CAMERA, DETECTOR, RECORDER, UNIT)


def finding(second: float, name: str, state: State = "critical", cause: str = "deadline", **data: float) -> Finding:
    """Make a finding of the detector whose cause this is."""
    detector = {"oom": "service_loss", "audio_lost": "service_loss", "timeout": "service_loss", "gave_up": "crash_loop"}
    return Finding(round(second * NS), detector.get(cause, cause), name, state, "silent", (), {"cause": cause, **data})


class Climber:
    """Time in seconds; every decision is kept as `(second, workload, action)`."""

    def __init__(self, *workloads: Workload, mcu: bool = True, supervised: Iterable[str] = (), boot: str = "boot-1") -> None:
        self.workloads = workloads or ALL
        self.mcu, self.supervised = mcu, tuple(supervised)
        self.boot(boot)
        self.taken: list[tuple[float, str, str]] = []
        self.decisions: list[Decision] = []
        self.second = 0.0

    def boot(self, name: str) -> None:
        """Start a ladder that knows nothing yet."""
        self.ladder = Ladder(name)
        self.ladder.learn(self.workloads, mcu=self.mcu, supervised=self.supervised)

    def find(self, name: str, cause: str = "deadline", **data: float) -> list[str]:
        """Raise a finding now; give the actions that it calls for."""
        return self._keep(self.ladder.decide(finding(self.second, name, "critical", cause, **data)))

    def end(self, name: str, cause: str = "deadline") -> list[str]:
        """End a finding now."""
        return self._keep(self.ladder.decide(finding(self.second, name, "ok", cause)))

    def until(self, second: float) -> list[str]:
        """Let time pass, with a tick every 10 s and one whenever the ladder wants it; give the actions."""
        found: list[str] = []
        while self.second < second:
            due = self.ladder.next_due_ns()
            soon = [second, self.second + 10, *([max(due / NS, self.second + 0.001)] if due is not None else [])]
            self.second = min(soon)
            found += self._keep(self.ladder.tick(round(self.second * NS)))
        return found

    def restart(self, boot: str, second: float) -> None:
        """Write the state as JSON, and read it in another agentd at `second` (of the clock of `boot`)."""
        kept = json.loads(json.dumps(self.ladder.plain(round(self.second * NS))))
        self.boot(boot)
        self.second = second
        self.ladder.restore(kept, round(second * NS))
        self.ladder.learn(self.workloads, mcu=self.mcu, supervised=self.supervised)

    def row(self, name: str) -> Data:
        """Give the row of one workload."""
        return self.ladder.row(name, round(self.second * NS))

    def _keep(self, decisions: Iterable[Decision]) -> list[str]:
        kept = list(decisions)
        self.decisions += kept
        self.taken += [(round(one.t_mono_ns / NS, 3), str(one.arguments["workload"]), one.action) for one in kept]
        return [one.action for one in kept]
