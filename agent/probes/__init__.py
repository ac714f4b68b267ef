"""What the agent can see: one file for each probe, found by its name alone. See `docs/adding.md`.

A stem that ends in `_link` is no probe of the kernel but a `ports.Link`: it reads what a peer tells (the keeper, the MCU).
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from agent.errors import Unsupported
from agent.ports import Link, Probe

HERE = Path(__file__).parent
LINK = "_link"


def names() -> tuple[str, ...]:
    """Give the names of all probes: the folder is the list."""
    return tuple(sorted(path.stem for path in HERE.glob("[a-z]*.py") if not path.stem.endswith(LINK)))


def links() -> tuple[str, ...]:
    """Give the names of all links."""
    return tuple(sorted(path.stem for path in HERE.glob(f"[a-z]*{LINK}.py")))


def load(name: str) -> Probe:
    """Import one probe, its name checked against the folder first. Raises Unsupported for a name that is not there."""
    if name not in names():
        raise Unsupported(f"no probe is called {name}", f"one of: {', '.join(names())}")
    return cast("Probe", importlib.import_module(f"agent.probes.{name}"))


def link(name: str) -> Link:
    """Import one link, as `load` does a probe. Raises Unsupported for a name that is not there."""
    if name not in links():
        raise Unsupported(f"no link is called {name}", f"one of: {', '.join(links())}")
    return cast("Link", importlib.import_module(f"agent.probes.{name}"))


def object_path(name: str) -> Path:
    """Give where the compiled BPF object of a probe lies."""
    return HERE.parent / "bpf" / f"{name}.bpf.o"
