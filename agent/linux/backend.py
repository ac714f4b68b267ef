"""How programs come into this kernel: chosen by where its BTF is, never by its version, which says nothing about it.

its own BTF                        libbpf, tp_btf (tiers A and B)
[bpf] btf_path, or a vmlinux       libbpf, with that file; raw_tp, since the kernel knows no types (C)
neither                            BCC with the kernel's headers (D)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from agent.linux import bcc, btf, libbpf
from agent.linux.loaded import Loaded
from agent.ports import Hook

ROOT = Path("/")


class Backend(Protocol):
    """Loads objects one after the other. `attaches` are the attach types to try, best first."""

    @property
    def attaches(self) -> tuple[str, ...]:
        """Attach types, as `load` takes them."""
        ...

    def load(self, path: Path, hooks: Sequence[Hook], *, attach: str = ...) -> Loaded:
        """Load the object `path` and attach its hooks. Raises a ProbeError."""
        ...

    def close(self) -> None:
        """Give back all that was neither pinned nor handed on."""
        ...


def choose(btf_path: Path | None = None, root: Path = ROOT) -> Backend:
    """Give the best one for the running kernel. Raises a ProbeError, with what to install, if there is none."""
    if (root / btf.KERNEL).exists():
        return libbpf.Loader()
    external = btf.external(root, os.uname().release, btf_path)
    return libbpf.Loader(Path(external)) if external else bcc.Loader(root)
