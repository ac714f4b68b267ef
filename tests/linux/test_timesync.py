"""Whether the clock is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.linux import timesync


@pytest.mark.parametrize(("left", "expected"), [((), None), (("",), False), (("", "synchronized"), True)])
def test_timesyncd_tells_where_the_kernel_may_not(tmp_path: Path, left: tuple[str, ...], expected: bool | None) -> None:  # noqa: FBT001 - from the table
    """Pins the three answers: no such service, not yet, synchronised."""
    for name in left:
        path = tmp_path / "run/systemd/timesync" / name
        path.touch() if name else path.mkdir(parents=True)
    assert timesync.by_timesyncd(tmp_path) is expected


def test_the_kernel_answers_any_user() -> None:
    """Pins that adjtimex(2) is read where it is allowed: a kernel of the tests refuses nobody."""
    assert timesync.by_kernel() in {True, False}
