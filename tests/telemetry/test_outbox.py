"""The outbox on real SQLite files: numbers, cursors, order, history, delivery."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import StoreError
from agent.model import Data, Decision, Finding, Outcome, plain
from agent.telemetry import history
from agent.telemetry.bounds import Limits
from agent.telemetry.marks import Marks
from agent.telemetry.messages import BODY_LIMIT, EVENT, GAP, METRICS, Message
from agent.telemetry.outbox import Outbox
from tests.doubles import NOW, HandClock
from tests.telemetry.doubles import BOOT, event, open_outbox

START = (-1, 0)


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    """Give an open outbox in `tmp_path`."""
    box = open_outbox(tmp_path)
    yield box
    box.close()


def sample(seq: int) -> Message:
    """Make a metrics sample."""
    return Message(0, METRICS, BOOT, seq, METRICS, NOW, b'{"n":%d}' % seq)


def test_all_envelopes_share_the_event_stream_and_are_numbered_from_one(outbox: Outbox) -> None:
    """Message numbers count every envelope of a boot without holes; Event.seq is another number."""
    finding = Finding(5, "timer_late", "x", "degraded", "late", (7,))
    decision = Decision(6, "log", finding, "because")
    outcome = Outcome(7, "log", "x", ok=True, detail="logged")
    made = outbox.append([event(7), plain(finding), plain(decision), plain(outcome)], {})
    assert [(m.stream, m.seq, m.record) for m in made] == [
        (EVENT, 1, "event"),
        (EVENT, 2, "finding"),
        (EVENT, 3, "decision"),
        (EVENT, 4, "outcome"),
    ]
    assert json.loads(made[0].body)["seq"] == 7
    assert outbox.next_number() == 8


def test_numbers_and_cursors_go_on_after_a_restart(tmp_path: Path) -> None:
    """Within a boot no number is given out twice, and the ring position is where the last commit left it."""
    box = open_outbox(tmp_path)
    box.append([event(1), event(2)], {"boot/17": 4096})
    box.close()
    again = open_outbox(tmp_path)
    assert again.cursor("boot/17") == 4096
    assert again.cursor("boot/18") == 0
    assert again.next_number() == 3
    assert again.append([event(3)], {})[0].seq == 3
    again.close()


def test_another_boot_begins_at_one_and_finds_the_backlog(tmp_path: Path) -> None:
    """Streams are per boot; what the last boot did not deliver is still pending, with its own boot id."""
    box = open_outbox(tmp_path)
    box.append([event(1)], {})
    box.close()
    (tmp_path / "run" / "sequences.json").unlink()
    other = open_outbox(tmp_path, boot_id="c" * 32)
    other.append([event(1)], {})
    assert [(m.boot_id, m.seq) for m in other.pending(START, 9)] == [(BOOT, 1), ("c" * 32, 1)]
    other.close()


def test_numbers_are_never_reused_when_the_file_is_lost(tmp_path: Path) -> None:
    """With outbox.db gone, the marks in runtime_dir still say how far this boot has counted."""
    box = open_outbox(tmp_path)
    box.append([event(n) for n in range(1, 6)], {})
    box.close()
    (tmp_path / "outbox.db").unlink()
    fresh = open_outbox(tmp_path)
    assert (fresh.next_number(), fresh.append([event(6)], {})[0].seq) == (6, 6)
    fresh.close()


def test_delivered_events_stay_as_history_and_delivered_metrics_go(outbox: Outbox) -> None:
    """Delivery empties the backlog; `recent` still has the events."""
    made = outbox.append([event(1), event(2)], {}, samples=[sample(1)])
    assert outbox.count("backlog.rows") == 3
    outbox.append([], {}, delivered=[message.id for message in made])
    assert outbox.pending(START, 9) == []
    assert (outbox.count("backlog.rows"), outbox.count("backlog.bytes")) == (0, 0)
    assert [(row["seq"], row["delivered"]) for row in outbox.recent(9)] == [(1, True), (2, True)]
    assert outbox.oldest_wall() is None


def test_marking_twice_or_unknown_ids_changes_nothing(outbox: Outbox) -> None:
    """A late acknowledgement of a row that is gone does no harm."""
    (message,) = outbox.append([event(1)], {})
    outbox.append([], {}, delivered=[message.id, message.id, 999])
    assert outbox.count("backlog.rows") == 0


def test_pending_gives_events_before_metrics_in_pages(outbox: Outbox) -> None:
    """Replay order: events, then gaps, then metrics, each oldest first; a place leads to the next page."""
    outbox.append([event(1)], {}, samples=[sample(1)])
    outbox.append([event(2)], {}, lost=3)
    first = outbox.pending(START, 2)
    rest = outbox.pending(first[-1].place, 9)
    assert [(m.stream, m.seq) for m in first + rest] == [(EVENT, 1), (EVENT, 5), (GAP, 1), (METRICS, 1)]


def test_lost_records_leave_a_hole_that_a_gap_record_explains(outbox: Outbox) -> None:
    """What memory could not hold has numbers of its own, which never come."""
    made = outbox.append([event(9)], {}, lost=4)
    gap = json.loads(next(m.body for m in made if m.stream == GAP))
    assert (gap["stream"], gap["first_seq"], gap["last_seq"], gap["count"], gap["reason"]) == (EVENT, 1, 4, 4, "memory")
    assert next(m.seq for m in made if m.stream == EVENT) == 5
    assert outbox.count("dropped") == 4


def test_quarantined_rows_leave_the_backlog_with_a_gap_record(outbox: Outbox) -> None:
    """A poison row never blocks the others; it stays visible in the history."""
    poison, good = outbox.append([event(1), event(2)], {})
    (gap,) = outbox.quarantine(poison.id, "oversize")
    assert json.loads(gap.body) == {
        "record": "gap",
        "stream": EVENT,
        "boot_id": BOOT,
        "first_seq": 1,
        "last_seq": 1,
        "count": 1,
        "reason": "oversize",
    }
    assert [m.id for m in outbox.pending(START, 9)] == [good.id, gap.id]
    assert outbox.recent(9)[0]["quarantined"] is True
    assert outbox.quarantine(poison.id, "again") == []


def test_without_a_broker_records_are_history_at_once(tmp_path: Path) -> None:
    """`deliver=False`: everything is queryable, nothing waits for delivery."""
    box = open_outbox(tmp_path, deliver=False)
    box.append([event(1)], {})
    assert (box.count("backlog.rows"), len(box.recent(9))) == (0, 1)
    box.close()


def test_recent_filters_by_time_and_family(outbox: Outbox) -> None:
    """`kind` is one kind or a family, never a mere prefix; the newest come, oldest first."""
    outbox.append([event(1, "timer.late", NOW), event(2, "timers.x", NOW + 1), event(3, "timer.race", NOW + 2)], {})
    assert [row["seq"] for row in outbox.recent(9, kind="timer")] == [1, 3]
    assert [row["seq"] for row in outbox.recent(9, kind="timer.race")] == [3]
    assert [row["seq"] for row in outbox.recent(9, since_wall=NOW + 1)] == [2, 3]
    assert [row["seq"] for row in outbox.recent(2)] == [2, 3]
    assert outbox.recent(-1) == []


def test_other_envelopes_are_found_by_what_they_are_about(outbox: Outbox) -> None:
    """`finding` has `finding.timer_late`, as the CLI names them."""
    outbox.append([event(1), plain(Finding(5, "timer_late", "x", "degraded", "late"))], {})
    assert [row["record"] for row in outbox.recent(9, kind="finding")] == ["finding"]
    assert [row["record"] for row in outbox.recent(9, kind="finding.timer_late")] == ["finding"]


def test_a_record_that_is_no_json_or_too_long_is_kept_without_its_data(outbox: Outbox) -> None:
    """Bad data costs its own data, never the record or its neighbours."""
    odd: Data = {**event(1), "data": {"x": float("nan")}}
    long: Data = {**event(2), "data": {"x": "y" * BODY_LIMIT}}
    alien: Data = {**event(3), "data": {"x": object()}}  # type: ignore[dict-item]
    outbox.append([odd, long, alien, event(4)], {})
    rows = outbox.recent(9)
    assert [row["seq"] for row in rows] == [1, 2, 3, 4]
    assert all("left_out" in json.dumps(row["data"]) for row in rows[:3])


@pytest.mark.usefixtures("outbox")
def test_two_owners_are_refused(tmp_path: Path) -> None:
    """A second agent on the same state_dir would send everything twice."""
    with pytest.raises(StoreError, match="another agentd"):
        open_outbox(tmp_path)


def test_a_folder_that_cannot_be_written_names_the_remedy(tmp_path: Path) -> None:
    """StoreError says where and what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="state_dir"):
        Outbox(tmp_path / "file", Limits(), HandClock(), Marks(tmp_path, BOOT), boot_id=BOOT)


def test_old_ring_positions_are_forgotten(outbox: Outbox) -> None:
    """Each load of a probe has a new ring; the 64 moved last are remembered."""
    for n in range(100):
        outbox.append([], {f"boot/{n}": n})
    outbox.append([], {"boot/40": 41})
    assert [outbox.cursor(f"boot/{n}") for n in (0, 35, 40, 99)] == [0, 0, 41, 99]


def test_opening_does_not_depend_on_the_backlog(tmp_path: Path) -> None:
    """Opening a full outbox runs a bounded number of SQLite steps: no scan of the rows."""
    box = open_outbox(tmp_path)
    for n in range(20):
        box.append([event(n * 500 + i, text="x" * 2000) for i in range(500)], {})
    box.close()
    assert (tmp_path / "outbox.db").stat().st_size > 17 << 20
    seen = []
    again = open_outbox(tmp_path)
    again._store.db.set_progress_handler(lambda: seen.append(1), 1000)
    again.next_number()
    assert again.count("backlog.rows") == 10_000
    assert len(again.pending(START, 20)) == 20
    assert len(seen) < 5
    again.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_sequence_of_steps_keeps_the_books(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Appending, delivering, quarantining and restarting in any order: counts agree with rows, numbers never repeat."""
    folder = tmp_path_factory.mktemp("books")
    box = open_outbox(folder)
    numbers: list[tuple[str, int]] = []
    for _ in range(data.draw(st.integers(1, 12))):
        step = data.draw(st.sampled_from(["append", "deliver", "quarantine", "restart", "tidy"]))
        made: list[Message] = []
        if step == "append":
            made = box.append([event(1)] * data.draw(st.integers(0, 3)), {"r": 1}, lost=data.draw(st.integers(0, 2)))
        elif step == "deliver":
            box.append([], {}, delivered=[m.id for m in box.pending(START, data.draw(st.integers(0, 4)))])
        elif step == "quarantine" and (waiting := box.pending(START, 1)):
            made = box.quarantine(waiting[0].id, "test")
        elif step == "restart":
            box.close()
            box = open_outbox(folder)
        elif step == "tidy":
            made = box.tidy()
        numbers += [(m.stream, m.seq) for m in made]
    waiting = box.pending(START, 1000)
    assert len(set(numbers)) == len(numbers)
    assert box.count("backlog.rows") == len(waiting)
    assert box.count("backlog.bytes") == sum(len(m.body) for m in waiting)
    box.close()


def test_history_of_a_stopped_agent_leaves_no_trace(tmp_path: Path) -> None:
    """After a clean stop, reading (even as root) makes no -wal or -shm file that agentd could then not open."""
    box = open_outbox(tmp_path)
    box.append([event(1)], {})
    box.close()
    before = sorted(path.name for path in tmp_path.iterdir())
    assert [row["seq"] for row in history.recent(tmp_path, 9).records] == [1]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_history_of_a_running_agent_sees_what_is_in_the_log(tmp_path: Path, outbox: Outbox) -> None:
    """A reader beside the owner sees the newest commit and writes nothing."""
    outbox.append([event(1)], {})
    size = (tmp_path / "outbox.db-wal").stat().st_size
    assert [row["seq"] for row in history.recent(tmp_path, 9).records] == [1]
    assert (tmp_path / "outbox.db-wal").stat().st_size == size
    outbox.append([event(2)], {})
    assert [row["seq"] for row in history.recent(tmp_path, 9).records] == [1, 2]


def test_history_is_bounded_in_bytes(tmp_path: Path, outbox: Outbox) -> None:
    """Of more than fits the newest are given, and that some were left out is said; of what fits nothing is."""
    outbox.append([event(seq, text="x" * 1000) for seq in range(1, 101)], {})
    found = history.recent(tmp_path, 1000, most_bytes=10_000)
    assert [row["seq"] for row in found.records] == [*range(101 - len(found.records), 101)]
    assert (5 < len(found.records) < 10, found.cut) == (True, True)
    assert not history.recent(tmp_path, 3, most_bytes=10_000).cut
    assert not history.recent(tmp_path, 1000, most_bytes=1 << 20).cut


def test_history_without_an_outbox_is_empty(tmp_path: Path) -> None:
    """Nothing to see is not an error, and nothing is created."""
    assert history.recent(tmp_path, 9).records == []
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=60, deadline=None)
@given(raw=st.binary(min_size=1, max_size=3000))
def test_history_of_a_file_of_random_bytes_is_one_error(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """A file that is no database gives StoreError, and is left as it is."""
    folder = tmp_path_factory.mktemp("noise")
    (folder / "outbox.db").write_bytes(raw)
    with pytest.raises(StoreError):
        history.recent(folder, 9)
    assert (folder / "outbox.db").read_bytes() == raw


def test_sqlite_is_new_enough() -> None:
    """STRICT tables came with 3.37; Debian 12 has 3.40."""
    assert sqlite3.sqlite_version_info >= (3, 37)
