"""Making maps, programs and links by plain bpf(2): for programs that come as instructions, not as a libbpf object."""

from __future__ import annotations

import ctypes
import errno
import struct
from typing import NamedTuple

from agent.errors import BpfError, LoadFailed, NotPermitted
from agent.linux.bpf import bpf_command

# enum bpf_cmd, enum bpf_prog_type, map flags: include/uapi/linux/bpf.h
_MAP_CREATE, _MAP_UPDATE, _PROG_LOAD, _RAW_TRACEPOINT_OPEN, _MAP_FREEZE = 0, 2, 5, 17, 22
_RAW_TRACEPOINT, _ARRAY = 17, 2
_RDONLY_PROG = 1 << 7
_INSTRUCTION = 8
_NAME = 15  # BPF_OBJ_NAME_LEN less its NUL
_LOG_BYTES = 1 << 20
_TAIL = 400
_LICENSE = ctypes.create_string_buffer(b"GPL")


class MapSpec(NamedTuple):
    """What a map is made by, in the order of union bpf_attr."""

    type: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int


def create_map(name: str, spec: MapSpec) -> int:
    """Make a map; gives its fd. Raises NotPermitted or LoadFailed."""
    attr = struct.pack("=5III16s", *spec, 0, 0, name[:_NAME].encode())
    try:
        return bpf_command(_MAP_CREATE, attr, f"map {name}")
    except BpfError as error:
        raise refused(error) from error


def create_text(name: str, text: bytes) -> int:
    """Make a map that holds one constant, which the verifier knows to be one (frozen, read-only for programs)."""
    fd = create_map(name, MapSpec(_ARRAY, 4, len(text), 1, _RDONLY_PROG))
    key, value = ctypes.create_string_buffer(4), ctypes.create_string_buffer(text, len(text))
    bpf_command(_MAP_UPDATE, struct.pack("=I4xQQQ", fd, ctypes.addressof(key), ctypes.addressof(value), 0), f"map {name}")
    bpf_command(_MAP_FREEZE, struct.pack("=I", fd), f"map {name}")
    return fd


def load_raw_tracepoint(name: str, code: bytes) -> int:
    """Load a raw_tp program; gives its fd. Raises NotPermitted, or LoadFailed with the verifier's last words."""
    try:
        return _load(name, code, 0, None)
    except BpfError as error:
        if error.errno == errno.EPERM:
            raise refused(error) from error
    log = ctypes.create_string_buffer(_LOG_BYTES)
    try:
        return _load(name, code, 1, log)
    except BpfError as error:
        tail = " ".join(log.value.decode(errors="replace").split())[-_TAIL:]
        raise LoadFailed(f"{error}: {tail}", "report this kernel") from error


def _load(name: str, code: bytes, level: int, log: ctypes.Array[ctypes.c_char] | None) -> int:
    block = ctypes.create_string_buffer(code, len(code))
    head = struct.pack(
        "=IIQQIIQII16s",
        _RAW_TRACEPOINT,
        len(code) // _INSTRUCTION,
        ctypes.addressof(block),
        ctypes.addressof(_LICENSE),
        level,
        len(log) if log else 0,
        ctypes.addressof(log) if log else 0,
        0,
        0,
        name[:_NAME].encode(),
    )
    return bpf_command(_PROG_LOAD, head, name)


def attach_raw_tracepoint(tracepoint: str, program: int) -> int:
    """Attach; gives the fd of a bpf_link, which can be pinned (since 5.7, 70ed506c3bbc). Raises a ProbeError."""
    name = ctypes.create_string_buffer(tracepoint.encode())
    try:
        return bpf_command(_RAW_TRACEPOINT_OPEN, struct.pack("=QI4x", ctypes.addressof(name), program), tracepoint)
    except BpfError as error:
        if error.errno == errno.ENOENT:
            raise LoadFailed(f"tracepoint {tracepoint} is missing in this kernel", "headers of the running kernel") from error
        raise refused(error) from error


def refused(error: BpfError) -> NotPermitted | LoadFailed:
    """Translate what bpf(2) said of a map, a program or a link."""
    if error.errno in {errno.EPERM, errno.EACCES}:
        return NotPermitted(f"the kernel refuses bpf(2): {error}", "run as root or with CAP_BPF and CAP_PERFMON")
    return LoadFailed(str(error), "report this kernel")
