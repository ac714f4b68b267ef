"""Ways to choose a deadline, compared on the recorded traces: false kills beside the time in which a hang is found. Pure."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.detectors._adaptive import FLOOR_S, HALF_LIFE_S, MEMORY, Estimate, bounds
from agent.detectors._starvation import HEALTHY_SHARE, STRETCH, Totals, direct_s, starved_s
from tests.detectors.traces import Trace, joined, load, pause

FIRST_S = 10.0
WITHIN = bounds("run", FIRST_S, None, None)
DAY = 10  # traces in a row that stand for a day of work


class Rule(Protocol):
    """One way: learns from healthy intervals, gives the deadline."""

    def deadline_s(self) -> float:
        """Give it."""
        ...

    def learn(self, interval_s: float) -> None:
        """Take one interval in."""
        ...

    def missed(self) -> None:
        """Hear that its deadline was missed."""
        ...


class Unmoved:
    """What a rule without a back-off does after a miss."""

    def missed(self) -> None:
        """Do nothing."""


@dataclass
class Fixed(Unmoved):
    """Three times what is usual: the median of the first eight intervals."""

    seen: list[float] = field(default_factory=list)

    def deadline_s(self) -> float:
        """Give it."""
        return max(FLOOR_S, 3 * statistics.median(self.seen)) if len(self.seen) >= 8 else FIRST_S

    def learn(self, interval_s: float) -> None:
        """Remember the first eight."""
        if len(self.seen) < 8:
            self.seen.append(interval_s)


@dataclass
class Phi(Unmoved):
    """phi-accrual over 200 intervals, normal distribution, least deviation 100 ms (Hazelcast's example values)."""

    threshold: float = 8.0
    window: deque[float] = field(default_factory=lambda: deque(maxlen=200))
    quantile: float = 0.0
    span: float = 0.0

    def __post_init__(self) -> None:
        """Turn the threshold into deviations: phi = -log10(1 - F)."""
        self.quantile = -statistics.NormalDist().inv_cdf(10**-self.threshold)

    def deadline_s(self) -> float:
        """Give the silence at which phi reaches the threshold."""
        if len(self.window) < 8 or self.span < 30:
            return FIRST_S
        mean = statistics.fmean(self.window)
        deviation = max(0.1, statistics.pstdev(self.window, mean))
        return max(FLOOR_S, mean + self.quantile * deviation)

    def learn(self, interval_s: float) -> None:
        """Move the window on."""
        self.window.append(interval_s)
        self.span += interval_s


@dataclass
class Rto(Unmoved):
    """TCP's own: mean + 4 x deviation, nothing held (RFC 6298)."""

    mean: float = 0.0
    deviation: float = 0.0
    count: int = 0
    span: float = 0.0

    def deadline_s(self) -> float:
        """Give it."""
        return max(FLOOR_S, self.mean + 4 * self.deviation) if self.count >= 8 and self.span >= 30 else FIRST_S

    def learn(self, interval_s: float) -> None:
        """Weigh it in."""
        if self.count:
            error = interval_s - self.mean
            self.deviation += (abs(error) - self.deviation) / 4
            self.mean += error / 8
        else:
            self.mean, self.deviation = interval_s, interval_s / 2
        self.count, self.span = self.count + 1, self.span + interval_s


@dataclass
class Held:
    """What agentd does (`agent/detectors/_adaptive.py`)."""

    estimate: Estimate = field(default_factory=Estimate)

    def deadline_s(self) -> float:
        """Give it."""
        return self.estimate.deadline_s(WITHIN)

    def learn(self, interval_s: float) -> None:
        """Pass it on."""
        self.estimate.learn(interval_s, WITHIN)

    def missed(self) -> None:
        """Back off."""
        self.estimate.missed(WITHIN)


@dataclass
class HeldPhi(Phi):
    """phi-accrual as the target of the same slow narrowing that agentd has."""

    held: float = FIRST_S

    def deadline_s(self) -> float:
        """Give what is held."""
        return max(FLOOR_S, self.held)

    def learn(self, interval_s: float) -> None:
        """Widen at once, narrow slowly."""
        super().learn(interval_s)
        target = super().deadline_s()
        if self.span >= 30:
            half_life = max(MEMORY * self.span, HALF_LIFE_S[0])
            self.held = max(target, self.held + (target - self.held) * (1 - 0.5 ** (interval_s / half_life)))

    def missed(self) -> None:
        """Back off."""
        self.held = max(self.held, min(2 * self.held, FIRST_S))


# name, how to make one, whether starvation is subtracted
RULES: tuple[tuple[str, Callable[[], Rule], bool], ...] = (
    ("fixed 3x", Fixed, False),
    ("phi-accrual 8", Phi, False),
    ("phi-accrual 8, starvation subtracted", Phi, True),
    ("phi-accrual 12, starvation subtracted", lambda: Phi(12.0), True),
    ("phi-accrual 8 held, starvation subtracted", HeldPhi, True),
    ("TCP RTO", Rto, False),
    ("TCP RTO, starvation subtracted", Rto, True),
    ("TCP RTO held, starvation subtracted", Held, True),
)
OURS = RULES[-1][0]


def scenes() -> Mapping[str, Trace]:
    """Give what each rule is put through: the traces as recorded, and with injected stalls that are nobody's fault."""
    calm = load("camera_idle")
    found = {
        name: joined([load(name)] * DAY)
        for name in (
            "camera_idle",
            "camera_overload",
            "frames_idle",
            "frames_overload",
            "collector_idle",
            "collector_overload",
            "decoder_idle",
            "decoder_overload",
            "disk_idle",
            "disk_stalls",
            "slow_idle",
            "slow_overload",
        )
    }
    found["load comes and goes"] = joined([calm, load("decoder_overload"), calm, load("collector_overload")] * 3)
    found["4 s collection every 5 min"] = joined([*[calm] * 4, pause(4, cpu_some=0.1, run=0.9)] * DAY)
    found["disk stands 12 s"] = joined([*[calm] * 3, pause(12, io_full=0.95)] * DAY)
    found["CPU starved 15 s"] = joined([*[calm] * 3, pause(15, cpu_some=1.0, wait=0.9, run=0.1)] * DAY)
    found["its peer's CPU starved 5 s"] = joined([*[calm] * 3, pause(5, cpu_some=1.0)] * DAY)
    return found


@dataclass(frozen=True, slots=True)
class Score:
    """Of one rule in one scene: false kills, and the seconds of silence after which a hang at its end is found."""

    kills: int
    found_s: float


def play(rule: Rule, trace: Trace, *, subtracts: bool) -> Score:
    """Put one rule through one scene. What was killed for is not learned; the rule goes on with the next process."""
    kills, heard = 0, 0.0
    for beat in trace.beats:
        interval, before, now = beat - heard, _totals(trace, heard), _totals(trace, beat)
        limit = rule.deadline_s()
        excuse = min(starved_s(before, now, interval), (STRETCH - 1) * limit) if subtracts else 0.0
        if interval - excuse > limit:
            kills += 1
            rule.missed()
        elif not subtracts or direct_s(before, now, interval) <= HEALTHY_SHARE * max(interval, 1e-9):
            rule.learn(interval)
        heard = beat
    return Score(kills, rule.deadline_s())


def _totals(trace: Trace, second: float) -> Totals:
    some, memory, io, wait, run = trace.at(second)
    return Totals(some, memory, io, wait, run, round(second * 1e9))


def table() -> dict[str, dict[str, Score]]:
    """Give the score of every rule in every scene."""
    found = scenes()
    return {
        name: {scene: play(make(), trace, subtracts=subtracts) for scene, trace in found.items()}
        for name, make, subtracts in RULES
    }


def lines(scores: Mapping[str, Mapping[str, Score]]) -> Iterator[str]:
    """Render the table (rules as columns, `false kills / seconds until a hang is found`), then the plot."""
    names = list(scores)
    for index, name in enumerate(names):
        yield f"    {chr(65 + index)}  {name}"
    yield ""
    yield f"    {'scene':<28}" + "".join(f"{chr(65 + index):>12}" for index in range(len(names)))
    for scene in next(iter(scores.values())):
        cells = (f"{scores[name][scene].kills} / {scores[name][scene].found_s:.1f}" for name in names)
        yield f"    {scene:<28}" + "".join(f"{cell:>12}" for cell in cells)
    totals = [
        (sum(score.kills for score in row.values()), statistics.fmean(score.found_s for score in row.values()))
        for row in scores.values()
    ]
    yield f"    {'all / mean':<28}" + "".join(f"{f'{kills} / {found:.1f}':>12}" for kills, found in totals)
    yield ""
    yield from plot([(chr(65 + index), kills, found) for index, (kills, found) in enumerate(totals)])


def plot(points: Sequence[tuple[str, int, float]], width: int = 60, height: int = 10) -> Iterator[str]:
    """Draw false kills (to the right, logarithmic) over the mean time in which a hang is found (upwards)."""
    most = max(found for _, _, found in points) * 1.05
    right = max(1.0, *(math.log1p(kills) for _, kills, _ in points))
    rows = [[" "] * (width + 1) for _ in range(height + 1)]
    for letter, kills, found in points:
        row, column = height - round(found / most * height), round(math.log1p(kills) / right * width)
        while column < width and rows[row][column] != " ":
            column += 1
        rows[row][column] = letter
    for index, cells in enumerate(rows):
        yield f"    {most * (height - index) / height:5.1f} s |" + "".join(cells).rstrip()
    yield f"    {'':>7} +" + "-" * (width + 1)
    largest = max(kills for _, kills, _ in points)
    yield f"    {'':>8} 0 false kills{f'{largest} (logarithmic)':>{width - 12}}"
