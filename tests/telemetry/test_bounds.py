"""Bounds of the outbox: what goes first, what is said about it, and that the file shrinks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import StoreError
from agent.telemetry.bounds import Limits
from agent.telemetry.messages import EVENT, GAP, METRICS, Message
from agent.telemetry.outbox import Outbox
from tests.doubles import NOW, HandClock
from tests.telemetry.doubles import BOOT, ROOMY, event, open_outbox

START = (-1, 0)
SMALL = Limits(max_bytes=256 << 10, headroom_bytes=0)
TEXT = "x" * 400


def fill(box: Outbox, first: int, n: int) -> list[Message]:
    """Append `n` events of about 600 bytes, one by one; gives all messages made, gap records too."""
    return [message for number in range(first, first + n) for message in box.append([event(number, text=TEXT)], {})]


def gaps(messages: list[Message]) -> list[dict[str, object]]:
    """Give the gap records among `messages`."""
    return [json.loads(message.body) for message in messages if message.stream == GAP]


def samples(first: int, n: int) -> list[Message]:
    """Make metrics samples."""
    return [Message(0, METRICS, BOOT, seq, METRICS, NOW, b'{"x":"%s"}' % (b"y" * 500)) for seq in range(first, first + n)]


def test_undelivered_events_go_last_and_every_loss_is_explained(tmp_path: Path) -> None:
    """At the byte bound the oldest events go; gap records and what is left add up to all that was ever numbered."""
    box = open_outbox(tmp_path, limits=SMALL)
    made = fill(box, 1, 1500)
    left = {m.seq for m in box.pending(START, 10_000) if m.stream == EVENT}
    explained = {
        seq
        for gap in gaps(made)
        if gap["stream"] == EVENT
        for seq in range(int(str(gap["first_seq"])), int(str(gap["last_seq"])) + 1)
    }
    assert left | explained == set(range(1, 1501))
    assert not left & explained
    assert max(left) == 1500
    assert box.count("dropped") >= len(explained)
    assert {gap["reason"] for gap in gaps(made)} == {"bytes"}
    assert (tmp_path / "outbox.db").stat().st_size <= SMALL.max_bytes
    box.close()


def test_metrics_go_before_delivered_events_before_undelivered_ones(tmp_path: Path) -> None:
    """The order of dropping, seen by what is left as the pressure grows."""
    box = open_outbox(tmp_path, limits=SMALL)
    old = fill(box, 1, 60)
    box.append([], {}, delivered=[m.id for m in old])
    box.append([], {}, samples=samples(1, 60))
    fill(box, 61, 120)
    kept = box.pending(START, 1000)
    assert [m for m in kept if m.stream == METRICS] == []
    assert len([m for m in kept if m.stream == EVENT]) == 120
    assert len(box.recent(1000)) > 120
    fill(box, 181, 100)
    assert [row for row in box.recent(1000) if row.get("delivered")] == []
    box.close()


def test_dropped_metrics_are_explained_too(tmp_path: Path) -> None:
    """A gap record names the stream, so that a consumer does not wait for those samples."""
    box = open_outbox(tmp_path, limits=SMALL)
    box.append([], {}, samples=samples(1, 100))
    made = fill(box, 1, 300)
    spans = [gap for gap in gaps(made) if gap["stream"] == METRICS]
    assert sum(int(str(gap["count"])) for gap in spans) == 100
    assert (spans[0]["first_seq"], spans[-1]["last_seq"]) == (1, 100)
    box.close()


def test_age_counts_only_between_plausible_clocks(tmp_path: Path) -> None:
    """A week after, old rows go; rows of a clock that was never set do not, and a step from 1970 drops nothing."""
    clock = HandClock(wall_s=1000.0)
    box = open_outbox(tmp_path, clock)
    box.append([event(1, t_wall=1000.0)], {})
    clock.pass_s(NOW - 1000.0)
    assert box.tidy() == []
    box.append([event(2)], {})
    clock.pass_s(6 * 86400)
    assert box.tidy() == []
    clock.pass_s(2 * 86400)
    (gap,) = gaps(box.tidy())
    assert (gap["first_seq"], gap["count"], gap["reason"]) == (2, 1, "age")
    assert [m.seq for m in box.pending(START, 9) if m.stream == EVENT] == [1]
    box.close()


def test_the_file_shrinks_after_a_drain(tmp_path: Path) -> None:
    """A backlog of metrics that was delivered gives its space back to the file system."""
    box = open_outbox(tmp_path)
    for n in range(40):
        box.append([], {}, samples=samples(n * 100, 100))
    full = box.file_bytes()
    while waiting := box.pending(START, 500):
        box.append([], {}, delivered=[m.id for m in waiting])
    box.tidy()
    assert box.file_bytes() < full // 10
    box.close()


def test_lack_of_head_room_sheds_history_but_no_undelivered_event(tmp_path: Path) -> None:
    """When the file system is nearly full, metrics and delivered events go, the file shrinks and stops growing."""
    box = open_outbox(tmp_path)
    old = fill(box, 1, 1000)
    box.append([], {}, delivered=[m.id for m in old])
    fill(box, 1001, 50)
    before = (tmp_path / "outbox.db").stat().st_size
    box.close()
    tight = open_outbox(tmp_path, limits=Limits(headroom_bytes=1 << 60))
    tight.tidy()
    assert len([m for m in tight.pending(START, 1000) if m.stream == EVENT]) == 50
    assert len(tight.recent(1000)) == 50
    assert (tmp_path / "outbox.db").stat().st_size < before // 3
    made = fill(tight, 1051, 600)
    assert {gap["reason"] for gap in gaps(made)} == {"disk"}
    left = [m.seq for m in tight.pending(START, 1000) if m.stream == EVENT]
    assert max(left) == 1650
    assert len(left) > 150
    assert (tmp_path / "outbox.db").stat().st_size <= 256 << 10
    tight.close()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["append", "deliver", "restart"]), st.integers(1, 60)), max_size=20))
def test_whatever_happens_every_number_is_there_delivered_or_explained(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """Under a byte bound of 64 KiB: pending, delivered and explained numbers together are 1..last, pending ones once."""
    folder = tmp_path_factory.mktemp("tight")
    limits = Limits(max_bytes=64 << 10, headroom_bytes=0)
    box = open_outbox(folder, limits=limits)
    delivered: set[int] = set()
    explained: set[int] = set()
    last = 0
    for step, n in steps:
        made: list[Message] = []
        if step == "append":
            made = fill(box, last + 1, n)
            last += n
        elif step == "deliver":
            waiting = [m for m in box.pending(START, n) if m.stream == EVENT]
            box.append([], {}, delivered=[m.id for m in waiting])
            delivered |= {m.seq for m in waiting}
        else:
            box.close()
            box = open_outbox(folder, limits=limits)
        for gap in gaps(made):
            if gap["stream"] == EVENT:
                explained |= set(range(int(str(gap["first_seq"])), int(str(gap["last_seq"])) + 1))
    left = [m.seq for m in box.pending(START, 10_000) if m.stream == EVENT]
    assert len(set(left)) == len(left)
    assert set(left) | delivered | explained == set(range(1, last + 1))
    box.close()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a file system of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def stuff(folder: Path) -> Path:
    """Fill the file system to the last byte."""
    hog = folder / "hog"
    with hog.open("ab", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            while True:
                try:
                    file.write(b"h" * size)
                except OSError:
                    break
    return hog


@pytest.mark.root
def test_on_a_full_disk_the_newest_events_still_get_in(tmp_path: Path, tiny_disk: Path) -> None:
    """Deleting works on a full disk: the oldest go, with gap records, and nothing of the newest is lost."""
    box = open_outbox(tiny_disk)
    made = fill(box, 1, 600)
    assert gaps(made) == []
    stuff(tiny_disk)
    made += [m for n in range(601, 1501) for m in box.append([event(n, text=TEXT)], {"r": n})]
    left = {m.seq for m in box.pending(START, 10_000) if m.stream == EVENT}
    explained = {seq for gap in gaps(made) for seq in range(int(str(gap["first_seq"])), int(str(gap["last_seq"])) + 1)}
    assert left | explained >= set(range(1, 1501))
    assert not left & explained
    assert set(range(1400, 1501)) <= left
    assert box.cursor("r") == 1500
    box.close()
    again = open_outbox(tiny_disk)
    assert {m.seq for m in again.pending(START, 10_000) if m.stream == EVENT} == left
    again.close()
    assert not list(tiny_disk.glob("*.corrupt-*"))
    assert tmp_path.exists()


def append_until_it_fails(box: Outbox) -> None:
    """Append records that are larger than what dropping the last one frees."""
    for n in range(1, 400):
        box.append([event(n, text=TEXT * 4 * n)], {"r": n})


@pytest.mark.root
def test_a_full_disk_that_leaves_nothing_to_drop_is_one_error_and_no_loss(tiny_disk: Path) -> None:
    """With nothing to give up, the append fails as a whole and works again when there is room."""
    box = open_outbox(tiny_disk)
    (tiny_disk / "outbox.reserve").unlink()
    hog = stuff(tiny_disk)
    with pytest.raises(StoreError, match="state_dir"):
        append_until_it_fails(box)
    reached = box.cursor("r")
    hog.unlink()
    box.append([event(reached + 1)], {"r": reached + 1})
    assert box.cursor("r") == reached + 1
    assert box.next_number() == reached + 2
    box.close()


@pytest.mark.root
def test_a_disk_that_is_full_from_the_start_is_one_error(tiny_disk: Path) -> None:
    """Not even an empty outbox fits: StoreError with the remedy, no traceback of another kind."""
    (tiny_disk / "run").mkdir()
    (tiny_disk / "run" / "sequences.json").write_text("{}")
    stuff(tiny_disk)
    with pytest.raises(StoreError):
        open_outbox(tiny_disk)


def test_limits_have_room_between_soft_and_hard() -> None:
    """A group of the largest allowed size never meets the hard stop."""
    assert ROOMY.hard_pages - ROOMY.soft_pages > ROOMY.hard_pages // 16
    assert os.sysconf("SC_PAGE_SIZE") > 0
