"""agentd end to end: this kernel's own events, through the whole house, to the box's own queries and a real broker."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from agent import config, loader
from agent.commands._messages import SHAPES
from agent.linux import programs
from tests.agents import BIN, NOBODY, agent, named, open_to_all, sleeper
from tests.brokers import free_port, mosquitto, subscriber, wait_for

WATCH = '[probes.process_exit]\ncomm = ["sleep"]\n[metrics]\nperiod_s = 1\n'

pytestmark = [pytest.mark.kernel, pytest.mark.root]


@pytest.mark.host_pids
@pytest.mark.broker
def test_a_death_in_the_kernel_reaches_a_subscriber(tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """Birth, status, health, metrics and the killed process's event arrive, with dedup key and without history flag."""
    with mosquitto(tmp_path / "mq") as broker, subscriber(broker.port) as hears:
        with agent(lab_config(f'[mqtt]\nhost = "127.0.0.1"\nport = {broker.port}\n{WATCH}')) as found:
            assert hears.wait("birth")[0].payload["probes"]
            assert hears.wait("status")[0].payload["state"] == "online"
            victim = sleeper()
            victim.kill()
            killed = time.monotonic()
            victim.wait()
            wait_for(
                lambda: named([heard.payload for heard in hears.of("event")], "proc.exit", victim.pid), "proc.exit on MQTT"
            )
            heard = next(item for item in hears.of("event") if item.payload.get("data", {}).get("pid") == victim.pid)
            assert heard.payload["data"]["signal"] == signal.SIGKILL
            assert (heard.user["hist"], heard.qos) == ("0", 1)
            assert heard.t_mono - killed < 2  # the budget, 100 ms, is a matter of tests/bench
            sample = hears.wait("metrics")[0].payload
            assert sample["run_queue"]["run_queue_us"]["count"] > 0
            assert hears.wait("health")[0].payload["checks"] > 10
            for leaf, shape in (("birth", "birth"), ("status", "presence"), ("health", "health")):
                assert set(hears.of(leaf)[0].payload) == set(SHAPES[shape].__annotations__), leaf
            for record in ("finding", "decision", "outcome"):
                told = [item.payload for item in hears.of("event") if item.payload["record"] == record]
                assert told, record
                assert set(told[0]) == set(SHAPES[record].__annotations__)
            assert found.end() == 0
        wait_for(lambda: hears.of("status")[-1].payload["state"] == "offline", "offline after a clean end")


def test_status_is_served_while_it_runs_and_left_behind_when_it_died(lab_config: Callable[..., Path]) -> None:
    """Exit 0 or 1 and all probes while running; after kill -9 the last status with its age, exit 3."""
    with agent(lab_config(WATCH)) as found:
        code, status = found.ctl("status")
        assert code in {0, 1, 5}  # 5: a busy machine may have a critical finding
        assert {row["name"] for row in status["probes"]} == {"timers", "run_queue", "softirq", "irq", "process_exit"}
        assert {row["origin"] for row in status["probes"]} == {"loaded"}
        wait_for(lambda: found.status()["agent"].get("uss_kib"), "self-measurement after a tick")
        assert 0 < found.status()["agent"]["map_kib"] <= 8192
        found.end(signal.SIGKILL)
        code, status = found.ctl("status")
        assert (code, status["schema"]) == (3, "gatewarden.status/1")
        assert status["stale_s"] >= 0


def test_live_timers_have_names_and_latencies(lab_config: Callable[..., Path]) -> None:
    """`timers --seconds` shows this machine's own callbacks by their kernel symbols, resolved although kptr_restrict is set."""
    with agent(lab_config(WATCH)) as found:
        code, measured = found.ctl("timers", "--seconds", "1")
    assert code == 0
    assert sum(row["count"] for row in measured["timers"]) > 0
    assert any("tick" in row["function"] or row["function"] == "hrtimer_wakeup" for row in measured["timers"])
    assert measured["lost"] == 0


@pytest.mark.host_pids
@pytest.mark.usefixtures("bpffs")
def test_kill_9_loses_no_death_and_repeats_none(lab_config: Callable[..., Path]) -> None:
    """With pinned probes, what dies while agentd is dead is told once after its return; nothing is told twice."""
    path = lab_config(WATCH)
    loader.load(config.check(path))
    try:
        victims = []
        for _ in range(4):
            with agent(path) as found:
                victims.append(_killed())
                os.kill(found.process.pid, signal.SIGKILL)
                found.process.wait()
            victims.append(_killed())
        with agent(path) as found:
            wait_for(lambda: _told(found.ctl("events", "--limit", "1000")[1]["events"], victims), f"all of {victims}")
            events = found.ctl("events", "--limit", "1000")[1]["events"]
        assert [len(named(events, "proc.exit", pid)) for pid in victims] == [1] * len(victims)
    finally:
        loader.unload(config.check(path))


def _killed() -> int:
    victim = sleeper()
    victim.kill()
    victim.wait()
    return victim.pid


def _told(events: list[dict[str, Any]], pids: list[int]) -> bool:
    return all(named(events, "proc.exit", pid) for pid in pids)


@pytest.mark.host_pids
@pytest.mark.usefixtures("bpffs")
def test_without_a_capability_on_pinned_probes(tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """An ordinary user with an empty set steers what root pinned: all probes ok, live expiries, a death told."""
    path = lab_config(WATCH)
    loader.load(config.check(path))
    try:
        open_to_all(tmp_path, tmp_path / "state", tmp_path / "run")
        with agent(path, *NOBODY) as found:
            caps = [line for line in Path(f"/proc/{found.process.pid}/status").read_text().splitlines() if "CapEff" in line]
            assert int(caps[0].split()[1], 16) == 0
            status = found.status()
            assert {(row["state"], row["origin"]) for row in status["probes"]} == {("ok", "pinned")}
            measured = found.ctl("timers", "--seconds", "1")[1]
            assert sum(row["count"] for row in measured["timers"]) > 0
            victim = _killed()
            wait_for(lambda: _told(found.ctl("events")[1]["events"], [victim]), "the death")
    finally:
        loader.unload(config.check(path))


def test_with_nothing_at_all_it_says_so_and_counts_what_proc_shows(tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """Tier E: each probe is off with a reason and a one-line remedy; /proc serves instead, and a pidfd tells of a death."""
    path = lab_config(WATCH)
    open_to_all(tmp_path, tmp_path / "state", tmp_path / "run")
    victim = sleeper()
    with agent(path, *NOBODY) as found:
        status = found.status()
        assert status["tier"] == "E"
        assert all(row["reason"] for row in status["probes"])
        assert {row["remedy"] for row in status["probes"]} == {f"as root: {programs.agentctl(path)} probes load"}
        victim.kill()
        victim.wait()
        wait_for(lambda: _told(found.ctl("events")[1]["events"], [victim.pid]), "the death, by pidfd")
        (deaths,) = [row for row in found.status()["probes"] if row["name"] == "process_exit"]
        assert (deaths["origin"], deaths["events"]) == ("pidfd", 1)
        wait_for(lambda: any(row["origin"].startswith("/proc") for row in found.status()["probes"]), "/proc in their place")


def test_a_cpu_budget_is_enforced_by_switching_the_dearest_probe_off(lab_config: Callable[..., Path]) -> None:
    """A budget that no probe can keep ends in a finding, the decision and its outcome, and a probe that is off and says why."""
    with agent(lab_config(WATCH + "[budget]\ncpu_pct = 0.000001\n")) as found:
        wait_for(
            lambda: [row for row in found.status()["probes"] if "switched off" in row["reason"]], "a probe switched off", 40
        )

        def told() -> bool:
            events = found.ctl("events", "--limit", "500")[1]["events"]
            known = any(event.get("detector") == "probe_budget" for event in events)
            return known and any(event.get("action") == "probe_off" and event.get("ok") for event in events)

        wait_for(told, "the finding and the outcome, once they are durable")


def test_a_bad_configuration_is_told_whole_and_ends_with_2(tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """Every fault is printed with its file and line, and nothing is started."""
    path = lab_config("[metrics]\nperiod_s = 0\nperiode = 1\n")
    ended = subprocess.run([BIN / "agentd", "--config", path], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert re.search(r"(?s)agent\.toml:\d+: metrics\.period_s.*agent\.toml:\d+: metrics\.periode", ended.stderr)
    assert not (tmp_path / "run" / "control.sock").exists()


def test_two_agents_on_one_folder_are_refused(lab_config: Callable[..., Path]) -> None:
    """The second names the first and ends; the first goes on."""
    path = lab_config(WATCH)
    with agent(path) as first:
        with pytest.raises(AssertionError, match=str(first.process.pid)), agent(path):
            pass
        assert first.ctl("status")[0] in {0, 1, 5}


def test_openmetrics_are_served_when_asked_for(lab_config: Callable[..., Path]) -> None:
    """`[metrics] listen` serves a page that the format's own parser takes, with the timers of this kernel; off by default."""
    port = free_port()
    path = lab_config(f'{WATCH}listen = "127.0.0.1:{port}"\n[mqtt]\nport = {free_port()}\n')
    pages = [""]

    def shown() -> bool:
        pages.append(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode())
        return "gatewarden_timers_late_seconds_bucket" in pages[-1]

    with agent(path):
        wait_for(shown, "a timer on the page")  # the first page may be older than the first expiry
    page = pages[-1]
    families = {family.name: family for family in text_string_to_metric_families(page)}  # type: ignore[no-untyped-call]
    assert families["gatewarden_timers_late_seconds"].type == "histogram"
    assert any(sample.labels.get("function") for sample in families["gatewarden_timers_run_seconds"].samples)
    assert "gatewarden_run_queue_all_wait_seconds" in families
    told = (Path(__file__).parent.parent / "docs/telemetry.md").read_text()
    assert {name for name in families if f"`{name.replace('_max_seconds', '_seconds')}`" not in told} == set()


def test_systemd_hears_that_it_is_ready_and_alive(tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """READY=1 once it serves, WATCHDOG=1 within each period that WatchdogSec= asks for, STOPPING=1 at the end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(10)
        environment = ("env", f"NOTIFY_SOCKET={tmp_path}/notify", "WATCHDOG_USEC=1000000")
        with agent(lab_config(), *environment) as found:
            heard = [systemd.recv(64) for _ in range(3)]
            found.end()
            while heard[-1] != b"STOPPING=1":
                heard.append(systemd.recv(64))
    assert heard[:3] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]


@pytest.mark.host_pids
@pytest.mark.usefixtures("bpffs")
def test_probes_that_are_unloaded_and_loaded_again_are_followed(lab_config: Callable[..., Path]) -> None:
    """`probes unload` under a running agentd degrades its probes within a tick, with the remedy; `load` brings them back."""
    path = lab_config(WATCH)
    settings = config.check(path)
    loader.load(settings)
    with agent(path) as found:
        loader.unload(settings)
        wait_for(lambda: found.status()["probes"][0]["state"] == "degraded", "degraded")
        wait_for(lambda: {row["state"] for row in found.status()["probes"]} == {"degraded"}, "all of them")
        assert {row["remedy"] for row in found.status()["probes"]} == {f"as root: {programs.agentctl(path)} probes load"}
        loader.load(settings)
        wait_for(lambda: {row["state"] for row in found.status()["probes"]} == {"ok"}, "ok again")
        victim = _killed()
        wait_for(lambda: _told(found.ctl("events")[1]["events"], [victim]), "the death")
    loader.unload(settings)


@pytest.mark.usefixtures("bpffs")
def test_a_second_agent_does_not_take_the_first_ones_records(tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """One bpffs has one reader: another agent with folders of its own says so and reads nothing."""
    path = lab_config(WATCH)
    settings = config.check(path)
    loader.load(settings)
    other = tmp_path / "other.toml"
    other.write_text(path.read_text().replace("/state", "/state2").replace("/run", "/run2"))
    with agent(path) as first, agent(other) as second:
        assert {row["origin"] for row in first.status()["probes"]} == {"pinned"}
        assert "pinned" not in {row["origin"] for row in second.status()["probes"]}
    loader.unload(settings)


def test_signals_that_mean_nothing_do_not_end_it_and_the_socket_is_kept(lab_config: Callable[..., Path]) -> None:
    """SIGHUP and SIGUSR1 change nothing; a removed control socket is there again within a tick; SIGTERM ends with 0."""
    with agent(lab_config(WATCH)) as found:
        found.process.send_signal(signal.SIGHUP)
        found.process.send_signal(signal.SIGUSR1)
        socket_file = found.config.parent / "run/control.sock"
        socket_file.unlink()
        wait_for(socket_file.is_socket, "the socket", 25)
        assert found.ctl("status")[0] in {0, 1, 5}
        assert found.end() == 0


def test_a_full_runtime_dir_costs_the_status_file_alone(tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """With no room for status.json the agent says so and is degraded, and goes on answering."""
    path = lab_config(WATCH)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path / "run")], check=True)
    try:
        with agent(path) as found:
            wait_for(lambda: found.status()["agent"].get("uss_kib"), "a tick")
            with contextlib.suppress(OSError):
                (tmp_path / "run/fill").write_bytes(bytes(1 << 20))
            wait_for(lambda: found.status().get("status_file"), "the trouble in the status")
            assert found.status()["state"] in {"degraded", "critical"}
            (tmp_path / "run/fill").unlink()
            wait_for(lambda: not found.status().get("status_file"), "the end of it")
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path / "run")], check=True)


@pytest.mark.parametrize("kind", ["link", "FIFO"])
def test_no_link_and_no_fifo_in_its_folders_is_opened(tmp_path: Path, lab_config: Callable[..., Path], kind: str) -> None:
    """In the place of the outbox it is set aside (its target not made), of a CA it is a state that names the file."""
    state, target, ca = tmp_path / "aside", tmp_path / "target", tmp_path / "ca.pem"
    state.mkdir()
    os.mkfifo(ca)
    if kind == "link":
        (state / "outbox.db").symlink_to(target)
    else:
        os.mkfifo(state / "outbox.db")
    mqtt = f'[mqtt]\nport = {free_port()}\ntls = {{ ca = "{ca}" }}\n'
    path = lab_config(mqtt)
    path.write_text(re.sub(r'state_dir = ".*"', f'state_dir = "{state}"', path.read_text()))
    with agent(path) as found:
        wait_for(lambda: found.status()["mqtt"]["state"] == "refused", "a state")
        assert f"{ca}: a FIFO, not a regular file" in found.status()["mqtt"]["reason"]
        wait_for(lambda: "was set aside and begun anew" in found.said(), "the incident")
        assert (state / "outbox.db").is_file()
        assert (state / "outbox.db.corrupt-1").is_symlink() == (kind == "link")
    assert not target.exists()


@pytest.mark.parametrize("name", ["sequences.json", "outbox.lock"])
def test_a_directory_in_the_way_is_one_line(lab_config: Callable[..., Path], name: str) -> None:
    """It is named, and the end is exit 2, without a traceback."""
    path = lab_config()
    found = re.findall(r'(?:state|runtime)_dir = "(.*)"', path.read_text())
    for folder in found:
        (Path(folder) / name).mkdir(parents=True)
    done = subprocess.run([str(BIN / "agentd"), "--config", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"/{name}: " in done.stderr
    assert "remove it" in done.stderr
