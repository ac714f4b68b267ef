"""The keeper as a real process, with real workloads: starts, deaths, orders, its own death, its wire."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from agent.tending.memory import Memory
from tests.agents import open_to_all
from tests.brokers import wait_for
from tests.keepers import Client, Keeper, LabConfig, alive, begin, keeper, put_down, python, workload

SLEEP = ["sleep", "1000"]
READY = python("from agent import watch; import time\nwith watch.Watch(): time.sleep(1000)")


def _kill(client: Client, name: str, number: int = signal.SIGKILL) -> int:
    pid = client.state(name)["pid"]
    assert isinstance(pid, int)
    os.kill(pid, number)
    return pid


def test_a_workload_that_dies_is_replaced_at_once(lab_config: LabConfig) -> None:
    """Pins the immediate restart: exit and replacement in one message, how long it took, and the new process runs."""
    with keeper(lab_config(workload("a", SLEEP))) as found, found.client() as client:
        pid = _kill(client, "a")
        told = client.wait(type="exit", name="a")
        assert (told["pid"], told["code"], told["signal"]) == (pid, None, signal.SIGKILL)
        assert alive(told["replaced_pid"])
        assert told["replaced_ms"] < 500
        state = client.wait(type="state", name="a", state="running", pid=told["replaced_pid"])
        assert (state["restarts"], state["ready"]) == (1, True)
        assert client.of(type="exit")[0]["seq"] < state["seq"]


def test_an_exit_code_and_a_core_are_told(lab_config: LabConfig) -> None:
    """Pins what is known of an end: the exit code of one that exits, the signal of one that is killed."""
    one = workload("a", ["sh", "-c", "sleep 0.2; exit 7"], restart={"burst": 0})
    with keeper(lab_config(one)) as found, found.client() as client:
        told = client.wait(type="exit", name="a")
        assert (told["code"], told["signal"], told["core"], told["replaced_pid"]) == (7, None, False, None)


def test_a_spent_budget_becomes_a_back_off(lab_config: LabConfig) -> None:
    """Pins that a workload which exits at once costs its budget, then waits, and is tried again: never given up."""
    with (
        keeper(lab_config(workload("a", ["true"], restart={"burst": 3}))) as found,
        found.client(since=0, keeper="x") as client,
    ):
        state = client.wait(type="state", name="a", state="backoff")
        assert state["restarts"] == 3
        assert client.wait(type="notice", name="a", what="budget_spent")["data"]["next_try_s"] == 1
        assert client.wait(type="state", name="a", state="backoff", count=2)["restarts"] == 4


def test_the_budget_that_agentd_gives_holds(lab_config: LabConfig) -> None:
    """Pins the budget message: from then on the other limit counts."""
    with keeper(lab_config(workload("a", SLEEP))) as found, found.client() as client:
        client.send({"type": "budget", "name": "a", "burst": 0, "window_s": 60})
        client.order("hold", "a")
        client.order("resume", "a")
        _kill(client, "a")
        assert client.wait(type="exit", name="a")["replaced_pid"] is None
        client.wait(type="state", name="a", state="backoff")


def test_workloads_start_and_stop_in_order(lab_config: LabConfig) -> None:
    """Pins `after`: a workload starts when the one before is ready, and that one ends only when it has ended."""
    slow = python("from agent import watch; import time\ntime.sleep(0.5)\nwith watch.Watch(): time.sleep(1000)")
    config = lab_config(workload("b", SLEEP, after=["a"]) + workload("a", slow, notify="ready"))
    with keeper(config) as found, found.client(keeper="x") as client:
        client.wait(type="state", name="b", state="running")
        b = next(one for one in client.of(type="state", name="b") if one["pid"])
        a = client.of(type="state", name="a", state="running")[0]
        assert a["seq"] < b["seq"]
        assert "waits for a" in client.of(type="state", name="b")[0]["reason"]
        found.process.terminate()
        client.wait(type="state", name="a", state="stopped")
        order = [one["name"] for one in client.of(type="state", state="stopped")]
        assert order == ["b", "a"]
        assert found.process.wait(10) == 0


def test_every_order_is_obeyed(lab_config: LabConfig) -> None:
    """Pins each verb, as one story of a workload: what it does to the process and to the state, and its answer."""
    with keeper(lab_config(workload("a", READY, notify="ready"))) as found, found.client() as client:
        first = client.wait(type="state", name="a", state="running")["pid"]
        assert client.order("terminate", "a")["ok"]
        second = client.wait(type="state", name="a", state="running", count=2)["pid"]
        assert second != first
        assert client.order("abort", "a")["ok"]
        assert client.wait(type="exit", name="a", signal=signal.SIGABRT)["pid"] == second
        done = client.order("restart", "a")
        assert done["ok"]
        assert done["ms"] >= 0
        assert client.order("stop", "a")["ok"]
        assert client.wait(type="state", name="a", state="stopped")["pid"] is None
        assert not client.order("terminate", "a")["ok"]
        assert client.order("start", "a")["ok"]
        assert client.order("hold", "a")["ok"]
        wait_for(lambda: client.state("a")["state"] == "running", "running again")
        _kill(client, "a")
        assert client.wait(type="state", name="a", state="held")["pid"] is None
        assert client.order("resume", "a")["ok"]
        assert client.order("start", "a")["ok"]


WRONG: tuple[tuple[dict[str, object], str], ...] = (
    ({"verb": "restart", "name": "nobody"}, "no such workload"),
    ({"verb": "explode", "name": "a"}, "verb: want one of"),
    ({"verb": "degrade", "name": "a"}, "profile"),
    ({"verb": "degrade", "name": "a", "profile": "none"}, "configured"),
    ({"verb": "stop", "name": "A B"}, "name: want"),
    ({"verb": "stop"}, "name: want"),
)


def test_a_wrong_order_is_answered(lab_config: LabConfig) -> None:
    """Pins that a bad order gets its `done` with a reason, and harms nothing."""
    with keeper(lab_config(workload("a", SLEEP))) as found, found.client() as client:
        for number, (order, says) in enumerate(WRONG):
            client.send({"type": "order", "id": str(number), **order})
            done = client.wait(type="done", id=str(number))
            assert not done["ok"]
            assert says in done["detail"]
        assert client.state("a")["state"] == "running"


def test_degrade_without_a_restart_and_with_one(lab_config: LabConfig) -> None:
    """Pins both ways to another profile: confirmed by the same process, or within 5 s a new one, which gets its name."""
    willing = python(
        "from agent import watch; import time\n"
        "with watch.Watch(on_profile=lambda name: None) as me:\n while 1: me.beat(); time.sleep(.05)"
    )
    deaf = ["sh", "-c", 'echo "$GATEWARDEN_PROFILE" >> "$SEEN"; exec sleep 1000']
    config = lab_config()
    seen = config.with_name("seen")
    config = lab_config(
        workload("willing", willing, notify="watchdog", degrade=["low"])
        + workload("deaf", deaf, degrade=["low"], env={"SEEN": str(seen)})
    )
    with keeper(config) as found, found.client() as client:
        pid = client.wait(type="state", name="willing", state="running")["pid"]
        done = client.order("degrade", "willing", profile="low")
        assert done["ok"]
        assert done["ms"] < 2000
        assert client.of(type="notice", name="willing", what="profile")[0]["data"]["profile"] == "low"
        assert client.order("restore", "willing")["ok"]
        assert client.state("willing")["pid"] == pid
        assert not client.of(type="exit", name="willing")
        done = client.order("degrade", "deaf", profile="low")
        assert done["ok"]
        assert 3000 <= done["ms"] < 5000
        wait_for(lambda: seen.read_text() == "\nlow\n", lambda: f"profile: {seen.read_text()!r}")


def test_the_exit_of_a_killed_keeper_changes_nothing_for_the_workloads(lab_config: LabConfig) -> None:
    """Pins adoption: kill -9 of the keeper, a new one goes on with the same processes, and replaces them when they die."""
    config = lab_config(workload("a", SLEEP) + workload("b", READY, notify="ready"))
    first = begin(config)
    try:
        with first.client() as client:
            client.wait(type="state", name="b", state="running")
            pids = {name: client.state(name)["pid"] for name in "ab"}
            first.end(signal.SIGKILL)
        with keeper(config) as second, second.client() as client:
            assert {name: client.state(name)["pid"] for name in "ab"} == pids
            assert {client.state(name)["state"] for name in "ab"} == {"running"}
            _kill(client, "a")
            told = client.wait(type="exit", name="a")
            assert told["pid"] == pids["a"]
            assert alive(told["replaced_pid"])
            assert client.order("restart", "b")["ok"]
            assert not alive(pids["b"])
    finally:
        put_down(first)


def test_what_an_adopted_one_leaves_behind_is_ended(lab_config: LabConfig, tmp_path: Path) -> None:
    """Pins that what was never this keeper's child does not live on beside the replacement of its workload."""
    apart = f"test -e {tmp_path}/left || {{ setsid sleep 995 & echo $! > {tmp_path}/left; }}; exec sleep 1000"
    config = lab_config(workload("a", ["/bin/sh", "-c", apart]))
    first = begin(config)
    try:
        wait_for(lambda: (tmp_path / "left").exists() and (tmp_path / "left").read_text(), "its child")
        first.end(signal.SIGKILL)
        with keeper(config) as second, second.client() as client:
            _kill(client, "a")
            assert client.wait(type="notice", name="a", what="left_behind")["data"]["count"] == 1
            assert alive(client.wait(type="exit", name="a")["replaced_pid"])
        assert not alive(int((tmp_path / "left").read_text()))
    finally:
        put_down(first)


def test_a_workload_is_found_even_if_the_keeper_died_before_it_wrote_it_down(lab_config: LabConfig) -> None:
    """Pins that no workload runs twice: without workloads.json it is known by its environment."""
    config = lab_config(workload("a", SLEEP))
    first = begin(config)
    try:
        with first.client() as client:
            pid = client.wait(type="state", name="a", state="running")["pid"]
        first.end(signal.SIGKILL)
        (first.folder / "workloads.json").unlink()
        with keeper(config) as second, second.client() as client:
            assert client.state("a")["pid"] == pid
    finally:
        put_down(first)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_an_order_outlives_the_keeper(lab_config: LabConfig, number: int) -> None:
    """Pins that what is on hold or stopped stays so over a crash and an upgrade of the keeper, until resumed or started."""
    config = lab_config("".join(workload(name, SLEEP) for name in ("held", "stopped", "runs")))
    first = begin(config)
    try:
        with first.client() as client:
            assert client.order("hold", "held")["ok"]
            _kill(client, "held")
            client.wait(type="state", name="held", state="held")
            assert client.order("stop", "stopped")["ok"]
            assert client.order("hold", "runs")["ok"]
        first.process.send_signal(number)
        wait_for(lambda: first.process.poll() is not None or first.said().count("<6>ready") == 2, first.said)
        second = begin(config) if number == signal.SIGKILL else first
        with second.client() as client:
            assert [client.state(name)["state"] for name in ("held", "stopped", "runs")] == ["held", "stopped", "running"]
            _kill(client, "runs")
            client.wait(type="state", name="runs", state="held")
            assert client.order("resume", "held")["ok"]
            assert client.order("start", "stopped")["ok"]
            assert [client.state(name)["state"] for name in ("held", "stopped")] == ["running", "running"]
        put_down(second)
    finally:
        put_down(first)


HUGE = b'{"a": {"pid": 1%s, "started": 1}, "b": {"pid": 1%s, "started": 1}}' % (b"0" * 40, b"0" * 4000)


@pytest.mark.parametrize("text", [b'{"a": {"pid": "x"}, "b": 1}', b'{"a": {"pid": 1, "started": 1}}', HUGE, b"[" * 10_000])
def test_a_broken_memory_is_no_memory(lab_config: LabConfig, text: bytes) -> None:
    """Pins that whatever lies in workloads.json, the keeper starts, and starts its workloads."""
    config = lab_config(workload("a", SLEEP))
    folder = config.parent / "run/keeper"
    folder.mkdir()
    (folder / "workloads.json").write_bytes(text)
    with keeper(config) as found, found.client() as client:
        assert alive(client.wait(type="state", name="a", state="running")["pid"])


def test_what_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    """Pins that a full or missing runtime folder costs the memory only for as long as it is so, even if nothing changes."""
    kept = Memory(tmp_path / "keeper/workloads.json")
    kept.save({"a": {"pid": 7, "started": 1}})
    (tmp_path / "keeper").mkdir()
    kept.save({"a": {"pid": 7, "started": 1}})
    assert kept.load()["a"].pid == 7


def test_hangup_executes_the_keeper_anew(lab_config: LabConfig) -> None:
    """Pins upgrade and new configuration: the workloads run on, their exit is still known; a bad file is refused."""
    config = lab_config(workload("a", SLEEP) + workload("gone", SLEEP))
    with keeper(config) as found:
        with found.client() as client:
            pid = client.wait(type="state", name="a", state="running")["pid"]
            config.write_text(config.read_text() + "nonsense = 1\n")
            found.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "not executed anew" in found.said(), found.said)
            gone = client.wait(type="state", name="gone", state="running")["pid"]
            lab_config(workload("a", SLEEP) + workload("b", SLEEP))
            found.process.send_signal(signal.SIGHUP)
            wait_for(lambda: found.said().count("<6>ready") == 2, found.said)
        with found.client() as client:
            assert client.state("a")["pid"] == pid
            assert client.state("b")["state"] == "running"
            wait_for(lambda: not alive(gone), "what is no longer configured ends")
            _kill(client, "a", signal.SIGTERM)
            assert client.wait(type="exit", name="a")["signal"] == signal.SIGTERM


def test_who_was_away_is_told_what_happened(lab_config: LabConfig) -> None:
    """Pins the numbered messages: one that comes back with its last number gets the rest, one of another keeper gets all."""
    with keeper(lab_config(workload("a", SLEEP))) as found:
        with found.client() as client:
            hello = client.of(type="hello")[0]
            _kill(client, "a")
            last = client.wait(type="exit", name="a")["seq"]
        with found.client(keeper=hello["keeper"], since=hello["seq"]) as client:
            assert [one["seq"] for one in client.of(type="exit")] == [last]
            assert client.of(type="hello")[0]["lost"] == 0
        with found.client(keeper="another", since=10_000) as client:
            client.wait(type="state", name="a", now=True)
            numbers = [one["seq"] for one in client.heard if "seq" in one and one["type"] != "hello" and not one.get("now")]
            assert numbers == list(range(1, numbers[-1] + 1))


def test_a_gap_is_told(lab_config: LabConfig) -> None:
    """Pins that an agent which was away for more than the kept messages hears how many it will never see."""
    with keeper(lab_config(workload("a", SLEEP, restart={"burst": 1000}))) as found:
        with found.client() as client:
            hello = client.of(type="hello")[0]
            for count in range(1, 180):
                _kill(client, "a")
                client.wait(type="state", name="a", restarts=count, state="running")
        with found.client(keeper=hello["keeper"], since=hello["seq"]) as client:
            assert client.of(type="hello")[0]["lost"] == 179 * 3 - 512


def test_a_subscriber_that_does_not_read_is_cut_off(lab_config: LabConfig) -> None:
    """Pins that a slow agent costs nobody else anything: others hear everything while it is dropped."""
    with keeper(lab_config(workload("a", SLEEP))) as found, found.client() as slow, found.client() as quick:
        with suppress(OSError):
            for _ in range(200):  # malformed orders are answered; the answers pile up
                slow.send(b'{"type":"order","id":"1"}\n' * 100)
        wait_for(lambda: _hung_up(slow), "the slow one is cut off")
        assert quick.order("restart", "a")["ok"]


def _hung_up(client: Client) -> bool:
    try:
        client.sock.send(b" ", socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return False


def test_lines_that_are_too_long_or_no_json(lab_config: LabConfig) -> None:
    """Pins that rubbish gets one answer, and an endless line the end of its connection."""
    with keeper(lab_config(workload("a", SLEEP))) as found, found.client() as client, found.client() as endless:
        client.send(b"\xff\xfe\n{\n[]\n17\n")
        client.wait(type="done", ok=False, count=4)
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):
            endless.sock.sendall(b"x" * 10_000_000)
        assert client.order("restart", "a")["ok"]


@pytest.mark.root
def test_other_users_are_refused(lab_config: LabConfig) -> None:
    """Pins who may order: root, the keeper's own user and gatewarden; the mode of the socket is not the only door."""
    config = lab_config(workload("a", SLEEP))
    with keeper(config) as found:
        open_to_all(found.folder)
        (found.folder / "keeper.sock").chmod(0o666)
        ask = f"""
import os, socket
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.connect({str(found.folder / "keeper.sock")!r})
print(s.recv(1000).decode(), s.recv(1))
"""
        said = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True, cwd="/").stdout
        answer, _, rest = said.partition("\n")
        assert "not uid 65534" in json.loads(answer)["detail"]
        assert rest.strip() == "b''"


def test_two_keepers_do_not_share_a_folder(lab_config: LabConfig) -> None:
    """Pins that a second keeper says who is there, ends with 2, and leaves the first one's workloads alone."""
    config = lab_config(workload("a", SLEEP))
    with keeper(config) as found, found.client() as client:
        second = subprocess.run(
            [sys.executable, "-m", "agent.keeper", "--config", str(config)], capture_output=True, text=True, check=False
        )
        assert second.returncode == 2
        assert str(found.process.pid) in second.stderr
        assert "Traceback" not in second.stderr
        assert alive(client.state("a")["pid"])


def test_a_bad_configuration_ends_it(lab_config: LabConfig) -> None:
    """Pins exit code 2 and the problems of the file, also for a notify socket whose path no unix address holds."""
    bad = lab_config("[[workload]]\nname = 3\n")
    for arguments, says in ((["--config", str(bad)], "name"), (["--config"], "usage"), (["--nonsense", "x"], "usage")):
        done = subprocess.run([sys.executable, "-m", "agent.keeper", *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def test_a_question_is_answered_and_a_hold_is_shown(lab_config: LabConfig) -> None:
    """`ping` has its `done` behind all that was told before; a state says whether the keeper holds the workload."""
    with keeper(lab_config(workload("one", ["sleep", "60"]))) as kept, kept.client() as client:
        client.wait(type="state", name="one", state="running", held=False)
        client.order("hold", "one")
        client.send({"type": "ping", "id": "p1"})
        client.send({"type": "ping", "id": 7})
        assert client.wait(type="done", id="p1")["ok"] is True
        assert "id: want a string" in client.wait(type="done", id=None)["detail"]
        with kept.client() as other:
            assert other.state("one")["held"] is True


def test_beats_are_coalesced(lab_config: LabConfig) -> None:
    """Pins the one message a second: the intervals of all beats, the phase, what the workload asked for."""
    code = python("from agent import watch; import time\nwith watch.Watch() as me:\n while 1: me.beat(done=1); time.sleep(.02)")
    config = lab_config(workload("a", code, notify="watchdog", deadline_s=7) + workload("b", code, notify="watchdog"))
    with keeper(config) as found, found.client() as client:
        client.wait(type="beats", count=4)
        times = [one["t_mono_ns"] for one in client.of(type="beats")]
        assert min(b - a for a, b in pairwise(times)) > 0.95e9
        last = client.of(type="beats")[-1]["beats"]
        assert set(last) == {"a", "b"}
        assert last["a"]["watchdog_us"] == 7_000_000
        assert last["a"]["phase"] == "run"
        assert 10 < len(last["a"]["intervals_ms"]) <= 48
        assert all(0 <= interval < 2000 for interval in last["a"]["intervals_ms"])
        assert last["a"]["work"] > 10
        assert time.clock_gettime_ns(time.CLOCK_MONOTONIC) - last["a"]["last_ns"] < 5e9


def test_an_idle_keeper_sleeps(lab_config: LabConfig) -> None:
    """Pins that nothing wakes it while nothing happens."""
    with keeper(lab_config(workload("a", SLEEP))) as found, found.client() as client:
        client.wait(type="state", name="a", state="running")
        before = _switches(found)
        time.sleep(2)
        assert _switches(found) - before <= 2


def _switches(found: Keeper) -> int:
    text = Path(f"/proc/{found.process.pid}/status").read_text()
    return int(text.split("voluntary_ctxt_switches:")[1].split()[0])
