"""Lines for the journal: stderr with the priority in front (sd-daemon(3)), `key=value`, no foreign text taken as it is."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import TextIO

from agent.config.constraints import one_line
from agent.model import Json, Severity

VALUE = 240  # characters of one value
LINE = 2000
_LEVELS: Mapping[Severity, int] = {"critical": 2, "error": 3, "warning": 4, "info": 6}
_NOT_A_WORD = re.compile(r'[\s"=]|^$')


def pair(key: str, value: Json) -> str:
    """Give `key=value`: redacted, capped, and in quotes if it would not read as one word."""
    text = one_line(value if isinstance(value, str) else json.dumps(value, default=str), VALUE)
    return f"{key}={json.dumps(text, ensure_ascii=False) if _NOT_A_WORD.search(text) else text}"


class StderrJournal:
    """`ports.Journal` on a text stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def line(self, severity: Severity, message: str, fields: Mapping[str, Json]) -> None:
        """Write one line of at most `LINE` characters. Raises OSError if nobody takes it."""
        text = " ".join([one_line(message, VALUE), *(pair(key, value) for key, value in fields.items())])
        self._stream.write(f"<{_LEVELS[severity]}>{text[:LINE]}\n")
        self._stream.flush()
