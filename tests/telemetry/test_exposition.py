"""The OpenMetrics text, read back by prometheus_client's own parser."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from agent import histogram
from agent.histogram import BUCKETS
from agent.model import Data, Json
from agent.telemetry.exposition import render


def read(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Give all samples by name and labels."""
    families: Any = cast("Any", text_string_to_metric_families)(text.decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def spread(*values: int) -> Json:
    """Give a histogram of `values` ns."""
    counts = [0] * BUCKETS
    for value in values:
        counts[histogram.bucket(value)] += 1
    return histogram.of(counts, max(values, default=0)).plain()


def test_histograms_are_real_ones_in_seconds() -> None:
    """Cumulative buckets with the same edges in every series; the exact maximum beside them."""
    samples = read(render({"timers": {"timers": {"tick": {"kind": "hrtimer", "starts": 3, "late": spread(100, 700, 5000)}}}}))
    labels = (("function", "tick"), ("kind", "hrtimer"))
    buckets = {dict(key[1])["le"]: value for key, value in samples.items() if key[0] == "gatewarden_timers_late_seconds_bucket"}
    assert buckets["1.27e-07"] == 1
    assert buckets["5.11e-07"] == 1
    assert buckets["8.191e-06"] == 3
    assert buckets["+Inf"] == 3
    assert samples["gatewarden_timers_late_max_seconds", labels] == 5000 / 1e9
    assert samples["gatewarden_timers_starts_total", labels] == 3


def test_rows_have_named_labels_and_sums_a_name_of_their_own() -> None:
    """Adding up the series of all rows never counts the total too."""
    data: Data = {"TIMER": {"0": {"count": 1, "raised": 2}}, "total": {"count": 5}}
    samples = read(render({"softirq": data}))
    assert samples["gatewarden_softirq_count_total", (("cpu", "0"), ("vector", "TIMER"))] == 1
    assert samples["gatewarden_softirq_all_count_total", ()] == 5


def test_units_texts_and_states() -> None:
    """Base units; what a section says of itself in words is an info, the state of a list's item a gauge of 1."""
    samples = read(
        render(
            {
                "agent": {"uss_kib": 2, "cpu_pct": 0.5},
                "mqtt": {"state": "connected", "reason": "", "backlog_bytes": 7},
                "health": {"probes": [{"name": "timers", "state": "on", "lost": 4, "reason": "long"}]},
            }
        )
    )
    assert samples["gatewarden_agent_uss_bytes", ()] == 2048
    assert samples["gatewarden_mqtt_info", (("state", "connected"),)] == 1
    assert samples["gatewarden_mqtt_backlog_bytes", ()] == 7
    assert samples["gatewarden_health_probes_lost_total", (("name", "timers"),)] == 4
    assert samples["gatewarden_health_probes_state", (("name", "timers"), ("state", "on"))] == 1


def test_what_is_unknown_is_left_out_never_zero() -> None:
    """None, NaN and an empty histogram give no sample."""
    assert read(render({"agent": {"a": None, "b": float("nan"), "c": spread()}})) == {}


JSONS: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=8), st.dictionaries(st.text(max_size=8), JSONS, max_size=5), max_size=4))
def test_any_payload_renders_to_text_that_parses(sections: dict[str, Data]) -> None:
    """Whatever a future probe puts into its snapshot, the page stays valid."""
    read(render(sections))
