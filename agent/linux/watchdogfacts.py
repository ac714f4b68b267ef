"""What is known of the machine's watchdogs without opening one: opening arms it (Documentation/watchdog/watchdog-api.rst).

From /sys/class/watchdog (Documentation/ABI/testing/sysfs-class-watchdog), which older drivers are not in: ipmi_watchdog makes
`/dev/watchdog` itself. `root` is a fixture tree in tests. What cannot be read is None, never 0.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.linux import procfs

ROOT = Path("/")
SOFTWARE = "Software Watchdog"  # softdog: it cannot outlive the kernel that it watches
_CLASS = "sys/class/watchdog"
_SYSTEMD = "etc/systemd/system.conf"
_DROP_INS = ("usr/lib/systemd/system.conf.d", "run/systemd/system.conf.d", "etc/systemd/system.conf.d")
_UNITS = {
    **dict.fromkeys(("ms", "msec"), 0.001),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
}


@dataclass(frozen=True, slots=True)
class WatchdogFacts:
    """One watchdog; times are seconds."""

    name: str
    path: str
    identity: str
    running: bool | None = None
    """It counts down: somebody has it open, or the firmware armed it."""
    timeout_s: int | None = None
    pretimeout_s: int | None = None
    timeleft_s: int | None = None
    max_s: int | None = None
    governor: str = ""
    bootstatus: int | None = None
    nowayout: bool | None = None
    options: int | None = None

    @property
    def label(self) -> str:
        """Name it over boots, in which another driver may get the same number."""
        return f"{self.name} ({self.identity})"

    @property
    def hardware(self) -> bool:
        """Whether it works without this kernel."""
        return self.identity != SOFTWARE


def read(root: Path = ROOT) -> tuple[WatchdogFacts, ...]:
    """Give every watchdog there is, by number."""
    folders = sorted((root / _CLASS).glob("watchdog*"), key=lambda path: (len(path.name), path.name))
    return (*(_one(path) for path in folders), *_legacy(root, {path.name for path in folders}))


def _one(path: Path) -> WatchdogFacts:
    def number(name: str) -> int | None:
        text = (procfs.read(path / name) or "").strip()
        with contextlib.suppress(ValueError):
            return int(text, 0) if len(text) < 20 else None
        return None

    state, nowayout = (procfs.read(path / "state") or "").strip(), number("nowayout")
    return WatchdogFacts(
        name=path.name,
        path=f"/dev/{path.name}",
        identity=(procfs.read(path / "identity") or "").strip() or "unknown",
        running={"active": True, "inactive": False}.get(state),
        timeout_s=number("timeout"),
        pretimeout_s=number("pretimeout"),
        timeleft_s=number("timeleft"),
        max_s=number("max_timeout"),
        governor=(procfs.read(path / "pretimeout_governor") or "").strip(),
        bootstatus=number("bootstatus"),
        nowayout=None if nowayout is None else bool(nowayout),
        options=number("options"),
    )


def _legacy(root: Path, known: set[str]) -> Iterator[WatchdogFacts]:
    """Yield what has /dev/watchdog to itself, as no driver in the class does (the first of those has it too)."""
    if "watchdog0" not in known and (root / "sys/class/misc/watchdog").exists():
        ipmi = (root / "sys/module/ipmi_watchdog").exists()
        yield WatchdogFacts("watchdog", "/dev/watchdog", "IPMI" if ipmi else "unknown")


def ipmi_readable(root: Path = ROOT) -> bool:
    """Whether the IPMI driver makes its device readable at the pretimeout (Documentation/driver-api/ipmi.rst, Watchdog)."""
    folder = root / "sys/module/ipmi_watchdog/parameters"
    given = {name: (procfs.read(folder / name) or "").strip() for name in ("preaction", "preop")}
    return given == {"preaction": "pre_int", "preop": "preop_give_data"}


def systemd_s(root: Path = ROOT) -> float:
    """Give RuntimeWatchdogSec= of systemd's configuration in seconds, 0 if it feeds no watchdog or is not the init here.

    "default" (keep what the hardware has) counts as 1 s: it is fed.
    """
    if not (root / "run/systemd/system").is_dir():
        return 0.0
    # A drop-in of a name in a later folder replaces that of an earlier one; then they apply by name, the main file first.
    drop_ins = {path.name: path for folder in _DROP_INS for path in (root / folder).glob("*.conf")}
    found = 0.0
    for path in [root / _SYSTEMD, *(drop_ins[name] for name in sorted(drop_ins))]:
        for value in re.findall(r"^[ \t]*RuntimeWatchdogSec[ \t]*=([^\n]*)$", procfs.read(path) or "", re.MULTILINE):
            found = parse_span(value)
    return found


def parse_span(text: str) -> float:
    """Read a time span of systemd.time(7) as far as anybody writes one for a watchdog: `60`, `1min 30s`, `off`, `default`."""
    words = text.strip().lower()
    if words == "default":
        return 1.0
    parts = re.findall(r"(\d{1,9}(?:\.\d{1,9})?)\s*([a-z]*)", words)
    return sum(float(number) * _UNITS.get(unit, 0.0) for number, unit in parts)


def holder(path: str, root: Path = ROOT) -> str:
    """Say who has the device open, as far as this user may see: root sees everybody, others themselves."""
    names = {path, "/dev/watchdog"} if path == "/dev/watchdog0" else {path}
    for process in (root / "proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(str(fd.readlink()) in names for fd in (process / "fd").iterdir()):
                return f"{(procfs.read(process / 'comm') or '?').strip()} (pid {process.name})"
    span = systemd_s(root)
    return f"systemd, by RuntimeWatchdogSec={span:g}" if span else "a process that this user may not see"


def covers_boot(root: Path = ROOT) -> bool | None:
    """Whether the kernel feeds a watchdog that the firmware armed until somebody opens it; None if it does not say.

    `open_timeout` bounds that feeding, so that a start that hangs ends too (Documentation/watchdog/watchdog-parameters.rst).
    """
    text = (procfs.read(root / "sys/module/watchdog/parameters/open_timeout") or "").strip()
    return int(text) > 0 if text.isdecimal() else None
