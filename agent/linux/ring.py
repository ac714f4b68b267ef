"""The consumer side of a BPF ring buffer, by plain mmap: no libbpf in the reader."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from agent.errors import BpfError
from agent.linux.bpf import map_info

BUSY, DISCARD, LENGTH = 1 << 31, 1 << 30, (1 << 30) - 1
HEADER = 8
_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """What one look at the ring gave: records as `(position after it, bytes)`, and from where to go on."""

    records: list[tuple[int, bytes]]
    position: int
    torn: bool
    """A header could not be: what lay between it and the producer's position was skipped."""


def parse(data: memoryview, position: int, produced: int, limit: int, fence: Callable[[], None]) -> Batch:
    """Read up to `limit` records between two logical positions (struct bpf_ringbuf in kernel/bpf/ringbuf.c).

    `data` is the ring twice in a row, as the kernel maps it, so that no record has a seam. A record that the kernel still
    writes ends the batch; discarded ones are skipped. A record that reaches beyond `produced` cannot be, and neither can
    positions that are further apart than the ring is long: then all of it is skipped. `fence` orders the load of a header
    before those of its data.
    """
    size = len(data) // 2
    records: list[tuple[int, bytes]] = []
    if position % HEADER or (produced - position) & _WORD > size:
        return Batch(records, produced, torn=True)
    while position < produced and len(records) < limit:
        at = position % size
        header = int(data[at : at + 4].cast("I")[0])
        if header & BUSY:
            break
        fence()
        length = header & LENGTH
        end = position + (length + HEADER + 7) // 8 * 8
        if end > produced:
            return Batch(records, produced, torn=True)
        position = end
        if not header & DISCARD:
            records.append((position, bytes(data[at + HEADER : at + HEADER + length])))
    return Batch(records, position, torn=False)


class Ring:
    """The consumer side of a BPF_MAP_TYPE_RINGBUF: read first, advance when the records are safe.

    `position` is the logical byte position, which only grows while the map lives, so it names a record uniquely.
    """

    def __init__(self, fd: int) -> None:
        """Map the ring; `fd` must be open for reading and writing (the consumer page is written). Raises BpfError."""
        self.fd = fd
        info = map_info(fd)
        self.id = info.id
        self.torn = 0
        """How often records were skipped because they could not be read: each time at least one."""
        self._lock = threading.Lock()
        self._lock.acquire()  # held for ever: see _fence
        page = mmap.PAGESIZE
        try:
            self._consumer = mmap.mmap(fd, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
            self._producer = mmap.mmap(fd, page + 2 * info.max_entries, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        except OSError as error:
            raise BpfError(f"mmap of ring buffer: {error.strerror}", error.errno or 0) from error
        self._data = memoryview(self._producer)[page:]
        self.position = self._given = self._word(self._consumer)

    def _fence(self) -> None:
        """Let no later load or store happen before an earlier load, as libbpf's smp_load_acquire() and smp_store_release() do.

        Python has no such loads. A lock that is given back and taken again is as good on every machine: nothing moves down past
        the first or up past the second, and the two touch one word, so they stay in order. On x86-64 loads do anyway.
        """
        self._lock.release()
        self._lock.acquire()

    @staticmethod
    def _word(block: mmap.mmap) -> int:
        return int(memoryview(block)[:8].cast("Q")[0])  # one aligned 8-byte load

    def _produced(self) -> int:
        produced = self._word(self._producer)
        self._fence()
        return produced

    def read(self, limit: int = 256) -> list[tuple[int, bytes]]:
        """Give up to `limit` new records as `(position after it, bytes)`, without telling the kernel.

        What is skipped as torn is given back at once: nobody will ask for it.
        """
        batch = parse(self._data, self.position, self._produced(), limit, self._fence)
        self.position = batch.position
        if batch.torn:
            self.torn += 1
            self._give_back(batch.position)
        return batch.records

    def skip_to(self, position: int) -> None:
        """Continue at `position` if it lies ahead: those records were already made durable before a crash."""
        if self.position < position <= self._produced() and position % HEADER == 0:
            self.position = position

    def advance(self, position: int) -> None:
        """Tell the kernel that everything before `position` may be overwritten; one that was passed already is no news."""
        if position > self._given:
            self._give_back(position)

    def _give_back(self, position: int) -> None:
        self._given = position
        self._fence()
        memoryview(self._consumer)[:8].cast("Q")[0] = position

    def close(self) -> None:
        """Unmap and give back the fd."""
        self._data.release()
        self._producer.close()
        self._consumer.close()
        os.close(self.fd)
