"""Protocols of the open sets, and of what may be done: the stages of the way through the house."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.model import Data, Decision, Event, Finding, Json, Outcome, Sighting


@dataclass(frozen=True, slots=True)
class Hook:
    """One tracepoint that a probe uses.

    Its two programs in the object are `<tracepoint>_btf` (tp_btf) and `<tracepoint>_raw` (raw_tp).
    `signatures` are the parameter lists that the program was written for, as the kernel's BTF tells them (the leading
    `void *` left out): `("bool, task_struct *, task_struct *",)`. Any other list is refused by name.
    A probe still runs, and says so, without a hook that is not `required`.

    With `functions` it is no tracepoint but a kernel function, the first of these names that the kernel has; `tracepoint` is
    then the stem of the programs `<stem>_fentry` and `<stem>_kprobe`. Such a hook is never required (tier A).
    """

    tracepoint: str
    signatures: tuple[str, ...]
    required: bool = True
    functions: tuple[str, ...] = ()


class Maps(Protocol):
    """Read access to the maps of one probe, by their names in the object."""

    def items(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield `(key, value)` of a hash map; entries that vanish meanwhile are left out."""
        ...

    def percpu(self, name: str, index: int) -> Sequence[bytes]:
        """Give the value of one entry of a per-CPU array, one for each possible CPU."""
        ...

    def array(self, name: str) -> memoryview:
        """Give a plain array as one block of bytes, in place or copied; its end may be padded to a page."""
        ...

    def replace(self, name: str, items: Mapping[bytes, bytes]) -> None:
        """Make a small steering map (a watch set) hold exactly `items`."""
        ...


class Probe(Protocol):
    """A module in `agent/probes/`: what it looks at, and how its bytes read. It opens and calls nothing itself.

    Modules satisfy this protocol as they are (functions and constants at module level).
    """

    @property
    def NAME(self) -> str:  # noqa: N802 - a module constant
        """File stem = config key = metric prefix = BPF object."""
        ...

    @property
    def HOOKS(self) -> tuple[Hook, ...]:  # noqa: N802
        """Its tracepoints, in the order of the `stats` map's keys."""
        ...

    @property
    def STEERED(self) -> tuple[str, ...]:  # noqa: N802
        """Names of the maps, besides `ctl`, that `steer` fills: agentd may write these, and no others."""
        ...

    @property
    def Options(self) -> type:  # noqa: N802
        """Frozen dataclass of its `[probes.<name>]` section, every field with a default."""
        ...

    def steer(self, options: object, maps: Maps) -> bytes:
        """Give the `ctl` struct (first member `enabled` = 1) for `options`, after filling watch sets in `maps`."""
        ...

    def sighting(self, record: memoryview) -> Sighting:
        """Read one ring buffer record. Raises ValueError on a record that is too short or of an unknown kind."""
        ...

    def snapshot(self, maps: Maps) -> Data:
        """Read the cumulative aggregates as plain JSON; histograms as `Histogram.plain`."""
        ...

    def report(self, before: Data | None, after: Data) -> Data:
        """Give what happened between two snapshots (since the load if there is no `before`), for people and machines."""
        ...


class Link(Protocol):
    """A module in `agent/probes/` called `<peer>_link`: it reads what a peer process or device tells, not the kernel.

    A link has no BPF object, no section of `[probes]` and no switch: it runs where its peer is configured.
    """

    @property
    def NAME(self) -> str:  # noqa: N802 - a module constant
        """File stem = source of its events."""
        ...

    def sightings(self, message: Data) -> Iterable[Sighting]:
        """Read one message of the peer. Raises ValueError on one that is not of the protocol's form."""
        ...


class Standing(Protocol):
    """What a probe module may have besides, as `standing`: for what can go on without an end that would tell of it."""

    def __call__(self, maps: Maps, who: Callable[[int], tuple[int, str] | None]) -> Mapping[str, Sighting]:
        """Give what goes on now, by a key that names the occurrence; `who` tells (tgid, comm) of a task that is still there."""
        ...


class Detector(Protocol):
    """Concludes. Pure: it holds its own state, is handed the time, and calls nothing."""

    @property
    def name(self) -> str:
        """File stem = config key."""
        ...

    def see(self, event: Event) -> Iterable[Finding]:
        """Take one event in; give the findings that it changes."""
        ...

    def tick(self, now_ns: int) -> Iterable[Finding]:
        """Let time pass (about every 10 s): findings end when their cause has been quiet for long enough."""
        ...


class Policy(Protocol):
    """Decides. Pure."""

    def decide(self, finding: Finding) -> Iterable[Decision]:
        """Give the actions that `finding` calls for now, within cool-downs and budgets."""
        ...

    def tick(self, now_ns: int) -> Iterable[Decision]:
        """Let time pass: what a cool-down held back may be due now."""
        ...


class Timed(Protocol):
    """What a detector or a policy may have besides: it is asked to `tick` at that time too, not only every 10 s."""

    def next_due_ns(self) -> int | None:
        """Give the time at which something will have changed if nothing happens before; None if nothing will."""
        ...


class Remembers(Protocol):
    """What a detector or a policy may have besides: what it knows outlives agentd, as plain JSON in `state_dir`."""

    def plain(self, now_ns: int) -> Data:
        """Give what is to be kept; times in it are CLOCK_MONOTONIC, beside `now_ns`."""
        ...

    def restore(self, data: Json, now_ns: int) -> None:
        """Take it back, from this boot or an earlier one. Raises StoreError, and takes nothing, if it is not of its form."""
        ...


class Action(Protocol):
    """Does one thing to the machine. Never raises: a failure is an Outcome too."""

    def __call__(self, decision: Decision) -> Outcome:
        """Run it, bounded in time."""
        ...
