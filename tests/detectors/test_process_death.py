"""process_death on replayed events."""

from __future__ import annotations

import pytest

from agent.detectors import process_death
from tests.detectors.replay import event, replay, states


@pytest.mark.parametrize(
    ("data", "expected", "summary"),
    [
        ({"code": 0}, [], ""),
        ({"code": 3}, [("sleep", "degraded")], "sleep ended with code 3"),
        ({"signal": 9}, [("sleep", "degraded")], "sleep was killed by signal 9"),
        ({"signal": 11, "core": True}, [("sleep", "critical")], "sleep was killed by signal 11 and dumped core"),
        ({"signal": 9, "oom": True}, [("sleep", "critical")], "sleep was killed for lack of memory"),
        ({"code": 0, "workload": "w"}, [("w", "degraded")], "w ended with code 0"),
        ({"code": 1, "workload": "w"}, [("w", "critical")], "w ended with code 1"),
        ({"signal": 9, "workload": "w"}, [("w", "critical")], "w was killed by signal 9"),
        ({"signal": 9, "workload": "w", "required": False}, [("w", "degraded")], "w was killed by signal 9"),
    ],
)
def test_how_grave_an_exit_is(data: dict[str, object], expected: list[tuple[str, str]], summary: str) -> None:
    """Each row of the table at the top of the detector."""
    exit_data: dict[str, object] = {
        "pid": 1,
        "comm": "sleep",
        "code": 0,
        "signal": 0,
        "core": False,
        "oom": False,
        "workload": None,
    }
    found = replay(process_death.make(process_death.Options()), [event(1, "proc.exit", "sleep", **(exit_data | data))])
    assert states(found) == expected
    assert [finding.summary for finding in found] == [summary] * len(expected)


def test_a_crash_loop_is_critical_and_ends() -> None:
    """Five deaths of one name in five minutes are critical; two quiet minutes end the finding."""
    deaths = [event(s, "proc.exit", "ffmpeg", comm="ffmpeg", code=1) for s in range(0, 100, 20)]
    found = replay(process_death.make(process_death.Options()), deaths, until=400)
    assert states(found) == [("ffmpeg", "degraded"), ("ffmpeg", "critical"), ("ffmpeg", "ok")]


def test_a_second_death_after_recovery_is_told_again() -> None:
    """A finding that ended is raised anew."""
    deaths = [event(s, "proc.exit", "ffmpeg", comm="ffmpeg", signal=9) for s in (0, 1000)]
    found = replay(process_death.make(process_death.Options()), deaths, until=2000)
    assert states(found) == [("ffmpeg", "degraded"), ("ffmpeg", "ok")] * 2


def test_storm_is_bounded() -> None:
    """Ten thousand OOM victims of different names: at most 256 cases and `other`."""
    detector = process_death.make(process_death.Options())
    found = replay(detector, [event(i / 1000, "proc.exit", comm=f"c{i}", signal=9, oom=True) for i in range(10_000)])
    assert len(detector.cases) == len(found) == 257
