"""How a stream is to be decoded, what decodes it, and what has come in so far. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.ports import Decoder
from agent.video.health import Health, Rules
from agent.video.steps import Form

_KNOWN = 32


@dataclass(slots=True)
class Running:
    """The decoder in use; `form` is that of the last packet it was given, `first` until it is given one."""

    name: str
    decoder: Decoder
    health: Health
    form: Form | None
    first: bool = True
    refused: int = -1
    """The last packet that it refused."""


@dataclass(slots=True)
class Counts:
    """What came in; pictures are counted by whoever takes them."""

    packets: int = 0
    changes: int = 0


@dataclass(frozen=True, slots=True)
class Ways:
    """How to decode: `names` of stages in order (none: the default of the codec), and when one is given up.

    A format that is new is decoded by a decoder opened anew; with `in_place` by the one that is there, if it can do that.
    """

    names: Sequence[str] = ()
    rules: Rules = field(default_factory=Rules)
    in_place: bool = False


class Known:
    """The last formats that were decoded: a camera that flips between some of them is followed in place."""

    def __init__(self) -> None:
        self._forms: dict[Form, None] = {}

    def __contains__(self, form: Form | None) -> bool:
        """Tell whether pictures of this form were decoded lately."""
        return form in self._forms

    def add(self, form: Form | None) -> None:
        """Note one."""
        if form and form not in self._forms:
            if len(self._forms) == _KNOWN:
                self._forms.pop(next(iter(self._forms)))
            self._forms[form] = None
