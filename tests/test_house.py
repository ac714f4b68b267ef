"""The rules of the house (docs/architecture.md), held by walking the syntax trees: rows, shapes, names, words.

A failure's text says which file broke which rule, and what to do.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from agent import config
from agent.errors import ConfigError

ROOT = Path(__file__).parent.parent
AGENT = ROOT / "agent"
# Who may import whom: only what stands in an earlier row. Inside the third row, only one's own package.
ROWS = (
    ("model", "errors", "kinds", "histogram", "layout", "narrow", "regular", "looping"),
    ("ports", "kernelnames", "config", "place", "atomic"),
    ("probes", "detectors", "policies", "actions", "telemetry", "linux", "collider", "keeping", "mcu", "video"),
    (
        *("pipeline", "control", "commands", "checks", "probing", "attaching", "status", "service", "fallback", "reporting"),
        *("owncost", "placing", "tending", "rootverbs", "outside", "watchdogs", "resets", "supervision"),
    ),
    ("daemon", "broker", "loader", "cli", "keeper", "watch"),
)
ROW_OF = {name: row for row, names in enumerate(ROWS) for name in names}
LEAVES, THIRD, ENTRY = ("model", "errors", "kinds"), 2, len(ROWS) - 1

MODULE_LINES, FUNCTION_LINES, PROBE_LINES, MOCK_LINES = 300, 60, 200, 10
MOCKS = re.compile(r"[m]ock\.|[M]ock\(|[p]atch\(|monkeypatch\.[s]etattr")
# In brackets, so that this file does not find itself.
UNFINISHED = re.compile(r"\bT[O]DO\b|\bF[I]XME\b|\bX[X]X\b|place[h]older|NotImpl[e]mentedError")
TEXTS = {".py", ".c", ".h", ".md", ".toml", ".conf", ".service", ".socket", ".mount", ".json", ""}
OURS = ("agent", "bpf", "deploy", "docs", "firmware_hooks", "tests", ".ci")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _modules() -> list[Path]:
    return sorted(AGENT.rglob("*.py"))


def _room(path: Path) -> str:
    """Give the name under agent/ that a file belongs to: `model` for agent/model.py, `probes` for agent/probes/timers.py."""
    return path.relative_to(AGENT).parts[0].removesuffix(".py")


def _imports(tree: ast.Module, package: tuple[str, ...] = ("agent",)) -> Iterator[str]:
    """Yield the rooms of agent/ that a module of `package` imports, wherever in the file and in whichever spelling."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            origin = ".".join(part for part in (base, node.module or "") if part)
            names = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("agent.") and name != "agent.__version__")


def _imports_of(path: Path) -> Iterator[str]:
    return _imports(_tree(path), ("agent", *path.relative_to(AGENT).parts[:-1]))


def _files() -> list[Path]:
    found = [path for folder in OURS for path in (ROOT / folder).rglob("*")]
    found += [path for path in ROOT.iterdir() if path.name in {"README.md", "CHANGELOG.md", "Makefile", "pyproject.toml"}]
    return sorted(path for path in found if path.is_file() and path.suffix in TEXTS and "__pycache__" not in path.parts)


def _may_import(importer: str, imported: str) -> bool:
    if importer == imported:
        return True
    if importer in LEAVES or ROW_OF[imported] == ENTRY:
        return False
    if ROW_OF[importer] == ROW_OF[imported]:
        return ROW_OF[importer] != THIRD
    return ROW_OF[importer] > ROW_OF[imported]


def test_every_room_has_its_row() -> None:
    """Pins that nothing grows outside the rows: a new module or package under agent/ is given one here."""
    rooms = {_room(path) for path in _modules()} - {"__init__"}
    assert rooms <= set(ROW_OF), f"give {sorted(rooms - set(ROW_OF))} a row in ROWS, and a line in docs/architecture.md"


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(AGENT)))
def test_imports_point_to_earlier_rows(path: Path) -> None:
    """Pins the import rows, imports inside functions and for type checkers included; entry points are imported by nobody."""
    importer = _room(path)
    wrong = sorted({room for room in _imports_of(path) if {room, importer} <= set(ROW_OF) and not _may_import(importer, room)})
    assert not wrong, f"agent.{importer} may not import agent.{wrong}: take a port (agent/ports/) as an argument instead"


def test_the_agent_does_not_know_the_central_service() -> None:
    """Pins that the consumer at the other end (agent.central) stays out of every process on the gateway."""
    knowing = [str(path) for path in _modules() if _room(path) != "central" and "central" in _imports_of(path)]
    assert not knowing, f"{knowing}: only agent/central/ itself may import agent.central"


@pytest.mark.parametrize(
    "spelling",
    [
        "import agent.cli",
        "import agent.cli as c",
        "from agent import cli",
        "from agent.cli import main",
        "from .cli import main",
    ],
)
def test_the_walk_sees_every_spelling(spelling: str) -> None:
    """Pins the walk itself: no way of writing an import, nor a block for type checkers, hides it."""
    assert list(_imports(ast.parse(f"if TYPE_CHECKING:\n    {spelling}\n"))) == ["cli"]


def test_the_rows_are_strict() -> None:
    """Pins what the rows mean: up only; sideways only above the third row; entry points and leaves stand alone."""
    refused = (("probes", "linux"), ("control", "cli"), ("kinds", "model"), ("ports", "probes"), ("loader", "daemon"))
    assert not [pair for pair in refused if _may_import(*pair)]
    allowed = (("control", "pipeline"), ("probes", "ports"), ("cli", "commands"), ("probes", "probes"), ("layout", "model"))
    assert all(_may_import(*pair) for pair in allowed)


def _stems(group: str) -> list[str]:
    return sorted(path.stem for path in (AGENT / group).glob("[a-z]*.py"))


def _probes() -> list[str]:
    return [stem for stem in _stems("probes") if not stem.endswith("_link")]


def test_one_name_through_every_layer() -> None:
    """Pins that a probe is a Python file, a BPF file and a test file of one name, as NAME says; a link has no BPF file."""
    sources = {path.name.removesuffix(".bpf.c") for path in (ROOT / "bpf").glob("*.bpf.c")}
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests/probes").glob("test_*.py")}
    assert set(_probes()) == sources, "each agent/probes/X.py needs its bpf/X.bpf.c, and the other way round"
    stems = _stems("probes")
    assert set(stems) <= tests, f"write tests/probes/test_X.py for {sorted(set(stems) - tests)}"
    for name in stems:
        assert re.search(rf'^NAME = "{name}"$', (AGENT / f"probes/{name}.py").read_text(), re.MULTILINE), f"NAME of {name}"


@pytest.mark.parametrize("group", ["probes", "detectors"])
def test_a_file_stem_is_a_config_key(group: str, lab_config: Callable[..., Path]) -> None:
    """Pins that each probe and detector has its table in agent.toml by nothing but its file, and that no other name has one."""
    names = _probes() if group == "probes" else _stems(group)
    config.check(lab_config("".join(f"[{group}.{name}]\n" for name in names)))
    with pytest.raises(ConfigError, match="nosuch"):
        config.check(lab_config(f"[{group}.nosuch]\n"))


def test_modules_and_functions_stay_small() -> None:
    """Pins the sizes: no module over 300 lines, no function over 60, the medians as designed."""
    lines = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in _modules()}
    functions = {
        f"{path.relative_to(ROOT)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in _modules()
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for sizes, limit in ((lines, MODULE_LINES), (functions, FUNCTION_LINES)):
        over = {name: size for name, size in sizes.items() if size > limit}
        assert not over, f"split along a concern (limit {limit}): {over}"
    assert statistics.median(lines.values()) <= 120
    assert statistics.median(functions.values()) <= 10
    assert sorted(functions.values())[int(0.9 * len(functions))] <= 30


def test_long_bpf_programs_have_a_reason() -> None:
    """Pins that a BPF program over 200 lines is named by a decision record that says why it is not split."""
    decisions = "\n".join(path.read_text() for path in (ROOT / "docs/decisions").glob("*.md"))
    long = [path.name for path in (ROOT / "bpf").glob("*.bpf.c") if path.read_text().count("\n") > PROBE_LINES]
    silent = [name for name in long if f"bpf/{name}" not in decisions]
    assert not silent, f"split {silent} (limit {PROBE_LINES} lines), or say why not in docs/decisions/"


def test_doubles_instead_of_patches() -> None:
    """Pins that tests replace ports, not attributes: at most 10 lines that mock or patch in all of tests/."""
    found = [str(path) for path in _files() if path.suffix == ".py" for _hit in MOCKS.finditer(path.read_text())]
    assert len(found) <= MOCK_LINES, f"use a double at the port (tests/doubles.py): {found}"


def test_nothing_is_unfinished() -> None:
    """Pins that no file carries a mark of unfinished work."""
    for path in _files():
        hits = [hit.group() for hit in UNFINISHED.finditer(path.read_text())]
        assert not hits, f"{path.relative_to(ROOT)}: {hits}: finish it or leave it out"


def test_every_action_is_documented() -> None:
    """Pins that what this agent may do to a machine stands in the documentation, by its name in ACTIONS."""
    actions = AGENT / "actions/__init__.py"
    keys = [
        str(key.value)
        for node in ast.walk(_tree(actions))
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Dict)
        and "ACTIONS" in {target.id for target in _targets(node) if isinstance(target, ast.Name)}
        for key in node.value.keys
        if isinstance(key, ast.Constant)
    ]
    docs = "\n".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    missing = [key for key in keys if f"`{key}`" not in docs]
    assert keys, "agent/actions/__init__.py: ACTIONS is a dict display with constant keys, so that it can be read as a list"
    assert not missing, f"describe {missing} in docs/security.md"


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]
