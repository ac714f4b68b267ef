"""What travels: a message and its place on MQTT. Pure.

Dedup key `(gateway, boot_id, stream, seq)`: `seq` counts the messages of one stream within one boot, from 1, without
holes except those that a gap record explains. It is not `Event.seq`: findings, decisions and outcomes share the event
stream with the events, so the number of a message and the number of a fact are two things.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from agent.model import Data

EVENT, GAP, METRICS, HEALTH = "event", "gap", "metrics", "health"
BIRTH, STATUS = "birth", "status"

# Order of replay, and the number of the lane in the outbox.
LANES = (EVENT, GAP, METRICS)

BODY_LIMIT = 256 * 1024  # bytes; the largest record of ours, a snapshot with 200 kernel messages, has about 40 KiB
LIVE_S = 60.0  # what is older than this when it is first sent is history
METRICS_EXPIRY_S = 60  # a live sample that no consumer fetched by then has six successors


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `id` is its place in the outbox (grows with each commit), 0 if it only lives in memory."""

    id: int
    stream: str
    boot_id: str
    seq: int
    record: str
    t_wall: float
    body: bytes

    @property
    def key(self) -> tuple[str, str, int]:
        """The dedup key within this gateway."""
        return self.boot_id, self.stream, self.seq

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands in the order of replay: `(lane, id)`."""
        return LANES.index(self.stream), self.id


@dataclass(frozen=True, slots=True)
class Request:
    """A wish for the next `n` of the backlog behind the place `after`. `ticket` tells two wishes of the same words apart."""

    ticket: int
    after: tuple[int, int]
    n: int


@dataclass(frozen=True, slots=True)
class Packet:
    """One PUBLISH, as plain values."""

    topic: str
    payload: bytes
    user: tuple[tuple[str, str], ...]
    retain: bool = False
    expiry_s: int | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """Who speaks: the topic levels."""

    site: str
    gateway: str

    @property
    def client_id(self) -> str:
        """`gatewarden-<site>-<gateway>`."""
        return f"gatewarden-{self.site}-{self.gateway}"

    def topic(self, leaf: str) -> str:
        """`gatewarden/v1/<site>/<gateway>/<leaf>`."""
        return f"gatewarden/v1/{self.site}/{self.gateway}/{leaf}"


def encode(record: Data, limit: int = BODY_LIMIT) -> bytes:
    """Give `record` as JSON. What is not JSON, or longer than `limit` bytes, goes without its data and says so."""
    try:
        body = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return _without_data(record, f"not JSON: {error}"[:200])
    return body if len(body) <= limit else _without_data(record, f"{len(body)} bytes")


def _without_data(record: Data, why: str) -> bytes:
    head = {str(key)[:64]: value[:500] if isinstance(value, str) else value for key, value in record.items() if _small(value)}
    return json.dumps({**head, "data": {"left_out": why}}, separators=(",", ":")).encode()


def _small(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str) or (isinstance(value, int) and abs(value) < 1 << 64)


def packet(names: Names, message: Message, *, hist: bool) -> Packet:
    """Give the PUBLISH of a message of the outbox; `hist` says that it is no longer news."""
    expires = message.stream == METRICS and not hist
    return Packet(
        names.topic(message.stream),
        message.body,
        _user(message.record, message.boot_id, message.seq, hist=hist),
        expiry_s=METRICS_EXPIRY_S if expires else None,
    )


def retained(names: Names, leaf: str, boot_id: str, seq: int, payload: Data) -> Packet:
    """Give the PUBLISH of what a late subscriber must still see (birth, status)."""
    return Packet(names.topic(leaf), encode(payload), _user(leaf, boot_id, seq, hist=False), retain=True)


def fleeting(names: Names, leaf: str, boot_id: str, seq: int, payload: Data) -> Packet:
    """Give the PUBLISH of what only the present is interested in (health)."""
    return Packet(names.topic(leaf), encode(payload), _user(leaf, boot_id, seq, hist=False), expiry_s=METRICS_EXPIRY_S)


def status(state: str, boot_id: str, t_wall: float) -> Data:
    """Give the payload of `status`; `state` is online, offline or maintenance."""
    return {"state": state, "boot_id": boot_id, "t_wall": round(t_wall, 3)}


def is_history(message: Message, boot_id: str, now_wall: float) -> bool:
    """Whether `message` is to be marked as replayed: of another boot, or stale at its first sending."""
    return message.boot_id != boot_id or now_wall - message.t_wall > LIVE_S


def _user(record: str, boot_id: str, seq: int, *, hist: bool) -> tuple[tuple[str, str], ...]:
    return (
        ("schema", f"gatewarden.{'presence' if record == STATUS else record}/1"),  # `agentctl status` has the other name
        ("boot", boot_id),
        ("seq", str(seq)),
        ("hist", "1" if hist else "0"),
    )
