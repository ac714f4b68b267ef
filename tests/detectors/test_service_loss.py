"""service_loss: one event is enough for the three causes, and quiet ends it."""

from __future__ import annotations

import pytest

from agent.detectors.service_loss import Options, make
from agent.model import Event
from tests.detectors.replay import event, replay, states


@pytest.mark.parametrize(
    ("loss", "cause", "summary"),
    [
        (event(1, "proc.exit", "vision", workload="vision", oom=True, signal=9), "oom", "vision was killed for lack of memory"),
        (event(1, "video.audio_lost", "vision"), "audio_lost", "vision lost its sound"),
        (event(1, "video.timeout", "vision", stream="camera-1", silent_s=5.0), "timeout", "vision gets no stream"),
    ],
)
def test_each_cause_at_once(loss: Event, cause: str, summary: str) -> None:
    """Critical with the first event; the cause is what the ladder enters by."""
    found = replay(make(Options()), [loss], until=60)
    assert states(found) == [("vision", "critical"), ("vision", "ok")]
    assert (found[0].data["cause"], found[0].summary) == (cause, summary)


def test_the_end_comes_before_the_next_rung() -> None:
    """After the event's own quiet time, ticks included, the finding is over: the ladder must not climb on a single event."""
    found = replay(make(Options()), [event(9.9, "video.timeout", "vision")], until=100)
    settle = found[0].data["settle_s"]
    assert isinstance(settle, float)
    assert (found[1].t_mono_ns - found[0].t_mono_ns) / 1e9 < settle


def test_repeated_losses_keep_it_open() -> None:
    """Every 20 s another one: no end, until it is quiet."""
    found = replay(make(Options()), [event(n * 20.0, "video.timeout", "vision") for n in range(1, 8)], until=300)
    assert states(found) == [("vision", "critical"), ("vision", "ok")]
    assert found[1].t_mono_ns >= 170 * 10**9


@pytest.mark.parametrize(
    "other",
    [
        event(1, "proc.exit", "vision", workload="vision", oom=False, signal=9),
        event(1, "proc.exit", "ffmpeg", workload=None, oom=True, signal=9),
    ],
)
def test_other_deaths_are_none_of_its_business(other: Event) -> None:
    """A kill without the OOM killer, and a victim that is no workload."""
    assert replay(make(Options()), [other], until=60) == []
