"""Windows in which every write to a few kernel addresses is trapped (`bpf/tools/collider.bpf.c`), and reads of kernel memory.

Only root's verbs use this, never agentd. Whatever becomes of the process, the watchpoints go with its fds; whatever becomes of
user space, the kernel disarms each after `limit` hits.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.layout import Layout
from agent.linux import perfevent
from agent.linux.bpf import Map, bpf_command, possible_cpus
from agent.linux.clock import SystemClock, pause
from agent.linux.libbpf import Loader
from agent.ports import Trapped, WatchSpot

OBJECT = Path(__file__).parent.parent / "bpf" / "collider.bpf.o"
SLOTS = 4
SLOT = Layout("collider_slot", "address:Q limit:Q seen:Q hits:Q lost:Q length:I open:I")
_SEEN_AT, _OPEN_AT = 16, SLOT.size - 4
RECORDS, HIT_BYTES = 2048, 240  # of each CPU; struct collider_hit
MAPS = ("slots", "stacks", "peeked", "used", "hits")
_PROG_TEST_RUN = 10
_PEEK = 256
_STEP_S = 0.005


class Watchpoints:
    """Owns the loaded object. Satisfies `ports.Watchpoints`; close it when done."""

    def __init__(self, path: Path = OBJECT) -> None:
        """Load the object. Raises a ProbeError."""
        perfevent.require_machine()
        cpus = max(perfevent.online_cpus()) + 1
        self._loader = Loader()
        try:
            loaded = self._loader.load_detached(path, {"hits": cpus * RECORDS, "used": cpus})
        except BaseException:
            self._loader.close()
            raise
        self._maps = {name: Map(os.dup(loaded.maps[name]), possible_cpus()) for name in MAPS}
        self._programs = loaded.programs
        self._cpus = cpus
        self._view = self._maps["slots"].view(writable=True)
        self._used = self._maps["used"].view(writable=True)
        self._hits = self._maps["hits"].view()

    def close(self) -> None:
        """Give everything back."""
        for view in (self._view, self._used, self._hits):
            view.release()
        for item in self._maps.values():
            item.close()
        self._loader.close()

    def peek(self, address: int, length: int) -> bytes:
        """Give `length` bytes of kernel memory, fewer where it ends. Raises BpfError if the kernel refuses the call itself."""
        found = b""
        while length > len(found):
            part = self._peek(address + len(found), min(_PEEK, length - len(found)))
            found += part
            if not part:
                break
        return found

    def _peek(self, address: int, length: int) -> bytes:
        arguments = ctypes.create_string_buffer(struct.pack("=QQ", address, length), 16)
        # `test` of union bpf_attr: prog_fd, retval, data sizes, data, repeat, duration, ctx sizes, ctx in/out, flags, cpu
        attr = struct.pack(
            "=4I2Q4I2Q2I", self._programs["collider_peek"], *[0] * 7, 16, 0, ctypes.addressof(arguments), 0, 0, 0
        )
        bpf_command(_PROG_TEST_RUN, attr, "reading kernel memory")
        out = self._maps["peeked"].lookup(bytes(4)) or bytes(8)
        return out[8 : 8 + length] if struct.unpack_from("=q", out)[0] == 0 else b""

    def stack(self, number: int) -> tuple[int, ...]:
        """Give the frames of a stack by the number that a hit carries, innermost first."""
        raw = self._maps["stacks"].lookup(struct.pack("=I", number)) if number >= 0 else None
        words = struct.unpack(f"={len(raw) // 8}Q", raw) if raw else ()
        return tuple(word for word in words if word)

    def window(self, spots: Sequence[WatchSpot], seconds: float, limit: int) -> Trapped:
        """Trap every write to `spots` (at most 4) for `seconds`, or until one of them had `limit` hits. Raises a ProbeError.

        No CPU traps more than `limit` times for each spot.
        """
        cpus = perfevent.online_cpus()
        self._used[: 8 * self._cpus] = bytes(8 * self._cpus)
        for index in range(SLOTS):
            spot = spots[index] if index < len(spots) else WatchSpot(0, 0)
            block = SLOT.pack(address=spot.address, length=spot.length, limit=limit)
            self._view[index * SLOT.size : (index + 1) * SLOT.size] = block
        with self._armed(spots, cpus, limit) as fds:
            begun = SystemClock().mono_ns()
            self._open(len(spots), 1)
            self._wait(len(spots), begun + round(seconds * 1e9), limit)
            self._open(len(spots), 0)
            ended = SystemClock().mono_ns()
            for fd in fds:
                perfevent.disarm(fd)
            counted = [perfevent.count(fd) or 0 for fd in fds]
        rows = [SLOT.unpack(self._view[at * SLOT.size : (at + 1) * SLOT.size]) for at in range(len(spots))]
        missed = tuple(sum(counted[index :: len(spots)]) - int(str(row["seen"])) for index, row in enumerate(rows))
        return Trapped(
            records=tuple(self._records()),
            seen=tuple(int(str(row["seen"])) for row in rows),
            missed=missed,
            lost=tuple(int(str(row["lost"])) for row in rows),
            cpus=cpus if perfevent.online_cpus() == cpus else (),
            begun_ns=begun,
            ended_ns=ended,
        )

    @contextlib.contextmanager
    def _armed(self, spots: Sequence[WatchSpot], cpus: Sequence[int], limit: int) -> Iterator[list[int]]:
        """Give the fds, CPU by CPU and within it spot by spot; all are armed."""
        with contextlib.ExitStack() as stack:
            fds: list[int] = []
            for cpu in cpus:
                for spot in spots:
                    fd = perfevent.open_watchpoint(spot.address, spot.length, cpu, self._programs["collider_write"])
                    stack.callback(os.close, fd)
                    fds.append(fd)
            for fd in fds:
                perfevent.arm(fd, limit)
            yield fds

    def _open(self, spots: int, flag: int) -> None:
        for index in range(spots):
            struct.pack_into("=I", self._view, index * SLOT.size + _OPEN_AT, flag)

    def _wait(self, spots: int, until_ns: int, limit: int) -> None:
        seen_at = [index * SLOT.size + _SEEN_AT for index in range(spots)]
        while SystemClock().mono_ns() < until_ns:
            if any(struct.unpack_from("=Q", self._view, at)[0] >= limit for at in seen_at):
                return
            pause(_STEP_S)

    def _records(self) -> Iterator[bytes]:
        for cpu in range(self._cpus):
            begin = cpu * RECORDS * HIT_BYTES
            count = min(RECORDS, struct.unpack_from("=Q", self._used, 8 * cpu)[0])
            for at in range(begin, begin + count * HIT_BYTES, HIT_BYTES):
                yield bytes(self._hits[at : at + HIT_BYTES])
