"""C structs that the kernel side writes and the Python side reads, described once and checked against BTF by a test.

    EVENT = Layout("gw_timer_event", "t_ns:Q function:Q late_ns:Q cpu:I kind:I name:40s stack:12Q")

A field is `name:code` or `name:<count>code`, codes as in `struct` (`Q q I i H B`), `<n>s` a NUL-padded string, `<n>r` raw
bytes, `<n>x` padding (`_:4x`). Fields lie as written, without implied padding: the C struct must be naturally aligned without
holes, or the test fails.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias

Value: TypeAlias = "int | str | bytes | tuple[int, ...]"


class Layout:
    """A fixed, native-endian record layout named after the C struct that it mirrors."""

    __slots__ = ("_fields", "_struct", "name", "size")

    def __init__(self, name: str, spec: str) -> None:
        """Parse `spec`; raises struct.error on an unknown code (a programming fault)."""
        self.name = name
        self._fields: list[tuple[str, int, str]] = []
        codes = []
        for item in spec.split():
            field, code = item.split(":")
            codes.append(code.replace("r", "s"))
            kind = code[-1]
            count = int(code[:-1]) if code[:-1] else 0
            if kind != "x":
                self._fields.append((field, count, kind))
        self._struct = struct.Struct("=" + " ".join(codes))
        self.size = self._struct.size

    def unpack(self, record: bytes | memoryview) -> dict[str, Value]:
        """Give the fields of `record` by name. Raises ValueError if `record` is shorter than the struct."""
        if len(record) < self.size:
            raise ValueError(f"{self.name}: {len(record)} bytes, want {self.size}")
        flat = self._struct.unpack_from(record)
        found: dict[str, Value] = {}
        at = 0
        for name, count, kind in self._fields:
            if kind in "sr":
                found[name] = flat[at] if kind == "r" else text(flat[at])
                at += 1
            elif count:
                found[name] = flat[at : at + count]
                at += count
            else:
                found[name] = flat[at]
                at += 1
        return found

    def pack(self, **values: Value) -> bytes:
        """Give the bytes of a record; a field that is not named is zero."""
        flat: list[int | bytes] = []
        for name, count, kind in self._fields:
            value = values.get(name, 0)
            if kind == "s":
                flat.append(str(value or "").encode()[:count])
            elif kind == "r":
                flat.append(value if isinstance(value, bytes) else b"")
            elif isinstance(value, tuple):
                flat.extend(value)
            else:
                flat.extend([int(value), *([0] * (count - 1 if count else 0))])
        return self._struct.pack(*flat)

    def offsets(self) -> Iterator[tuple[str, int, int]]:
        """Yield `(field, offset, size)` in bytes, for the comparison with BTF."""
        at = 0
        codes = self._struct.format.removeprefix("=").split()
        names = iter(self._fields)
        for code in codes:
            size = struct.calcsize("=" + code)
            if code[-1] != "x":
                yield next(names)[0], at, size
            at += size


def _take(flat: Iterator[int | bytes], count: int, kind: str) -> Value:
    first = next(flat)
    if isinstance(first, bytes):
        return first if kind == "r" else text(first)
    if not count:
        return first
    rest = [next(flat) for _ in range(count - 1)]
    return (first, *(item for item in rest if isinstance(item, int)))


def text(raw: bytes) -> str:
    """Give the text up to the first NUL, with what is not printable made visible (kernel names are bytes)."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
