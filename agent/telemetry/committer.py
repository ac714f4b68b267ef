"""What the spool thread does between two waits: gather, commit in groups, tell who waits for it.

Everything that may block on the disk happens here, and nothing else does. No thread and no lock of its own: `Spool` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

from agent.errors import StoreError
from agent.model import Data
from agent.ports import Clock
from agent.telemetry.marks import Marks
from agent.telemetry.messages import METRICS, Message, Request, encode
from agent.telemetry.outbox import Outbox

Callback: TypeAlias = "Callable[[], None]"
Answer: TypeAlias = "Callable[[list[Data] | StoreError], None]"

S = 1_000_000_000  # ns
GROUP_RECORDS = 256  # per transaction, so that one commit stays short on an SD card
GROUP_NS = S  # samples and delivery marks wait this long for company
THIN_NS = 59 * S  # between two samples that are stored while the broker is away
SAMPLES = 64  # kept in memory while the store fails
ACKS = 256  # delivery marks that are written without waiting
RETRY_NS = S  # after a commit that failed
TIDY_NS = 600 * S
FAULTS = 3  # in a row; then what the work stumbles over is given up


class Sink(Protocol):
    """The publisher, as the spool sees it. All of it is called on the spool thread and returns at once."""

    def offer(self, messages: Sequence[Message]) -> None:
        """Take what was just committed. What it leaves lying is in the backlog."""
        ...

    def hears(self) -> bool:
        """Whether somebody would hear a sample now."""
        ...

    def sample(self, message: Message) -> bool:
        """Take a metrics sample that is not stored; False if there is no connection."""
        ...

    def page(self, request: Request, messages: Sequence[Message]) -> None:
        """Take the page of the backlog that was asked for."""
        ...


@dataclass(frozen=True, slots=True)
class Stats:
    """The state of the store. `flash_bytes` were written to disk by this thread since its start, None if unknown."""

    backlog_rows: int = 0
    backlog_bytes: int = 0
    oldest_wall: float | None = None
    dropped: int = 0
    quarantined: int = 0
    file_bytes: int = 0
    flash_bytes: int | None = None
    failures: int = 0
    error: str = ""
    dropped_ns: int | None = None
    """Monotonic time of the newest drop in this boot."""
    faults: int = 0
    """Errors that nobody foresaw: bugs of ours."""

    def oldest_s(self, now_wall: float) -> float | None:
        """Give the age of the oldest undelivered message in seconds, None if there is none."""
        return None if self.oldest_wall is None else max(0.0, now_wall - self.oldest_wall)


@dataclass(frozen=True, slots=True)
class Entry:
    """One `Store.append`; `lost` records before it were given up for `reason`."""

    records: Sequence[Data]
    cursors: Mapping[str, int]
    done: Callback
    lost: int = 0
    reason: str = "memory"


class Committer:
    """Gathers jobs and carries them out on the outbox; `call` runs a callback on the main loop, `report` tells an operator."""

    def __init__(
        self,
        outbox: Outbox,
        marks: Marks,
        clock: Clock,
        boot_id: str,
        call: Callable[[Callback], None],
        report: Callable[[str], None],
    ) -> None:
        self._outbox, self._marks, self._clock, self._boot_id = outbox, marks, clock, boot_id
        self._call, self._report = call, report
        self.sink: Sink | None = None
        self.settled = 0  # records that were committed
        self.stats = Stats()
        self._entries: list[Entry] = []
        self._samples: list[Message] = []
        self._acks: list[int] = []
        self._poison: list[tuple[int, str]] = []
        self._pages: list[Request] = []
        self._faults, self._faults_in_a_row = 0, 0
        self._due_ns: int | None = None
        self._retry_ns = 0
        self._thin_ns = 0
        self._tidy_ns = clock.mono_ns() + TIDY_NS

    def append(self, entry: Entry) -> None:
        """Take records in; they are committed by the next `work`."""
        self._entries.append(entry)

    def metric(self, payload: Data) -> None:
        """Give a sample its number and to the publisher, or into the backlog if there is no connection.

        Without a broker at all samples are of no use to anybody and are not stored. While the broker is away one a minute
        is: each costs flash some 50 KB, however small it is. Those between have no number, so no hole is left.
        """
        if self.sink is None:
            return
        now = self._clock.mono_ns()
        if not self.sink.hears():
            if now < self._thin_ns:
                return
            self._thin_ns = now + THIN_NS
        seq = self._marks.take(METRICS)
        message = Message(0, METRICS, self._boot_id, seq, METRICS, self._clock.wall(), encode(payload))
        if not self.sink.sample(message):
            self.keep([message])

    def keep(self, samples: Sequence[Message]) -> None:
        """Put samples into the backlog that the publisher could not deliver in time."""
        self._samples = [*self._samples, *samples][-SAMPLES:]
        self._wait_for_company()

    def acked(self, ids: Sequence[int]) -> None:
        """Note what the broker has."""
        self._acks += ids
        self._wait_for_company()

    def quarantine(self, number: int, reason: str) -> None:
        """Take a poison message out of the backlog."""
        self._poison.append((number, reason))

    def page(self, request: Request) -> None:
        """Give the publisher a page of the backlog, with the next `work`."""
        self._pages.append(request)

    def recent(self, limit: int, since_wall: float | None, kind: str | None, answer: Answer) -> None:
        """Answer with the newest records, on the main loop; those that wait are committed first."""
        self.work()
        try:
            rows: list[Data] | StoreError = self._outbox.recent(limit, since_wall, kind)
        except StoreError as error:
            rows = error
        self._call(partial(answer, rows))

    def work(self) -> None:
        """Do what is due. A store that fails keeps everything waiting for the next try."""
        now = self._clock.mono_ns()
        if now < self._retry_ns:
            return
        try:
            self._work(now)
            self._faults_in_a_row = 0
            self._settle("")
        except StoreError as error:
            self._retry_ns = now + RETRY_NS
            self._settle(str(error))

    def fault(self, error: Exception) -> None:
        """Take note of an error that nobody foresaw, told once. The third in a row costs what the work stumbles over."""
        self._faults += 1
        self._faults_in_a_row += 1
        self._settle(f"a fault of the agent, please report it: {type(error).__name__}: {error}")
        if self._faults_in_a_row >= FAULTS:
            self._faults_in_a_row = 0
            self._give_up()

    def _give_up(self) -> None:
        """Let go of the first of whatever waits, its records explained by a gap: the rest is worth more."""
        if self._entries:
            first = self._entries[0]
            self.settled += len(first.records)
            lost = first.lost + len(first.records)
            self._entries[0] = Entry([], first.cursors, first.done, lost, "fault")
        self._samples, self._acks = [], []
        del self._poison[:1], self._pages[:1]

    def wait_s(self) -> float:
        """Give how long `work` may wait for company, in seconds."""
        now = self._clock.mono_ns()
        due = self._tidy_ns if self._due_ns is None else min(self._due_ns, self._tidy_ns)
        if self._entries or self._pages or self._poison:
            due = now
        return max(0, max(due, self._retry_ns) - now) / S

    def finish(self) -> None:
        """Commit what waits, close the outbox."""
        self._retry_ns = 0
        self._due_ns = self._clock.mono_ns() if self._acks or self._samples else None
        self.work()
        self._outbox.close()

    def _work(self, now: int) -> None:
        while self._entries:
            self._commit(self._group())
        if (self._due_ns is not None and now >= self._due_ns) or len(self._acks) >= ACKS or (self._acks and self._pages):
            self._commit([])
        while self._poison:
            made = self._outbox.quarantine(*self._poison[0])
            self._poison.pop(0)
            self._offer(made)
        while self._pages:
            request = self._pages[0]
            messages = self._outbox.pending(request.after, request.n)
            self._pages.pop(0)
            if self.sink is not None:
                self.sink.page(request, messages)
        if now >= self._tidy_ns:
            self._tidy_ns = now + TIDY_NS
            self._offer(self._outbox.tidy())

    def _group(self) -> list[Entry]:
        group: list[Entry] = []
        n = 0
        for entry in self._entries:
            n += len(entry.records)
            if group and (n > GROUP_RECORDS or entry.reason != group[0].reason):
                break
            group.append(entry)
        return group

    def _commit(self, group: list[Entry]) -> None:
        records = [record for entry in group for record in entry.records]
        cursors = {ring: position for entry in group for ring, position in entry.cursors.items()}
        lost = sum(entry.lost for entry in group)
        reason = group[0].reason if group else ""
        samples, acks = self._samples, self._acks
        made = self._outbox.append(records, cursors, lost=lost, reason=reason, samples=samples, delivered=acks)
        del self._entries[: len(group)]
        self._samples, self._acks, self._due_ns = [], [], None
        self.settled += len(records)
        for entry in group:
            self._call(entry.done)
        self._offer(made)

    def _offer(self, messages: Sequence[Message]) -> None:
        if messages and self.sink is not None:
            self.sink.offer(messages)

    def _wait_for_company(self) -> None:
        if self._due_ns is None:
            self._due_ns = self._clock.mono_ns() + GROUP_NS

    def _settle(self, error: str) -> None:
        """Bring `stats` up to date; say what an operator should know, a lasting failure once."""
        outbox, before = self._outbox, self.stats
        if error and not before.error:
            self._tell(f"records wait in memory: {error}")
        if before.error and not error:
            self._tell("the outbox can be written again")
        while outbox.incidents:
            self._tell(outbox.incidents.pop(0))
        self.stats = Stats(
            outbox.count("backlog.rows"),
            outbox.count("backlog.bytes"),
            before.oldest_wall if error else outbox.oldest_wall(),
            outbox.count("dropped"),
            outbox.count("quarantined"),
            outbox.file_bytes(),
            _flash_bytes(),
            before.failures + bool(error),
            error,
            outbox.dropped_ns(),
            self._faults,
        )

    def _tell(self, text: str) -> None:
        self._call(partial(self._report, text))


def _flash_bytes() -> int | None:
    """Give what this thread caused to be written to storage (proc(5): io, write_bytes)."""
    try:
        text = Path("/proc/thread-self/io").read_text()
        return int(text.split("\nwrite_bytes:")[1].split()[0])
    except (OSError, ValueError, IndexError):
        return None
