"""The documentation says what is there: links, names, commands, defaults and texts are held against the code."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from agent import cli, commands, config, kinds, loader, probes
from agent.actions import ACTIONS
from agent.broker import VERBS
from agent.checks import GROUPS
from agent.commands import _exit
from agent.commands._schemas import _kinds
from agent.config.open_sets import available
from agent.linux.clock import pause
from agent.telemetry import exposition
from tests.test_house import ROWS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# A path of ours, as prose names it: a folder of the checkout, then names; patterns with * or < are families, not files.
PATH = re.compile(r"(?:agent|bpf|deploy|docs|tests|firmware_hooks|\.ci)/[\w./\\-]*")
EXAMPLES = re.compile(r"fork|/X\b|/F\b|test_X")  # what adding.md adds, and its stand-ins


def text(name: str) -> str:
    """Give one page of docs/."""
    return (DOCS / name).read_text()


def prose(path: Path) -> str:
    """Give a page without its fenced blocks."""
    return FENCE.sub("", path.read_text())


def rows(page: str, *header: str) -> list[list[str]]:
    """Give the cells of every table of `page` whose header begins with `header`."""
    found: list[list[str]] = []
    inside = False
    for line in page.split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")] if line.startswith("|") else []
        if cells[: len(header)] == list(header):
            inside = True
        elif not cells:
            inside = False
        elif inside and not set(line) <= set("|- "):
            found.append(cells)
    return found


def anchors(path: Path) -> set[str]:
    """Give the anchors of a page's headings, made as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    """Pins that a relative link leads to a file of the checkout, and its anchor to a heading there."""
    for target in LINK.findall(prose(page)):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{page.name}: {target} is not there"
        assert not anchor or anchor in anchors(path), f"{page.name}: {path.name} has no heading for #{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_exist(page: Path) -> None:
    """Pins that a file or folder of ours that a page names is there (built objects and examples aside)."""
    named = {match for span in SPAN.findall(prose(page)) for match in PATH.findall(span) if span.startswith(match)}
    dead = sorted(
        name for name in named if not EXAMPLES.search(name) and not name.startswith("agent/bpf/") and not (ROOT / name).exists()
    )
    later = {"agent/video/", "agent/gpu/", "agent/central/"}  # decision 0004 says that they are not built
    assert set(dead) <= later, f"{page.name} names {dead}"


def _lines(page: Path) -> Iterator[str]:
    """Yield what stands in a page as a command: lines of indented and shell blocks, and inline spans."""
    content = page.read_text()
    for language, block in FENCE.findall(content):
        if language in {"", "sh", "shell"}:
            yield from block.split("\n")
    bare = FENCE.sub("", content)
    yield from (line.strip() for line in bare.split("\n") if line.startswith("    "))
    yield from (span for span in SPAN.findall(bare) if re.match(r"agentctl [a-z]", span))


def _calls(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of each `agentctl …` of a page."""
    for line in _lines(page):
        for part in re.split(r"[|;>]|&&", re.sub(r"\s+#.*", "", line)):
            words = part.strip().removeprefix("sudo ").strip()
            if re.match(r"(\.venv/bin/)?agentctl ", words):
                yield shlex.split(words)[1:]


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Parse as `agentctl` does, without running the verb."""
    options = argparse.Namespace(json=False, config=Path("/nonexistent"))
    cli._top(80).parse_args(arguments, options)
    assert options.verb in commands.names(), f"there is no verb {options.verb}"
    verb = commands.load(options.verb)
    parser = cli.Parser(f"agentctl {options.verb}", "", 80, str)
    verb.arguments(parser)
    return parser.parse_args(options.rest, options)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_parses(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pins that each `agentctl` line of the documentation is accepted by the real parsers."""
    for arguments in _calls(page):
        try:
            parsed(arguments)
        except SystemExit:
            pytest.fail(f"{page.name}: agentctl {shlex.join(arguments)}: {capsys.readouterr().err}")


def test_the_walk_finds_commands() -> None:
    """Pins the test above: it sees the many lines that there are, and a bad one would fail."""
    assert len([call for page in PAGES for call in _calls(page)]) > 30
    with pytest.raises(SystemExit):
        parsed(["timers", "--second", "5"])


@pytest.mark.parametrize("verb", commands.names())
def test_every_verb_is_shown(verb: str) -> None:
    """Pins that each verb of agentctl stands in the documentation as a command."""
    assert any(call[0] == verb for page in PAGES for call in _calls(page)), f"show `agentctl {verb}` in docs/"


def test_the_table_of_kinds_is_that_of_the_code() -> None:
    """Pins each kind of event, with exactly the keys of its data, to agent/kinds; and no other kind is told."""
    told = {row[0].strip("`"): set(SPAN.findall(row[3])) for row in rows(text("telemetry.md"), "kind", "source")}
    known = {kind: set(get_type_hints(shape)) for kind, shape in _kinds().items()}
    assert told == known
    sources = {row[1].strip("`") for row in rows(text("telemetry.md"), "kind", "source")}
    assert sources <= {*available("probes"), *probes.links(), "agent"}


def test_no_dead_kind_is_named() -> None:
    """Pins that whatever looks like a kind of a known family is one, or a key of agent.toml, or a verb of the broker."""
    schema: Any = config.schema()
    keys = {key.replace("[]", "") for key, _default in _keys(schema, schema["$defs"])}
    families = {path.stem for path in Path(kinds.__file__).parent.glob("[a-z]*.py")}
    named = {span for page in PAGES if page.name != "adding.md" for span in SPAN.findall(prose(page))}
    kinds_named = {span for span in named if re.fullmatch(r"[a-z]+\.[a-z_]+", span) and span.split(".")[0] in families}
    assert kinds_named - set(_kinds()) - keys - set(VERBS) == set()


def test_every_name_is_documented() -> None:
    """Pins that probes, detectors, actions, verbs of the broker and groups of checks stand in docs/ by name."""
    everything = "\n".join(page.read_text() for page in PAGES)
    names = [*available("probes"), *available("detectors"), *ACTIONS, *VERBS]
    assert [name for name in names if f"`{name}`" not in everything] == []
    assert {row[0] for row in rows(text("runbook.md"), "group", "checks")} == set(GROUPS)


def test_every_detector_has_a_page_of_the_runbook() -> None:
    """Pins that each finding is explained under its own heading, and no heading there is of a detector that is gone."""
    section = text("runbook.md").split("\n## Findings\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^### (\w+)$", section, re.MULTILINE)) == set(available("detectors"))


def test_exit_codes_are_documented() -> None:
    """Pins the table of exit codes to the constants of the code."""
    told = {code for row in rows(text("runbook.md"), "code") for code in re.findall(r"\d+", row[0])}
    assert told == {str(value) for name, value in vars(_exit).items() if name.isupper() and isinstance(value, int)}


def _keys(schema: Any, definitions: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield `(dotted key, default)` of a JSON Schema; tables of arrays are `name[]`."""
    choices = [item for item in schema.get("anyOf", [schema]) if item.get("type") != "null"]
    target = definitions[choices[0]["$ref"].rsplit("/", 1)[1]] if "$ref" in choices[0] else choices[0]
    if "properties" in target:
        for name, inner in target["properties"].items():
            yield from _keys(inner, definitions, f"{prefix}.{name}".lstrip("."))
    elif "$ref" in target.get("items", {}):
        yield from _keys(target["items"], definitions, f"{prefix}[]")
    elif prefix:
        empty = {} if target.get("type") == "object" else "required"
        yield prefix, schema.get("default", empty)


def test_every_configuration_key_is_documented_with_its_default() -> None:
    """Pins the table of keys: all of agent.toml, nothing else, and the defaults that hold."""
    told = {row[0].strip("`"): row[1].strip("`") for row in rows(text("runbook.md"), "key", "default")}
    schema: Any = config.schema()
    known = {
        key: _shown(default)
        for key, default in _keys(schema, schema["$defs"])
        if not key.endswith(("probe_budget", "feed_missed"))
    }
    assert told == known


def _shown(default: object) -> str:
    if default is None:
        return "absent"
    return "required" if default == "required" else json.dumps(default)


def test_quoted_texts_are_those_of_the_code() -> None:
    """Pins that what the runbook says the agent says, it says: each piece between the … stands in the source."""
    source = "".join(path.read_text() for path in sorted((ROOT / "agent").rglob("*.py")))
    source = re.sub(r'"\s*\n\s*f?"', "", source)  # literals that are continued on the next line
    quoted = [span for row in rows(text("runbook.md"), "it says") for span in SPAN.findall(row[0])]
    pieces = [piece.strip() for span in quoted for piece in re.split(r"…|FILE:LINE: key: what, allowed:", span)]
    assert len(quoted) > 20
    assert [piece for piece in pieces if piece not in source] == []


def test_the_import_rows_are_those_that_are_held() -> None:
    """Pins the rows in architecture.md to those of the house test."""
    assert "".join(f"    {' '.join(row)}\n" for row in ROWS) in text("architecture.md")


def test_units_exist() -> None:
    """Pins that each unit of ours that a page names is in deploy/systemd."""
    units = {path.name.partition(".")[0] for path in (ROOT / "deploy/systemd").iterdir()}
    named = {name for page in PAGES for name in re.findall(r"\b(gatewarden(?:-\w+)?)\.(?:service|socket)\b", page.read_text())}
    assert named
    assert named <= units


@pytest.mark.kernel
def test_every_family_of_openmetrics_is_documented() -> None:
    """Pins the table of metric families to what live probes render; `_max_seconds` goes with its histogram."""
    told = {span for row in rows(text("telemetry.md"), "family", "type") for span in SPAN.findall(row[0])}
    names = available("probes")
    with loader.measuring(config.from_plain({"probes": {"enabled": list(names)}}), names) as live:
        pause(0.5)
        page = exposition.render({name: live.snapshot(name) for name in names}).decode()
    families = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
    assert len(families) > 20
    assert {name for name in families if name.replace("_max_seconds", "_seconds") not in told} == set()
