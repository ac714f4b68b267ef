"""Taking secrets out of what leaves this machine. Pure.

Two nets: what the configuration names as a secret is searched for everywhere, and what looks like one (the credentials of a
URL, `password=…`) is taken out wherever it stands. Hides rather too much than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.config import redact
from agent.model import Data, Json

HIDDEN = "***"
# Shorter ones are hidden where they are configured, but not searched for: they would be found in half of all words.
SHORTEST = 4
_SECRET_KEY = re.compile(r"pass|pwd|secret|token|credential|api_?key|private_?key|auth|cookie|user_?name", re.IGNORECASE)
_PATH_KEY = re.compile(r"_(?:file|dir|path)$", re.IGNORECASE)
_ASSIGNMENT = re.compile(
    r"(?P<key>[\w-]*(?:pass|pwd|secret|token|credential|api[_-]?key|auth)[\w-]*[\"']?\s*(?:[=:]|\s)\s*)"
    r"(?P<value>\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"'&;,]+)",
    re.IGNORECASE,
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://([^\s\"'<>]*)@", re.IGNORECASE)


def secrets(config: Data) -> frozenset[str]:
    """Give every configured secret that is worth searching for: values of secret keys, of `env`, and credentials in URLs."""
    return frozenset(text for text in _found(config, secret=False) if len(text) >= SHORTEST and text != HIDDEN)


def _found(value: Json, *, secret: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _found(item, secret=secret or is_secret(key))
    elif isinstance(value, list):
        for item in value:
            yield from _found(item, secret=secret)
    elif isinstance(value, str):
        if secret:
            yield value
        for match in _URL.finditer(value):
            yield match[1]
            yield from match[1].partition(":")[::2]
        yield from (match["value"].strip("\"'") for match in _ASSIGNMENT.finditer(value))


def is_secret(key: str) -> bool:
    """Say whether what stands under `key` is one: `env` as a whole is, a path to a secret is not."""
    return key == "env" or bool(_SECRET_KEY.search(key) and not _PATH_KEY.search(key))


def redacted(value: Json, known: frozenset[str]) -> Data:
    """Give an object with everything secret in it hidden, keys of objects included."""
    found = _hidden(value, known, secret=False)
    return found if isinstance(found, dict) else {}


def _hidden(value: Json, known: frozenset[str], *, secret: bool) -> Json:
    if isinstance(value, dict):
        return {text(key, known): _hidden(item, known, secret=secret or is_secret(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_hidden(item, known, secret=secret) for item in value]
    if secret and value is not None:
        return HIDDEN
    return text(value, known) if isinstance(value, str) else value


def text(raw: str, known: frozenset[str]) -> str:
    """Give `raw` without the `known` secrets and without what looks like one."""
    for secret in sorted(known, key=len, reverse=True):
        raw = raw.replace(secret, HIDDEN)
    return _ASSIGNMENT.sub(rf"\g<key>{HIDDEN}", redact(raw))
