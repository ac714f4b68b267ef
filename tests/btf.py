"""Reading BTF (Documentation/bpf/btf.rst) from an ELF object or a raw /sys/kernel/btf/vmlinux, without libbpf.

python -m tests.btf FILE TRACEPOINT…    prints the signatures that `tests/fixtures/signatures/` keeps
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INT, PTR, ARRAY, STRUCT, UNION, ENUM, TYPEDEF, FUNC_PROTO = 1, 2, 3, 4, 5, 6, 8, 13
QUALIFIERS = {9, 10, 11, 18}  # volatile, const, restrict, type tag
_WORD, _PAIR, _TRIPLE = 4, 8, 12
# Bytes that follow the 12-byte head of a type: (once, for each of its vlen members).
_TAIL = {
    INT: (_WORD, 0),
    ARRAY: (_TRIPLE, 0),
    STRUCT: (0, _TRIPLE),
    UNION: (0, _TRIPLE),
    ENUM: (0, _PAIR),
    FUNC_PROTO: (0, _PAIR),
    14: (_WORD, 0),  # VAR
    15: (0, _TRIPLE),  # DATASEC
    17: (_WORD, 0),  # DECL_TAG
    19: (0, _TRIPLE),  # ENUM64
}


def elf_section(image: bytes, name: str) -> bytes:
    """Give the bytes of one section of a 64-bit little-endian ELF file. Raises KeyError if it has none of that name."""
    table = struct.unpack_from("<Q", image, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", image, table + size * index) for index in range(count)]
    strings = heads[names][4]
    for head in heads:
        at = strings + head[0]
        if image[at : image.index(b"\0", at)].decode() == name:
            return image[head[4] : head[4] + head[5]]
    raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Type:
    """One BTF type: `other` is its size or the type that it refers to; `tail` the words after its head."""

    name: str
    kind: int
    vlen: int
    other: int
    tail: tuple[int, ...]


class Btf:
    """All types of one BTF blob, by their ids (0 is void)."""

    def __init__(self, blob: bytes) -> None:
        """Parse `blob`. Raises ValueError if it is no BTF."""
        magic, _version, _flags, head, type_off, type_len, text_off, text_len = struct.unpack_from("<HBBIIIII", blob)
        if magic != 0xEB9F:
            raise ValueError("no BTF magic")
        self._text = blob[head + text_off : head + text_off + text_len]
        self.types = [Type("void", 0, 0, 0, ()), *self._read(blob[head + type_off : head + type_off + type_len])]

    @classmethod
    def of(cls, path: Path) -> Btf:
        """Read an ELF file's .BTF section, or a raw BTF file."""
        image = path.read_bytes()
        return cls(elf_section(image, ".BTF") if image.startswith(b"\x7fELF") else image)

    def _read(self, block: bytes) -> Iterator[Type]:
        at = 0
        while at < len(block):
            name, info, other = struct.unpack_from("<III", block, at)
            kind, vlen = info >> 24 & 0x1F, info & 0xFFFF
            once, each = _TAIL.get(kind, (0, 0))
            length = once + each * vlen
            tail = struct.unpack_from(f"<{length // 4}I", block, at + 12)
            yield Type(self._string(name), kind, vlen, other, tail)
            at += 12 + length

    def _string(self, at: int) -> str:
        return self._text[at : self._text.index(b"\0", at)].decode()

    def structs(self) -> dict[str, Type]:
        """Give the named structs by name."""
        return {item.name: item for item in self.types if item.kind == STRUCT and item.name}

    def members(self, item: Type) -> Iterator[tuple[str, int, int]]:
        """Yield `(name, offset in bytes, type id)` of a struct's or union's members."""
        for index in range(0, 3 * item.vlen, 3):
            name, type_id, bits = item.tail[index : index + 3]
            yield self._string(name), (bits & 0xFFFFFF) // 8, type_id

    def base(self, type_id: int) -> Type:
        """Give the type behind typedefs and qualifiers."""
        item = self.types[type_id]
        while item.kind == TYPEDEF or item.kind in QUALIFIERS:
            item = self.types[item.other]
        return item

    def size(self, type_id: int) -> int:
        """Give the size of a type in bytes."""
        item = self.base(type_id)
        if item.kind == PTR:
            return 8
        if item.kind == ARRAY:
            return self.size(item.tail[0]) * item.tail[2]
        return item.other

    def fields(self, item: Type, start: int = 0) -> Iterator[tuple[str, int, int]]:
        """Yield `(name, offset, size)` of a struct's members; those of a struct inside it as if they were its own."""
        for name, offset, type_id in self.members(item):
            inner = self.base(type_id)
            if inner.kind == STRUCT:
                yield from self.fields(inner, start + offset)
            else:
                yield name, start + offset, self.size(type_id)

    def signatures(self) -> dict[str, str]:
        """Give the parameters of every tracepoint, written as `agent.linux.libbpf.Btf.signature` does."""
        found = {}
        for item in self.types:
            if item.kind == TYPEDEF and item.name.startswith("btf_trace_"):
                proto = self.base(self.base(item.other).other)
                if proto.kind == FUNC_PROTO:
                    found[item.name.removeprefix("btf_trace_")] = ", ".join(self.text(id_) for id_ in proto.tail[3::2])
        return found

    def text(self, type_id: int) -> str:
        """Give a parameter's type as C would write it, without qualifiers."""
        item = self.types[type_id]
        if item.kind in QUALIFIERS:
            return self.text(item.other)
        if item.kind == PTR:
            return self.text(item.other) + " *"
        return item.name or "?"


if __name__ == "__main__":
    known = Btf.of(Path(sys.argv[1])).signatures()
    print(json.dumps({name: known.get(name) for name in sys.argv[2:]}, indent=2))
