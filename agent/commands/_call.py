"""What a verb is handed: its options, the screen, and the ways to the outside that only an entry point may compose."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.commands._screen import Screen
from agent.model import Data
from agent.place import Place
from agent.place import find as find_place

if TYPE_CHECKING:  # `status` must not pay for it
    from agent.config import Config


class Source(Protocol):
    """Where cumulative snapshots of probes come from: agentd, or objects of our own."""

    def snapshot(self, name: str) -> Data:
        """Give `agent.probes.<name>.snapshot` with `lost` and `t_mono_ns` added."""
        ...


class Loading(Protocol):
    """What became of one probe: `state` is loaded, present or failed."""

    @property
    def probe(self) -> str:
        """Its name."""
        ...

    @property
    def state(self) -> str:
        """Is loaded, present (the same object was pinned already) or failed."""
        ...

    @property
    def reason(self) -> str:
        """Why it failed, or what was left out."""
        ...

    @property
    def remedy(self) -> str:
        """One line that would help."""
        ...


class Loader(Protocol):
    """The module `agent.loader`."""

    def load(self, settings: Config) -> Sequence[Loading]:
        """Load, attach and pin what the configuration enables."""
        ...

    def unload(self, settings: Config) -> Sequence[str]:
        """Remove what is pinned; give the folders removed."""
        ...

    def measuring(self, settings: Config, names: Sequence[str]) -> AbstractContextManager[Source]:
        """Load the probes `names` unpinned for as long as the context lasts."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """One run of one verb. `loader` is called only when objects must be loaded here."""

    options: Namespace
    screen: Screen
    loader: Callable[[], Loader]

    @property
    def config(self) -> Path:
        """The configuration file, whether it exists or not."""
        path: Path = self.options.config
        return path

    @property
    def json(self) -> bool:
        """Whether the output is for a machine."""
        return bool(self.options.json)

    def option(self, name: str) -> Any:
        """Give one of the verb's own options, whose type its parser settled."""
        return getattr(self.options, name)

    def place(self) -> Place:
        """Find the paths that the configuration names. Raises ConfigError."""
        return find_place(self.config)
