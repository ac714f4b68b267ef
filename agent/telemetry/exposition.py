"""OpenMetrics text of what the agent knows, for a scraper on the box. Pure; `prometheus_client` (extra `[metrics]`) renders it.

`render({"timers": snapshot, "agent": {...}, "mqtt": {...}})`: each section gives metrics `gatewarden_<section>_<key>`.

- a number is a gauge, or a counter if it only grows (`COUNTERS`); `_ns`, `_us` become seconds, `_kib` becomes bytes
- a histogram (`Histogram.plain`) is one in seconds, with the same edges in every series, so that they can be added up; its
  exact maximum is a gauge `…_max_seconds`; the sum is not known and is left out
- objects inside a section are rows: the keys that lead there are labels (`LABELS`), as are the texts in them
- `total` holds what is summed over all rows, so it has a name of its own, `gatewarden_<section>_all_…`
- what is unknown (None, NaN) is left out, never 0
"""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

from agent import histogram
from agent.errors import Unsupported
from agent.histogram import FIRST_BIT, Histogram, upper_edge
from agent.model import Data, Json

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PREFIX = "gatewarden"
# What only grows. Anything else is a gauge, which a scraper can take the rate of just as well.
COUNTERS = frozenset(
    (
        *("attempts", "cancels", "count", "deletes", "dropped", "events", "exits", "expiries", "faults", "frees"),
        *("frees_skipped", "involuntary", "lost", "migrations", "oom"),
        *("feeds", "missed", "restarts"),
        *("past_starts", "published", "quarantined", "raised", "run_total_ns", "signalled", "spurious", "starts", "voluntary"),
    )
)
# The names of the keys on the way to a row, by section or section.key; where nothing is said: `key`.
LABELS: Mapping[str, tuple[str, ...]] = {
    "timers.timers": ("function",),
    "conservation.counters": ("counter",),
    "run_queue.processes": ("pid",),
    "softirq": ("vector", "cpu"),
    "irq": ("line",),
    "workload": ("workload",),
    "watchdog": ("watchdog",),
}
EDGES = range(0, 4 * (38 - FIRST_BIT), 8)  # every second octave: 128 ns, 512 ns, 2 µs … 137 s
# A set as a bit mask is no quantity, nor is what tells an entry from an earlier one; misses are those of `probe`.
_NO_METRICS = {"cpus", "made", "misses"}
_NO_ROWS = {"found"}  # both sides of each race: for `agentctl race scan`
_NOT_LABELS = {"reason", "remedy", "schema", "state", "summary", "record"}
_UNITS = {"_ns": ("_seconds", 1e-9), "_us": ("_seconds", 1e-6), "_kib": ("_bytes", 1024.0)}
_NAME = re.compile(r"[^a-zA-Z0-9_]+")


class _Page:
    """The families so far; `collect` is what prometheus_client asks a registry for."""

    def __init__(self, metric: Any) -> None:
        self._metric = metric
        self._families: dict[str, Any] = {}
        self._seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()

    def collect(self) -> Iterator[Any]:
        """Give all families."""
        return iter(self._families.values())

    def add(self, name: str, kind: str, suffix: str, labels: Mapping[str, str], value: float) -> None:
        """Add one sample; a second one of the same name and labels, or of another type, is left out."""
        family = self._families.setdefault(name, self._metric(name, f"See docs/telemetry.md ({kind}).", kind))
        key = name + suffix, tuple(sorted(labels.items()))
        if family.type == kind and key not in self._seen:
            self._seen.add(key)
            family.add_sample(name + suffix, dict(labels), value)


def lacks() -> Unsupported | None:
    """Give why `render` cannot work here, without importing what it would need; None if it can."""
    if importlib.util.find_spec("prometheus_client") is not None:
        return None
    return Unsupported("OpenMetrics needs prometheus_client", f"{sys.executable} -m pip install prometheus-client")


def render(sections: Mapping[str, Data]) -> bytes:
    """Give the text. Raises Unsupported without the extra `[metrics]`."""
    if lacking := lacks():
        raise lacking
    from prometheus_client import Metric  # noqa: PLC0415 - 4 MiB that only this endpoint needs
    from prometheus_client.openmetrics.exposition import generate_latest  # noqa: PLC0415

    page = _Page(Metric)
    for section, data in sections.items():
        _section(page, section, data)
    text: bytes = cast("Any", generate_latest)(page)
    return text


def _section(page: _Page, section: str, data: Data) -> None:
    texts = {_clean(key): value for key, value in data.items() if isinstance(value, str) and key not in _NOT_LABELS - {"state"}}
    if texts:
        page.add(f"{PREFIX}_{_clean(section)}", "info", "_info", texts, 1.0)
    _row(page, _clean(section), {}, data)
    _inner(page, section, (), data)


def _inner(page: _Page, section: str, path: tuple[str, ...], node: Data) -> None:
    for key, value in node.items():
        if isinstance(value, dict) and not _is_histogram(value) and key not in _NO_ROWS:
            name, labels = _place(section, (*path, key))
            texts = _texts(value)
            _row(page, name, {**texts, **labels}, value)
            _inner(page, section, (*path, key), value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict) and (texts := _texts(item)):
                    _row(page, _clean(f"{section}_{key}"), texts, item)


def _place(section: str, path: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Give the metric prefix and the labels of the row at `path`."""
    if path[0] == "total":
        return f"{_clean(section)}_all", {"key": "/".join(path[1:])} if path[1:] else {}
    names, keys = LABELS.get(f"{section}.{path[0]}"), path[1:]
    if names is None:
        names, keys = LABELS.get(section, ()), path
    labels = dict(zip(names, keys, strict=False))
    rest = keys[len(names) :]
    return _clean(section), {**labels, "key": "/".join(rest)} if rest else labels


def _row(page: _Page, name: str, labels: Mapping[str, str], row: Data) -> None:
    for key, value in row.items():
        metric = f"{PREFIX}_{name}_{_clean(key)}"
        if isinstance(value, dict) and _is_histogram(value):
            _histogram(page, metric, labels, histogram.from_plain(value))
        elif isinstance(value, int | float) and key not in _NO_METRICS:
            _number(page, metric, key, labels, float(value))
        elif key == "state" and isinstance(value, str) and labels:
            page.add(metric, "gauge", "", {**labels, "state": value}, 1.0)


def _number(page: _Page, metric: str, key: str, labels: Mapping[str, str], value: float) -> None:
    if not math.isfinite(value):
        return
    for unit, (name, factor) in _UNITS.items():
        if metric.endswith(unit):
            metric, value = metric.removesuffix(unit) + name, value * factor
            break
    if key in COUNTERS and value >= 0:
        page.add(metric, "counter", "_total", labels, value)
    else:
        page.add(metric.removesuffix("_total"), "gauge", "", labels, value)


def _histogram(page: _Page, metric: str, labels: Mapping[str, str], values: Histogram) -> None:
    if min(values.counts) < 0 or not values.count:
        return
    for index in EDGES:
        edge = {**labels, "le": repr(upper_edge(index) / 1e9)}
        page.add(f"{metric}_seconds", "histogram", "_bucket", edge, float(sum(values.counts[: index + 1])))
    page.add(f"{metric}_seconds", "histogram", "_bucket", {**labels, "le": "+Inf"}, float(values.count))
    page.add(f"{metric}_max_seconds", "gauge", "", labels, values.max_ns / 1e9)


def _texts(row: Data) -> dict[str, str]:
    return {_clean(key): value for key, value in row.items() if isinstance(value, str) and key not in _NOT_LABELS}


def _is_histogram(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("buckets"), dict) and "max" in value


def _clean(name: str) -> str:
    """Give a name that OpenMetrics allows."""
    cleaned = _NAME.sub("_", name).strip("_") or "x"
    return cleaned if not cleaned[0].isdigit() else f"n{cleaned}"
