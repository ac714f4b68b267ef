"""One connection by itself, and the pause before the next."""

from __future__ import annotations

import select
from pathlib import Path

import pytest

from agent.telemetry.link import Accepted, Link
from agent.telemetry.messages import Packet
from agent.telemetry.publisher import backoff_s
from tests.brokers import mosquitto
from tests.telemetry.rig import here


@pytest.mark.broker
def test_what_the_broker_grants_is_read_from_its_answer(tmp_path: Path) -> None:
    """Receive Maximum, Maximum Packet Size and Server Keep Alive of CONNACK; they are kept from then on."""
    with mosquitto(tmp_path / "broker", "max_inflight_messages 7", "max_packet_size 5000", "max_keepalive 10") as broker:
        link = Link(here(broker.port), "probe", Packet("gatewarden/v1/x/y/status", b"{}", ()))
        link.open()
        while link.accepted is None:
            assert link.lost is None
            select.select([link.fileno()], [], [], 5)
            link.pump(readable=True)
        link.close(clean=True)
    assert link.accepted == Accepted(7, 5000, 10)


def test_back_off_is_full_jitter_with_a_cap() -> None:
    """1, 2, 4 … 60 s times the chance; never more, for ever."""
    assert [backoff_s(n, 1.0) for n in (0, 1, 2, 5, 6, 10_000)] == [1.0, 2.0, 4.0, 32.0, 60.0, 60.0]
    assert backoff_s(9, 0.0) == 0.0
