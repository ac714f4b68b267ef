"""Checks of what resets a machine that hangs, what keeps the reason, and whether that was ever proved."""

from __future__ import annotations

from collections.abc import Iterator

from agent import narrow
from agent.checks._base import Check
from agent.linux.facts import Facts
from agent.model import Data
from agent.narrow import part, rows

_DRIVER = (
    'load the driver of the board\'s watchdog (modprobe), and leave [watchdog] mode = "auto"; or fit the microcontroller, [mcu]'
)


def checks(facts: Facts, status: Data) -> Iterator[Check]:
    """Yield the checks of the group."""
    listed = [] if "stale_s" in status else rows(status, "watchdogs")
    yield _fed(facts, listed, alive=bool(status) and "stale_s" not in status)
    yield from live(status)
    yield _boot(facts, listed)
    yield _proven(listed, status)
    yield _pstore(facts)


def live(status: Data) -> Iterator[Check]:
    """Yield each watchdog that is not as it should be, by what agentd says of itself."""
    for row in () if "stale_s" in status else rows(status, "watchdogs"):
        if row.get("state") in {"degraded", "critical"}:
            reason, remedy = str(row.get("reason") or row.get("condition")), str(row.get("remedy") or "agentctl watchdog")
            yield Check("watchdog", str(row.get("name")), narrow.state(row.get("state")), reason, remedy)


def _hard(row: Data) -> bool:
    return row.get("kind") == "mcu" or bool(row.get("hardware"))


def _fed(facts: Facts, listed: list[Data], *, alive: bool) -> Check:
    """Say in one line who feeds a hardware watchdog, or that nothing at all does."""
    fed = [row for row in listed if _hard(row) and row.get("owner") in {"agentd", "systemd"}]
    theirs = [row for row in fed if row.get("owner") == "systemd"]
    if theirs and not facts.systemd_watchdog_s:
        reason = f"{theirs[0].get('name')} is left to systemd, which feeds none (RuntimeWatchdogSec= is not set)"
        remedy = "set RuntimeWatchdogSec=60 in /etc/systemd/system.conf, then systemctl daemon-reexec"
        return Check("watchdog", "feeding", "critical", reason, remedy)
    if fed:
        told = ", ".join(f"{row.get('name')} ({row.get('identity') or row.get('kind')}) by {row.get('owner')}" for row in fed)
        return Check("watchdog", "feeding", "ok", told)
    if not alive and any(one.running for one in facts.watchdogs):
        reason = "a watchdog counts, and agentd does not say whether it feeds it"
        return Check("watchdog", "feeding", "unknown", reason, facts.start)
    if facts.systemd_watchdog_s and any(one.hardware for one in facts.watchdogs):
        return Check("watchdog", "feeding", "ok", f"by systemd, RuntimeWatchdogSec={facts.systemd_watchdog_s:g}")
    reason = "nothing feeds a hardware watchdog: a machine that hangs stays hung"
    idle = [row for row in listed if _hard(row) and row.get("reason")]
    if idle:
        return Check("watchdog", "feeding", "degraded", f"{reason} ({idle[0]['reason']})", 'set [watchdog] mode = "own"')
    remedy = _DRIVER if not any(one.hardware for one in facts.watchdogs) else facts.start
    return Check("watchdog", "feeding", "degraded", reason, remedy)


def _boot(facts: Facts, listed: list[Data]) -> Check:
    """Judge what ends a start that hangs before agentd runs."""
    if any(row.get("kind") == "mcu" and row.get("state") == "ok" for row in listed):
        return Check("watchdog", "boot", "ok", "the microcontroller's BOOT lease covers the start")
    remedy = "have the firmware arm its watchdog, and boot with watchdog.open_timeout=300"
    if not any(one.hardware for one in facts.watchdogs):
        return Check("watchdog", "boot", "degraded", "nothing ends a start that hangs: there is no hardware watchdog", remedy)
    if facts.boot_covered is None:
        reason = "whether the kernel bounds its own feeding (watchdog.open_timeout) cannot be read"
        return Check("watchdog", "boot", "unknown", reason, remedy)
    if not facts.boot_covered:
        reason = "nothing ends a start that hangs: the kernel feeds for ever until somebody opens the watchdog"
        return Check("watchdog", "boot", "degraded", reason, remedy)
    return Check("watchdog", "boot", "ok", "the kernel feeds for watchdog.open_timeout only")


def _proven(listed: list[Data], status: Data) -> Check:
    """Say whether a reset by a watchdog is on record: some firmwares feed it themselves, so believing is not knowing."""
    if part(status, "last_reset").get("proven") is True:
        return Check("watchdog", "proven", "ok", "a reset by a watchdog is on record")
    reason = "not proven: no reset by a watchdog is on record" if listed else "agentd knows of no watchdog"
    remedy = "at commissioning, stop agentd without its watchdog and see the machine reset (runbook.md, Prove it)"
    return Check("watchdog", "proven", "unknown", reason, remedy)


def _pstore(facts: Facts) -> Check:
    """Judge whether a panic's last words survive."""
    if facts.pstore is None:
        return Check("watchdog", "pstore", "unknown", "the mounts cannot be read", "mount -t proc proc /proc")
    backend, mounted = facts.pstore
    if not backend:
        reason = "no pstore backend: a panic leaves no trace"
        return Check("watchdog", "pstore", "degraded", reason, "modprobe efi-pstore, or reserve memory for ramoops")
    if not mounted:
        reason = f"pstore ({backend}) is not mounted: what it keeps cannot be read"
        return Check("watchdog", "pstore", "degraded", reason, "mount -t pstore pstore /sys/fs/pstore")
    return Check("watchdog", "pstore", "ok", backend)
