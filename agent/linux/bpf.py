"""Reading and steering loaded BPF objects by plain bpf(2) and mmap: what an unprivileged agentd needs, without libbpf.

Works on file descriptors, wherever they come from: pins in a bpffs (`open_pins`) or a loader that handed them over
(SCM_RIGHTS). Since 5.19 none of these calls needs a capability when the pin's file mode allows it (kernel commit
c8644cd0efe7, "bpf: refine kernel.unprivileged_bpf_disabled behaviour").
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import platform
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agent.errors import BpfError
from agent.layout import Layout

# Mirrors struct gw_stats in bpf/common.bpf.h.
STATS = Layout("gw_stats", "runs:Q timed_runs:Q timed_ns:Q lost:Q missed:Q suppressed:Q window_ns:Q window_events:Q")

_SYS_BPF = {"x86_64": 321, "aarch64": 280, "armv7l": 386, "riscv64": 280}
_LOOKUP, _UPDATE, _DELETE, _NEXT_KEY, _OBJ_GET, _INFO, _LOOKUP_BATCH = 1, 2, 3, 4, 7, 15, 24
_RDONLY = 1 << 3
_MAP_INFO = struct.Struct("=6I16sI")

_libc = ctypes.CDLL(None, use_errno=True)


class MapInfo(NamedTuple):
    """The head of struct bpf_map_info (include/uapi/linux/bpf.h)."""

    type: int
    id: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int


def bpf_command(command: int, attr: bytes | ctypes.Array[ctypes.c_char], what: str) -> int:
    """Call bpf(2) with the bytes of a union bpf_attr. Raises BpfError that begins with `what`."""
    number = _SYS_BPF.get(platform.machine())
    if number is None:
        raise BpfError(f"{what}: the bpf(2) number of {platform.machine()} is not known", errno.ENOSYS)
    block = attr if isinstance(attr, ctypes.Array) else ctypes.create_string_buffer(attr, len(attr))
    result = int(_libc.syscall(number, command, block, len(block)))
    if result < 0:
        code = ctypes.get_errno()
        raise BpfError(f"{what}: {os.strerror(code)}", code)
    return result


def obj_get(path: Path, *, read_only: bool) -> int:
    """Open a pinned object. Raises BpfError (ENOENT: not pinned; EACCES: the file mode refuses)."""
    name = ctypes.create_string_buffer(str(path).encode())
    attr = struct.pack("=QII", ctypes.addressof(name), 0, _RDONLY if read_only else 0)
    return bpf_command(_OBJ_GET, attr, str(path))


def map_info(fd: int) -> MapInfo:
    """Ask the kernel what map `fd` is."""
    info = ctypes.create_string_buffer(_MAP_INFO.size)
    bpf_command(_INFO, struct.pack("=IIQ", fd, len(info), ctypes.addressof(info)), "map info")
    values = _MAP_INFO.unpack(info.raw)
    return MapInfo(*values[:6])


def possible_cpus(root: Path = Path("/")) -> int:
    """Give how many values a per-CPU lookup returns: one for each possible CPU, present or not."""
    return parse_cpu_list((root / "sys/devices/system/cpu/possible").read_text())


def online_cpus() -> int:
    """Give how many CPUs run now: whose time can be spent."""
    return os.sysconf("SC_NPROCESSORS_ONLN")


def parse_cpu_list(text: str) -> int:
    """Give the highest CPU of a list like `0-3,5`, plus one."""
    return max(int(part.split("-")[-1]) for part in text.strip().split(",")) + 1


class Map:
    """One map by its fd. The buffers of a call are reused by the next, under a lock: an action may read beside the loop."""

    def __init__(self, fd: int, cpus: int) -> None:
        """Take over `fd`."""
        self.fd = fd
        self.info = map_info(fd)
        self.percpu = self.info.type in {5, 6, 10}  # PERCPU_HASH, PERCPU_ARRAY, LRU_PERCPU_HASH
        stride = (self.info.value_size + 7) // 8 * 8
        self._stride = stride
        self._key = ctypes.create_string_buffer(self.info.key_size or 1)
        self._next = ctypes.create_string_buffer(self.info.key_size or 1)
        self._value = ctypes.create_string_buffer(stride * cpus if self.percpu else self.info.value_size or 1)
        self._attr = ctypes.create_string_buffer(32)
        self._view: mmap.mmap | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Give back the fd and the mapping."""
        if self._view is not None:
            with contextlib.suppress(BufferError):  # somebody still reads: the mapping goes with the last view
                self._view.close()
            self._view = None
        os.close(self.fd)

    def _element(self, command: int, value: int, flags: int = 0) -> None:
        struct.pack_into("=IIQQQ", self._attr, 0, self.fd, 0, ctypes.addressof(self._key), value, flags)
        bpf_command(command, self._attr, "map element")

    def lookup(self, key: bytes) -> bytes | None:
        """Give the raw value (all CPUs one after the other for a per-CPU map), None if there is none."""
        with self._lock:
            self._key.raw = key
            try:
                self._element(_LOOKUP, ctypes.addressof(self._value))
            except BpfError as error:
                if error.errno == errno.ENOENT:
                    return None
                raise
            return self._value.raw

    def update(self, key: bytes, value: bytes) -> None:
        """Set one entry. Raises BpfError (EPERM: opened read-only; E2BIG: full)."""
        self._key.raw = key
        self._value.raw = value
        self._element(_UPDATE, ctypes.addressof(self._value))

    def delete(self, key: bytes) -> None:
        """Remove one entry; a missing one is fine."""
        self._key.raw = key
        try:
            self._element(_DELETE, 0)
        except BpfError as error:
            if error.errno != errno.ENOENT:
                raise

    def keys(self) -> list[bytes]:
        """Give the keys there are now. Bounded by max_entries, also while an LRU map changes under it."""
        with self._lock:
            return list(dict.fromkeys(self._walk()))

    def _walk(self) -> Iterator[bytes]:
        key = 0
        for _ in range(self.info.max_entries):
            struct.pack_into("=IIQQQ", self._attr, 0, self.fd, 0, key, ctypes.addressof(self._next), 0)
            try:
                bpf_command(_NEXT_KEY, self._attr, "next key")
            except BpfError as error:
                if error.errno == errno.ENOENT:
                    return
                raise
            self._key.raw = self._next.raw
            yield self._key.raw
            key = ctypes.addressof(self._key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield what is there; entries that vanish meanwhile are left out."""
        for key in self.keys():
            value = self.lookup(key)
            if value is not None:
                yield key, value

    def per_cpu(self, index: int) -> list[bytes]:
        """Give one entry of a per-CPU array as a value for each possible CPU."""
        raw = self.lookup(struct.pack("=I", index)) or b""
        return [raw[at : at + self.info.value_size] for at in range(0, len(raw), self._stride)]

    def view(self, *, writable: bool = False) -> memoryview:
        """Map an array made with BPF_F_MMAPABLE into memory. Raises BpfError if the kernel refuses."""
        if self._view is None:
            length = -(-self._stride * self.info.max_entries // mmap.PAGESIZE) * mmap.PAGESIZE
            protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
            try:
                self._view = mmap.mmap(self.fd, length, mmap.MAP_SHARED, protection)
            except OSError as error:
                raise BpfError(f"mmap of map: {error.strerror}", error.errno or 0) from error
        return memoryview(self._view)

    def block(self) -> memoryview:
        """Give a whole array as bytes: in place where it can be mapped, else as a copy made by one call.

        A read-only fd cannot be mapped at all: mmap(2) takes VM_SHARED from it, and bpf_map_mmap() insists on that.
        """
        try:
            return self.view()
        except BpfError:
            return self._copy()

    def _copy(self) -> memoryview:
        count = self.info.max_entries
        values = ctypes.create_string_buffer(self.info.value_size * count)
        keys = ctypes.create_string_buffer(self.info.key_size * count)
        place = ctypes.create_string_buffer(8)
        # struct batch of union bpf_attr: in_batch, out_batch, keys, values, count, map_fd, elem_flags, flags (5.6)
        where = [ctypes.addressof(block) for block in (place, keys, values)]
        attr = ctypes.create_string_buffer(struct.pack("=QQQQIIQQ", 0, *where, count, self.fd, 0, 0), 56)
        try:
            bpf_command(_LOOKUP_BATCH, attr, "map batch")
        except BpfError as error:
            if error.errno != errno.ENOENT:  # ENOENT: the end was reached, which is what was asked for
                raise
        return memoryview(values).cast("B")


class ObjectMaps:
    """`ports.Maps` over the open maps of one probe's object."""

    def __init__(self, fds: Mapping[str, int], cpus: int) -> None:
        """Take over `fds` (map name to fd); the ring buffer is not among them."""
        self.maps = {name: Map(fd, cpus) for name, fd in fds.items()}

    def items(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield `(key, value)` of a hash map."""
        return self.maps[name].items()

    def percpu(self, name: str, index: int) -> Sequence[bytes]:
        """Give one entry of a per-CPU array, a value for each possible CPU."""
        return self.maps[name].per_cpu(index)

    def array(self, name: str) -> memoryview:
        """Give an array as bytes."""
        return self.maps[name].block()

    def replace(self, name: str, items: Mapping[bytes, bytes]) -> None:
        """Make a watch set hold exactly `items`."""
        target = self.maps[name]
        for key in target.keys():  # noqa: SIM118 - not a dict
            if key not in items:
                target.delete(key)
        for key, value in items.items():
            target.update(key, value)

    def stats(self, hooks: int) -> list[dict[str, int]]:
        """Give struct gw_stats of each hook, summed over CPUs."""
        result = []
        for index in range(hooks):
            rows = [STATS.unpack(row) for row in self.percpu("stats", index)]
            result.append({key: sum(int(str(row[key])) for row in rows) for key in rows[0]})
        return result

    def steer(self, block: bytes) -> None:
        """Write the `ctl` struct; its first word, the enabled flag, last."""
        view = self.maps["ctl"].view(writable=True)
        view[4 : len(block)] = block[4:]
        view[:4] = block[:4]

    def close(self) -> None:
        """Close every map."""
        for item in self.maps.values():
            item.close()


def open_pins(folder: Path) -> dict[str, int]:
    """Open the maps pinned in `folder` as an unprivileged reader may: rings and steering maps read-write, data read-only.

    Raises BpfError if the folder cannot be read or a map is not ours to open; nothing stays open then.
    """
    fds: dict[str, int] = {}
    try:
        for path in sorted(folder.iterdir()):
            if path.name.startswith(("link_", "prog_")):
                continue
            writable = os.access(path, os.W_OK)
            fds[path.name] = obj_get(path, read_only=not writable)
    except (OSError, BpfError) as error:
        for fd in fds.values():
            os.close(fd)
        if isinstance(error, BpfError):
            raise
        raise BpfError(f"{folder}: {error.strerror}", error.errno or 0) from error
    return fds
