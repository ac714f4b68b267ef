"""A watchdog of ours over a driver in memory; the real drivers are in tests/vm (steps `watchdog` and `resets`)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from agent.linux import watchdog
from agent.linux.watchdog import WDIOF_MAGICCLOSE, WDIOF_PRETIMEOUT, WDIOF_SETTIMEOUT, Closed, KernelWatchdog
from agent.linux.watchdogfacts import WatchdogFacts
from tests.watchdogdevices import OPTIONS, MemoryDevice, refusal

FACTS = WatchdogFacts("watchdog0", "/dev/watchdog0", "i6300ESB timer", nowayout=False)


def ours(
    device: MemoryDevice, facts: WatchdogFacts = FACTS, timeout_s: int = 60, evidence: watchdog.Evidence = "none"
) -> KernelWatchdog:
    """Own `device`."""
    return KernelWatchdog(facts, device, evidence, timeout_s, 10)


def test_the_time_out_is_what_the_driver_made_of_it() -> None:
    """Pins the read-back: a driver that honours only some values (systemd issue 38289) is believed, not the wish."""
    assert ours(MemoryDevice()).ttl_s == 60
    assert ours(MemoryDevice(honours=(2, 16, 32))).ttl_s == 32


def test_a_driver_that_refuses_is_asked_for_less() -> None:
    """Pins bcm2835: 15 s are its most, and it answers EINVAL to more; sysfs may say so beforehand."""
    device = MemoryDevice(most_s=15)
    assert ours(device).ttl_s == 15
    assert device.asked == [60, 30, 16, 15]
    told = MemoryDevice(most_s=15)
    assert ours(told, WatchdogFacts("watchdog0", "/dev/watchdog0", "bcm2835", max_s=15)).ttl_s == 15
    assert told.asked == [15]


def test_a_driver_without_settimeout_keeps_its_own() -> None:
    """Pins that nothing is set where the option is missing."""
    device = MemoryDevice(options=WDIOF_MAGICCLOSE, timeout_s=27)
    assert ours(device).ttl_s == 27
    assert device.asked == []


def test_a_pretimeout_is_set_and_read_back_and_stays_below_half() -> None:
    """Pins SETPRETIMEOUT: 10 s before the end, less if the time-out is short; without the option there is no evidence."""
    device = MemoryDevice(options=OPTIONS | WDIOF_PRETIMEOUT)
    found = ours(device, evidence="kmsg")
    assert (found.pretimeout_s, found.evidence) == (10, "kmsg")
    assert ours(MemoryDevice(options=OPTIONS | WDIOF_PRETIMEOUT, most_s=15), evidence="kmsg").pretimeout_s == 7
    assert ours(MemoryDevice(), evidence="kmsg").evidence == "none"


def test_ipmi_can_more_than_it_declares() -> None:
    """Pins ipmi_watchdog, whose options are 0: its time-out and pretimeout are set all the same, and it disarms."""
    device = MemoryDevice(options=OPTIONS | WDIOF_PRETIMEOUT, identity="IPMI")
    device.declared = 0
    found = ours(device, WatchdogFacts("watchdog", "/dev/watchdog", "IPMI"), 12, "fd")
    assert (found.ttl_s, found.pretimeout_s, found.evidence, found.close()) == (12, 6, "fd", "disarmed")


@pytest.mark.parametrize(
    ("facts", "readable", "pstore", "expected"),
    [
        (WatchdogFacts("watchdog", "/dev/watchdog", "IPMI"), True, True, "fd"),
        (WatchdogFacts("watchdog", "/dev/watchdog", "IPMI"), False, True, "none"),
        (WatchdogFacts("watchdog0", "", "iTCO_wdt", governor="noop"), False, False, "kmsg"),
        (WatchdogFacts("watchdog0", "", "iTCO_wdt", governor="panic"), False, True, "pstore"),
        (WatchdogFacts("watchdog0", "", "iTCO_wdt", governor="panic"), False, False, "none"),
        (WatchdogFacts("watchdog0", "", "Software Watchdog"), False, True, "none"),
    ],
)
def test_evidence_is_what_the_driver_offers(facts: WatchdogFacts, readable: bool, pstore: bool, expected: str) -> None:  # noqa: FBT001
    """Pins the table of the four kinds of evidence."""
    assert watchdog.evidence_of(facts, ipmi_readable=readable, pstore=pstore) == expected


def test_a_clean_end_disarms_and_says_if_it_could_not() -> None:
    """Pins magic close, and what nowayout means: never promise "disabled" (watchdogd issue 16)."""
    device = MemoryDevice()
    assert ours(device).close() == "disarmed"
    assert device.closed == "disarmed"
    fixed = WatchdogFacts("watchdog0", "/dev/watchdog0", "x", nowayout=True)
    assert ours(MemoryDevice(), fixed).close() == "cannot be disarmed: it resets the machine in 60 s unless it is fed again"
    assert "cannot be disarmed" in ours(MemoryDevice(options=WDIOF_SETTIMEOUT)).close()


def test_a_shutdown_stays_covered() -> None:
    """Pins that the device counts on, with more time, while the machine goes down (systemd issues 27491, 8484)."""
    device = MemoryDevice()
    assert ours(device).close(shutdown=True) == "left counting for 180 s to cover the shutdown"
    assert (device.closed, device.timeout_s) == ("counting", 180)


def test_a_device_that_goes_away_is_an_error_of_the_feed() -> None:
    """Pins that a lost device raises OSError when fed."""
    device = MemoryDevice()
    found = ours(device)
    assert found.tells
    device.gone = True
    with pytest.raises(OSError, match="No such device"):
        found.feed()


@pytest.mark.parametrize(
    ("code", "condition", "words"),
    [
        (errno.EBUSY, "busy", "already open"),
        (errno.EACCES, "forbidden", "Permission denied"),
        (errno.ENOENT, "absent", "No such file"),
        (errno.EIO, "failed", "Input/output error"),
    ],
)
def test_what_cannot_be_had_has_a_named_state(code: int, condition: str, words: str) -> None:
    """Pins that an open that fails is a state with a reason and one line that mends it, never an exception."""
    found = watchdog.refused(FACTS, refusal(code))
    assert found.condition == condition
    assert words in found.reason
    assert len(found.remedy.splitlines()) == 1


def test_a_file_that_is_no_watchdog(tmp_path: Path) -> None:
    """Pins the real ioctls against a plain file: opened, refused by the kernel, closed again, named."""
    path = tmp_path / "watchdog9"
    path.touch()
    before = len(list(Path("/proc/self/fd").iterdir()))
    found = watchdog.acquire(WatchdogFacts("watchdog9", str(path), "x"), 60, 10, pstore=False)
    assert isinstance(found, Closed)
    assert found.condition == "failed"
    assert "Inappropriate ioctl" in found.reason
    assert len(list(Path("/proc/self/fd").iterdir())) == before
