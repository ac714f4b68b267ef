"""The pure shape of what is sent."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from agent.model import Data, Json
from agent.telemetry import messages
from agent.telemetry.messages import EVENT, HEALTH, METRICS, STATUS, Message, Names

NAMES = Names("lab", "gw-1")


def message(stream: str = EVENT, boot: str = "b", wall: float = 100.0) -> Message:
    """Make a message."""
    return Message(5, stream, boot, 7, stream, wall, b"{}")


def test_topics_and_client_id() -> None:
    """Pins the topics and the client id, by which a consumer finds a gateway."""
    assert NAMES.client_id == "gatewarden-lab-gw-1"
    assert messages.packet(NAMES, message(), hist=False).topic == "gatewarden/v1/lab/gw-1/event"


def test_user_properties_carry_the_dedup_key() -> None:
    """Schema, boot, seq and hist, each as text."""
    packet = messages.packet(NAMES, message(), hist=True)
    assert packet.user == (("schema", "gatewarden.event/1"), ("boot", "b"), ("seq", "7"), ("hist", "1"))


def test_only_live_samples_and_health_expire() -> None:
    """Events wait for their consumer; a live sample does not, a replayed one is wanted for the record."""
    assert messages.packet(NAMES, message(METRICS), hist=False).expiry_s == messages.METRICS_EXPIRY_S
    assert messages.packet(NAMES, message(METRICS), hist=True).expiry_s is None
    assert messages.packet(NAMES, message(), hist=False).expiry_s is None
    assert messages.fleeting(NAMES, HEALTH, "b", 1, {}).retain is False


def test_status_is_retained() -> None:
    """A late subscriber sees the last state."""
    packet = messages.retained(NAMES, STATUS, "b", 1, messages.status("online", "b", 1.23456))
    assert packet.retain
    assert json.loads(packet.payload) == {"state": "online", "boot_id": "b", "t_wall": 1.235}


def test_what_is_stale_or_of_another_boot_is_history() -> None:
    """A dashboard never shows the past as the present."""
    assert not messages.is_history(message(wall=100.0), "b", 159.0)
    assert messages.is_history(message(wall=100.0), "b", 161.0)
    assert messages.is_history(message(), "c", 100.0)


JSONS: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), JSONS), st.integers(0, 2000))
def test_whatever_a_record_holds_it_encodes_as_json(record: Data, limit: int) -> None:
    """NaN, surrogates, depth, length: the result is strict JSON, and short if a limit is set."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    body = messages.encode(record, limit)
    back = json.loads(body, parse_constant=refuse)
    assert isinstance(back, dict)
    body.decode("ascii")
    assert body == messages.encode(record, 1 << 30) or "left_out" in back["data"]
