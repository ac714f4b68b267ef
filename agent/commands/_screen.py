"""The terminal: colour where it is wanted, ASCII where nothing else can be shown, nothing that a peer could steer it with."""

from __future__ import annotations

import contextlib
import json
import os
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from agent.model import Json

_STYLES = {
    "ok": "32",
    "degraded": "33",
    "critical": "1;31",
    "unknown": "35",
    "bold": "1",
    "dim": "2",
    "bar": "36",
}
_ASCII = str.maketrans({"●": "*", "→": "->", "·": "-", "…": "~", "─": "-", "│": "|"})
_PROBE = "●→·…─│█▏"


def clean(text: object) -> str:
    """Give `text` as one line without control, formatting (bidi) or surrogate characters: those are shown as escapes."""
    raw = str(text)
    if raw.isascii() and raw.isprintable():
        return raw
    return "".join(_escaped(char) if unicodedata.category(char)[0] == "C" else char for char in raw)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode()


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a verb writes. `width` is in columns, 0 where lines may be of any length (a pipe or a file)."""

    out: TextIO
    err: TextIO
    tty: bool
    colour: bool
    unicode: bool
    width: int

    @staticmethod
    def of(out: TextIO, err: TextIO, environ: Mapping[str, str]) -> Screen:
        """Look at the two streams and at NO_COLOR, TERM and COLUMNS."""
        tty = out.isatty()
        colour = tty and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        return Screen(out, err, tty, colour, _can_encode(out.encoding), _width(out, tty, environ))

    def paint(self, text: str, style: str) -> str:
        """Give `text` in the colour of `style` (a state, or bold, dim, bar), as it is without colours."""
        code = _STYLES.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code and text else text

    def plain(self, text: str) -> str:
        """Give our own signs (● → · …) in ASCII where the stream's encoding lacks them."""
        return text if self.unicode else text.translate(_ASCII)

    def line(self, text: str = "") -> None:
        """Write one line of the result."""
        self.out.write(self.plain(text) + "\n")

    def json(self, value: Json, *, compact: bool = False) -> None:
        """Write the result for a machine: pure ASCII, indented, or on one line."""
        text = json.dumps(value, indent=None if compact else 2, separators=(",", ":") if compact else None)
        self.out.write(text + "\n")
        self.out.flush()

    def note(self, text: str) -> None:
        """Say something beside the result (stderr), if anybody takes it."""
        with contextlib.suppress(OSError):
            self.err.write(self.plain(clean(text)) + "\n")

    def progress(self, text: str) -> None:
        """Show on stderr what is being waited for, in place; nothing unless a person looks. An empty text removes it."""
        if self.err.isatty():
            self.err.write(f"\r\x1b[K{self.plain(text)}")
            self.err.flush()

    def clear(self) -> None:
        """Begin a new frame of `--watch`."""
        if self.tty:
            self.out.write("\x1b[H\x1b[2J")


def _can_encode(encoding: str | None) -> bool:
    try:
        _PROBE.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _width(out: TextIO, tty: bool, environ: Mapping[str, str]) -> int:  # noqa: FBT001 - a fact, not a switch
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return min(int(columns), 1000)
    if not tty:
        return 0
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except OSError:
        return 80
