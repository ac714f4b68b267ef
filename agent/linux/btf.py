"""Two questions about the kernel's BTF (Documentation/bpf/btf.rst) without libbpf: where it is, what type a member has."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

KERNEL = "sys/kernel/btf/vmlinux"
_MAGIC = 0xEB9F
_HEAD = struct.Struct("=HBBIIIII")
_TYPE, _MEMBER = struct.Struct("=III"), struct.Struct("=III")
_STRUCT = 4
# Bytes that follow the head of a type: (once, for each of its vlen members), by kind.
_TAIL = {
    1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0), 15: (0, 12), 17: (4, 0), 19: (0, 12),
}  # fmt: skip


def external(root: Path, release: str, configured: Path | None = None) -> str:
    """Give the file that stands for the kernel's own BTF: the `configured` one, else the first of those that libbpf tries.

    Those are of libbpf 1.1, btf.c: btf__load_vmlinux_btf. Empty if there is none.
    """
    if configured:
        return str(configured)
    modules, debug = f"lib/modules/{release}", "usr/lib/debug"
    candidates = (
        f"boot/vmlinux-{release}",
        f"{modules}/vmlinux-{release}",
        f"{modules}/build/vmlinux",
        f"usr/{modules}/kernel/vmlinux",
        f"{debug}/boot/vmlinux-{release}",
        f"{debug}/boot/vmlinux-{release}.debug",
        f"{debug}/{modules}/vmlinux",
    )
    return next((f"/{name}" for name in candidates if release and _there(root / name)), "")


def _there(path: Path) -> bool:
    try:
        path.stat()
    except OSError:  # also behind a folder that is closed to us
        return False
    return True


def member_type(blob: bytes, structure: str, member: str) -> str | None:
    """Give the name of the type of `structure.member`; None if there is no such member, or no BTF in `blob`.

    Walks every type: some 0.2 s for a whole kernel.
    """
    try:
        return _member_type(blob, structure.encode(), member.encode())
    except struct.error:  # it ends too early
        return None


def _member_type(blob: bytes, structure: bytes, member: bytes) -> str | None:
    magic, _version, _flags, head, types_at, types_length, strings_at, strings_length = _HEAD.unpack_from(blob)
    if magic != _MAGIC:
        return None
    types = blob[head + types_at : head + types_at + types_length]
    strings = blob[head + strings_at : head + strings_at + strings_length]
    wanted, field = strings.find(b"\0%s\0" % structure) + 1, strings.find(b"\0%s\0" % member) + 1
    places = [0, *_places(types)]
    for place in places[1:]:
        name, info, _ = _TYPE.unpack_from(types, place)
        if name != wanted or info >> 24 & 0x1F != _STRUCT or not wanted:
            continue
        for index in range(info & 0xFFFF):
            member_name, target, _ = _MEMBER.unpack_from(types, place + _TYPE.size + index * _MEMBER.size)
            if member_name == field and 0 < target < len(places):
                at = _TYPE.unpack_from(types, places[target])[0]
                return strings[at : strings.find(b"\0", at)].decode(errors="replace")
    return None


def _places(types: bytes) -> Iterator[int]:
    """Yield where each type begins, in the order of their ids from 1 on."""
    at = 0
    while at + _TYPE.size <= len(types):
        yield at
        info = _TYPE.unpack_from(types, at)[1]
        once, each = _TAIL.get(info >> 24 & 0x1F, (0, 0))
        at += _TYPE.size + once + each * (info & 0xFFFF)
