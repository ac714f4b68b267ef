"""A subscriber on a real broker, for tests and benches: everything that arrived, with the time of its arrival."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from agent.model import Data


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message as it came."""

    leaf: str
    body: Data
    retain: bool
    user: dict[str, str]
    t_wall: float


class Subscriber:
    """Subscribes to `gatewarden/v1/#` with QoS 1 as soon as it is made; `close` ends its thread."""

    def __init__(self, port: int) -> None:
        self._arrivals: list[Arrival] = []
        self._news = threading.Condition()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self._client.on_message = self._take
        self._client.connect("127.0.0.1", port)
        granted = threading.Event()
        self._client.on_subscribe = lambda *_arguments: granted.set()
        self._client.subscribe("gatewarden/v1/#", qos=1)
        self._client.loop_start()
        assert granted.wait(10)

    def _take(self, _client: mqtt.Client, _data: Any, message: mqtt.MQTTMessage) -> None:
        user = dict(getattr(message.properties, "UserProperty", []))
        body = json.loads(message.payload) if message.payload else {}
        arrival = Arrival(message.topic.rsplit("/", 1)[1], body, message.retain, user, time.time())
        with self._news:
            self._arrivals.append(arrival)
            self._news.notify_all()

    def wait(self, wanted: Callable[[Arrival], bool], seconds: float = 15.0) -> Arrival:
        """Give the first message that is `wanted`, waiting for it. Raises AssertionError with what came instead."""
        with self._news:
            found = self._news.wait_for(lambda: next((item for item in self._arrivals if wanted(item)), None), seconds)
        assert found is not None, f"not among {[(item.leaf, item.body.get('kind')) for item in self.all()][-30:]}"
        return found

    def leaf(self, name: str, seconds: float = 15.0) -> Arrival:
        """Give the first message on topic leaf `name`."""
        return self.wait(lambda item: item.leaf == name, seconds)

    def all(self) -> list[Arrival]:
        """Give what has come so far."""
        with self._news:
            return list(self._arrivals)

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()
