"""In which line of a TOML text a key stands: tomllib does not tell.

A scanner for text that tomllib has accepted: it knows tables, arrays of tables, dotted and quoted keys, and skips values. Keys
of inline tables are not entered; they are found through their parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]

_DEPTH = 8  # deeper than any key of ours; keeps a key of a thousand parts from costing a million
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_PART = re.compile(r"""[ \t]*(?:"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|([A-Za-z0-9_-]+))[ \t]*(\.?)""")
# One step inside a value: a string of any of the four kinds, a comment, a bracket, a line end, or a run of anything else.
_STEP = re.compile(
    r"""
      \"{3} (?:[^\\]|\\.)*? \"{3,5} | '{3} .*? '{3,5}
    | " (?:[^"\\\n]|\\.)* " | ' [^'\n]* '
    | \# [^\n]* | [\[{] | [\]}] | \n | [^"'\#\[{\]}\n]+ | .
    """,
    re.DOTALL | re.VERBOSE,
)


def lines(text: str) -> dict[KeyPath, int]:
    """Give the line (from 1) of every key and table header of `text`; indexes of arrays of tables are part of a path."""
    found: dict[KeyPath, int] = {(): 1}
    tables: dict[KeyPath, int] = {}
    header: KeyPath = ()
    for line, marker, parts in _statements(text):
        base = header if not marker else ()
        path = _entered(base, parts[:_DEPTH], tables, append=marker == "[[")
        for end in range(len(base) + 1, len(path) + 1):
            found.setdefault(path[:end], line)
        if marker:
            header = path
    return found


def line_of(found: dict[KeyPath, int], path: KeyPath) -> int:
    """Give the line of `path`, or of its nearest parent that stands in the text."""
    return next(found[path[:end]] for end in range(len(path), -1, -1) if path[:end] in found)


def _entered(base: KeyPath, parts: list[str], tables: dict[KeyPath, int], *, append: bool) -> KeyPath:
    """Walk from `base` along `parts`; a name that is an array of tables means its newest element."""
    path = base
    for index, part in enumerate(parts):
        path = (*path, part)
        if append and index == len(parts) - 1:
            tables[path] = tables.get(path, -1) + 1
        if path in tables:
            path = (*path, tables[path])
    return path


def _statements(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield `(line, marker, key parts)`: marker is `[` or `[[` of a header, empty for a key with a value."""
    at = line = 0
    while True:
        start = _blank(text, at)
        line += text.count("\n", at, start)
        if start >= len(text):
            return
        marker = "[[" if text.startswith("[[", start) else "[" if text[start] == "[" else ""
        parts, end = _key(text, start + len(marker))
        if parts:
            yield line + 1, marker, parts
        at = _after_value(text, end)
        line += text.count("\n", start, at)


def _blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _key(text: str, at: int) -> tuple[list[str], int]:
    parts: list[str] = []
    while match := _PART.match(text, at):
        double, single, bare, dot = match.groups()
        parts.append(bare or single or _unescaped(double or ""))
        at = match.end()
        if not dot:
            break
    return parts, at


def _unescaped(text: str) -> str:
    """Undo the escapes of a quoted key where they are simple; a key that stays different is found through its parent."""
    return re.sub(r'\\(["\\])', r"\1", text)


def _after_value(text: str, at: int) -> int:
    """Give where the line after the value ends: line ends inside brackets and strings do not count."""
    depth = 0
    while match := _STEP.match(text, at):
        step = match.group()
        at = match.end()
        if step == "\n" and depth <= 0:
            break
        depth += (step in "[{") - (step in "]}")
    return at
