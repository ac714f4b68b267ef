"""Types of values that several sections of agent.toml share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from annotated_types import Gt, Le, MaxLen

from agent.config.constraints import Pattern

# The longest name that we add to a folder is 20 characters; a unix socket's address holds 107 (unix(7)).
_FOLDER = Pattern(r"/[^\x00-\x1f\x7f]{0,79}", "absolute path of at most 80 characters")
_FILE = Pattern(r"/[^\x00-\x1f\x7f]{1,1023}", "absolute path")
_NAME = Pattern(r"[a-z0-9-]{1,32}", "1 .. 32 of a-z 0-9 -")

Name: TypeAlias = Annotated[str, _NAME]
Folder: TypeAlias = Annotated[Path, _FOLDER]
File: TypeAlias = Annotated[Path, _FILE]
Words: TypeAlias = Annotated[
    tuple[Annotated[str, Pattern(r"[^\x00]{1,4096}", "string of 1 .. 4096 characters")], ...], MaxLen(256)
]
Text: TypeAlias = Annotated[str, Pattern(r"[^\x00]*", "text without NUL")]
Seconds: TypeAlias = Annotated[float, Gt(0), Le(86400)]
HostPort: TypeAlias = Annotated[str, Pattern(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[1-9][0-9]{0,4}", "HOST:PORT")]
