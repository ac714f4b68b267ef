"""Measuring for a while: two cumulative snapshots of probes, from agentd or (root, without it) from objects of our own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agent import probes
from agent.commands import _settings
from agent.commands._call import Call, Source
from agent.errors import BadRequest, GatewardenError, NotRunning, Refused
from agent.linux import programs
from agent.linux.clock import SystemClock, pause
from agent.linux.unix import ask_patiently
from agent.model import Data, Json
from agent.place import DEFAULT_CONFIG, Place, exposed

TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Agentd:
    """`Source` by the control socket."""

    place: Place

    def snapshot(self, name: str) -> Data:
        """Ask agentd for the cumulative state of one probe."""
        found = ask_patiently(self.place.control, {"verb": "snapshot", "probe": name}, TIMEOUT_S)
        if not isinstance(found, dict):
            raise BadRequest(f"{self.place.control}: the answer is no snapshot of {name}")
        return found


@dataclass(frozen=True, slots=True)
class Measured:
    """What `probe.report` says of each probe, for an interval of `seconds`; `unavailable` says why one says nothing."""

    source: str
    seconds: float
    lost: int
    reports: dict[str, Data]
    unavailable: dict[str, str] = field(default_factory=dict)

    def head(self, command: str) -> Data:
        """Give the keys that every measuring verb's JSON begins with."""
        head: Data = {"schema": f"gatewarden.{command}/1", "seconds": self.seconds, "source": self.source}
        return head | ({"unavailable": dict[str, Json](self.unavailable)} if self.unavailable else {})


def measure(call: Call, names: Sequence[str]) -> Measured:
    """Watch the probes `names` for `--seconds`. Raises what the last of them raised if none can be had."""
    with _source(call, names) as (label, source):
        unavailable: dict[str, str] = {}
        before = _snapshots(source, names, unavailable)
        start = SystemClock().mono_ns()
        _wait(call, call.option("seconds"))
        after = _snapshots(source, list(before), unavailable)
        elapsed = round((SystemClock().mono_ns() - start) / 1e9, 3)
    reports = {name: _report(name, before[name], after[name]) for name in after}
    lost = sum(max(0, _lost(after[name]) - _lost(before[name])) for name in after)
    return Measured(label, elapsed, lost, reports, unavailable)


@contextlib.contextmanager
def _source(call: Call, names: Sequence[str]) -> Iterator[tuple[str, Source]]:
    agentd = Agentd(call.place())
    try:
        ask_patiently(agentd.place.control, {"verb": "status"}, TIMEOUT_S)
    except NotRunning as error:
        if os.geteuid() != 0:
            # Root follows no configuration that others may change, and needs none to measure.
            theirs = DEFAULT_CONFIG if exposed(call.config) else call.config
            line = f"sudo {programs.agentctl(theirs)} {call.option('verb')}"
            raise Refused(f"{error}; start it ({programs.start(call.config)}), or measure without it: {line}") from error
    else:
        yield "agentd", agentd
        return
    with call.loader().measuring(_settings.of(call, probes=names), names) as own:
        yield "own", own


def _snapshots(source: Source, names: Sequence[str], unavailable: dict[str, str]) -> dict[str, Data]:
    found: dict[str, Data] = {}
    failure: GatewardenError | None = None
    for name in names:
        try:
            found[name] = source.snapshot(name)
        except GatewardenError as error:
            unavailable[name] = str(error)
            failure = error
    if failure and not found:
        raise failure
    return found


def _report(name: str, before: Data, after: Data) -> Data:
    try:
        return probes.load(name).report(before, after)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise BadRequest(f"the snapshots of {name} are not of this version: is agentd another one than agentctl?") from error


def _wait(call: Call, seconds_: float) -> None:
    left = seconds_
    while left > 0:
        call.screen.progress(f"measuring, {left:.0f} s left …")
        step = min(1.0, left)
        pause(step)
        left -= step
    call.screen.progress("")


def _lost(snapshot: Data) -> int:
    value = snapshot.get("lost")
    return value if isinstance(value, int) else 0
