"""From a path to a TOML tree, and nothing but ConfigError on the way."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from agent import regular
from agent.config.constraints import one_line
from agent.errors import ConfigError, Problem

FILE_LIMIT = 256 * 1024  # 64 workloads and 256 streams with long URLs take half of it
LINE_LIMIT = 4096  # tomllib's time grows with the square of the parts of a dotted key


def fail(path: Path, line: int, what: str, allowed: str = "") -> NoReturn:
    """Raise a ConfigError with this one problem of the file as a whole."""
    raise ConfigError((Problem(one_line(str(path)), line, "file", what, allowed),))


def read_text(path: Path) -> str:
    """Read a regular file of at most FILE_LIMIT bytes of UTF-8, without ever waiting for it. Raises ConfigError."""
    try:
        raw = regular.read(path, FILE_LIMIT + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        fail(path, 1, f"cannot be read: {getattr(error, 'strerror', None) or error}", "a readable TOML file")
    if len(raw) > FILE_LIMIT:
        fail(path, 1, "is too large", f"at most {FILE_LIMIT} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fail(path, raw.count(b"\n", 0, error.start) + 1, "is not UTF-8", "TOML is UTF-8 text")


def parse(path: Path, text: str) -> dict[str, Any]:
    """Parse TOML. Raises ConfigError with the line of the first syntax error."""
    for number, content in enumerate(text.split("\n"), 1):
        if len(content) > LINE_LIMIT:
            fail(path, number, "line is too long", f"at most {LINE_LIMIT} characters")
    try:
        return tomllib.loads(text)
    except RecursionError:
        fail(path, 1, "is nested too deeply", "tables and arrays a few levels deep")
    except ValueError as error:  # TOMLDecodeError, and int() of thousands of digits
        message = str(error)
        match = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", message)
        line = int(match[1]) if match and match[1] else text.count("\n") + 1 if match else 1
        fail(path, line, one_line(message[: match.start()] if match else message), "TOML 1.0")
