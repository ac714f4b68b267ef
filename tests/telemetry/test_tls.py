"""TLS and mutual TLS against a real mosquitto, with certificates of all ages."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from paho.mqtt.client import Client

from agent.telemetry.tls import Tls
from tests.brokers import mosquitto, subscriber, wait_for
from tests.telemetry.certificates import EXPIRED, NOT_YET, VALID, Authority
from tests.telemetry.rig import Rig, here, rig

pytestmark = pytest.mark.broker


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Give a new authority."""
    return Authority(tmp_path / "ca")


def lines(authority: Authority, server: tuple[Path, Path], *, mutual: bool = False) -> tuple[str, ...]:
    """Give mosquitto's configuration of a TLS listener."""
    more = ("require_certificate true",) if mutual else ()
    return (f"cafile {authority.ca}", f"certfile {server[0]}", f"keyfile {server[1]}", *more)


def trusting(authority: Authority, own: tuple[Path, Path] | None = None) -> Tls:
    """Give a client's settings."""
    return Tls(str(authority.ca), *(map(str, own) if own else ()))


def first_state(agent: Rig) -> tuple[str, str]:
    """Give the first state that was reported."""
    wait_for(lambda: agent.states, "a state")
    return agent.states[0]


def listening(authority: Authority, own: tuple[Path, Path]) -> Callable[[Client], object]:
    """Give the set-up of the test's own subscriber."""
    return lambda client: client.tls_set(str(authority.ca), str(own[0]), str(own[1]))


def test_mutual_tls_delivers(tmp_path: Path, authority: Authority) -> None:
    """With a certificate of its own the gateway is let in, and a long burst comes through TLS's own buffering."""
    server, client = authority.issue("server"), authority.issue("client")
    with (
        mosquitto(tmp_path / "broker", *lines(authority, server, mutual=True)) as broker,
        subscriber(broker.port, listening(authority, client)) as ears,
        rig(tmp_path / "state", here(broker.port, tls=trusting(authority, client))) as agent,
    ):
        wait_for(lambda: agent.state() == "connected", "a connection")
        agent.emit(200, text="x" * 500)
        ears.wait("event", 200)
        wait_for(lambda: agent.spool.stats().backlog_rows == 0, "delivery marks")


def test_without_a_certificate_of_its_own_the_gateway_is_refused(tmp_path: Path, authority: Authority) -> None:
    """The broker's alert is in the reason."""
    with (
        mosquitto(tmp_path / "broker", *lines(authority, authority.issue("server"), mutual=True)) as broker,
        rig(tmp_path / "state", here(broker.port, tls=trusting(authority))) as agent,
    ):
        state, reason = first_state(agent)
        assert (state, "certificate" in reason) == ("refused", True), reason


@pytest.mark.parametrize(("period", "state", "words"), [(NOT_YET, "clock", "not yet valid"), (EXPIRED, "refused", "expired")])
def test_a_certificate_outside_its_time_is_a_named_state(
    tmp_path: Path, authority: Authority, period: tuple[str, str], state: str, words: str
) -> None:
    """A box without a clock sees certificates of the future: `clock`, retried; expired ones are another matter."""
    with (
        mosquitto(tmp_path / "broker", *lines(authority, authority.issue("server", period))) as broker,
        rig(tmp_path / "state", here(broker.port, tls=trusting(authority))) as agent,
    ):
        assert first_state(agent)[0] == state
        assert words in agent.states[0][1]


def test_it_connects_once_the_certificate_is_valid(tmp_path: Path, authority: Authority) -> None:
    """After the clock step (here: after the broker got a valid certificate) `retry` connects at once."""
    wrong, right = authority.issue("wrong", NOT_YET), authority.issue("right", VALID)
    served = tmp_path / "served.pem", tmp_path / "served.key"

    def serve(pair: tuple[Path, Path]) -> None:
        for source, target in zip(pair, served, strict=True):
            target.write_bytes(source.read_bytes())

    serve(wrong)
    with (
        mosquitto(tmp_path / "broker", *lines(authority, served)) as broker,
        rig(tmp_path / "state", here(broker.port, tls=trusting(authority))) as agent,
    ):
        assert first_state(agent)[0] == "clock"
        serve(right)
        broker.stop()
        broker.start()
        assert agent.publisher is not None
        agent.publisher.retry()
        wait_for(lambda: agent.state() == "connected", "a connection")


def test_another_authority_is_not_trusted(tmp_path: Path, authority: Authority) -> None:
    """There is no way to switch the check off."""
    other = Authority(tmp_path / "other")
    with (
        mosquitto(tmp_path / "broker", *lines(authority, authority.issue("server"))) as broker,
        rig(tmp_path / "state", here(broker.port, tls=trusting(other))) as agent,
    ):
        state, reason = first_state(agent)
        assert state == "refused"
        assert "not accepted" in reason


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A wrong path in the configuration says which."""
    with rig(tmp_path / "state", here(1, tls=Tls(ca=str(tmp_path / "nothing.pem")))) as agent:
        state, reason = first_state(agent)
        assert state == "refused"
        assert "No such file" in reason


@pytest.mark.parametrize("key", ["ca", "cert", "key"])
@pytest.mark.parametrize("kind", ["FIFO", "device", "directory", "empty", "/proc/kmsg"])
def test_a_file_that_openssl_would_wait_for_is_named(tmp_path: Path, authority: Authority, key: str, kind: str) -> None:
    """A FIFO, a device, a directory, nothing, a file of /proc that waits: a named state with the file, and no attempt hangs."""
    paths = {"FIFO": tmp_path / "odd", "directory": tmp_path, "empty": tmp_path / "odd", "device": Path("/dev/zero")}
    odd = paths.get(kind, Path(kind))
    if kind == "FIFO":
        os.mkfifo(odd)
    elif kind == "empty":
        odd.write_text("")
    good = dict(zip(("ca", "cert", "key"), (authority.ca, *authority.issue("client")), strict=True))
    with rig(tmp_path / "state", here(1, tls=Tls(**{name: str(path) for name, path in (good | {key: odd}).items()}))) as agent:
        state, reason = first_state(agent)
        assert (state, str(odd) in reason) == ("refused", True), reason
        assert "not a regular file" in reason or "is empty" in reason


def test_an_encrypted_key_does_not_ask_for_its_password(tmp_path: Path, authority: Authority) -> None:
    """OpenSSL would ask on the terminal and wait; here it is a state that names the file."""
    certificate, key = authority.issue("client")
    locked = tmp_path / "locked.pem"
    command = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    with rig(tmp_path / "state", here(1, tls=Tls(str(authority.ca), str(certificate), str(locked)))) as agent:
        state, reason = first_state(agent)
        assert (state, str(certificate) in reason) == ("refused", True), reason
