"""Facts about watchdogs out of fixture trees of /sys, /proc and /etc."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.linux import watchdogfacts
from agent.linux.watchdogfacts import WatchdogFacts


def written(root: Path, **texts: str) -> None:
    """Write files below `root`; `__` in a name is a slash."""
    for name, text in texts.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_machine_without_one() -> None:
    """Pins that nothing is found, and nothing raised, where there is no class."""
    assert watchdogfacts.read(Path("/nonexistent")) == ()


def test_every_attribute_that_the_kernel_gives(tmp_path: Path) -> None:
    """Pins the files of sysfs-class-watchdog, in the forms of real drivers; what is absent is None."""
    folder = tmp_path / "sys/class/watchdog/watchdog0"
    written(folder, identity="i6300ESB timer\n", state="active\n", timeout="60\n", timeleft="41\n", bootstatus="32\n")
    written(folder, nowayout="0\n", max_timeout="2046\n", options="0x8180\n")
    assert watchdogfacts.read(tmp_path) == (
        WatchdogFacts(
            *("watchdog0", "/dev/watchdog0", "i6300ESB timer", True, 60, None, 41, 2046),
            bootstatus=32,
            nowayout=False,
            options=0x8180,
        ),
    )


def test_several_by_number_and_rubbish_as_unknown(tmp_path: Path) -> None:
    """Pins the order (2 before 10), and that an attribute of another form is as good as absent."""
    for number in (10, 2, 0):
        written(tmp_path / f"sys/class/watchdog/watchdog{number}", identity="Software Watchdog\n", timeout="sixty\n")
    found = watchdogfacts.read(tmp_path)
    assert [one.name for one in found] == ["watchdog0", "watchdog2", "watchdog10"]
    assert {(one.timeout_s, one.hardware, one.running) for one in found} == {(None, False, None)}


def test_a_driver_outside_the_class(tmp_path: Path) -> None:
    """Pins ipmi_watchdog, which makes /dev/watchdog itself; with watchdog0 there, /dev/watchdog is only its second name."""
    written(tmp_path, sys__class__misc__watchdog__dev="10:130\n", sys__module__ipmi_watchdog__refcnt="0\n")
    assert watchdogfacts.read(tmp_path) == (WatchdogFacts("watchdog", "/dev/watchdog", "IPMI"),)
    written(tmp_path, sys__class__watchdog__watchdog0__identity="x\n")
    assert [one.name for one in watchdogfacts.read(tmp_path)] == ["watchdog0"]


def test_ipmi_tells_by_its_device_only_if_it_was_told_to(tmp_path: Path) -> None:
    """Pins the two parameters of the module."""
    written(tmp_path, sys__module__ipmi_watchdog__parameters__preaction="pre_int\n")
    assert not watchdogfacts.ipmi_readable(tmp_path)
    written(tmp_path, sys__module__ipmi_watchdog__parameters__preop="preop_give_data\n")
    assert watchdogfacts.ipmi_readable(tmp_path)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60", 60),
        ("1min 30s", 90),
        ("2min", 120),
        ("500ms", 0.5),
        ("off", 0),
        ("0", 0),
        ("", 0),
        ("default", 1),
        ("3 minutes", 180),
    ],
)
def test_spans_of_systemd(text: str, seconds: float) -> None:
    """Pins the usual spellings of RuntimeWatchdogSec=."""
    assert watchdogfacts.parse_span(text) == seconds


@given(st.text())
def test_any_span_is_a_number(text: str) -> None:
    """Pins that no configuration of somebody else's makes us fail."""
    assert watchdogfacts.parse_span(text) >= 0


def test_systemd_counts_only_where_it_is_the_init_and_by_its_last_word(tmp_path: Path) -> None:
    """Pins main file, drop-ins by name, a later folder in place of an earlier one, comments."""
    written(tmp_path, etc__systemd__system__conf="", **{"etc__systemd__system.conf": "[Manager]\nRuntimeWatchdogSec=20\n"})
    assert watchdogfacts.systemd_s(tmp_path) == 0
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert watchdogfacts.systemd_s(tmp_path) == 20
    written(tmp_path, **{"usr__lib__systemd__system.conf.d__50-w.conf": "[Manager]\nRuntimeWatchdogSec=1min\n"})
    assert watchdogfacts.systemd_s(tmp_path) == 60
    written(
        tmp_path, **{"etc__systemd__system.conf.d__50-w.conf": "[Manager]\n#RuntimeWatchdogSec=9\nRuntimeWatchdogSec=off\n"}
    )
    assert watchdogfacts.systemd_s(tmp_path) == 0


def test_who_has_it_open(tmp_path: Path) -> None:
    """Pins that the holder is named by its open file where one may look, else by systemd's setting, else as unknown."""
    folder = tmp_path / "proc/17/fd"
    folder.mkdir(parents=True)
    written(tmp_path, proc__17__comm="watchdogd\n")
    assert watchdogfacts.holder("/dev/watchdog0", tmp_path) == "a process that this user may not see"
    (folder / "3").symlink_to("/dev/watchdog")
    assert watchdogfacts.holder("/dev/watchdog0", tmp_path) == "watchdogd (pid 17)"
    assert watchdogfacts.holder("/dev/watchdog1", tmp_path) == "a process that this user may not see"
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    written(tmp_path, **{"etc__systemd__system.conf": "RuntimeWatchdogSec=30\n"})
    assert watchdogfacts.holder("/dev/watchdog1", tmp_path) == "systemd, by RuntimeWatchdogSec=30"


@pytest.mark.parametrize(("text", "covered"), [("0\n", False), ("120\n", True), (None, None)])
def test_whether_a_start_that_hangs_ends(tmp_path: Path, text: str | None, covered: bool | None) -> None:  # noqa: FBT001
    """Pins watchdog.open_timeout: 0 means that the kernel feeds for ever."""
    if text is not None:
        written(tmp_path, sys__module__watchdog__parameters__open_timeout=text)
    assert watchdogfacts.covers_boot(tmp_path) is covered
