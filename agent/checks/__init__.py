"""The one check runner: for `agentctl status` and `doctor`, the MQTT health message and the Ansible gate. Pure.

Each check says what it found and, unless all is well, one line that would mend it. What cannot be known is `unknown`, never ok.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent.checks import kernel, live, privileges, resources, watchdog, workloads
from agent.checks._base import GROUPS, Check, may_load
from agent.checks.kernel import Tier, tier
from agent.errors import Problem
from agent.linux.facts import Facts
from agent.model import STATES, Data, State, worst

__all__ = ["GROUPS", "Check", "Facts", "Tier", "live_verdict", "may_load", "run", "tier", "verdict"]

SHOWN = 20  # problems of the configuration that get a check of their own


def run(facts: Facts, status: Data | None = None, problems: Iterable[Problem] = (), absent: str = "") -> tuple[Check, ...]:
    """Run all checks, by group.

    `status` is agentd's own (`status --json`; with `stale_s` if agentd is dead), None if there is none; `problems` are those
    of the configuration, `absent` is its path if there is no such file.
    """
    status = status or {}
    return (
        *_configuration(tuple(problems), absent),
        *kernel.checks(facts),
        *privileges.checks(facts, status),
        *live.probes(status, facts),
        *watchdog.checks(facts, status),
        *workloads.checks(facts, status),
        *live.telemetry(status, facts),
        *resources.checks(facts),
    )


def live_verdict(status: Data) -> State:
    """Give the state of what agentd can say of itself at any moment: its probes, findings, connection and outbox."""
    facts = Facts()
    found = (*live.probes(status, facts), *watchdog.live(status), *workloads.live(status, facts))
    return verdict((*found, *live.telemetry(status, facts)))


def verdict(checks: Iterable[Check]) -> State:
    """Give the state of the whole: the worst of all checks, where `unknown` weighs only if nothing of its group is known.

    So one unreadable sysctl does not hide that the rest is well, and an agentd that is silent is not taken for healthy.
    """
    found = tuple(checks)
    blind = any({check.state for check in found if check.group == group} == {"unknown"} for group in GROUPS)
    state = worst([check.state for check in found if check.state != "unknown"])
    return min(state, "unknown" if blind else "ok", key=STATES.index)


def _configuration(problems: tuple[Problem, ...], absent: str) -> Iterator[Check]:
    if absent:
        reason = f"defaults: no file {absent}, and agentd does not start without one (an empty one will do)"
        yield Check("configuration", "file", "degraded", reason, f"as root: install -D -m 0644 /dev/null {absent}")
    elif not problems:
        yield Check("configuration", "file", "ok", "no problems")
    for problem in problems[:SHOWN]:
        yield Check("configuration", problem.key, "critical", str(problem), f"edit {problem.path} line {problem.line}")
    if len(problems) > SHOWN:
        more = f"{len(problems) - SHOWN} more problems"
        yield Check("configuration", "file", "critical", more, f"agentctl config check {problems[0].path}")
