"""What holds for every detector of the folder, whatever it concludes."""

from __future__ import annotations

import importlib
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config.open_sets import available
from agent.detectors._cases import EVIDENCE, SUBJECTS
from agent.model import Data, Event
from agent.ports import Detector

NAMES = available("detectors")
KEYS = (
    "function kind late_us run_us starts budget_us window_ms comm wait_us line count vector "
    "code signal oom core workload cpu_pct budget_pct probes"
)
VALUES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(0, 10**7)
    | st.floats(0, 1e7)
    | st.text(max_size=3)
    | st.dictionaries(st.sampled_from(["a", "b"]), st.none() | st.floats(0, 9), max_size=2)
)


def module(name: str) -> Any:
    """Import one."""
    return importlib.import_module(f"agent.detectors.{name}")


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_the_name(name: str) -> None:
    """File stem = config key = name in findings; options have defaults; the kinds are dotted."""
    detector = module(name).make(module(name).Options())
    assert detector.name == name
    assert is_dataclass(module(name).Options)
    assert all(item.default is not item.default_factory for item in fields(module(name).Options))
    assert all("." in kind for kind in module(name).KINDS)


@pytest.mark.parametrize("name", NAMES)
def test_events_of_other_kinds_pass_by(name: str) -> None:
    """The hub shows every event to every detector: what is not of its kinds moves none."""
    detector: Detector = module(name).make(module(name).Options())
    others = {kind for other in NAMES for kind in module(other).KINDS} - module(name).KINDS
    grave: Data = {
        "late_us": 1e9,
        "wait_us": 1e9,
        "latency_us": 1e9,
        "run_us": 1e9,
        "oom": True,
        "cpu_pct": 99,
        "probes": {"a": 9},
    }
    events = [Event("b", seq, seq, 0.0, "t", kind, "s", "info", grave) for kind in sorted(others) for seq in range(1, 9)]
    assert [finding for item in events for finding in detector.see(item)] == []


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_events_give_well_formed_findings(name: str, data: st.DataObject) -> None:
    """Whatever events carry: no exception; each subject alternates between raised, worse and ended; bounded evidence."""
    detector: Detector = module(name).make(module(name).Options())
    kinds = sorted(module(name).KINDS)
    steps = data.draw(
        st.lists(
            st.tuples(st.integers(0, 90), st.sampled_from(kinds), st.dictionaries(st.sampled_from(KEYS.split()), VALUES)),
            max_size=40,
        )
    )
    now, open_states = 0, dict[str, str]()
    for seq, (seconds, kind, carried) in enumerate(steps, 1):
        now += seconds * 10**9
        findings = [*detector.tick(now), *detector.see(Event("b", seq, now, 0.0, "t", kind, "s", "info", carried))]
        for finding in findings:
            assert finding.detector == name
            assert len(finding.evidence) <= EVIDENCE
            assert finding.state != open_states.get(finding.subject, "ok")
            assert (open_states.get(finding.subject), finding.state) != ("critical", "degraded")
            open_states[finding.subject] = finding.state
    assert len(open_states) <= SUBJECTS + 1
