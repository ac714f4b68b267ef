"""Why the machine started last: one cause out of what several witnesses say. Pure.

Witnesses, the strongest first: pstore (the kernel's own last lines), the intent file (what this agent was about to do, or
knew), the mark of a planned shutdown, the watchdogs' boot status, the microcontroller. The first of `RULES` that applies names
the cause; how the others agree with it makes the confidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar, get_args

from agent.model import Data, Json, Severity, Sighting
from agent.narrow import number, part

Cause: TypeAlias = Literal["panic", "watchdog", "power_cut", "operator_reboot", "agent_reboot", "unknown"]
Confidence: TypeAlias = Literal["high", "medium", "low", "none"]
Phase: TypeAlias = Literal["run", "missed", "pretimeout", "stopped", "act"]

CAUSES: tuple[Cause, ...] = get_args(Cause)
CONFIDENCES: tuple[Confidence, ...] = get_args(Confidence)
PHASES: tuple[Phase, ...] = get_args(Phase)
# include/uapi/linux/watchdog.h
CARDRESET, POWERUNDER, OVERHEAT = 0x0020, 0x0010, 0x0001
PRETIMEOUT_PANIC = (
    "watchdog pretimeout event"  # drivers/watchdog/pretimeout_panic.c: the timer's last word, no fault of the kernel
)
OPERATORS_CYCLE = "power cycle asked for by an operator"
"""The act of `agentctl mcu power-cycle`: this agent only passes it on."""
MCU: dict[str, tuple[Cause, str]] = {
    "lease_expired": ("watchdog", "the microcontroller's lease expired"),
    "requested": ("agent_reboot", "the microcontroller was asked for a power cycle"),
    "power_on": ("power_cut", "the microcontroller itself lost its power"),
    "brownout": ("power_cut", "the microcontroller saw the voltage fall"),
}


@dataclass(frozen=True, slots=True)
class Words:
    """The last durable words of a boot. `armed`: the devices that were fed, and whether each reports a reset of its own."""

    boot_id: str
    version: str
    phase: Phase = "run"
    act: str = ""
    """With phase `act`: what this agent was about to do."""
    reason: str = ""
    uptime_s: float = 0.0
    armed: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What there is to judge by. `words` are of another boot than this one, None if there are none."""

    words: Words | None = None
    panic: str = ""
    """The panic's own line out of pstore."""
    planned: bool = False
    """A clean shutdown of that boot had begun."""
    registers: dict[str, int] = field(default_factory=dict)
    """The boot status by device, WDIOF_ flags (sysfs has what WDIOC_GETBOOTSTATUS would give, without opening it)."""
    mcu: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The cause, how sure it is, one line that says why, and who said so."""

    cause: Cause
    confidence: Confidence
    reason: str
    evidence: tuple[str, ...] = ()


UNKNOWN = Verdict("unknown", "none", "no boot before this one is on record")


def judge(found: Evidence) -> Verdict:
    """Give the verdict."""
    return next((verdict for rule in RULES if (verdict := rule(found)) is not None), UNKNOWN)


def _fired(found: Evidence) -> list[str]:
    return [name for name, flags in found.registers.items() if flags & CARDRESET]


def _witnesses(found: Evidence, *first: str) -> tuple[str, ...]:
    return (*first, *[f"bootstatus:{name}" for name in _fired(found)], *([f"mcu:{found.mcu}"] if found.mcu else ()))


def _panic(found: Evidence) -> Verdict | None:
    if not found.panic:
        return None
    ours = PRETIMEOUT_PANIC in found.panic
    return Verdict("watchdog" if ours else "panic", "high", found.panic, _witnesses(found, "pstore"))


def _declared(found: Evidence) -> Verdict | None:
    """Believe what the agent said before it acted: some boards restart by their watchdog, so its register proves nothing."""
    words = found.words
    if words is None or words.phase != "act":
        return None
    late = f"; {', '.join(_fired(found))} fired too, or restarts this board" if _fired(found) else ""
    operators = words.act == OPERATORS_CYCLE
    reason = f"{words.act}{'' if operators else ' by the agent'}: {words.reason}{late}"
    cause: Cause = "operator_reboot" if operators else "agent_reboot"
    return Verdict(cause, "medium" if late else "high", reason, _witnesses(found, "intent"))


def _planned(found: Evidence) -> Verdict | None:
    if not found.planned:
        return None
    late = f"; {', '.join(_fired(found))} fired too: it may have hung" if _fired(found) else ""
    return Verdict("operator_reboot", "medium" if late else "high", f"a planned shutdown{late}", _witnesses(found, "shutdown"))


def _missed(found: Evidence) -> Verdict | None:
    """Believe that feeding had stopped, whatever the register says of the reset (some say "software", some say nothing)."""
    words = found.words
    if words is None or words.phase not in {"missed", "pretimeout"}:
        return None
    denied = any(words.armed.values()) and not _fired(found)
    return Verdict("watchdog", "medium" if denied else "high", words.reason, _witnesses(found, "intent"))


def _register(found: Evidence) -> Verdict | None:
    fired = _fired(found)
    if fired:
        alive = found.words is not None and found.words.phase == "run"
        reason = f"{', '.join(fired)} reset the machine, no trace of why"
        return Verdict("watchdog", "high" if alive else "medium", reason, _witnesses(found))
    low = [name for name, flags in found.registers.items() if flags & POWERUNDER]
    if low:
        return Verdict(
            "power_cut", "high", f"{', '.join(low)} saw the voltage fall", tuple(f"bootstatus:{name}" for name in low)
        )
    return None


def _microcontroller(found: Evidence) -> Verdict | None:
    if found.mcu not in MCU:
        return None
    cause, reason = MCU[found.mcu]
    return Verdict(cause, "high", reason, _witnesses(found))


def _silence(found: Evidence) -> Verdict | None:
    """Conclude from what nobody said: the record ends in the middle."""
    words = found.words
    if words is None:
        return None
    if words.phase == "stopped":
        return Verdict("operator_reboot", "low", "agentd had been stopped, nothing else was said", ("intent",))
    if any(words.armed.values()):
        named = ", ".join(name for name, tells in words.armed.items() if tells)
        return Verdict(
            "power_cut", "medium", f"the record ends in the middle, and {named} did not fire", ("intent", "bootstatus")
        )
    if words.armed:
        named = ", ".join(words.armed)
        return Verdict("watchdog", "low", f"watchdog, no trace: {named} was armed and cannot tell; or a power cut", ("intent",))
    return Verdict("power_cut", "low", "the record ends in the middle, and no watchdog was armed", ("intent",))


RULES: tuple[Callable[[Evidence], Verdict | None], ...] = (
    *(_panic, _declared, _planned, _missed, _register, _microcontroller, _silence),
)


_Word = TypeVar("_Word", bound=str)


def among(known: tuple[_Word, ...], value: Json, default: _Word) -> _Word:
    """Give `value` if it is one of `known`, else the default."""
    return next((one for one in known if one == value), default)


def words(value: Json) -> Words | None:
    """Read what an intent file holds; None for anything else."""
    if not isinstance(value, dict) or not isinstance(value.get("boot_id"), str):
        return None
    phase = among(PHASES, value.get("phase"), "run")
    act, reason = str(value.get("act") or ""), str(value.get("reason") or "")
    armed = {name: tells is True for name, tells in part(value, "armed").items()}
    uptime = max(0.0, number(value.get("uptime_s")))
    return Words(str(value["boot_id"]), str(value.get("version")), phase, act, reason, uptime, armed)


def sighting(verdict: Verdict, before: Words | None, t_mono_ns: int) -> Sighting:
    """Give the one `system.reset` event of a boot."""
    planned = verdict.cause in {"operator_reboot", "agent_reboot"}
    severity: Severity = "info" if planned else "warning" if verdict.cause == "unknown" else "error"
    data: Data = {
        "cause": verdict.cause,
        "confidence": verdict.confidence,
        "reason": verdict.reason,
        "evidence": list(verdict.evidence),
        "before": before.boot_id if before else None,
        "uptime_s": before.uptime_s if before else None,
    }
    return Sighting(t_mono_ns, "agent", "system.reset", "system", severity, data)
