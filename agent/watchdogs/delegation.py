"""Who feeds which watchdog: this agent, systemd, or nobody. Pure; `doctor` and agentd ask the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.config.model import Watchdog
from agent.linux.watchdogfacts import WatchdogFacts

FIRST = {"watchdog0", "watchdog"}  # WatchdogDevice= of systemd, by default


@dataclass(frozen=True, slots=True)
class Plan:
    """The watchdogs by owner; `why` says what decided."""

    own: tuple[WatchdogFacts, ...] = ()
    delegated: tuple[WatchdogFacts, ...] = ()
    idle: tuple[WatchdogFacts, ...] = ()
    why: str = ""


def decide(settings: Watchdog, found: Sequence[WatchdogFacts], systemd_s: float, *, service: bool) -> Plan:
    """Give the plan. `service`: agentd was started by a service manager, which brings it back if it dies.

    `auto` arms nothing for an agentd in the foreground: Ctrl-C or a crash would reset a developer's machine.
    """
    paths = {str(path) for path in settings.devices}
    chosen = tuple(one for one in found if not paths or one.path in paths)
    idle = tuple(one for one in found if one not in chosen)
    if settings.mode == "off":
        return Plan(idle=tuple(found), why='[watchdog] mode = "off"')
    if settings.mode == "delegated":
        return Plan(delegated=chosen, idle=idle, why='[watchdog] mode = "delegated"')
    if settings.mode == "own":
        return Plan(own=chosen, idle=idle, why='[watchdog] mode = "own"')
    if not service:
        return Plan(idle=tuple(found), why="agentd runs in the foreground, and auto arms nothing then")
    theirs = tuple(one for one in chosen if systemd_s and one.name in FIRST)
    ours = tuple(one for one in chosen if one not in theirs)
    why = f"systemd feeds one itself (RuntimeWatchdogSec={systemd_s:g})" if theirs else "nobody else feeds one"
    return Plan(own=ours, delegated=theirs, idle=idle, why=why)
