"""The keeper's check of its configuration: the result of the child, or an error of ours."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.linux.configcheck import Check
from tests.keepers import LabConfig, open_fds, workload


def test_the_checked_data(lab_config: LabConfig) -> None:
    """Pins that what comes back is the file with all defaults, and that nothing of the check stays behind."""
    before = open_fds()
    plain = Check(lab_config(workload("a", ["x"]))).wait()
    workloads = plain["workload"]
    assert isinstance(workloads, list)
    assert workloads[0]["restart"] == {"burst": 5, "window_s": 60.0}  # type: ignore[index, call-overload]
    assert open_fds() == before


def test_a_file_with_problems(lab_config: LabConfig, capfd: pytest.CaptureFixture[str]) -> None:
    """Pins that the child's problems are on stderr, and the error points there; a missing file is one of them."""
    for path in (lab_config("nonsense = 1\n"), Path("/nonexistent/agent.toml")):
        with pytest.raises(ConfigError, match="problems above"):
            Check(path).wait()
    said = capfd.readouterr().err
    assert "nonsense" in said
    assert "cannot be read" in said


def test_a_check_that_is_killed(lab_config: LabConfig) -> None:
    """Pins that a check without a result is no good result, also if somebody else reaped it."""
    check = Check(lab_config())
    os.kill(check._pid, signal.SIGKILL)
    with pytest.raises(ConfigError, match="killed"):
        check.wait()
    check = Check(lab_config())
    os.kill(check._pid, signal.SIGKILL)
    os.waitpid(check._pid, 0)
    with pytest.raises(ConfigError):
        check.wait()
