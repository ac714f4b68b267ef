"""Loading CO-RE objects through libbpf.so.1 by ctypes: open, choose programs by BTF, load, attach, pin.

Only the loader process imports this (libbpf parses some 5 MB of kernel BTF: about 20 MB for the moment). The functions used
are of libbpf's stable 1.0 ABI. A NULL result means failure with errno set (libbpf 1.0, LIBBPF_STRICT_ALL).
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.errors import LoadFailed, NotPermitted, ProbeError, Unsupported
from agent.linux import refusal
from agent.linux.functions import Functions
from agent.linux.kernelload import MapSpec
from agent.linux.loaded import Loaded
from agent.ports import Hook

_KIND_PTR, _KIND_TYPEDEF, _KIND_FUNC, _KIND_FUNC_PROTO = 2, 8, 12, 13
_QUALIFIERS = {9, 10, 11}  # volatile, const, restrict
_VERIFIER_TAIL = 400
_SUFFIX = {"tp_btf": "btf", "raw_tp": "raw"}
_LOCATIONS = ("libbpf.so.1",)
_SPEC = ("type", "key_size", "value_size", "max_entries", "map_flags")

_LEVEL_DEBUG = 2  # enum libbpf_print_level: thousands of lines, which say nothing about a failure

_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class _Lib:
    """The library, with the result types that ctypes cannot guess."""

    _pointers = (
        "bpf_object__open_file bpf_object__next_program bpf_object__next_map bpf_program__attach bpf_program__attach_kprobe "
        "btf__load_vmlinux_btf btf__parse btf__type_by_id"
    )
    _texts = "bpf_program__name bpf_map__name btf__name_by_offset"

    def __init__(self) -> None:
        try:
            self.c = ctypes.CDLL(_LOCATIONS[0], use_errno=True)
        except OSError as error:
            raise Unsupported("libbpf.so.1 is not installed", "apt install libbpf1") from error
        for name in self._pointers.split():
            getattr(self.c, name).restype = ctypes.c_void_p
        for name in self._texts.split():
            getattr(self.c, name).restype = ctypes.c_char_p
        self.log: list[str] = []
        self._callback = _PRINT(self._print)
        self.c.libbpf_set_print(self._callback)
        self._vsnprintf = ctypes.CDLL(None).vsnprintf

    def _print(self, level: int, text: bytes, arguments: int) -> int:
        if level >= _LEVEL_DEBUG:
            return 0
        line = ctypes.create_string_buffer(64 * 1024)
        self._vsnprintf(line, len(line), text, ctypes.c_void_p(arguments))
        self.log.append(line.value.decode(errors="replace"))
        return 0


def walk(handle: ctypes.c_void_p, step: Any, name: Any) -> dict[str, ctypes.c_void_p]:  # ctypes functions
    """Give the programs or the maps of an object by their names."""
    found: dict[str, ctypes.c_void_p] = {}
    item = step(handle, None)
    while item:
        found[name(ctypes.c_void_p(item)).decode()] = ctypes.c_void_p(item)
        item = step(handle, ctypes.c_void_p(item))
    return found


def map_specs(path: Path) -> dict[str, MapSpec]:
    """Give what the maps of the object `path` are made by, without loading it (or the kernel's BTF). Raises LoadFailed."""
    lib = _Lib()
    handle = ctypes.c_void_p(lib.c.bpf_object__open_file(str(path).encode(), None))
    if not handle:
        raise LoadFailed(f"{path.name}: {os.strerror(ctypes.get_errno())}", "make -C bpf, or reinstall gatewarden")
    try:
        found = walk(handle, lib.c.bpf_object__next_map, lib.c.bpf_map__name)
        return {
            name: MapSpec(*(int(getattr(lib.c, f"bpf_map__{field}")(item)) for field in _SPEC))
            for name, item in found.items()
            if "." not in name
        }
    finally:
        lib.c.bpf_object__close(handle)


class _OpenOptions(ctypes.Structure):
    """struct bpf_object_open_opts of libbpf 1.0, as far as it is used."""

    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("object_name", ctypes.c_char_p),
        ("relaxed_maps", ctypes.c_bool),
        ("pin_root_path", ctypes.c_char_p),
        ("_removed", ctypes.c_uint32),
        ("kconfig", ctypes.c_char_p),
        ("btf_custom_path", ctypes.c_char_p),
    )


class Btf:
    """The running kernel's BTF, for the signatures of its tracepoints."""

    def __init__(self, lib: _Lib, path: Path | None = None) -> None:
        """Load /sys/kernel/btf/vmlinux, or the file `path` in its place. Raises Unsupported if there is no BTF."""
        self._c: Any = lib.c
        found = self._c.btf__parse(str(path).encode(), None) if path else self._c.btf__load_vmlinux_btf()
        self._btf = ctypes.c_void_p(found)
        if not self._btf and path:
            raise Unsupported(f"libbpf finds no BTF in {path}", "[bpf] btf_path must name the BTF of exactly this kernel")
        if not self._btf:
            raise Unsupported("the kernel has no BTF", "a kernel with CONFIG_DEBUG_INFO_BTF=y")
        self.minimal = path is not None and not self.has_function("schedule")
        """Made by `bpftool gen min_core_btf`: it has what our objects read, and the signatures that they tell apart alone."""

    def signature(self, tracepoint: str) -> str | None:
        """Give the parameter list of `btf_trace_<tracepoint>`, the leading `void *` left out; None if it does not exist."""
        index = self._c.btf__find_by_name_kind(self._btf, f"btf_trace_{tracepoint}".encode(), _KIND_TYPEDEF)
        while index > 0:
            _name, kind, vlen, target, address = self._type(index)
            if kind == _KIND_FUNC_PROTO:
                # struct btf_param { __u32 name_off; __u32 type; } after the 12-byte struct btf_type
                words = (ctypes.c_uint32 * (2 * vlen)).from_address(address + 12)
                return ", ".join(self._text(words[2 * i + 1]) for i in range(1, vlen))
            index = target
        return None

    def has_function(self, name: str) -> bool:
        """Tell whether the kernel has a function of this name."""
        return bool(self._c.btf__find_by_name_kind(self._btf, name.encode(), _KIND_FUNC) > 0)

    def _type(self, index: int) -> tuple[str, int, int, int, int]:
        address = int(self._c.btf__type_by_id(self._btf, index) or 0)
        name_off, info, target = (ctypes.c_uint32 * 3).from_address(address)
        name = self._c.btf__name_by_offset(self._btf, name_off) or b""
        return name.decode(), info >> 24 & 0x1F, info & 0xFFFF, target, address

    def _text(self, index: int) -> str:
        if index == 0:
            return "void"
        name, kind, _vlen, target, _address = self._type(index)
        if kind in _QUALIFIERS:
            return self._text(target)
        if kind == _KIND_PTR:
            return self._text(target) + " *"
        return name or "?"


class Loader:
    """Loads objects one after the other, sharing one parse of the kernel's BTF.

    `attaches` are the attach types to try, best first: tp_btf needs BTF that the kernel itself knows.
    """

    def __init__(self, btf: Path | None = None) -> None:
        """Open libbpf and the kernel's BTF, or the file `btf` that stands for it (tier C).

        Raises a ProbeError if that fails, or no program may be loaded here at all.
        """
        refusal.check(btf=btf)
        self.attaches = ("raw_tp",) if btf else ("tp_btf", "raw_tp")
        self._lib = _Lib()
        self._c: Any = self._lib.c
        self.btf = Btf(self._lib, btf)
        self._options = _OpenOptions(sz=ctypes.sizeof(_OpenOptions), btf_custom_path=str(btf).encode()) if btf else None
        self._links: list[ctypes.c_void_p] = []
        self._objects: list[ctypes.c_void_p] = []

    def close(self) -> None:
        """Detach and unload what this loader holds; what was pinned, or handed on as an fd, stays."""
        for link in self._links:
            self._c.bpf_link__destroy(link)
        for handle in self._objects:
            self._c.bpf_object__close(handle)
        self._links.clear()
        self._objects.clear()

    def load(self, path: Path, hooks: Sequence[Hook], *, attach: str = "tp_btf") -> Loaded:
        """Load `path` and attach its hooks; raises a ProbeError that says which step failed and what to do.

        The object stays open (and attached) until this process ends or its links are pinned.
        """
        self._lib.log.clear()
        chosen, left_out = self._choose(hooks, attach)
        functions = Functions(self._c, hooks, self.btf.has_function)
        handle, wanted, result = self._open_and_load(path, chosen, functions)
        if result < 0 and wanted:  # no trampolines in this kernel (or forbidden): the tracepoints alone
            left_out |= functions.give_up(os.strerror(-result))
            handle, wanted, result = self._open_and_load(path, chosen, functions)
        if result < 0:
            raise self._load_error(path.name, -result)
        programs = self._programs(handle)
        # Maps of sections (.rodata) have a dot in their name and are nobody's business outside the object.
        maps = {name: int(self._c.bpf_map__fd(item)) for name, item in self._maps(handle).items() if "." not in name}
        loaded = Loaded(maps, {}, {}, attach, left_out)
        links = {name: ctypes.c_void_p(self._c.bpf_program__attach(programs[name])) for name in chosen}
        for name, link in (links | functions.attach(programs, wanted, left_out)).items():
            if not link:
                raise self._attach_error(name, ctypes.get_errno())
            self._links.append(link)
            loaded.programs[name] = int(self._c.bpf_program__fd(programs[name]))
            loaded.links[name] = int(self._c.bpf_link__fd(link))
        return loaded

    def _open_and_load(self, path: Path, chosen: list[str], functions: Functions) -> tuple[ctypes.c_void_p, set[str], int]:
        """Give the object, its function programs that are to be loaded, and 0 or the negative errno of the load."""
        options = ctypes.byref(self._options) if self._options else None
        handle = self._c.bpf_object__open_file(str(path).encode(), options)
        if not handle:
            raise LoadFailed(f"{path.name}: {os.strerror(ctypes.get_errno())}", "reinstall gatewarden")
        handle = ctypes.c_void_p(handle)
        self._objects.append(handle)
        programs = self._programs(handle)
        wanted = functions.prepare(programs)
        for name, program in programs.items():
            self._c.bpf_program__set_autoload(program, name in chosen or name in wanted)
        return handle, wanted, int(self._c.bpf_object__load(handle))

    def load_detached(self, path: Path, entries: Mapping[str, int] | None = None) -> Loaded:
        """Load every program of `path`, attach none: for objects that are no probe. `entries` gives maps another max_entries.

        Raises a ProbeError.
        """
        self._lib.log.clear()
        handle = self._c.bpf_object__open_file(str(path).encode(), None)
        if not handle:
            raise LoadFailed(f"{path.name}: {os.strerror(ctypes.get_errno())}", "make -C bpf, or reinstall gatewarden")
        handle = ctypes.c_void_p(handle)
        self._objects.append(handle)
        found = self._maps(handle)
        for name, count in (entries or {}).items():
            self._c.bpf_map__set_max_entries(found[name], count)
        result = self._c.bpf_object__load(handle)
        if result < 0:
            raise self._load_error(path.name, -result)
        maps = {name: int(self._c.bpf_map__fd(item)) for name, item in found.items() if "." not in name}
        programs = {name: int(self._c.bpf_program__fd(item)) for name, item in self._programs(handle).items()}
        return Loaded(maps, programs, {}, "none")

    def _choose(self, hooks: Sequence[Hook], attach: str) -> tuple[list[str], dict[str, str]]:
        chosen: list[str] = []
        left_out: dict[str, str] = {}
        for hook in hooks:
            if hook.functions:
                continue
            found = self.btf.signature(hook.tracepoint)
            if found in hook.signatures or (found is None and self.btf.minimal and hook.required):
                chosen.append(f"{hook.tracepoint}_{_SUFFIX[attach]}")
                continue
            reason = (
                f"tracepoint {hook.tracepoint} is missing in {'the minimal BTF' if self.btf.minimal else 'this kernel'}"
                if found is None
                else f"tracepoint {hook.tracepoint} has an unknown signature ({found})"
            )
            if hook.required:
                raise Unsupported(reason, "report this kernel, or leave the probe out of [probes] enabled")
            left_out[hook.tracepoint] = reason
        return chosen, left_out

    def _programs(self, handle: ctypes.c_void_p) -> dict[str, ctypes.c_void_p]:
        return walk(handle, self._c.bpf_object__next_program, self._c.bpf_program__name)

    def _maps(self, handle: ctypes.c_void_p) -> dict[str, ctypes.c_void_p]:
        return walk(handle, self._c.bpf_object__next_map, self._c.bpf_map__name)

    def _load_error(self, name: str, code: int) -> ProbeError:
        if code in {errno.EPERM, errno.EACCES} and "processed" not in "".join(self._lib.log):
            return NotPermitted(
                f"the kernel refuses bpf(2): {os.strerror(code)}",
                "run as root or with CAP_BPF and CAP_PERFMON, kernel not locked down to confidentiality",
            )
        tail = " ".join("".join(self._lib.log).split())[-_VERIFIER_TAIL:]
        return LoadFailed(f"{name}: {os.strerror(code)}: {tail}", "report this kernel")

    def _attach_error(self, program: str, code: int) -> ProbeError:
        kind = NotPermitted if code in {errno.EPERM, errno.EACCES} else LoadFailed
        return kind(f"{program} cannot be attached: {os.strerror(code)}", "run as root or with CAP_BPF and CAP_PERFMON")
