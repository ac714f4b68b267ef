"""Taking secrets out of what leaves this machine. Pure.

Of a configuration, arguments of commands, values of `env`, and user info and query values of URLs are not shown at all: any of
them may be a secret. For everything else two nets: what the configuration holds there, or names as a secret, is searched for,
and what looks like a secret (`password=…`, `Authorization: …`) is taken out. Hides rather too much than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.config import redact
from agent.model import Data, Json

HIDDEN = "***"
# Shorter ones are hidden where they are configured, but not searched for: they would be found in half of all words.
SHORTEST = 4
# Bounds the work of the expressions below, whose time grows with the square of a line that is made for it.
LONGEST_LINE = 4096
_BLOCK = 256  # lines at once: fewer is slow, and more would hold up the other threads for too long
_WORDS = r"password|passwd|passphrase|secret|credential|api[_-]?key|private[_-]?key"
_SECRET_KEY = re.compile(rf"{_WORDS}|(?:^|[_-])(?:pass|pwd|token|auth|cookie|user[_-]?name)s?(?:$|[_-])", re.IGNORECASE)
_PATH_KEY = re.compile(r"_(?:file|dir|path)$", re.IGNORECASE)
_VALUE = r"(?P<value>\"(?:[^\"\\\n]|\\.)*\"?|'[^'\n]*'?|[^\s\"'&;,]+)"
_ASSIGNMENT = re.compile(
    rf"(?P<key>(?:{_WORDS}|pass|pwd|token|auth)[\w-]{{0,40}}[\"']?[ \t]{{0,8}}[=:][ \t]{{0,8}}){_VALUE}", re.IGNORECASE
)
_OPTION = re.compile(
    rf"(?P<key>(?:^|\s)--?[\w-]{{0,40}}(?:{_WORDS}|token|pwd|key)[\w-]{{0,40}}[ \t]{{1,8}}){_VALUE}",
    re.IGNORECASE | re.MULTILINE,
)
_HEADER = re.compile(r"(?P<key>\b(?:authorization|cookie)[\"']?[ \t]{0,8}[=:]).+", re.IGNORECASE)
_BEARER = re.compile(r"(?P<key>\bbearer[ \t]{1,8})[^\s\"']+", re.IGNORECASE)
_RULES = (_HEADER, _BEARER, _ASSIGNMENT, _OPTION)
# What stands in a command line and is surely no secret: plain words and options, numbers and sizes, absolute paths.
_PLAIN = re.compile(r"-{0,2}[a-z_.:-]*|[0-9.x:/-]*|(?:/[\w.-]+)+/?")
_ATTACHED = re.compile(r"-[A-Za-z0-9]|--?[\w-]+=|[\w-]+[=:]")  # -pVALUE, --key=VALUE, KEY=VALUE, Header: VALUE
_URL = re.compile(r"[a-z][a-z0-9+.-]*://([^\s\"'<>]*)@", re.IGNORECASE)


def secrets(config: Data) -> frozenset[str]:
    """Give every configured secret that is worth searching for.

    Values of secret keys and of `env`, credentials and query values of URLs, and arguments of commands that are no plain words.
    """
    return frozenset(text for text in _found(config, secret=False) if len(text) >= SHORTEST and text != HIDDEN)


def _found(value: Json, *, secret: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _found(item, secret=secret or is_secret(key))
            if key == "command" and isinstance(item, list):
                yield from (part for argument in item[1:] for part in _telling(str(argument)))
    elif isinstance(value, list):
        for item, follows in zip(value, _after_option(value), strict=True):
            yield from _found(item, secret=secret or follows)
    elif secret and value is not None and not isinstance(value, bool):
        yield str(value)
    if isinstance(value, str):
        for match in _URL.finditer(value):
            yield from (match[1], *match[1].partition(":")[::2])
        yield from _queried(value)
        yield from (match["value"].strip("\"'") for rule in (_ASSIGNMENT, _OPTION) for match in rule.finditer(value))


def _queried(text: str) -> Iterator[str]:
    """Give the values in the queries of URLs, and keys that have none."""
    for word in text.split():
        path, _, query = word.partition("?")
        if "://" in path and query:
            yield query
            yield from (part.partition("=")[2] or part for part in re.split("[?&;#]", query))


def _telling(argument: str) -> Iterator[str]:
    """Give what in an argument may be a secret: it as a whole, its words, what follows an option in the same word."""
    words = {argument, *argument.split()}
    words |= {word[match.end() :] for word in words if (match := _ATTACHED.match(word))}
    yield from (word.strip() for word in words if not _PLAIN.fullmatch(word.strip()))


def is_secret(key: str) -> bool:
    """Say whether what stands under `key` is one: `env` as a whole is, a path to a secret is not."""
    return key == "env" or bool(_SECRET_KEY.search(key) and not _PATH_KEY.search(key))


def _after_option(items: list[Json]) -> list[bool]:
    """Say of each word of a command line whether it is the value of an option like `--password`."""
    options = [
        isinstance(item, str) and item.startswith("-") and "=" not in item and is_secret(item.lstrip("-")) for item in items
    ]
    return [False, *options[:-1]] if items else []


def configuration(plain: Data) -> Data:
    """Give a configuration fit to be shown: of commands the program and how many arguments, of `env` the keys, bare URLs."""
    known = secrets(plain)
    rows = plain.get("workload")
    shown: Data = {}
    if isinstance(rows, list):
        shown["workload"] = [_workload(row) if isinstance(row, dict) else row for row in rows]
    return redacted(plain | shown, known)


def _workload(row: Data) -> Data:
    command = row.get("command")
    if not isinstance(command, list) or len(command) < 2:
        return row
    return row | {"command": [command[0], f"{HIDDEN} ({len(command) - 1} argument{'s' * (len(command) > 2)})"]}


def redacted(value: Data, known: frozenset[str]) -> Data:
    """Give an object with every secret value in it hidden; its keys are left as they are."""
    return {key: _hidden(item, known, secret=is_secret(key)) for key, item in value.items()}


def _hidden(value: Json, known: frozenset[str], *, secret: bool) -> Json:
    if isinstance(value, dict):
        return {key: _hidden(item, known, secret=secret or is_secret(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_hidden(item, known, secret=secret or after) for item, after in zip(value, _after_option(value), strict=True)]
    if secret and value is not None:
        return HIDDEN
    return text(value, known) if isinstance(value, str) else value


def text(raw: str, known: frozenset[str]) -> str:
    """Give `raw` without the `known` secrets and without what looks like one; of overlong lines the beginning."""
    for secret in sorted(known, key=len, reverse=True):
        raw = raw.replace(secret, HIDDEN)
    lines = [line[:LONGEST_LINE] for line in raw.split("\n")]
    return "\n".join(_lines("\n".join(lines[at : at + _BLOCK])) for at in range(0, len(lines), _BLOCK))


def _lines(block: str) -> str:
    block = redact(block)
    for rule in _RULES:
        block = rule.sub(rf"\g<key>{HIDDEN}", block)
    return block
