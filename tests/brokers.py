"""A real mosquitto for one test, on a free port of the loopback, and a subscriber that keeps what it hears."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

READY_S = 10.0
EMULATED = 6 if "GATEWARDEN_GUEST" in os.environ else 1  # a virtual machine starts Python that much later, 9p included


def free_port() -> int:
    """Give a TCP port that nobody listens on at present."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait_for(condition: Callable[[], object], what: str | Callable[[], str], timeout_s: float = 20.0) -> None:
    """Wait until `condition` holds; AssertionError names `what` did not happen (a function: what it says by then)."""
    timeout_s *= EMULATED
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"{what if isinstance(what, str) else what()}: not within {timeout_s} s"
        time.sleep(0.005)


class Mosquitto:
    """One broker process; `stop` and `start` may be repeated, the port and the stored sessions stay."""

    def __init__(self, folder: Path, *lines: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)  # started as root, mosquitto becomes the user mosquitto
        self.port = free_port()
        self._config = folder / "mosquitto.conf"
        self._log = folder / "mosquitto.log"
        access = () if any(line.startswith("allow_anonymous") for line in lines) else ("allow_anonymous true",)
        text = "\n".join((f"listener {self.port} 127.0.0.1", *access, *lines))
        user = "user root\n" if os.geteuid() == 0 else ""
        stored = f"persistence true\npersistence_location {folder}/\n"
        self._config.write_text(f"{user}{stored}set_tcp_nodelay true\n{text}\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it listens."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(["mosquitto", "-c", str(self._config)], stdout=log, stderr=log)
        wait_for(self._listens, lambda: f"mosquitto listens ({self._log.read_text()[-500:]})", READY_S)

    def stop(self) -> None:
        """End it (it stores its sessions) and wait."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(READY_S)
            self._process = None

    def signal(self, number: int) -> None:
        """Send it a signal (SIGSTOP makes a silent broker)."""
        assert self._process is not None
        self._process.send_signal(number)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def mosquitto(folder: Path, *lines: str) -> Iterator[Mosquitto]:
    """Run a broker with further configuration `lines`."""
    broker = Mosquitto(folder, *lines)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@dataclass(frozen=True, slots=True)
class Heard:
    """One message as a subscriber gets it."""

    leaf: str
    payload: dict[str, Any]
    user: dict[str, str]
    retain: bool
    qos: int
    expiry_s: int | None
    content_type: str
    t_mono: float

    @property
    def seq(self) -> int:
        """Its number in its stream."""
        return int(self.user["seq"])


@dataclass(slots=True)
class Subscriber:
    """Hears everything below `gatewarden/v1/`."""

    heard: list[Heard] = field(default_factory=list)
    subscribed: threading.Event = field(default_factory=threading.Event)

    def of(self, leaf: str) -> list[Heard]:
        """Give what came on one topic."""
        return [message for message in list(self.heard) if message.leaf == leaf]

    def wait(self, leaf: str, n: int = 1, timeout_s: float = 20.0) -> list[Heard]:
        """Wait for `n` messages on one topic."""
        wait_for(lambda: len(self.of(leaf)) >= n, lambda: f"{n} messages on {leaf}, have {len(self.of(leaf))}", timeout_s)
        return self.of(leaf)

    def take(self, message: MQTTMessage) -> None:
        """Keep a message."""
        properties = cast("Any", message.properties)
        self.heard.append(
            Heard(
                message.topic.rsplit("/", 1)[-1],
                json.loads(message.payload),
                dict(getattr(properties, "UserProperty", [])),
                message.retain,
                message.qos,
                getattr(properties, "MessageExpiryInterval", None),
                getattr(properties, "ContentType", ""),
                time.monotonic(),
            )
        )


@contextmanager
def subscriber(port: int, prepare: Callable[[Client], object] = lambda _: None) -> Iterator[Subscriber]:
    """Subscribe to everything; comes back by itself when the broker was away. `prepare` sets up TLS or a password."""
    hears = Subscriber()
    client = Client(CallbackAPIVersion.VERSION2, "listener", protocol=MQTTv5)
    client.on_message = lambda _client, _data, message: hears.take(message)
    client.on_connect = lambda c, *_: c.subscribe("gatewarden/v1/#", 1)
    client.on_subscribe = lambda *_: hears.subscribed.set()
    client.reconnect_delay_set(1, 1)
    prepare(client)
    lasting = cast("Any", Properties)(PacketTypes.CONNECT)
    lasting.SessionExpiryInterval = 3600  # what comes while it is away waits in the broker
    client.connect("127.0.0.1", port, 60, clean_start=False, properties=lasting)
    client.loop_start()
    try:
        assert hears.subscribed.wait(10), "the test's own subscriber got no answer"
        yield hears
    finally:
        client.disconnect()
        client.loop_stop()
