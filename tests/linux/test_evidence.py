"""What a snapshot reads from the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import GatewardenError
from agent.linux import evidence
from agent.model import Finding

FINDING = Finding(1, "timer_late", "tick", "degraded", "late")


@pytest.mark.kmsg
@pytest.mark.root
def test_this_machine() -> None:
    """Pins that each reader gives something here."""
    found = {name: read(FINDING) for name, read in evidence.readers().items()}
    assert isinstance(found["meminfo"], dict)
    assert isinstance(found["pressure"], dict)
    assert isinstance(found["kmsg"], list)
    assert 0 < len(found["kmsg"]) <= 200


def test_a_log_that_nobody_can_open(tmp_path: Path) -> None:
    """Pins that the reason names the path, and what the broker said if it was asked."""
    with pytest.raises(GatewardenError, match=r"dev/kmsg: No such file or directory$"):
        evidence.kernel_log(None, tmp_path)
    with pytest.raises(GatewardenError, match=r"dev/kmsg: No such file or directory; by the broker: .*no such socket"):
        evidence.kernel_log(tmp_path / "broker.sock", tmp_path)
