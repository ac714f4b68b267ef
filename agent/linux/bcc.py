"""Tier D, kernels without BTF: BCC compiles a probe's own source against the kernel's headers, and plain bpf(2) loads it.

Only the loader process imports this, and only such a process ever holds BCC (which brings LLVM: some 230 MB for the moment).
From the object that ships come the maps, so they are the same; what is handed on or pinned has the same names too.

BCC compiles only: with map methods of its own it would have to rewrite the sources, and attached by it a program would die with
the process. Our programs are raw tracepoints throughout, whose attachment is a bpf_link that can be pinned.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import resource
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from agent.errors import BpfError, LoadFailed, Unsupported
from agent.linux import bccready, bcctext, kernelload, refusal
from agent.linux.libbpf import map_specs
from agent.linux.loaded import Loaded
from agent.ports import Hook

ROOT = Path("/")
_FORMAT = b"%ps\0"
_KALLSYMS = "proc/kallsyms"


class Loader:
    """Compiles and loads probes one after the other; has the methods of `agent.linux.libbpf.Loader`."""

    attaches = ("raw_tp",)

    def __init__(self, root: Path = ROOT) -> None:
        """Find BCC and the kernel's headers. Raises a ProbeError that names the packages to install."""
        refusal.check(root)
        if found := bccready.lacking(os.uname().release, root):
            raise Unsupported(f"the kernel has no BTF, and {found[0]}", found[1])
        self._bcc = _module(root / bccready.PACKAGES)
        self._fds: list[int] = []
        with contextlib.suppress(ValueError, OSError):  # kernels before 5.11 charge maps to it
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def close(self) -> None:
        """Give back all fds: what was pinned, or handed on, stays."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    def load(self, path: Path, hooks: Sequence[Hook], *, attach: str = "raw_tp") -> Loaded:
        """Compile the source of the object `path`, load and attach its hooks. Raises a ProbeError."""
        source = path.parent / "bcc" / path.name.replace(".bpf.o", ".bpf.c")
        if not source.exists():
            name = path.name.partition(".")[0]
            raise Unsupported(
                f"the kernel has no BTF, which {name} needs", "a kernel with CONFIG_DEBUG_INFO_BTF=y, or [bpf] btf_path"
            )
        maps = {name: self._keep(kernelload.create_map(name, spec)) for name, spec in map_specs(path).items()}
        known = {**maps, **self._constants()}
        text = bcctext.main_text(source.name, hooks)
        code = self._compile(text, bcctext.flags(str(source.parent), known), [f"{hook.tracepoint}_raw" for hook in hooks])
        loaded = Loaded(maps, {}, {}, attach)
        for hook in hooks:
            name = f"{hook.tracepoint}_raw"
            loaded.programs[name] = self._keep(kernelload.load_raw_tracepoint(name, code[name]))
        for hook in hooks:
            link = kernelload.attach_raw_tracepoint(hook.tracepoint, loaded.programs[f"{hook.tracepoint}_raw"])
            loaded.links[f"{hook.tracepoint}_raw"] = self._keep(link)
        return loaded

    def _keep(self, fd: int) -> int:
        self._fds.append(fd)
        return fd

    def _constants(self) -> dict[str, int]:
        """Give the format by which addresses become names, where the kernel has the helper for it (5.13, 7b15523a989b)."""
        if not has_symbol("bpf_snprintf"):
            return {}
        try:
            return {"format": self._keep(kernelload.create_text("format", _FORMAT))}
        except BpfError as error:
            raise kernelload.refused(error) from error

    def _compile(self, text: str, flags: list[str], programs: Sequence[str]) -> dict[str, bytes]:
        """Give the instructions of each program. Raises LoadFailed with the compiler's first error."""
        with _captured() as said:
            try:
                module = self._bcc.BPF(text=text.encode(), cflags=flags)
                return {name: bytes(module.dump_func(name.encode())) for name in programs}
            except Exception as error:  # noqa: BLE001 - BCC raises no other class
                failed: Exception = error
        reason = bcctext.reason(said[0]) or bcctext.reason(str(failed))
        kind = Unsupported if reason.startswith("tracepoint") else LoadFailed
        raise kind(f"BCC: {reason}", "report this kernel, and the version of python3-bpfcc") from failed


def has_symbol(name: str, root: Path = ROOT) -> bool:
    """Whether the kernel has a function of this name; its symbols are not hidden, only their addresses."""
    try:
        with (root / _KALLSYMS).open(encoding="ascii", errors="replace") as lines:
            return any(line.split()[2:3] == [name] for line in lines)
    except OSError:
        return False


def _module(packages: Path) -> Any:
    """Import BCC from the distribution's folder, and nothing else from there. Raises Unsupported if that fails."""
    if "bcc" in sys.modules:
        return sys.modules["bcc"]
    spec = PathFinder.find_spec("bcc", [str(packages)])
    if spec is None or spec.loader is None:
        raise Unsupported(f"no module bcc in {packages}", "apt install python3-bpfcc")
    module = importlib.util.module_from_spec(spec)
    sys.modules["bcc"] = module  # its parts import each other by this name
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its sources have some for younger versions of Python
            spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules["bcc"]
        raise Unsupported(
            f"BCC cannot be imported: {type(error).__name__}: {error}", "apt install --reinstall python3-bpfcc"
        ) from error
    return module


@contextlib.contextmanager
def _captured() -> Iterator[list[str]]:
    """Catch what the compiler writes to fd 2 past Python; the list has it when the block has ended."""
    said: list[str] = []
    sys.stderr.flush()
    kept, file = os.dup(2), os.memfd_create("bcc")
    try:
        os.dup2(file, 2)
        yield said
    finally:
        os.dup2(kept, 2)
        said.append(os.pread(file, 1 << 20, 0).decode(errors="replace"))
        os.close(kept)
        os.close(file)
