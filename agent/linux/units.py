"""systemd's units by `systemctl`, which as root talks to systemd itself: no D-Bus daemon is needed. Formats: systemctl(1).

Reading and parsing are two functions; names come from the configuration, and never begin an option (`--`).
"""

from __future__ import annotations

import contextlib

from agent.errors import GatewardenError
from agent.linux import tool
from agent.linux.servicestate import ServiceState

READ_S, ORDER_S, RESET_S = 2.0, 100.0, 5.0  # systemd itself gives a unit 90 s to start and 90 s to stop
_PROPERTIES = (
    *("LoadState", "ActiveState", "SubState", "Result", "MainPID", "NRestarts", "Restart", "ControlGroup"),
    *("ExecMainPID", "ExecMainCode", "ExecMainStatus", "ExecMainExitTimestampMonotonic"),
)
_STATES = {
    "active": "running",
    "reloading": "reloading",
    "activating": "starting",
    "deactivating": "stopping",
    "inactive": "stopped",
    "failed": "failed",
}
_EXITED, _KILLED, _DUMPED = 1, 2, 3  # CLD_* of waitid(2)


def read(name: str, path: str = tool.PATH) -> ServiceState:
    """Ask systemd for a unit. Raises Unsupported without systemctl, Refused if it does not answer."""
    words = ["systemctl", "show", "--no-pager", "--property", ",".join(_PROPERTIES), "--", name]
    return parse(tool.run(words, READ_S, path))


def parse(text: str) -> ServiceState:
    """Read what `systemctl show` prints; unknown lines are skipped, absent ones unknown."""
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    active, sub, result = (found.get(key, "") for key in ("ActiveState", "SubState", "Result"))
    state = "backoff" if sub == "auto-restart" else _STATES.get(active, "unknown")
    reason = f"{active} ({sub})" if result in ("", "success") else f"{active} ({sub}): {result}"
    if found.get("LoadState") == "not-found":
        state, reason = "failed", "systemd knows no such unit"
    how, status = _number(found.get("ExecMainCode")), _number(found.get("ExecMainStatus"))
    ended = bool(_number(found.get("ExecMainExitTimestampMonotonic")))
    return ServiceState(
        state=state,
        pid=_number(found.get("MainPID")) or None,
        reason=reason,
        restarts=_number(found.get("NRestarts")) or 0,
        supervised=found.get("Restart", "no") not in ("", "no"),
        last_pid=_number(found.get("ExecMainPID")) or None if ended else None,
        code=(status if how == _EXITED else 0) if ended else None,
        signal=(status if how in (_KILLED, _DUMPED) else 0) if ended else None,
        core=how == _DUMPED if ended else None,
        cgroup=found.get("ControlGroup", ""),
    )


def order(verb: str, name: str, path: str = tool.PATH) -> str:
    """Start, stop or restart a unit, and wait for it. A start limit that was hit is lifted first. Raises GatewardenError."""
    if verb != "stop":
        with contextlib.suppress(GatewardenError):  # a unit that is not loaded has nothing to reset
            tool.run(["systemctl", "reset-failed", "--", name], RESET_S, path)
    tool.run(["systemctl", verb, "--", name], ORDER_S, path)
    return f"systemd did {verb} {name}"


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 19 else None
