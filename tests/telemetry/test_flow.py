"""The window between outbox and broker: pure, with time handed in."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.telemetry.flow import AGAIN_NS, LIVE_ROOM, PAGE, REPLAY_PER_SLICE, REPLAY_SLICE_NS, START, S, Window
from agent.telemetry.messages import EVENT, METRICS, Message


def stored(number: int, stream: str = EVENT) -> Message:
    """Make a message of the outbox."""
    return Message(number, stream, "b", number, stream, 0.0, b"{}")


def sample(seq: int, number: int = 0) -> Message:
    """Make a metrics sample that only memory holds, or (with a number) its stored twin."""
    return Message(number, METRICS, "b", seq, METRICS, 0.0, b"{}")


def answer(window: Window, messages: list[Message]) -> None:
    """Answer the request for the beginning of the backlog."""
    request = window.wants(0)
    assert request is not None
    assert (request.after, request.n) == (START, PAGE)
    window.page(request, messages, 0)


def opened(size: int = 20) -> Window:
    """Give a window whose backlog was found empty."""
    window = Window()
    window.open(size)
    answer(window, [])
    return window


def send_all(window: Window, now: int = 0, mid: int = 1) -> list[tuple[int, bool]]:
    """Send what goes; gives `(id, replayed)`."""
    sent: list[tuple[int, bool]] = []
    while item := window.next(now):
        window.sent(mid + len(sent), item[0], now, replayed=item[1])
        sent.append((item[0].id, item[1]))
    return sent


def test_live_goes_before_history() -> None:
    """What happens now is sent first, however long the backlog is."""
    window = Window()
    window.open(20)
    answer(window, [stored(n) for n in (1, 2)])
    window.offer(stored(9))
    assert send_all(window) == [(9, False), (1, True), (2, True)]


def test_replay_leaves_room_in_the_window_and_is_bounded_in_rate() -> None:
    """At most three quarters of the window, and 20 per 100 ms."""
    window = Window()
    window.open(20)
    answer(window, [stored(n) for n in range(1, PAGE + 1)])
    assert len(send_all(window)) == 15
    for mid in range(1, 16):
        window.acked(mid)
    assert len(send_all(window, mid=100)) == REPLAY_PER_SLICE - 15
    for mid in range(100, 105):
        window.acked(mid)
    assert window.next(0) is None
    assert window.due_ns() == REPLAY_SLICE_NS
    assert window.next(REPLAY_SLICE_NS) is not None


def test_an_answer_from_before_the_reconnect_is_left_alone() -> None:
    """It may lie far back in the backlog, or be empty by now: this replay begins at the start all the same."""
    window = Window()
    window.open(20)
    answer(window, [stored(n) for n in range(1, PAGE + 1)])
    send_all(window)
    for mid in range(1, 16):
        window.acked(mid)
    send_all(window, mid=100)
    old = window.wants(0)
    assert old is not None
    window.open(20)
    window.page(old, [], 0)
    fresh = window.wants(0)
    window.page(old, [stored(n) for n in range(100, 100 + PAGE)], 0)
    assert fresh is not None
    assert fresh.after == START
    window.page(fresh, [stored(7)], 0)
    assert send_all(window, now=S) == [(7, True)]


def test_a_live_message_that_the_page_has_too_is_sent_once() -> None:
    """Committed while the page was read: known by its key, not sent twice."""
    window = Window()
    window.open(20)
    request = window.wants(0)
    assert request is not None
    window.offer(stored(1))
    window.page(request, [stored(1), stored(2)], 0)
    assert [number for number, _ in send_all(window)] == [1, 2]


def test_an_overflow_of_live_messages_restarts_the_replay_and_is_no_history() -> None:
    """What found no room comes by replay, still as news."""
    window = opened()
    for number in range(1, LIVE_ROOM + 3):
        window.offer(stored(number))
    answer(window, [stored(LIVE_ROOM + 1), stored(LIVE_ROOM + 2)])
    while sent := send_all(window, now=10 * S, mid=len(window.flights) + 1000):
        last = sent[-1]
        for mid in list(window.flights):
            window.acked(mid)
    assert last == (LIVE_ROOM + 2, False)


def test_a_sample_without_acknowledgement_is_stored_once_and_then_acked_by_id() -> None:
    """After 1 s it is handed to the outbox; its stored twin takes its place, so that the late answer finds the row."""
    window = opened()
    window.offer(sample(1))
    send_all(window)
    assert window.overdue(S - 1) == []
    assert window.overdue(S) == [sample(1)]
    assert window.overdue(2 * S) == []
    window.offer(sample(1, number=77))
    assert window.next(0) is None
    assert window.acked(1) == sample(1, number=77)


def test_a_lost_connection_hands_back_what_only_memory_holds() -> None:
    """Samples in flight or waiting go to the outbox, except those that are there already."""
    window = opened()
    for seq in (1, 2):
        window.offer(sample(seq))
    send_all(window)
    window.overdue(S)
    window.offer(sample(3))
    window.offer(stored(9))
    assert window.close() == [sample(3)]
    assert not window.flights


def test_a_refusal_pauses_the_replay_and_offers_again_later() -> None:
    """The broker that says no today (no right, quota) is asked again, not hammered."""
    window = opened()
    window.offer(stored(1))
    send_all(window)
    window.acked(1)
    window.refused(0)
    assert window.wants(AGAIN_NS - 1) is None
    assert window.due_ns() == AGAIN_NS
    request = window.wants(AGAIN_NS)
    assert request is not None
    assert (request.after, request.n) == (START, PAGE)


def test_an_idle_window_has_nothing_due() -> None:
    """No wake-ups without messages."""
    assert opened().due_ns() is None


@settings(max_examples=150, deadline=None)
@given(size=st.integers(1, 25), backlog=st.integers(0, 120), live=st.integers(0, 40), acks=st.randoms(use_true_random=False))
def test_everything_is_sent_exactly_once_within_the_window(size: int, backlog: int, live: int, acks: object) -> None:
    """Any window, any backlog, live messages in between: all go once, never more in flight than allowed."""
    window = Window()
    window.open(size)
    rows = [stored(n) for n in range(1, backlog + 1)]
    new = [stored(backlog + n) for n in range(1, live + 1)]
    sent: list[int] = []
    now = mid = 0
    for _ in range(5000):
        if (request := window.wants(now)) is not None:
            window.page(request, [row for row in rows if row.place > request.after][: request.n], now)
        if new:
            window.offer(new.pop(0))
        while item := window.next(now):
            mid += 1
            window.sent(mid, item[0], now, replayed=item[1])
            sent.append(item[0].id)
        assert len(window.flights) <= size
        for flight in [m for m in window.flights if acks.random() < 0.5]:  # type: ignore[attr-defined]
            done = window.acked(flight)
            rows = [row for row in rows if row != done]
        now += S // 50
        if len(sent) == backlog + live and not window.flights:
            break
    assert sorted(sent) == list(range(1, backlog + live + 1))
