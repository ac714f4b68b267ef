"""The consumer side of a BPF ring buffer, by plain mmap: no libbpf in the reader."""

from __future__ import annotations

import mmap
import os

from agent.errors import BpfError
from agent.linux.bpf import map_info

_BUSY, _DISCARD, _LENGTH = 1 << 31, 1 << 30, (1 << 30) - 1
_HEADER = 8


class Ring:
    """The consumer side of a BPF_MAP_TYPE_RINGBUF (kernel/bpf/ringbuf.c): read first, advance when the records are safe.

    `position` is the logical byte position, which only grows while the map lives, so it names a record uniquely.
    """

    def __init__(self, fd: int) -> None:
        """Map the ring; `fd` must be open for reading and writing (the consumer page is written)."""
        self.fd = fd
        info = map_info(fd)
        self.id = info.id
        self.size = info.max_entries
        page = mmap.PAGESIZE
        try:
            self._consumer = mmap.mmap(fd, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
            self._producer = mmap.mmap(fd, page + 2 * self.size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        except OSError as error:
            raise BpfError(f"mmap of ring buffer: {error.strerror}", error.errno or 0) from error
        self._data = memoryview(self._producer)
        self.position = self._word(self._consumer)

    @staticmethod
    def _word(block: mmap.mmap) -> int:
        # One aligned 8-byte load; the syscall (epoll_wait) before each batch orders it after the producer's stores.
        return int(memoryview(block)[:8].cast("Q")[0])

    def read(self, limit: int = 256) -> list[tuple[int, bytes]]:
        """Give up to `limit` new records as `(position after it, bytes)`, without telling the kernel.

        A record that the kernel still writes ends the batch; discarded ones are skipped. A header that cannot be
        (longer than the ring) resynchronises at the producer's position.
        """
        produced = self._word(self._producer)
        found: list[tuple[int, bytes]] = []
        page = mmap.PAGESIZE
        while self.position < produced and len(found) < limit:
            at = page + self.position % self.size
            header = int(self._data[at : at + 4].cast("I")[0])
            if header & _BUSY:
                break
            length = header & _LENGTH
            if length > self.size:
                self.position = produced
                break
            self.position += (length + _HEADER + 7) // 8 * 8
            if not header & _DISCARD:
                found.append((self.position, bytes(self._data[at + 8 : at + 8 + length])))
        return found

    def skip_to(self, position: int) -> None:
        """Continue at `position` if it lies ahead: those records were already made durable before a crash."""
        produced = self._word(self._producer)
        if self.position < position <= produced:
            self.position = position

    def advance(self, position: int) -> None:
        """Tell the kernel that everything before `position` may be overwritten."""
        memoryview(self._consumer)[:8].cast("Q")[0] = position

    def close(self) -> None:
        """Unmap and give back the fd."""
        self._data.release()
        self._producer.close()
        self._consumer.close()
        os.close(self.fd)
