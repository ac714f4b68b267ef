"""What a verb of the broker is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from agent.errors import BadRequest
from agent.model import Json


class Given(NamedTuple):
    """What a verb gives: a result, and a file descriptor to hand over."""

    result: Json
    fd: int | None = None


@dataclass(frozen=True, slots=True)
class Verb:
    """`run` is called with exactly the arguments named here, each as its check gave it; a check raises BadRequest."""

    arguments: Mapping[str, Callable[[Json], object]]
    run: Callable[..., Given]


def one_of(name: str, *words: str) -> Callable[[Json], str]:
    """Give the check of an argument that is one of `words`."""

    def check(value: Json) -> str:
        if value not in words or not isinstance(value, str):
            raise BadRequest(f"{name}: want {', '.join(words[:-1])} or {words[-1]}")
        return value

    return check
