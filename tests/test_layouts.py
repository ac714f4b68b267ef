"""Two-sided contracts of the probes: C structs against Python layouts, tracepoint signatures against real kernels.

`tests/fixtures/signatures/*.json` were read with `python -m tests.btf` from the BTF of Debian's 6.1.176 and 6.12.100
and of a vendor's 6.18.44; null means that the kernel has no such tracepoint.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from agent.layout import Layout
from agent.linux import bpf
from agent.ports import Hook
from agent.probes import LINK
from tests.btf import Btf

ROOT = Path(__file__).parent.parent
PROBES = sorted(path.stem for path in (ROOT / "agent/probes").glob("[a-z]*.py") if not path.stem.endswith(LINK))
TABLES = sorted((ROOT / "tests/fixtures/signatures").glob("*.json"))
RUNNING = Path("/sys/kernel/btf/vmlinux")


def _module(probe: str) -> ModuleType:
    return importlib.import_module(f"agent.probes.{probe}")


def _hooks(probe: str) -> tuple[Hook, ...]:
    found: tuple[Hook, ...] = _module(probe).HOOKS
    return found


def _compiled(probe: str) -> Btf:
    return Btf.of(ROOT / f"agent/bpf/{probe}.bpf.o")


def _layouts(*modules: ModuleType) -> list[Layout]:
    return [value for item in modules for value in vars(item).values() if isinstance(value, Layout)]


@pytest.mark.parametrize("probe", PROBES)
def test_python_layouts_are_the_compiled_structs(probe: str) -> None:
    """Pins each Layout, field by field, to the C struct of its name in the probe's object (padding, `_…` in C, is left out)."""
    btf = _compiled(probe)
    structs = btf.structs()
    for layout in _layouts(_module(probe), bpf):
        assert layout.name in structs, f"{probe}.bpf.o has no struct {layout.name}: name it, or GW_KEEP() it"
        struct = structs[layout.name]
        c_side = [field for field in btf.fields(struct) if not field[0].startswith("_")]
        assert list(layout.offsets()) == c_side, f"struct {layout.name} and its Layout parted"
        assert layout.size == struct.other, f"struct {layout.name} has {struct.other} bytes, its Layout {layout.size}"


@pytest.mark.parametrize("probe", PROBES)
def test_every_shared_struct_has_its_layout(probe: str) -> None:
    """Pins the other direction: a struct whose name begins with the probe's is read in Python, so it has a Layout there."""
    shared = {name for name in _compiled(probe).structs() if name.startswith(probe + "_")}
    assert shared <= {layout.name for layout in _layouts(_module(probe))}, "give each a Layout, or a name without the prefix"


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_hooks_fit_the_kernels_that_gateways_run(probe: str, table: Path) -> None:
    """Pins that each required hook is accepted on each of these kernels, and no signature that one really has is refused."""
    known: dict[str, str | None] = json.loads(table.read_text())
    for hook in _hooks(probe):
        if hook.functions:
            continue
        assert hook.tracepoint in known, f"read it into {table.name} by `python -m tests.btf VMLINUX {hook.tracepoint}`"
        signature = known[hook.tracepoint]
        if hook.required:
            assert signature is not None, f"{hook.tracepoint} is missing in {table.stem}: it cannot be required"
        assert signature in {None, *hook.signatures}, f"{hook.tracepoint} on {table.stem} would be refused: {signature}"


@pytest.mark.parametrize("probe", PROBES)
def test_each_hook_has_both_programs(probe: str) -> None:
    """Pins that each hook is a tp_btf program and its raw_tp twin in the object, and that no program is without a hook."""
    functions = {item.name for item in _compiled(probe).types if item.name.endswith(("_btf", "_raw"))}
    assert functions == {f"{hook.tracepoint}_{way}" for hook in _hooks(probe) for way in ("btf", "raw") if not hook.functions}
    calls = {item.name for item in _compiled(probe).types if item.name.endswith(("_fentry", "_kprobe"))}
    assert calls == {f"{hook.tracepoint}_{way}" for hook in _hooks(probe) for way in ("fentry", "kprobe") if hook.functions}


@pytest.mark.skipif(not RUNNING.exists(), reason="the running kernel has no BTF")
def test_libbpf_and_this_reader_tell_the_same_signatures() -> None:
    """Pins that the fixtures speak the loader's language: both readers agree on the running kernel's tracepoints."""
    libbpf = importlib.import_module("agent.linux.libbpf").Loader().btf
    ours = Btf.of(RUNNING).signatures()
    for name in json.loads(TABLES[0].read_text()):
        assert libbpf.signature(name) == ours.get(name)
