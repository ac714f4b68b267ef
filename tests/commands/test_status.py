"""agentctl status, as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from agent import config
from agent import status as agentd_status
from agent.commands import _shapes, _status
from agent.model import Data, Json
from agent.place import Place
from agent.status import Identity
from tests.commands.conftest import Box, Replies, status

CONTRACT = set(_shapes._Status.__required_keys__)
Serve = Callable[[Replies], None]


@pytest.mark.parametrize(
    ("state", "options", "code"),
    [
        ("ok", (), 0),
        ("degraded", (), 1),
        ("critical", (), 5),
        ("unknown", (), 4),
        ("ok", ("--fail-on", "degraded"), 0),
        ("degraded", ("--fail-on", "degraded"), 1),
        ("degraded", ("--fail-on", "critical"), 0),
        ("critical", ("--fail-on", "critical"), 5),
        ("unknown", ("--fail-on", "critical"), 4),
    ],
)
def test_the_state_is_the_exit_code(box: Box, serve: Serve, state: str, options: tuple[str, ...], code: int) -> None:
    """Pins the table of exit codes of a living agentd, in both forms of output."""
    serve({"status": [{"result": status(state)}]})
    assert box.agentctl("status", "--brief", *options).out == f"{state}\n"
    assert box.agentctl("status", *options).code == code
    ran = box.agentctl("status", "--json", *options)
    assert (ran.code, ran.json["state"]) == (code, state)


def test_json_is_what_agentd_says(box: Box, serve: Serve) -> None:
    """Pins that nothing of agentd's status is lost, a later version's keys included, and the contract holds."""
    said = status(tomorrow={"more": 1})
    serve({"status": [{"result": said}]})
    assert box.agentctl("status", "--json").json == said
    assert set(said) >= CONTRACT


def test_people_see_what_the_json_has(box: Box, serve: Serve) -> None:
    """Pins that the human view renders the same facts, remedies below the probe they belong to."""
    finding = {"detector": "timer_late", "subject": "tick", "state": "degraded", "summary": "12 ms late", "evidence": [4]}
    serve({"status": [{"result": status("degraded", findings=[finding], gpus=[{"name": "GPU-1", "state": "ok", "xids": 0}])}]})
    out = box.agentctl("status").out
    assert out.splitlines()[0] == "● degraded  s/g"
    wanted: tuple[str, ...] = (
        "3 h 7 min",
        "tier B",
        "b007b007",
        "power",
        "12,345",
        "98.2",
        "connected",
        "2 KiB",
        "3.5 s",
        "12 ms late",
    )
    wanted += (
        "12 ms late",
        "GPU-1",
        "xids=0",
        "25 MiB",
        "0.3 %",
        "no kprobes",
        "0.05 % of all CPUs",
        "1.8 wake-ups/s",
        "3 MiB",
        "4.77 MiB/day",
    )
    assert [text for text in wanted if text not in out] == []
    lines = [line.strip() for line in out.splitlines()]
    irq = next(index for index, line in enumerate(lines) if line.startswith("irq "))
    assert lines[irq + 1 : irq + 3] == [
        "tracepoint irq_handler_entry is missing in this kernel",
        "→ leave the probe out of [probes] enabled",
    ]
    assert "WORKLOADS" not in out


def test_a_dead_agentd_leaves_its_last_words(box: Box) -> None:
    """Pins exit 3 with the last status.json, its age, and the state as it was known last."""
    path = box.path / "run" / "status.json"
    path.write_text(json.dumps(status("degraded")))
    os.utime(path, (time.time() - 90, time.time() - 90))
    ran = box.agentctl("status", "--json")
    assert (ran.code, ran.json["state"]) == (3, "degraded")
    assert 89 <= ran.json["stale_s"] <= 150
    out = box.agentctl("status").out
    assert out.startswith("● not running  s/g: last known degraded, 1 min")
    assert "12,345" in out


@pytest.mark.parametrize(
    "left", [None, b"", b"\x00\xff garbage", b"[]", b'{"state": "great"}', b"[" * 100_000, b'{"state": 5}']
)
def test_nothing_known_is_still_a_whole_status(box: Box, left: bytes | None) -> None:
    """Pins that without a usable status.json every key of the contract is there, and nothing is claimed."""
    if left is not None:
        (box.path / "run" / "status.json").write_bytes(left)
    ran = box.agentctl("status", "--json")
    assert ran.code == 3
    assert set(ran.json) >= CONTRACT
    assert (ran.json["schema"], ran.json["state"], ran.json["stale_s"]) == ("gatewarden.status/1", "unknown", None)
    assert box.agentctl("status").out.startswith("● not running  s/g: it left no status\n")
    assert box.agentctl("status", "--brief").out == "not-running\n"


def test_what_serves_instead_of_a_probe_is_shown(box: Box, serve: Serve) -> None:
    """Pins `status` and `probes`: /proc or pidfds in place of a probe, and a metrics page that cannot be served."""
    off: Data = {"state": "degraded", "reason": "no bpf(2)", "events": 0, "lost": 0}
    probes: list[Json] = [
        {"name": "irq", "origin": "/proc/interrupts", **off},
        {"name": "process_exit", "origin": "pidfd", **off},
        {"name": "timers", "origin": "", **off},
    ]
    page: Data = {"reason": "OpenMetrics needs prometheus_client", "remedy": "pip install prometheus-client"}
    serve({"status": [{"result": status() | {"probes": probes, "metrics": page}}]})
    shown = box.agentctl("status").out
    assert shown.count("instead: ") == 2
    assert "instead: /proc/interrupts" in shown
    assert "→ pip install prometheus-client" in shown
    assert box.agentctl("probes").out.count("instead: ") == 2


def test_an_unknown_reset_is_not_talked_about(box: Box, serve: Serve) -> None:
    """Pins that `last reset` is shown when its cause is known, and otherwise left to the JSON."""
    serve({"status": [{"result": status() | {"last_reset": {"cause": "unknown", "confidence": "none"}}}]})
    assert "last reset" not in box.agentctl("status").out


def test_a_fifo_in_the_place_of_status_json_holds_nobody_up(box: Box) -> None:
    """Pins that whatever lies there is opened without blocking."""
    os.mkfifo(box.path / "run" / "status.json")
    assert box.agentctl("status", "--json").code == 3


@pytest.mark.parametrize("raw", ["rubbish\n", '{"ok": true, "result": []}\n', '{"ok": true, "result": {"state": 1}}\n', "{}\n"])
def test_garbage_from_the_socket_is_one_line(box: Box, serve: Serve, raw: str) -> None:
    """Pins that a reply that is no status ends in one line and exit 2, never a traceback."""
    serve({"status": [{"raw": raw}]})
    ran = box.agentctl("status")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


def test_wrong_types_in_a_status_are_as_good_as_missing(box: Box, serve: Serve) -> None:
    """Pins that a status of an odd agentd is shown as far as it can be read."""
    serve(
        {"status": [{"result": {"state": "ok", "probes": [1, 2], "mqtt": "x", "agent": None, "uptime_s": "soon", "site": 5}}]}
    )
    ran = box.agentctl("status", "--json")
    assert (ran.code, ran.json["probes"], ran.json["mqtt"]["state"], ran.json["site"]) == (0, [], "unknown", "s")
    assert box.agentctl("status").code == 0


def test_text_of_others_cannot_steer_the_terminal(box: Box, serve: Serve) -> None:
    """Pins that escapes, bidi overrides and line breaks out of kernel or peer strings arrive as visible text."""
    evil = "a\x1b[2Jb\u202ec\nd\x9b"
    finding = {"detector": evil, "subject": evil, "state": "critical", "summary": evil}
    row = {"name": evil, "state": evil, "reason": evil, "remedy": evil, "extra": {evil: evil}}
    serve(
        {"status": [{"result": status("critical", findings=[finding], gateway=evil, probes=[row], workloads=[row], tier=evil)}]}
    )
    out = box.agentctl("status").out
    assert not {"\x1b", "\u202e", "\x9b"} & set(out)
    assert "a\\x1b[2Jb\\u202ec\\nd\\x9b" in out


def test_wait_ends_as_soon_as_all_is_well(box: Box, serve: Serve) -> None:
    """Pins `--wait`: it polls until the exit code would be 0, and shows the status of then."""
    serve({"status": [{"result": status("critical")}, {"result": status("degraded")}, {"result": status("ok")}]})
    ran = box.agentctl("status", "--wait", "30", "--json")
    assert (ran.code, ran.json["state"]) == (0, "ok")


def test_a_busy_agentd_is_not_a_dead_one(box: Box) -> None:
    """Pins exit 4 and one line, no last words, when agentd turns away whoever comes; `doctor` has it as a finding."""
    (box.path / "run" / "status.json").write_text(json.dumps(status("ok")))
    program = "import socket, sys\nsock = socket.socket(socket.AF_UNIX); sock.bind(sys.argv[1]); sock.listen()\n"
    program += "print('ready', flush=True)\nwhile True: sock.accept()[0].close()"
    with subprocess.Popen([sys.executable, "-c", program, str(box.control)], stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdout is not None
            assert busy.stdout.readline() == b"ready\n"
            for arguments in (("status", "--json"), ("status", "--wait", "0.5"), ("probes",), ("timers",)):
                ran = box.agentctl(*arguments)
                assert (ran.code, ran.out, ran.err.count("\n")) == (4, "", 1), arguments
                assert "busy" in ran.err
            found = [row for row in box.agentctl("doctor", "--json").json["checks"] if row["name"] == "control socket"]
            assert [row["state"] for row in found] == ["unknown"]
        finally:
            busy.kill()


def test_wait_gives_up(box: Box) -> None:
    """Pins that `--wait` ends after its time with the code of what is."""
    start = time.monotonic()
    assert box.agentctl("status", "--wait", "0.7").code == 3
    assert time.monotonic() - start >= 0.7


def test_the_blank_status_is_the_one_agentd_fills() -> None:
    """Pins that agentctl, agentd and the published schema name the same keys."""
    identity = Identity("s", "g", "b", "B", "", 1)
    said = agentd_status.status(identity, 1.0, [], {}, [], None)
    assert set(_status.blank(Place())) == CONTRACT
    assert set(said) >= CONTRACT
    assert said["schema"] == _status.SCHEMA


def test_the_quick_reader_has_the_defaults_of_the_schema() -> None:
    """Pins that the reader of `[gateway]` and `[paths]` without pydantic agrees with the configuration's own defaults."""
    gateway, paths = config.Gateway(), config.Paths()
    place = Place()
    assert (place.site, place.name) == (gateway.site, gateway.name)
    assert (place.state_dir, place.runtime_dir, place.bpffs_dir) == (paths.state_dir, paths.runtime_dir, paths.bpffs_dir)
    assert place.control == paths.control_socket
    assert paths.status_file == place.last_status
