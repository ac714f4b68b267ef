"""The link to the keeper: which message becomes which sighting, and that no message breaks it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import probes
from agent.keeping import messages
from agent.keeping.effects import Exit
from agent.model import Data, Json, Sighting
from agent.probes import keeper_link

LINK = probes.link("keeper_link")
AT = 5_000_000_000


def seen(message: Data) -> list[Sighting]:
    """Read one message as it comes off the wire."""
    return list(LINK.sightings(json.loads(json.dumps(message))))


def test_a_state_is_an_event_of_its_workload() -> None:
    """Pins what is kept of a transition, and that a failure weighs more than a start."""
    told: Data = {"type": "state", "seq": 4, "t_mono_ns": AT, "name": "camera-1", "state": "failed", "pid": None}
    (one,) = seen({**told, "reason": "budget spent", "restarts": 5, "ready": False, "status": "decoding"})
    assert (one.kind, one.subject, one.severity, one.t_mono_ns, one.source) == (
        "workload.state",
        "camera-1",
        "error",
        AT,
        "keeper_link",
    )
    assert one.data == {
        "state": "failed",
        "pid": None,
        "reason": "budget spent",
        "restarts": 5,
        "ready": False,
        "status": "decoding",
    }


def test_an_exit_that_was_replaced_tells_how_long_that_took() -> None:
    """Pins the two events of an exit, in the form that the keeper's own function gives it."""
    exited, restarted = seen(messages.exited("camera-1", Exit(7, None, 9), AT, 8, 0.9))
    assert (exited.kind, exited.severity, exited.data["signal"]) == ("workload.exit", "warning", 9)
    assert (restarted.kind, restarted.data) == ("workload.restarted", {"pid": 8, "ms": 0.9})
    (alone,) = seen(messages.exited("camera-1", Exit(7, 0), AT, None, None))
    assert (alone.kind, alone.severity) == ("workload.exit", "info")


@pytest.mark.parametrize(
    ("what", "data", "kind", "kept"),
    [
        ("event", {"kind": "video.audio_lost", "data": {"stream": "a"}}, "video.audio_lost", {"stream": "a"}),
        ("event", {"kind": "work.jam", "data": None}, "work.jam", {}),
        ("profile", {"profile": "low"}, "workload.profile", {"profile": "low"}),
        ("bad_sender", {"pid": 3}, "workload.notice", {"what": "bad_sender", "pid": 3}),
    ],
)
def test_a_notice_is_told_by_what_it_is(what: str, data: Data, kind: str, kept: Data) -> None:
    """Pins that a workload's own event and its profile have kinds of their own, everything else one."""
    (one,) = seen(messages.notice("camera-1", what, AT, data))
    assert (one.kind, one.subject, one.data) == (kind, "camera-1", kept)


def test_a_workload_cannot_raise_what_is_not_its_own() -> None:
    """Pins that no workload can tell of a kernel fault, or of another's death, in our name."""
    for kind in ("proc.exit", "timer.race", "workload.state", "video.", "work.X"):
        with pytest.raises(ValueError, match="may not raise"):
            seen(messages.notice("camera-1", "event", AT, {"kind": kind}))


def test_beats_are_one_sample_for_each_workload() -> None:
    """Pins their data, and that they are only shown."""
    row: Data = {
        "last_ns": AT - 1,
        "intervals_ms": [100.0, 101.5],
        "watchdog_us": 1000,
        "extend_until_ns": None,
        "phase": "run",
    }
    silent: Data = {"last_ns": None, "intervals_ms": [], "watchdog_us": None, "extend_until_ns": None, "phase": "start"}
    first, second = seen(messages.beats(AT, {"camera-1": row, "camera-2": silent}))
    assert (first.kind, first.subject, first.data) == ("workload.beats", "camera-1", row)
    assert second.data == {**silent, "last_ns": 0}
    assert first.kind in keeper_link.SHOWN


def test_other_messages_tell_nothing_of_a_workload() -> None:
    """Pins that hello, done and what a later keeper may add are passed over."""
    assert not seen({"type": "hello", "keeper": "id", "pid": 1, "version": "1", "seq": 0, "lost": 0})
    assert not seen(messages.done("1", "done", 1.0, ok=True))
    assert not seen({"type": "weather"})


TREES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
KEYS = ("state", "pid", "reason", "restarts", "ready", "status", "code", "signal", "core", "replaced_pid", "replaced_ms")
MORE = ("what", "data", "beats", "t_mono_ns", "name")


@given(
    kind=st.sampled_from(["state", "exit", "notice", "beats"]),
    body=st.fixed_dictionaries({}, optional=dict.fromkeys((*KEYS, *MORE), TREES)),
)
def test_any_message_is_read_or_refused(kind: str, body: dict[str, Json]) -> None:
    """Pins that a keeper gone mad costs a ValueError at most, and that what is read is JSON."""
    try:
        found = list(LINK.sightings({"type": kind, **body}))
    except ValueError:
        return
    for one in found:
        json.dumps(one.data)
        assert one.t_mono_ns >= 0
