"""What a workload whose parent is another than the keeper means for the feeding of the watchdogs."""

from __future__ import annotations

import pytest

from agent.watchdogs.guarding import sign


@pytest.mark.parametrize("parent", ["unit", "container"])
@pytest.mark.parametrize(
    ("state", "how", "seconds"),
    [
        ("running", "reports", 0.0),
        ("backoff", "excused", 20.0),
        ("failed", "excused", 20.0),  # the ladder has its time; a service that stays dead must not be fed for ever
        ("stopped", "silent", 0.0),
        ("unknown", "reports", 0.0),
    ],
)
def test_what_a_service_proves(parent: str, state: str, how: str, seconds: float) -> None:
    """Pins that one which its parent gave up is excused, no report; and that without anybody who tells it counts as alive."""
    assert sign({"parent": parent, "state": state, "deadline_s": None, "margin_s": None}) == (how, seconds)
