"""Checks of what the agent lives on: folders, free space, clocks."""

from __future__ import annotations

from collections.abc import Iterator

from agent.checks._base import Check
from agent.linux.facts import Facts, Folder

FREE_BYTES, FREE_INODES = 64 << 20, 1000
BUILT_S = 1_767_225_600  # 2026-01-01: no clock of a running gateway can be before
RTC_OFF_S = 86_400


def checks(facts: Facts) -> Iterator[Check]:
    """Yield the checks of the group."""
    yield _folder("state_dir", facts.state_dir)
    yield _folder("runtime_dir", facts.runtime_dir)
    yield _clock(facts)
    yield _rtc(facts)


def _folder(name: str, place: Folder) -> Check:
    owner = f"install -d -o gatewarden -g gatewarden {place.path}"
    if not place.exists:
        return Check("resources", name, "critical", f"{place.path} does not exist", owner)
    if not place.writable:
        return Check(
            "resources", name, "critical", f"{place.path} is not writable for this user", f"chown gatewarden {place.path}"
        )
    if place.free_bytes is None:
        return Check("resources", name, "unknown", f"the free space of {place.path} cannot be read", f"df {place.path}")
    few = place.free_inodes is not None and place.free_inodes < FREE_INODES
    if place.free_bytes < FREE_BYTES or few:
        reason = f"{place.path}: {place.free_inodes} inodes free" if few else f"{place.path}: {place.free_bytes >> 20} MiB free"
        return Check("resources", name, "degraded", reason, f"make room on the file system of {place.path}")
    return Check("resources", name, "ok", f"{place.path}: {place.free_bytes >> 20} MiB free")


_UNTOLD = "adjtimex(2) is refused here, and no systemd-timesyncd tells of the clock"


def _clock(facts: Facts) -> Check:
    if facts.wall_s < BUILT_S:
        reason = "the wall clock is before 2026: certificates look not yet valid"
        return Check("resources", "clock", "degraded", reason, _time_service(facts))
    if facts.clock_synchronised is None:
        return Check("resources", "clock", "unknown", _UNTOLD, "timedatectl" if facts.systemd else "date -u")
    if not facts.clock_synchronised:
        return Check("resources", "clock", "degraded", "the clock is not synchronised", _time_service(facts))
    return Check("resources", "clock", "ok", "synchronised")


def _time_service(facts: Facts) -> str:
    return "timedatectl set-ntp true" if facts.systemd else "run a time service (chrony); in a container: on its host"


def _rtc(facts: Facts) -> Check:
    if facts.rtc_s is None:
        return Check(
            "resources", "rtc", "unknown", "no battery-backed clock to be seen: time is wrong after a cold start", "fit an RTC"
        )
    if abs(facts.rtc_s - facts.wall_s) > RTC_OFF_S:
        reason = f"the battery-backed clock is {abs(facts.rtc_s - facts.wall_s) / 86400:.0f} days off"
        return Check("resources", "rtc", "degraded", reason, "hwclock --systohc, or a new battery")
    return Check("resources", "rtc", "ok", "agrees with the wall clock")
