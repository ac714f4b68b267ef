"""agentctl as a process, a stub agentd as another, and what they exchange."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

STUB = Path(__file__).parent / "stub_agentd.py"
Replies = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Ran:
    """What a run of agentctl left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The result read as JSON."""
        found: dict[str, Any] = json.loads(self.out)
        return found


@dataclass(frozen=True)
class Box:
    """A gateway in a temporary folder."""

    path: Path

    @property
    def config(self) -> Path:
        """Its agent.toml."""
        return self.path / "agent.toml"

    @property
    def control(self) -> Path:
        """Where its agentd would listen."""
        return self.path / "run" / "control.sock"

    def agentctl(self, *arguments: str, **environ: str) -> Ran:
        """Run agentctl on it, without a terminal."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "agent.cli", "--config", str(self.config), *arguments],
            capture_output=True,
            check=False,
            timeout=60,
            env={key: value for key, value in os.environ.items() if key not in {"COLUMNS", "NO_COLOR"}} | environ,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """Give a gateway whose agentd does not run."""
    for name in ("run", "state"):
        (tmp_path / name).mkdir()
    found = Box(tmp_path)
    found.config.write_text(
        f'[gateway]\nsite = "s"\nname = "g"\n[paths]\nstate_dir = "{tmp_path}/state"\nruntime_dir = "{tmp_path}/run"\n'
        f'bpffs_dir = "{tmp_path}/bpf"\n'
    )
    return found


@pytest.fixture
def serve(box: Box) -> Iterator[Callable[[Replies], None]]:
    """Give a function that starts the stub agentd of `box`."""
    with ExitStack() as stack:

        def start(replies: Replies) -> None:
            script = box.path / "replies.json"
            script.write_text(json.dumps(replies))
            command = [sys.executable, str(STUB), str(box.control), str(script)]
            stub = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(stub.kill)
            assert stub.stdout is not None
            assert stub.stdout.readline() == b"ready\n"

        yield start


def status(state: str = "ok", **more: Any) -> dict[str, Any]:
    """Give a whole status object."""
    return {
        "schema": "gatewarden.status/1",
        "state": state,
        "gateway": "g",
        "site": "s",
        "version": "0.1.0",
        "boot_id": "b007" * 8,
        "pid": 17,
        "uptime_s": 11_220.0,
        "tier": "B",
        "tier_reason": "no kprobes",
        "last_reset": {"cause": "power", "confidence": "high"},
        "probes": [
            {"name": "timers", "state": "ok", "reason": "", "remedy": "", "events": 12345, "lost": 0, "ns_per_event": 98.2},
            {
                "name": "irq",
                "state": "degraded",
                "reason": "tracepoint irq_handler_entry is missing in this kernel",
                "remedy": "leave the probe out of [probes] enabled",
                "events": 0,
                "lost": 3,
                "ns_per_event": None,
            },
        ],
        "mqtt": {"state": "connected", "backlog_bytes": 2048, "oldest_s": 3.5, "dropped": 0, "dropped_s": None},
        "workloads": [],
        "streams": [],
        "gpus": [],
        "watchdogs": [],
        "findings": [],
        "agent": {
            "uss_kib": 25600,
            "bpf_cpu_pct": 0.05,
            "cpu_pct": 0.3,
            "wakeups_per_s": 1.8,
            "map_kib": 3072,
            "flash_bytes_per_day": 5_000_000,
        },
    } | more
