"""Keeper and agentd together, as real processes: what hangs, dies or degrades is seen, treated and told."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.model import Data
from agent.policies._rungs import INDEX
from agent.policies._standing import Standing
from tests.agents import Agent, agent
from tests.brokers import Subscriber, mosquitto, subscriber, wait_for
from tests.keepers import keeper, python, workload

LabConfig = Callable[..., Path]
QUIET = "[probes]\nenabled = []\n[metrics]\nperiod_s = 1\n"
# Beats ten times a second; hangs in its second second if it is the first of its kind.
HANGS_ONCE = """
import pathlib, sys, time
from agent import watch
mark = pathlib.Path(sys.argv[1])
with watch.Watch() as me:
    for n in range(10**9):
        time.sleep(0.1)
        if n == 10 and not mark.exists():
            mark.touch()
            time.sleep(1000)
        me.beat(done=1)
"""
WELL = """
import time
from agent import watch
with watch.Watch() as me:
    while True:
        time.sleep(0.1)
        me.beat(done=1)
"""
LOSES_SOUND = """
import time
from agent import watch
with watch.Watch(on_profile=lambda name: None) as me:
    for n in range(10**9):
        time.sleep(0.05)
        if n == 20:
            me.event("video.audio_lost", {"stream": "camera-1"})
        me.beat(done=1)
"""


def rows(found: Agent) -> dict[str, dict[str, Any]]:
    """Give what `agentctl workloads` says, by name."""
    return {row["name"]: row for row in found.ctl("workloads")[1]["workloads"]}


def told(hears: Subscriber, record: str, **wanted: object) -> list[dict[str, Any]]:
    """Give the records that came over MQTT with these values."""
    payloads = [heard.payload for heard in hears.of("event") if heard.payload["record"] == record]
    return [one for one in payloads if all(one.get(key) == value for key, value in wanted.items())]


def mqtt(port: int) -> str:
    """Give the section."""
    return f'[mqtt]\nhost = "127.0.0.1"\nport = {port}\n'


@pytest.mark.broker
def test_a_hang_is_captured_aborted_and_told(tmp_path: Path, lab_config: LabConfig) -> None:
    """The whole way: silence, a missed deadline, capture, abort, replacement, each told; its neighbours are left alone.

    One workload hangs, one ends at once again and again, one does its work.
    """
    hanging = workload("hanger", [*python(HANGS_ONCE), str(tmp_path / "hung")], notify="watchdog", deadline_s=2)
    looping = workload("looper", ["/bin/sh", "-c", "sleep 0.2; exit 3"], required=False, restart={"burst": 2, "window_s": 60})
    well = workload("well", python(WELL), notify="watchdog", deadline_s=5)
    with mosquitto(tmp_path / "mq") as broker, subscriber(broker.port) as hears:
        config = lab_config(mqtt(broker.port) + QUIET + hanging + looping + well)
        with keeper(config), agent(config) as found:
            wait_for(lambda: told(hears, "outcome", action="terminate", subject="hanger"), "an abort", 40)
            wait_for(lambda: rows(found)["hanger"]["state"] == "running", "a replacement")
            wait_for(lambda: told(hears, "finding", detector="deadline", state="ok"), "the end of the finding")
            wait_for(lambda: told(hears, "finding", detector="crash_loop", subject="looper"), "a crash loop")
            seen = rows(found)
        outcomes = [one for one in told(hears, "outcome") if one["subject"] == "hanger" and one["action"] != "log"]
        missed = told(hears, "finding", detector="deadline", subject="hanger", state="critical")[0]
    assert [one["action"] for one in outcomes][:2] == ["capture", "terminate"]
    assert all(one["ok"] and one["data"]["ms"] >= 0 for one in outcomes)
    assert missed["data"]["deadline_s"] == 2.0
    threads = json.loads((Path(outcomes[0]["data"]["path"]) / "threads.json").read_text())
    assert threads[0]["threads"][0]["State"].startswith("S")
    (died,) = [one for one in told(hears, "event", kind="workload.exit") if one["subject"] == "hanger"]
    assert died["data"]["signal"] == signal.SIGABRT
    assert [one for one in told(hears, "event", kind="workload.restarted") if one["subject"] == "hanger"]
    assert (seen["hanger"]["misses"], seen["hanger"]["last_rung"], seen["hanger"]["restarts"]) == (1, "terminate", 1)
    assert seen["hanger"]["last_recovery_ms"] > 0
    assert (seen["well"]["state"], seen["well"]["restarts"], seen["well"]["misses"]) == ("running", 0, 0)
    assert seen["well"]["margin_s"] > 0
    assert seen["looper"]["last_rung"] == "restart"


def test_twenty_agents_die_and_no_workload_notices(lab_config: LabConfig) -> None:
    """20 agents are killed and replaced: no workload restarts, and each goes on where the one before had come to."""
    config = lab_config(QUIET + workload("well", python(WELL), notify="watchdog", deadline_s=5))
    pids: set[int] = set()
    with keeper(config):
        for _ in range(20):
            with agent(config) as found:
                wait_for(lambda: rows(found)["well"]["state"] == "running", "a row")
                pids.add(rows(found)["well"]["pid"])
                assert rows(found)["well"]["restarts"] == 0
                found.end(signal.SIGKILL)
        with agent(config) as found:
            events = found.ctl("events", "--limit", "1000", "--kind", "workload.*")[1]["events"]
    assert len(pids) == 1
    states = [event["data"]["state"] for event in events if event.get("kind") == "workload.state"]
    assert states.count("running") == 1, "told once, not again to each agentd"
    assert not [event for event in events if event.get("kind") == "workload.exit"]


def test_a_keeper_that_stands_still_costs_no_workload_its_life(lab_config: LabConfig) -> None:
    """What nobody tells of is not silent: the keeper is stopped for longer than every deadline, then goes on."""
    config = lab_config(QUIET + workload("well", python(WELL), notify="watchdog", deadline_s=2))
    with keeper(config) as kept, agent(config) as found:
        wait_for(lambda: (rows(found)["well"]["margin_s"] or 0) > 1, "beats")
        before = rows(found)["well"]["pid"]
        kept.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: (rows(found)["well"]["margin_s"] or 0) < -2, "a silence that is nobody's")
        kept.process.send_signal(signal.SIGCONT)
        wait_for(lambda: (rows(found)["well"]["margin_s"] or 0) > 1, "beats again")
        row = rows(found)["well"]
    assert (row["pid"], row["restarts"], row["misses"], row["last_rung"]) == (before, 0, 0, None)


def test_a_hold_that_ended_unseen_ends_in_the_keeper_too(lab_config: LabConfig) -> None:
    """The agent is killed, and the hold of one workload runs out before the next one comes: what exits is started again."""
    config = lab_config(QUIET + workload("well", python(WELL), notify="watchdog", deadline_s=5))
    with keeper(config):
        with agent(config) as found:
            wait_for(lambda: rows(found)["well"]["state"] == "running", "a row")
            pid = rows(found)["well"]["pid"]
            found.ctl("hold", "1s", "--why", "cable", "well")
            wait_for(lambda: list(Path(found.config.parent).glob("state/ladder.json")), "a hold on the disk")
            found.end(signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        time.sleep(1)
        with agent(config) as found:
            wait_for(lambda: rows(found)["well"]["state"] == "running", "its return")


def test_what_happens_while_no_agent_is_there_is_told_to_the_next(lab_config: LabConfig) -> None:
    """A workload that is killed while agentd is away is replaced by the keeper; the next agentd records it, once."""
    config = lab_config(QUIET + workload("well", python(WELL), notify="watchdog", deadline_s=5))
    with keeper(config) as kept:
        with agent(config) as found:
            wait_for(lambda: rows(found)["well"]["state"] == "running", "a row")
            pid = rows(found)["well"]["pid"]
            found.end(signal.SIGKILL)
        with kept.client() as client:
            Path(f"/proc/{pid}").exists()
            client.order("abort", "well")
            client.wait(type="state", name="well", state="running")
        for _ in range(2):
            with agent(config) as found:
                wait_for(lambda: rows(found)["well"]["restarts"] == 1, "the restart")
                events = found.ctl("events", "--limit", "1000", "--kind", "workload.exit")[1]["events"]
    exits = [event for event in events if event.get("kind") == "workload.exit"]
    assert [event["data"]["pid"] for event in exits] == [pid]


@pytest.mark.broker
def test_lost_sound_degrades_within_five_seconds_without_a_restart(tmp_path: Path, lab_config: LabConfig) -> None:
    """From the loss of audio to the degraded service it takes 5 s at most, the viewers' stream (the process) going on."""
    more = {"notify": "watchdog", "deadline_s": 5, "degrade": ["audio-off"]}
    with mosquitto(tmp_path / "mq") as broker, subscriber(broker.port) as hears:
        config = lab_config(mqtt(broker.port) + QUIET + workload("camera-1", python(LOSES_SOUND), **more))
        with keeper(config), agent(config) as found:
            wait_for(lambda: told(hears, "outcome", action="degrade"), "a degraded service")
            seen = rows(found)["camera-1"]
            full = found.status()["workloads"][0]
        (lost,) = told(hears, "event", kind="video.audio_lost")
        (outcome,) = told(hears, "outcome", action="degrade")
        profiles = told(hears, "event", kind="workload.profile")
    assert outcome["ok"], outcome["detail"]
    assert (outcome["t_mono_ns"] - lost["t_mono_ns"]) / 1e9 < 5
    assert outcome["data"]["profile"] == full["profile"] == "audio-off"
    assert [one["data"]["profile"] for one in profiles] == ["audio-off"]
    assert (seen["restarts"], seen["last_rung"]) == (0, "degrade")
    assert not told(hears, "event", kind="workload.exit")


@pytest.mark.broker
def test_nothing_is_done_on_hold(tmp_path: Path, lab_config: LabConfig) -> None:
    """`agentctl hold`: the central service sees maintenance, a missed deadline is told and nothing done, `resume` ends both."""
    hanging = workload("hanger", [*python(HANGS_ONCE), str(tmp_path / "hung")], notify="watchdog", deadline_s=2)
    with mosquitto(tmp_path / "mq") as broker, subscriber(broker.port) as hears:
        config = lab_config(mqtt(broker.port) + QUIET + hanging)
        with keeper(config), agent(config) as found:
            code, held = found.ctl("hold", "10m", "--why", "lens is cleaned")
            assert (code, held["workload"], held["why"]) == (0, None, "lens is cleaned")
            wait_for(lambda: hears.of("status")[-1].payload["state"] == "maintenance", "maintenance on MQTT")
            wait_for(lambda: told(hears, "finding", detector="deadline", state="critical"), "a missed deadline", 40)
            assert rows(found)["hanger"]["hold_until"] == pytest.approx(time.time() + 600, abs=60)
            assert not [one for one in told(hears, "decision") if one["action"] != "log"]
            found.end(signal.SIGKILL)
            with agent(config) as again:
                assert rows(again)["hanger"]["hold_until"] is not None, "kept over a restart of agentd"
                assert again.ctl("resume")[1]["ended"] is True
                assert again.ctl("resume")[1]["ended"] is False
                wait_for(lambda: hears.of("status")[-1].payload["state"] == "online", "online again")
                wait_for(lambda: told(hears, "outcome", action="terminate"), "what waited", 40)


@dataclass
class BrokerDouble:
    """Answers on broker.sock, and does nothing: the machine of a test must not reboot."""

    path: Path
    asked: list[dict[str, Any]] = field(default_factory=list)

    def serve(self, listener: socket.socket) -> None:
        """Answer until the listener is closed."""
        with suppress(OSError):
            while True:
                peer, _address = listener.accept()
                reading, writing = os.pipe()  # out of which comes what became of it
                with peer, peer.makefile("rb") as lines, os.fdopen(reading), os.fdopen(writing, "w") as said:
                    self.asked.append(json.loads(lines.readline()))
                    said.write('{"ok": true, "said": "on its way"}\n')
                    socket.send_fds(peer, [b'{"ok": true, "result": null}\n'], [reading])


@contextmanager
def broker_double(config: Path) -> Iterator[BrokerDouble]:
    """Run one where agentd of `config` looks for its broker."""
    found = BrokerDouble(config.parent / "run/broker.sock")
    found.path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(found.path))
        listener.listen(4)
        thread = threading.Thread(target=found.serve, args=(listener,))
        thread.start()
        try:
            yield found
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def test_the_ladder_goes_on_at_the_rung_where_it_stood(tmp_path: Path, lab_config: LabConfig) -> None:
    """Its position outlives agentd: all rungs but the reboot were tried, so the next miss reboots, with last words."""
    hanging = workload("hanger", [*python(HANGS_ONCE), str(tmp_path / "hung")], notify="watchdog", deadline_s=2)
    config = lab_config(QUIET + hanging)
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    now = time.monotonic_ns()
    standing = Standing(at=INDEX["degrade"], start=INDEX["reboot"], last="degrade", taken_ns=now, ready_ns=now, quiet_ns=now)
    kept: Data = {"schema": 1, "boot_id": boot_id, "now_ns": now, "restore_s": 600.0, "holds": {}, "taken": {}}
    state = config.parent / "state"
    (state / "ladder.json").write_text(json.dumps(kept | {"workloads": {"hanger": standing.plain()}}))
    with broker_double(config) as root, keeper(config), agent(config) as found:
        wait_for(lambda: [one for one in root.asked if one["verb"] == "reboot"], "an order to reboot", 40)
        words = json.loads((state / "intent.json").read_text())
        wait_for(lambda: rows(found)["hanger"]["last_rung"] == "reboot", "the row")
    (order,) = [one for one in root.asked if one["verb"] == "reboot"]
    assert "hanger is silent" in order["reason"]
    assert (words["phase"], words["act"]) == ("act", "reboot")
    assert "hanger is silent" in words["reason"]
