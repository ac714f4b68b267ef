"""What the probes themselves cost, from the counters that their hooks keep (struct gw_stats). Pure."""

from __future__ import annotations


def means(known: list[float | None], before: list[dict[str, int]], after: list[dict[str, int]]) -> list[float | None]:
    """Give the ns of one run of each hook: the mean of the runs that were timed between two readings of its counters.

    One run in 64 is timed on each CPU. Where none was, it is what was known before; None if nothing is.
    """
    found: list[float | None] = []
    for index, new in enumerate(after):
        old = before[index] if before else dict.fromkeys(new, 0)
        runs = new["timed_runs"] - old["timed_runs"]
        mean = known[index] if known else None
        found.append((new["timed_ns"] - old["timed_ns"]) / runs if runs > 0 else mean)
    return found


def cost(
    run_ns: list[float | None], before: list[dict[str, int]], after: list[dict[str, int]], cpu_seconds: float
) -> tuple[float | None, float | None]:
    """Give `(ns per event, per cent of all CPU time)` of an interval; None where it cannot be known."""
    events, spent = 0, 0.0
    for mean, old, new in zip(run_ns, before or after, after, strict=True):
        runs = new["runs"] - old["runs"]
        if runs <= 0:
            continue
        if mean is None:
            return None, None
        events += runs
        spent += runs * mean
    if not events:
        return None, 0.0
    return spent / events, 100 * spent / (cpu_seconds * 1e9) if cpu_seconds > 0 else None
