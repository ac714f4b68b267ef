"""In a guest that is reset again and again: hold `last_reset` against how the boot before ended, then end this one.

    python -m tests.vm.guest.resets --out /mnt

`<out>/stage` counts the boots, `<out>/resets.json` keeps the rows; the state_dir is on a disk of its own, as on a gateway.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.linux import watchdog
from agent.linux.clock import SystemClock, boot_id
from agent.linux.intent import DurableFile
from agent.resets.causes import Words
from agent.resets.lastwords import LastWords
from tests.vm.guest.rows import Row

ROOT = Path(__file__).parents[3]
DISK = "/dev/vda"
STATE = Path("/run/disk/state")
CONFIG = Path("/run/agent.toml")
RB_AUTOBOOT = 0x01234567
FOREVER_S = 120
ATTEMPTS = 4
TOML = """
[paths]
state_dir = "{state}"
runtime_dir = "/run/gw"
bpffs_dir = "/run/gw/bpf"
[probes]
enabled = []
[watchdog]
mode = "own"
timeout_s = {timeout}
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """One boot: the drivers it has, how it ends, and what the next one must say of that."""

    name: str
    modules: tuple[str, ...]
    end: Callable[[Path], list[Row]]
    cause: str
    confidence: str
    timeout_s: int = 60
    evidence: str = ""
    """How its pretimeout must have been kept."""
    governor: str = ""
    held: str = ""
    """A watchdog that somebody else has open."""


def agentd(timeout_s: int) -> subprocess.Popen[bytes]:
    """Start the real agentd; gives it when it is ready. An emulated CPU may be too slow at first for its own time limits."""
    CONFIG.write_text(TOML.format(state=STATE, timeout=timeout_s))
    command = [sys.executable, "-m", "agent.daemon", "--config", str(CONFIG)]
    for _attempt in range(ATTEMPTS):
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.buffer.write(line)
            if b"ready" in line:
                return process
    raise SystemExit(f"agentd ended: {process.wait()}")


def status() -> dict[str, Any]:
    """Ask it, as anybody would."""
    command = [sys.executable, "-m", "agent.cli", "--config", str(CONFIG), "status", "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    return found


def restart() -> None:
    """reboot(2), as an init does at its end."""
    os.sync()
    ctypes.CDLL(None).reboot(RB_AUTOBOOT)
    time.sleep(FOREVER_S)


def protected() -> Row:
    """Show that the unit's limits are enough for memory and priority, without a capability."""
    command = [sys.executable, "-m", "tests.limits", "MEMLOCK=infinity", "RTPRIO=10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = ", ".join(done.stdout.splitlines()) or done.stderr.splitlines()[-1]
    return Row("protected by limits", "locked, real-time", f"{found} KiB", found.startswith("locked, real-time, FIFO 10"))


def operator(_out: Path) -> list[Row]:
    """Reboot as systemd does when asked to: the mark by the unit's own command, agentd ended, then reboot(2)."""
    unit = (ROOT / "deploy/systemd/gatewarden-shutdown.service").read_text()
    found = re.search(r"^ExecStop=/bin/sh -c '(.*)'$", unit, re.MULTILINE)
    assert found is not None
    subprocess.run(["sh", "-c", found[1].replace("/var/lib/gatewarden", str(STATE))], check=True)
    running.terminate()
    running.wait()
    restart()
    return []


def agent(_out: Path) -> list[Row]:
    """Reboot as agentd does: its intent first, durably."""
    words = LastWords(DurableFile(STATE / "intent.json"), SystemClock(), Words(boot_id(), "vm"), print)
    words.declare("reboot", "ladder: work")
    restart()
    return []


def panic(_out: Path) -> list[Row]:
    """Panic while agentd guards."""
    Path("/proc/sys/kernel/panic").write_text("2")
    Path("/proc/sysrq-trigger").write_text("c")
    time.sleep(FOREVER_S)
    return []


def hang(_out: Path) -> list[Row]:
    """Stop agentd itself: the hardware must notice."""
    running.send_signal(signal.SIGSTOP)
    time.sleep(FOREVER_S)
    return []


def cut(out: Path) -> list[Row]:
    """Have the host take the power away."""
    time.sleep(3)
    (out / "cut").touch()
    time.sleep(FOREVER_S)
    return []


def guard(out: Path, device: str, *options: str) -> None:
    """Hand the device over from agentd to the small one."""
    running.terminate()
    running.wait()
    log = out / f"guard-{(out / 'stage').read_text()}.log"
    command = [sys.executable, "-m", "tests.vm.guest.guard", "--state", str(STATE), "--log", str(log)]
    subprocess.run([*command, "--device", device, *options], check=False, timeout=FOREVER_S)


def starved_then_stopped(out: Path) -> list[Row]:
    """Starve the machine for two time-outs: no reset; then stop the required work: a reset."""
    guard(out, "watchdog0", "--timeout", "20", "--starve", "45")
    lines = [json.loads(line) for line in (out / f"guard-{(out / 'stage').read_text()}.log").read_text().splitlines()]
    row = next(line["row"] for line in lines if line["kind"] == "row")
    found = f"{row['feeds']} feeds, margin p1 {row['margin_p1_s']} s of {row['ttl_s']} s, {row['misses']} misses"
    keep(out, Row("starved for 45 s", "no reset", found, row["condition"] == "armed"))
    guard(out, "watchdog0", "--timeout", "12", "--stop-after", "8")
    return [Row("required work stopped", "a reset", "none", passed=False)]


def stopped(device: str) -> Callable[[Path], list[Row]]:
    """Give the same for another driver."""

    def end(out: Path) -> list[Row]:
        guard(out, device, "--timeout", "12", "--stop-after", "8")
        return [Row(f"required work stopped, {device}", "a reset", "none", passed=False)]

    return end


IPMI = ("ipmi_si", "ipmi_watchdog preaction=pre_int preop=preop_give_data action=reset")
DOG = ("watchdog", "/mnt/pretimeout_dog.ko")
STAGES = (
    Stage("operator's reboot", ("i6300esb",), operator, "operator_reboot", "high"),
    Stage("agent's reboot", ("i6300esb",), agent, "agent_reboot", "high"),
    Stage("panic", ("i6300esb",), panic, "panic", "high"),
    Stage("work stopped, i6300esb", ("i6300esb",), starved_then_stopped, "watchdog", "high"),
    Stage("agentd stopped, i6300esb", ("i6300esb",), hang, "watchdog", "high", timeout_s=16),
    Stage("power cut", ("i6300esb",), cut, "power_cut", "medium", held="watchdog1"),
    Stage("work stopped, softdog", ("softdog",), stopped("watchdog0"), "watchdog", "high"),
    Stage("work stopped, IPMI", IPMI, stopped("watchdog"), "watchdog", "high", evidence="fd"),
    Stage(
        "governor noop", (*DOG, "pretimeout_noop"), stopped("watchdog0"), "watchdog", "high", evidence="kmsg", governor="noop"
    ),
    Stage("governor panic", (*DOG, "pretimeout_panic"), stopped("watchdog0"), "watchdog", "high", governor="panic"),
)


def held_elsewhere(out: Path, stage: Stage) -> None:
    """Hold what agentd says of a device that this process has open, and that it has the other one all the same."""
    rows = {row["name"]: row for row in status()["watchdogs"]}
    found = {name: f"{row['condition']} {row['reason']}".strip() for name, row in rows.items()}
    others = all(row["condition"] == "armed" for name, row in rows.items() if name != stage.held)
    passed = rows[stage.held]["condition"] == "busy" and f"(pid {os.getpid()})" in rows[stage.held]["reason"] and others
    keep(out, Row("already open elsewhere", "busy, and by whom", str(found), passed))


def keep(out: Path, row: Row) -> None:
    """Add a row to those that the host shows."""
    path = out / "resets.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*rows, asdict(row)]))
    os.sync()
    print(f"ROW {'ok' if row.passed else 'FAILED'} {row.what}: {row.found}", flush=True)


def prepare(stage: Stage | None) -> None:
    """Load the drivers, mount the disk and pstore."""
    for module in ("virtio_blk", "ext4", *(stage.modules if stage else ())):
        subprocess.run(["insmod" if module.startswith("/") else "modprobe", *module.split()], check=False)
    if stage and stage.governor:
        Path("/sys/class/watchdog/watchdog0/pretimeout_governor").write_text(stage.governor)
        Path("/proc/sys/kernel/panic").write_text("2")
    STATE.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", DISK, str(STATE.parent)], check=True)
    STATE.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "pstore", "pstore", "/sys/fs/pstore"], check=False)


def judge(out: Path, before: Stage) -> None:
    """Hold what the status says against what `before` did."""
    said = status()
    reset = said["last_reset"]
    found = f"{reset['cause']} ({reset['confidence']}): {reset['reason']} {reset['evidence']}"
    passed = (reset["cause"], reset["confidence"]) == (before.cause, before.confidence)
    keep(out, Row(before.name, f"{before.cause} ({before.confidence})", found, passed))
    if before.evidence:
        log = out / f"guard-{int((out / 'stage').read_text()) - 1}.log"
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        kept = [line.get("evidence") for line in lines if line["kind"] == "watchdog.pretimeout"]
        keep(out, Row(f"pretimeout, {before.name}", before.evidence, str(kept), kept[:1] == [before.evidence]))


running: subprocess.Popen[bytes]


def main() -> int:
    """Go on where the boot before ended."""
    global running  # noqa: PLW0603 - the one agentd of this boot
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    counter = out / "stage"
    number = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(number + 1))
    stage = STAGES[number] if number < len(STAGES) else None
    prepare(stage)
    if stage and stage.held:
        watchdog.FileDevice(watchdog.open_fd(f"/dev/{stage.held}")).control(watchdog.SETTIMEOUT, 600)
    running = agentd(stage.timeout_s if stage else 60)
    if number:
        judge(out, STAGES[number - 1])
    else:
        keep(out, protected())
    if stage and stage.held:
        held_elsewhere(out, stage)
    if stage is None:
        running.terminate()
        (out / "done").touch()
        return 0
    print(f"STAGE {number}: {stage.name}", flush=True)
    for row in stage.end(out):
        keep(out, row)
    return 1


if __name__ == "__main__":
    sys.exit(main())
