"""The publisher against a real mosquitto: birth, status, will, replay, outages, limits of the broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.brokers import Mosquitto, Subscriber, free_port, mosquitto, subscriber, wait_for
from tests.telemetry.doubles import BOOT
from tests.telemetry.rig import SAMPLE, Rig, here, rig

pytestmark = pytest.mark.broker
ROOT = Path(__file__).parent.parent.parent


@contextmanager
def scene(folder: Path, *lines: str) -> Iterator[tuple[Mosquitto, Subscriber, Rig]]:
    """Run a broker with further configuration `lines`, a subscriber, and the agent's telemetry."""
    with (
        mosquitto(folder / "broker", *lines) as broker,
        subscriber(broker.port) as ears,
        rig(folder / "state", here(broker.port)) as agent,
    ):
        yield broker, ears, agent


def counter(agent: Rig, name: str) -> int:
    """Give one of the publisher's counters."""
    assert agent.publisher is not None
    return int(str(agent.publisher.state()[name]))


def test_birth_status_and_events_arrive_with_their_properties(tmp_path: Path) -> None:
    """QoS 1, content type, dedup key; birth and status first; a clean stop says offline itself."""
    with mosquitto(tmp_path / "broker") as broker, subscriber(broker.port) as ears:
        with rig(tmp_path / "state", here(broker.port)) as agent:
            ears.wait("status")
            agent.emit(3)
            agent.spool.metric(SAMPLE)
            assert agent.publisher is not None
            agent.publisher.health({"state": "ok"})
            events = ears.wait("event", 3)
            ears.wait("metrics")
            ears.wait("health")
        wait_for(lambda: ears.of("status")[-1].payload["state"] == "offline", "offline")
    assert [message.leaf for message in ears.heard[:2]] == ["birth", "status"]
    assert ears.of("status")[0].payload["state"] == "online"
    assert [event.seq for event in events] == [1, 2, 3]
    assert events[0].user == {"schema": "gatewarden.event/1", "boot": BOOT, "seq": "1", "hist": "0"}
    assert {message.qos for message in ears.heard} == {1}
    assert {message.content_type for message in ears.heard} == {"application/json"}
    assert ears.of("metrics")[0].expiry_s is not None
    assert agent.spool.stats().backlog_rows == 0
    assert agent.told == []
    assert agent.states == [("connected", "")]


def test_birth_and_status_are_retained(tmp_path: Path) -> None:
    """A subscriber that comes later still learns who is there, in its newest state."""
    with mosquitto(tmp_path / "broker") as broker, rig(tmp_path / "state", here(broker.port)) as agent:
        wait_for(lambda: counter(agent, "published") == 2, "birth and status")
        assert agent.publisher is not None
        agent.publisher.announce("maintenance")
        wait_for(lambda: counter(agent, "published") >= 3, "three acks")
        with subscriber(broker.port) as ears:
            ears.wait("birth")
            assert ears.wait("status")[0].payload["state"] == "maintenance"
            assert all(message.retain for message in ears.heard)


def test_what_waited_for_the_broker_is_replayed_as_history(tmp_path: Path) -> None:
    """Appended without a connection, delivered with hist=1 and its number; what happens then is live."""
    broker = Mosquitto(tmp_path / "broker")
    with rig(tmp_path / "state", here(broker.port)) as agent:
        agent.emit(50)
        agent.spool.metric(SAMPLE)
        wait_for(lambda: agent.spool.stats().backlog_rows == 51, "the backlog")
        broker.start()
        try:
            with subscriber(broker.port) as ears:
                wait_for(lambda: agent.state() == "connected", "a connection", 30)
                agent.emit(1)
                events = {event.seq: event for event in ears.wait("event", 51)}
                ears.wait("metrics")
                wait_for(lambda: agent.spool.stats().backlog_rows == 0, "delivery marks")
        finally:
            broker.stop()
    assert {events[seq].user["hist"] for seq in range(1, 51)} == {"1"}
    assert events[51].user["hist"] == "0"
    assert ears.of("metrics")[0].user["hist"] == "1"
    assert ears.of("metrics")[0].expiry_s is None


def test_rows_of_an_earlier_boot_are_history_with_their_own_key(tmp_path: Path) -> None:
    """After a reboot the backlog keeps boot id and numbers of its boot."""
    with rig(tmp_path / "state", here(free_port()), boot_id="a" * 32) as before:
        before.emit(2)
    with (
        mosquitto(tmp_path / "broker") as broker,
        subscriber(broker.port) as ears,
        rig(tmp_path / "state", here(broker.port), boot_id="c" * 32) as after,
    ):
        after.emit(1)
        ears.wait("event", 3)
    keys = sorted((event.user["boot"][0], event.seq) for event in ears.of("event"))
    assert keys == [("a", 1), ("a", 2), ("c", 1)]
    assert {event.user["hist"] for event in ears.of("event") if event.user["boot"] == "a" * 32} == {"1"}


def test_a_broker_restart_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    """Events flow on while the broker is away; after its return all numbers have arrived, duplicates have one key."""
    with scene(tmp_path) as (broker, ears, agent):
        wait_for(lambda: agent.state() == "connected", "a connection")
        agent.emit(200)
        broker.stop()
        agent.emit(100)
        broker.start()
        agent.emit(50)
        wait_for(lambda: len({event.seq for event in ears.of("event")}) == 350, "all events", 40)
        wait_for(lambda: agent.spool.stats().backlog_rows == 0, "delivery marks")
    facts = {(event.seq, event.payload["seq"]) for event in ears.of("event")}
    assert len(facts) == 350
    assert agent.spool.stats().dropped == 0


def test_the_will_says_offline_after_kill_9(tmp_path: Path) -> None:
    """The broker itself tells that the agent died, after the will's delay."""
    code = (
        "import sys, time; from pathlib import Path; from tests.telemetry.rig import rig, here\n"
        "with rig(Path(sys.argv[1]), here(int(sys.argv[2]))) as agent: agent.emit(1); time.sleep(60)"
    )
    with mosquitto(tmp_path / "broker") as broker, subscriber(broker.port) as ears:
        command = [sys.executable, "-c", code, str(tmp_path / "state"), str(broker.port)]
        with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as child:
            ears.wait("event")
            child.kill()
        killed = time.monotonic()
        wait_for(lambda: ears.of("status")[-1].payload["state"] == "offline", "the will", 25)
        assert ears.of("status")[-1].t_mono - killed > 10


def test_the_in_flight_window_follows_the_receive_maximum(tmp_path: Path) -> None:
    """A broker that takes three at once gets three, however long the backlog is."""
    with scene(tmp_path, "max_inflight_messages 3") as (_, ears, agent):
        wait_for(lambda: agent.state() == "connected", "a connection")
        most = 0
        agent.emit(300)
        assert agent.publisher is not None
        while len(ears.of("event")) < 300:
            most = max(most, len(agent.publisher._window.flights))
            time.sleep(0.0005)
    assert 1 <= most <= 3
    assert sorted(event.seq for event in ears.of("event")) == list(range(1, 301))


def test_a_message_beyond_the_maximum_packet_size_is_quarantined(tmp_path: Path) -> None:
    """It would end the connection each time; it is set aside with a gap record, and the others pass."""
    with scene(tmp_path, "max_packet_size 2000") as (_, ears, agent):
        agent.emit(1)
        agent.emit(1, text="x" * 3000)
        agent.emit(1)
        gap = ears.wait("gap")[0].payload
        ears.wait("event", 2)
        wait_for(lambda: agent.spool.stats().backlog_rows == 0, "an empty backlog")
        assert agent.spool.stats().quarantined == 1
    assert [event.seq for event in ears.of("event")] == [1, 3]
    assert (gap["stream"], gap["first_seq"], gap["last_seq"], gap["count"], gap["reason"]) == ("event", 2, 2, 1, "oversize")


def test_a_message_that_the_broker_finds_too_large_is_quarantined(tmp_path: Path) -> None:
    """The limit `message_size_limit` is not announced; mosquitto answers with a code that paho takes for a broken packet."""
    with scene(tmp_path, "message_size_limit 2000") as (_, ears, agent):
        agent.emit(1, text="x" * 3000)
        agent.emit(1)
        ears.wait("gap", timeout_s=30)
        ears.wait("event")
        wait_for(lambda: agent.spool.stats().backlog_rows == 0, "an empty backlog")
        assert agent.spool.stats().quarantined == 1


def test_no_right_to_publish_is_said_and_keeps_the_backlog(tmp_path: Path) -> None:
    """Access rules that are wrong today may be right tomorrow: nothing is dropped, the state says why."""
    rules = tmp_path / "acl"
    rules.write_text("topic read gatewarden/#\n")
    with mosquitto(tmp_path / "broker", f"acl_file {rules}") as broker, rig(tmp_path / "state", here(broker.port)) as agent:
        agent.emit(5)
        wait_for(lambda: agent.publisher is not None and "refuses messages" in str(agent.publisher.state()["reason"]), "it")
        wait_for(lambda: agent.spool.stats().backlog_rows == 5, "all five in the backlog")
        assert agent.spool.stats().quarantined == 0


def test_a_dead_broker_is_said_once_and_everything_goes_on(tmp_path: Path) -> None:
    """Without a broker for ever: one report, records are kept, the stop is quick."""
    with rig(tmp_path / "state", here(free_port())) as agent:
        agent.emit(10)
        wait_for(lambda: counter(agent, "attempts") >= 3, "three attempts", 30)
        wait_for(lambda: agent.spool.stats().backlog_rows == 10, "all ten in the backlog")
        assert [state for state, _ in agent.states] == ["waiting"]
        assert "refused" in agent.states[0][1].lower()
        begun = time.monotonic()
    assert time.monotonic() - begun < 5


def test_a_silent_broker_is_left(tmp_path: Path) -> None:
    """A broker that neither answers nor hangs up is noticed within one and a half keepalives; a sample is not lost to it."""
    with (
        mosquitto(tmp_path / "broker") as broker,
        subscriber(broker.port) as ears,
        rig(tmp_path / "state", here(broker.port, keepalive_s=2)) as agent,
    ):
        wait_for(lambda: agent.state() == "connected", "a connection")
        broker.signal(signal.SIGSTOP)
        try:
            stopped = time.monotonic()
            agent.spool.metric(SAMPLE)
            wait_for(lambda: len(agent.states) > 1, "the loss", 10)
            assert "silent" in agent.states[1][1]
            assert 1.5 < time.monotonic() - stopped < 6
            assert agent.spool.stats().backlog_rows == 1
        finally:
            broker.signal(signal.SIGCONT)
        ears.wait("metrics", timeout_s=30)


def test_an_idle_publisher_sleeps(tmp_path: Path) -> None:
    """Connected and with nothing to say, the thread wakes less than once in ten seconds; here: not at all in two."""
    with mosquitto(tmp_path / "broker") as broker, rig(tmp_path / "state", here(broker.port)) as agent:
        assert agent.publisher is not None
        wait_for(lambda: counter(agent, "published") == 2, "birth and status")
        time.sleep(0.2)
        before = agent.publisher.state()["wakeups"]
        time.sleep(2)
        assert agent.publisher.state()["wakeups"] == before


def test_a_wrong_password_is_a_named_state_without_the_password(tmp_path: Path) -> None:
    """`refused`, with the broker's reason; the password appears in no text."""
    passwords = tmp_path / "passwords"
    passwords.touch(0o600)
    subprocess.run(["mosquitto_passwd", "-b", str(passwords), "gw", "right"], check=True, capture_output=True)
    lines = ("allow_anonymous false", f"password_file {passwords}")
    with mosquitto(tmp_path / "broker", *lines) as broker:
        wrong = here(broker.port, username="gw", password="wr0ng-s3cret")
        with rig(tmp_path / "one", wrong) as agent:
            wait_for(lambda: agent.states, "a state")
            assert agent.publisher is not None
            texts = f"{agent.states} {agent.publisher.state()} {wrong!r}"
        with rig(tmp_path / "two", here(broker.port, username="gw", password="right")) as good:
            wait_for(lambda: good.state() == "connected", "a connection")
    assert agent.states[0][0] == "refused"
    assert "s3cret" not in texts


def test_a_fault_in_the_thread_does_not_end_it(tmp_path: Path) -> None:
    """A bug (here: in whoever is told of a new state) is counted, and the next attempt connects."""
    faults = [ZeroDivisionError()]

    def told(_state: str, _why: str) -> None:
        if faults:
            raise faults.pop()

    with mosquitto(tmp_path / "broker") as broker, subscriber(broker.port) as ears:
        agent = Rig(tmp_path / "state", here(broker.port))
        assert agent.publisher is not None
        agent.publisher._report = told
        agent.start()
        agent.emit(1)
        ears.wait("event")
        assert counter(agent, "faults") == 1
        agent.close()


def test_a_wish_to_connect_at_once_is_over_with_the_connection(tmp_path: Path) -> None:
    """Pins that `retry` while connected (a clock step) does not void the back-off after the next loss."""
    with mosquitto(tmp_path / "broker") as broker, rig(tmp_path / "state", here(broker.port)) as agent:
        wait_for(lambda: agent.state() == "connected", "a connection")
        assert agent.publisher is not None
        agent.publisher.retry()
        assert not agent.publisher._retry
