"""agentctl events, probes, config, schema, doctor."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from agent.commands import _messages, _shapes
from agent.commands.events import in_order, new
from agent.model import Data, Event, plain
from agent.telemetry.bounds import Gap, gap_record
from agent.telemetry.database import FILE
from tests.commands.conftest import Box, Replies, status
from tests.telemetry.doubles import event as recorded
from tests.telemetry.doubles import open_outbox

Serve = Callable[[Replies], None]


def event(seq: int, kind: str = "timer.late", **more: Any) -> Data:
    """Give a recorded event."""
    data: Data = {"late_us": 12_000.5, "cpu": 1, "stack": ["a", "b"]}
    made = plain(Event("b" * 32, seq, 5 * seq, 1_769_860_800.25 + seq, "timers", kind, "tcp_write_timer", "warning", data))
    return {"stream_seq": seq, "delivered": True, **made, **more}


def finding(subject: str) -> Data:
    """Give a recorded finding."""
    head: Data = {"record": "finding", "boot_id": "b" * 32, "t_wall": 1_769_860_801.5, "t_mono_ns": 7, "detector": "timer_late"}
    return head | {"subject": subject, "state": "degraded", "summary": "12 ms late", "evidence": [1], "data": {}}


def told(*records: Data, cut: bool = False) -> dict[str, Any]:
    """Give agentd's reply with these records."""
    return {"result": {"events": [*records], "cut": cut}}


def test_events_from_agentd(box: Box, serve: Serve) -> None:
    """Pins both forms: the JSON passes records on, people get one line with time, severity, kind, subject and the data."""
    serve({"events": [told(event(1), finding("tick\x1b[2J"))]})
    assert box.agentctl("events", "--json").json == {
        "schema": "gatewarden.events/1",
        "events": [event(1), finding("tick\x1b[2J")],
    }
    first, second = box.agentctl("events").out.splitlines()
    assert first.split() == [
        "2026-01-31T12:00:01.250Z",
        "warning",
        "timer.late",
        "tcp_write_timer",
        "late_us=12000.5",
        "cpu=1",
        "stack=[2]",
    ]
    assert second.split(None, 3) == ["2026-01-31T12:00:01.500Z", "degraded", "finding.timer_late", "tick\\x1b[2J  12 ms late"]


def test_kind_and_limit_choose(box: Box, serve: Serve) -> None:
    """Pins `--kind` and `--limit`: the newest of the kind, oldest first."""
    serve({"events": [told(event(1), event(2, "proc.exit"), event(3), event(4, "timer.storm"), finding("x"))]})

    def seqs(*options: str) -> list[Any]:
        return [row.get("seq") for row in box.agentctl("events", "--json", *options).json["events"]]

    assert seqs("--kind", "timer.*") == [1, 3, 4]
    assert seqs("--kind", "timer", "--limit", "2") == [3, 4]
    assert seqs("--kind", "*.exit") == [2]
    assert seqs("--kind", "finding") == [None]


def test_what_is_shown_is_in_the_order_of_time() -> None:
    """Records of several rings are stored as they are read; a record without a time stays behind the one before it."""
    rows: list[Data] = [{"t_wall": 3.0, "n": 1}, {"record": "gap", "n": 2}, {"t_wall": 2.0, "n": 3}, {"t_wall": 2.0, "n": 4}]
    assert [row["n"] for row in in_order(rows)] == [3, 4, 1, 2]


def test_without_agentd_and_store_there_are_no_events(box: Box) -> None:
    """Pins that a gateway that never ran has recorded nothing, and says that nobody runs, where, and exit 3."""
    ran = box.agentctl("events", "--json")
    assert (ran.code, ran.json["events"], ran.err.count("\n")) == (3, [], 1)
    assert str(box.path / "run/control.sock") in ran.err
    assert str(box.path / "state") in ran.err


def test_follow_without_agentd_says_that_it_waits(box: Box) -> None:
    """Pins one line before the waiting, so that an empty screen is not taken for a quiet machine."""
    command = [sys.executable, "-P", "-m", "agent.cli", "--config", str(box.config), "events", "--follow"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as running:
        try:
            assert running.stderr is not None
            assert running.stderr.readline() == b"agentd is not running: waiting for what it will record\n"
        finally:
            running.terminate()


def test_all_events_are_there_whether_agentd_runs_or_not(box: Box, serve: Serve) -> None:
    """Pins that the store itself is read: `--limit` above what agentd gives is not cut, nor is a glob looked for among few."""
    outbox = open_outbox(box.path / "state")
    try:
        outbox.append([recorded(1, "irq.storm"), *(recorded(seq) for seq in range(2, 1502))], {})
        serve({"events": [told(event(1))]})
        ran = box.agentctl("events", "--limit", "5000", "--json")
        assert [row["seq"] for row in ran.json["events"]] == [*range(1, 1502)]
        assert "cut" not in ran.json
        found = box.agentctl("events", "--kind", "*.storm", "--json").json["events"]
        assert [row["seq"] for row in found] == [1]
    finally:
        outbox.close()


def test_what_agentd_leaves_out_is_said(box: Box, serve: Serve) -> None:
    """Pins that who must ask agentd is told, in both forms of output, that there is more; not if the limit was reached."""
    serve({"events": [told(event(1), event(2), cut=True)]})
    ran = box.agentctl("events", "--json")
    assert (ran.code, ran.json["cut"], ran.err.count("\n")) == (0, True, 1)
    assert "older ones are left out" in box.agentctl("events").err
    assert box.agentctl("events", "--limit", "2").err == ""


@pytest.mark.root
def test_who_may_not_read_the_store_asks_agentd(box: Box, serve: Serve) -> None:
    """Pins the way of a user outside the group: agentd is asked; without it exit 4 and the reason."""
    outbox = open_outbox(box.path / "state")
    outbox.append([recorded(7)], {})
    outbox.close()
    (box.path / "state").chmod(0o700)
    for folder in (box.path, *box.path.parents[:2]):
        folder.chmod(0o755)
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-P", "-m", "agent.cli"]

    def ask() -> subprocess.CompletedProcess[str]:
        return subprocess.run([*nobody, "events", "--config", str(box.config)], capture_output=True, text=True, check=False)

    ran = ask()
    assert (ran.returncode, ran.stdout) == (4, "")
    assert "permission denied" in ran.stderr
    serve({"events": [told(event(1))]})
    (box.path / "run").chmod(0o755)
    box.control.chmod(0o666)
    ran = ask()
    assert (ran.returncode, ran.stderr, ran.stdout.count("\n")) == (0, "", 1)


def test_a_damaged_store_is_one_line(box: Box) -> None:
    """Pins that the store is read without agentd, and exit 4 with one line if it is damaged."""
    (box.path / "state" / FILE).write_bytes(b"rubbish" * 1000)
    ran = box.agentctl("events")
    assert (ran.code, ran.out, ran.err.count("\n")) == (4, "", 1)


def test_follow_shows_each_once(box: Box, serve: Serve) -> None:
    """Pins `--follow --json`: JSON Lines, no record twice, new ones as they come."""
    serve({"events": [told(event(1)), told(event(1), event(2)), told(event(1), event(2), event(3))]})
    command = [sys.executable, "-P", "-m", "agent.cli", "--config", str(box.config), "events", "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout is not None
            assert [json.loads(running.stdout.readline())["seq"] for _ in range(3)] == [1, 2, 3]
        finally:
            running.terminate()


def test_follow_forgets_what_cannot_come_again() -> None:
    """Pins that following for years needs no more memory than following for an hour."""
    seen: dict[str, None] = {}
    for seq in range(10_000):
        assert len(new([event(seq)], seen)) == 1
        assert new([event(seq)], seen) == []
    assert len(seen) <= 2000


def test_follow_shows_two_decisions_on_one_finding() -> None:
    """Pins that records are told apart by their message, not by what they carry; a gap has numbers of its own."""
    finding: Data = {"detector": "timer_late", "subject": "tick"}
    said: Data = {"record": "decision", "boot_id": "b", "t_mono_ns": 5, "t_wall": 1.0, "finding": finding}
    rows: list[Data] = [
        {**said, "action": "log", "stream_seq": 7},
        {**said, "action": "snapshot", "stream_seq": 8},
        {"record": "gap", "boot_id": "b", "t_wall": 1.0, "stream_seq": 7},
    ]
    assert new(rows, {}) == rows


def test_probes_list(box: Box, serve: Serve) -> None:
    """Pins `probes`: the rows of the status, and exit 0 while agentd answers."""
    serve({"status": [{"result": status()}]})
    ran = box.agentctl("probes", "--json")
    assert (ran.code, ran.json) == (0, {"schema": "gatewarden.probes/1", "probes": status()["probes"]})
    out = box.agentctl("probes").out
    assert "timers  ok" in out
    assert "→ leave the probe out" in out


def test_probes_without_agentd(box: Box) -> None:
    """Pins exit 3 with the last known rows."""
    (box.path / "run" / "status.json").write_text(json.dumps(status()))
    ran = box.agentctl("probes", "--json")
    assert (ran.code, len(ran.json["probes"]), ran.json["stale_s"] < 60) == (3, 2, True)


@pytest.mark.root
def test_probes_load_needs_root() -> None:
    """Pins exit 4 for an ordinary user, with the command to run."""
    command = [
        "setpriv",
        "--reuid",
        "65534",
        "--clear-groups",
        "--regid",
        "65534",
        sys.executable,
        "-m",
        "agent.cli",
        "probes",
        "load",
    ]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, b"agentctl probes load" in done.stderr) == (4, True)


@pytest.mark.kernel
def test_probes_are_loaded_once_and_unloaded(box: Box, bpffs: Path) -> None:
    """Pins `probes load` (a second one finds them present) and `probes unload`, for real."""
    assert bpffs == box.path / "bpf"
    with box.config.open("a") as file:
        file.write('[probes]\nenabled = ["timers"]\n')
    states = [box.agentctl("probes", "load", "--json").json["probes"][0]["state"] for _ in range(2)]
    assert states == ["loaded", "present"]
    removed = box.agentctl("probes", "unload", "--json").json["removed"]
    assert len(removed) == 1
    assert box.agentctl("probes", "unload").out == "nothing was loaded\n"


def test_config_check_names_every_fault(box: Box) -> None:
    """Pins FILE:LINE: key: what, for three faults, and exit 2; in JSON the same."""
    bad = box.path / "bad.toml"
    bad.write_text('[gateway]\nsite = 5\nnane = "x"\n[mqtt]\nhost = "h"\nport = 99999\n')
    ran = box.agentctl("config", "check", str(bad))
    assert ran.code == 2
    assert [line.split(" ")[0] for line in ran.out.splitlines()] == [f"{bad}:{n}:" for n in (2, 3, 6)]
    assert [key in line for key, line in zip(("site", "nane", "port"), ran.out.splitlines(), strict=True)] == [True] * 3
    problems = box.agentctl("config", "check", str(bad), "--json").json["problems"]
    assert [(row["line"], row["key"]) for row in problems] == [(2, "gateway.site"), (3, "gateway.nane"), (6, "mqtt.port")]


def test_a_good_config_is_ok(box: Box) -> None:
    """Pins exit 0, and that without FILE the configuration in use is checked."""
    ran = box.agentctl("config", "check")
    assert (ran.code, ran.out) == (0, f"{box.config}: ok\n")


def test_config_show_is_whole_and_redacted(box: Box) -> None:
    """Pins that defaults are shown, secrets are not, and the text is TOML with the same content as the JSON."""
    with box.config.open("a") as file:
        file.write('[[stream]]\nname = "cam"\nurl = "rtsp://admin:hunter22@camera/x"\n')
    ran = box.agentctl("config", "show")
    assert "hunter22" not in ran.out
    shown = tomllib.loads(ran.out)
    assert shown["metrics"]["period_s"] == 10.0
    assert shown["stream"][0]["url"] == "rtsp://***@camera/x"
    assert box.agentctl("config", "show", "--json").json == {"schema": "gatewarden.config/1", "config": shown}


def test_schemas(box: Box) -> None:
    """Pins that every name that `schema` lists has a JSON Schema: config, status, metrics, and each kind of event."""
    listed = box.agentctl("schema").out.split()
    found = box.agentctl("schema", "all", "--json").json["schemas"]
    assert set(listed) == set(found) >= {"config", "status", "metrics", "event", "timer.late", "proc.exit", *_messages.SHAPES}
    assert all(schema["type"] == "object" and schema["properties"] for schema in found.values())
    assert {"schema", "state", "probes", "agent"} <= set(found["status"]["required"])
    assert "stale_s" not in found["status"]["required"]
    one = box.agentctl("schema", "status")
    assert one.json == found["status"]


def test_the_schema_of_an_event_is_the_envelope() -> None:
    """Pins that the published shape has the fields of agent.model.Event."""
    assert set(_shapes.Event.__required_keys__) == {"record", *(item.name for item in fields(Event))}


def test_the_schema_of_a_gap_is_what_the_outbox_writes() -> None:
    """Pins the published shape of a gap record; those of the other messages are held against a running agentd's."""
    assert set(_messages.Gap.__required_keys__) == set(gap_record("event", "b", Gap(1, 2, None), "age"))


def test_doctor_over_a_living_agentd(box: Box, serve: Serve) -> None:
    """Pins that the same checks run here and over agentd's status: shape, verdict, exit code, and the view of people."""
    serve({"status": [{"result": status("degraded")}]})
    ran = box.agentctl("doctor", "--json")
    assert set(ran.json) == {"schema", "state", "checks"}
    assert ran.json["schema"] == "gatewarden.doctor/1"
    assert all(set(row) == {"group", "name", "state", "reason", "remedy"} for row in ran.json["checks"])
    assert ran.code == {"ok": 0, "degraded": 1, "unknown": 4, "critical": 5}[ran.json["state"]]
    irq = next(row for row in ran.json["checks"] if row["name"] == "irq")
    assert (irq["state"], irq["remedy"]) == ("degraded", "leave the probe out of [probes] enabled")
    out = box.agentctl("doctor").out
    assert all(row["name"] in out and (row["state"] == "ok" or row["remedy"] in out) for row in ran.json["checks"])
    assert out.splitlines()[-1].startswith(f"● {ran.json['state']}  ")


def test_doctor_when_all_is_broken(box: Box) -> None:
    """Pins that a bad configuration and a dead agentd are findings with remedies, not failures of doctor."""
    box.config.write_text("[gateway]\nsite = 5\n[paths")
    ran = box.agentctl("doctor", "--json")
    assert (ran.code, ran.json["state"]) == (5, "critical")
    assert [row["state"] for row in ran.json["checks"] if row["group"] == "configuration"] == ["critical"]
    assert "agentd" in [row["name"] for row in ran.json["checks"] if row["state"] == "unknown"]


def test_doctor_names_a_socket_that_answers_rubbish(box: Box, serve: Serve) -> None:
    """Pins that an agentd that cannot be understood is one more finding."""
    serve({"status": [{"raw": "rubbish\n"}]})
    found = [row for row in box.agentctl("doctor", "--json").json["checks"] if row["name"] == "control socket"]
    assert [(row["group"], row["state"]) for row in found] == [("probes", "unknown")]


def test_watch_goes_on_until_it_is_ended(box: Box, serve: Serve) -> None:
    """Pins `--watch N --json`: one object a line for each period."""
    serve({"status": [{"result": status("ok")}, {"result": status("critical")}]})
    command = [sys.executable, "-P", "-m", "agent.cli", "--config", str(box.config), "status", "--watch", "0.1", "--json"]
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout is not None
            assert [json.loads(running.stdout.readline())["state"] for _ in range(3)] == ["ok", "critical", "critical"]
        finally:
            running.terminate()
    assert time.monotonic() - begin < 30
