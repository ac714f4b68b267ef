"""The link against the simulated microcontroller: real pseudo-terminals, real C under sanitizers, faults on the wire."""

from __future__ import annotations

import os
import re
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.errors import NotRunning, Refused
from agent.linux.serial import Line
from agent.mcu.ttl import Bounds
from agent.mcu.wire import Phase
from tests.mcu.sim import Linked, linked, simulator, until

QUICK = {"boot_ms": 400, "ttl_min_ms": 300, "off_ms": 100, "off_max_ms": 800, "healthy_ms": 300}


def power_offs(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the times that the power went off."""
    return [one for one in events if one["event"] == "power" and not one["on"]]


def test_a_lease_is_held_by_feeding(tmp_path: Path) -> None:
    """Pins the way to `leased`, the ACK's margin, and that the power stays on for many times the boot lease."""
    with simulator(tmp_path, **QUICK) as sim, linked(Line(str(sim.link))) as mcu:
        mcu.feed_until(lambda: mcu.link.client.lease.acks >= 30)
        assert sim.power() == [True]
        row = mcu.link.row()
        assert (row["link"], row["phase"], "state" in row) == ("leased", "run", False)
        assert 0.5 < mcu.link.margins.margin_s(mcu.link.margins.fed_ns) <= 4
        assert row["margin_p1_s"] is not None
        assert mcu.kinds()[:3] == ["mcu.version", "mcu.reset", "mcu.status"]


def test_without_feeds_the_power_is_cycled(tmp_path: Path) -> None:
    """Pins the last word: a lease that nobody renews ends in a real power cycle, and the MCU's log says why."""
    with simulator(tmp_path, **QUICK, ttl_max_ms=400) as sim, linked(Line(str(sim.link))) as mcu:
        mcu.feed_until(lambda: mcu.state() == "leased")
        until(lambda: len(sim.power()) >= 3)
        assert sim.power()[:3] == [True, False, True]
        assert power_offs(sim.events)[0]["reason"] == "lease_expired"
        assert "mcu.lease_lost" in mcu.kinds()
        mcu.feed_until(lambda: mcu.state() == "leased" and bool(mcu.link.client.reports.log))
        assert mcu.link.evidence == "power_on"  # as it was met: the gateway of this test goes on without power
        mcu.on_loop(lambda: mcu.link.answer({"do": "log"}))
        until(lambda: any(one["reason"] == 2 for one in mcu.link.client.reports.log))


def test_off_intervals_grow_and_never_end(tmp_path: Path) -> None:
    """Pins the retry path: a few cycles at the first interval, then doubled ones up to the longest, power on after each."""
    with simulator(tmp_path, boot_ms=60, ttl_min_ms=50, off_ms=50, off_max_ms=400, tries=2) as sim:
        until(lambda: len(sim.power()) >= 15, 20)
    assert [one["off_ms"] for one in power_offs(sim.events)][:7] == [50, 50, 100, 200, 400, 400, 400]
    assert all(before != after for before, after in pairwise(sim.power()))


def test_a_healthy_run_forgets_the_tries(tmp_path: Path) -> None:
    """Pins decay: after a time in RUN the next expiry begins with the first interval again."""
    with simulator(tmp_path, **QUICK, ttl_max_ms=400, tries=1) as sim:
        until(lambda: len(power_offs(sim.events)) >= 3)
        with linked(Line(str(sim.link))) as mcu:
            mcu.feed_until(lambda: mcu.state() == "leased")
            start = time.monotonic()
            mcu.feed(lambda: time.monotonic() - start < 0.8)
            grown = len(power_offs(sim.events))
        until(lambda: len(power_offs(sim.events)) > grown)
        assert power_offs(sim.events)[2]["off_ms"] == 400
        assert power_offs(sim.events)[grown]["off_ms"] == 100


@pytest.mark.parametrize(
    "fault",
    [
        {"lose": 50},
        {"double": 50},
        {"corrupt": 50},
        {"late": 50, "late_ms": 150},
        {"replay": 3000},
        {"lose": 15, "double": 15, "corrupt": 15, "late": 30, "late_ms": 60, "replay": 500},
    ],
    ids="+".join,
)
def test_a_bad_line_costs_no_lease(fault: dict[str, int], tmp_path: Path) -> None:
    """Pins repeats and resynchronisation: with a fault in one byte of 200 the lease is held, and the faults are counted."""
    with (
        simulator(tmp_path, boot_ms=8_000, ttl_min_ms=300, **fault) as sim,
        linked(Line(str(sim.link)), Bounds(4_000, 8_000)) as mcu,
    ):
        mcu.feed_until(lambda: mcu.link.client.lease.acks >= 25, 30)
        assert sim.power() == [True]
        client = mcu.link.client
        assert client.strays + client.exchange.repeats + sum(client.decoder.errors.values())


def test_a_port_that_vanishes_is_found_under_its_other_name(tmp_path: Path) -> None:
    """Pins the named state while it is away, the stable name, and that the lease is taken up again."""
    with (
        simulator(tmp_path, boot_ms=20_000, ttl_min_ms=300, vanish_after_ms=700, vanish_for_ms=600) as sim,
        linked(Line(str(sim.link))) as mcu,
    ):
        mcu.feed_until(lambda: mcu.state() == "leased")
        first = sim.link.readlink()
        mcu.feed_until(lambda: mcu.state() == "absent")
        row = mcu.link.row()
        assert (row["condition"], row["state"]) == ("absent", "critical")
        assert str(sim.link) in str(row["reason"])
        assert row["remedy"]
        with pytest.raises(OSError, match="absent"):
            mcu.link.feed()
        mcu.feed_until(lambda: mcu.state() == "leased")
        assert sim.link.readlink() != first
        assert mcu.kinds().count("mcu.reset") == 1  # the same microcontroller, which was not reset
        lost = next(one for one in mcu.seen if one.kind == "mcu.lease_lost")
        assert lost.data["left_s"]


def test_another_protocol_version_is_named(tmp_path: Path) -> None:
    """Pins `incompatible`, told once, with both ranges and what to do."""
    with simulator(tmp_path, proto=2) as sim, linked(Line(str(sim.link))) as mcu:
        until(lambda: mcu.state() == "incompatible")
        assert "protocol 2..2" in mcu.link.client.reason
        assert "1..1" in mcu.link.client.reason
        assert mcu.link.row()["condition"] == "incompatible"
        found = [one for one in mcu.seen if one.kind == "mcu.version"]
        assert [one.data["supported"] for one in found] == [False]
        with pytest.raises(OSError, match="incompatible"):
            mcu.link.feed()


def test_a_frozen_microcontroller_is_named(tmp_path: Path) -> None:
    """Pins `frozen` for one that has no watchdog of its own to bring it back."""
    with (
        simulator(tmp_path, boot_ms=60_000, freeze_after_ms=300, own_watchdog_ms=0) as sim,
        linked(Line(str(sim.link))) as mcu,
    ):
        mcu.feed_until(lambda: mcu.state() == "frozen")
        assert "no answer to" in mcu.link.client.reason
        assert mcu.link.row()["state"] == "critical"
        assert sim.told("frozen")


def test_its_own_watchdog_brings_it_back(tmp_path: Path) -> None:
    """Pins that a hung MCU resets itself, keeps its counters, and is met again as a reset one, without a power cycle."""
    with (
        simulator(tmp_path, boot_ms=60_000, freeze_after_ms=300, own_watchdog_ms=700) as sim,
        linked(Line(str(sim.link))) as mcu,
    ):
        mcu.feed_until(lambda: len([one for one in mcu.seen if one.kind == "mcu.reset"]) == 2)
        mcu.feed_until(lambda: mcu.state() == "leased")
        again = [one for one in mcu.seen if one.kind == "mcu.reset"][1]
        assert (again.data["again"], again.data["reset"], again.data["boots"]) == (True, "watchdog", 2)
        assert again.severity == "warning"
        assert False not in sim.power()


def test_a_fet_that_does_not_obey_fails_the_self_check(tmp_path: Path) -> None:
    """Pins that the own watchdog is fed only after the self-checks: the MCU resets itself, and its log says which failed."""
    with simulator(tmp_path, boot_ms=200, stuck_fet=1, own_watchdog_ms=300) as sim:
        until(lambda: len(sim.told("mcu_start")) >= 3)
        assert sim.told("mcu_start")[1]["reset"] == 5
        with linked(Line(str(sim.link))) as mcu:
            until(lambda: any(one["reason"] == 6 for one in mcu.link.client.reports.log))


def test_a_power_cycle_is_asked_for_and_confirmed(tmp_path: Path) -> None:
    """Pins POWER_CYCLE with its challenge: announced first, done after its delay, and the MCU says that it was asked to."""
    with simulator(tmp_path, boot_ms=60_000, ttl_min_ms=300, ttl_max_ms=1_500) as sim, linked(Line(str(sim.link))) as mcu:
        mcu.feed_until(lambda: mcu.state() == "leased")
        assert re.fullmatch(r"power goes off in [01](\.\d+)? s", mcu.link.power_cycle("test"))  # the lease ends before 5 s
        assert sim.power() == [True]
        until(lambda: len(sim.power()) == 2)
        assert power_offs(sim.events)[0]["reason"] == "requested"


def test_a_power_cycle_without_a_link_is_refused(tmp_path: Path) -> None:
    """Pins the error of the ladder's last rung when there is nobody to do it."""
    with linked(Line(str(tmp_path / "nothing"))) as mcu, pytest.raises(Refused, match="absent"):
        mcu.link.power_cycle("test")


def test_a_power_cycle_that_nobody_answers_is_told(tmp_path: Path) -> None:
    """Pins NotRunning for an MCU that froze meanwhile."""
    with (
        simulator(tmp_path, boot_ms=60_000, freeze_after_ms=600, own_watchdog_ms=0) as sim,
        linked(Line(str(sim.link))) as mcu,
    ):
        mcu.feed_until(lambda: mcu.state() == "leased")
        until(lambda: bool(sim.told("frozen")))
        with pytest.raises(NotRunning, match="no answer"):
            mcu.link.power_cycle("test")


def test_an_operators_power_cycle_is_foretold(tmp_path: Path) -> None:
    """Pins that whoever keeps the last words hears of it before the power goes, and that it was taken back if it does not."""
    told: list[bool] = []

    def ask(mcu: Linked) -> None:
        mcu.link.going = told.append
        mcu.on_loop(lambda: mcu.link.answer({"do": "power-cycle"}))

    with linked(Line(str(tmp_path / "nothing"))) as mcu:
        ask(mcu)
        until(lambda: mcu.link.client.cycle.state == "refused")
    assert not told
    with simulator(tmp_path, boot_ms=60_000, ttl_min_ms=300, ttl_max_ms=1_500) as sim, linked(Line(str(sim.link))) as mcu:
        mcu.feed_until(lambda: mcu.state() == "leased")
        ask(mcu)
        until(lambda: len(sim.power()) == 2)
    assert told == [True]
    with (
        simulator(tmp_path, boot_ms=60_000, freeze_after_ms=600, own_watchdog_ms=0) as sim,
        linked(Line(str(sim.link))) as mcu,
    ):
        mcu.feed_until(lambda: mcu.state() == "leased")
        until(lambda: bool(sim.told("frozen")))
        ask(mcu)
        until(lambda: len(told) == 3)
    assert told == [True, True, False]


def test_maintenance_has_an_absolute_maximum(tmp_path: Path) -> None:
    """Pins that MAINT cannot be renewed for ever: the power is cycled although feeds go on; RUN would have saved it."""
    with (
        simulator(tmp_path, **QUICK, maint_ms=400, maint_max_ms=1_000) as sim,
        linked(Line(str(sim.link))) as mcu,
    ):
        mcu.feed_until(lambda: mcu.state() == "leased")
        mcu.link.hold(True)
        mcu.feed_until(lambda: mcu.link.client.lease.phase is Phase.MAINT)
        assert mcu.link.ttl_s <= 0.4
        mcu.feed_until(lambda: False in sim.power())
        assert any("phase MAINT has its absolute maximum" in str(one.data.get("why")) for one in mcu.seen)
        assert power_offs(sim.events)[0]["reason"] == "lease_expired"


def test_the_end_asks_for_a_shutdown_lease(tmp_path: Path) -> None:
    """Pins `close(shutdown=True)`: the MCU covers the shutdown with that phase's own ttl, and cycles the power if it hangs."""
    with simulator(tmp_path, **QUICK, shutdown_ms=600) as sim:
        with linked(Line(str(sim.link))) as mcu:
            mcu.feed_until(lambda: mcu.state() == "leased")
            until(lambda: mcu.link.client.exchange.current is None)
            mcu.on_loop(partial(mcu.link.close, shutdown=True))
            start = time.monotonic()
        until(lambda: False in sim.power())
        assert 0.4 < time.monotonic() - start < 2


def test_auto_finds_the_one_that_answers(tmp_path: Path) -> None:
    """Pins `port = "auto"`: a device that is somebody else's is let go, and the next one is tried."""
    folder = tmp_path / "dev/serial/by-id"
    folder.mkdir(parents=True)
    master, slave = os.openpty()
    (folder / "another-device").symlink_to(os.ttyname(slave))
    with simulator(tmp_path, boot_ms=60_000) as sim:
        (folder / "gatewarden-mcu").symlink_to(sim.link)
        with linked(Line("auto", dev=tmp_path / "dev")) as mcu:
            mcu.feed_until(lambda: mcu.state() == "leased", 25)
            assert mcu.link.path == folder / "gatewarden-mcu"
    os.close(master)
    os.close(slave)


def test_two_agents_cannot_have_one_port(tmp_path: Path) -> None:
    """Pins the exclusive lock: the second one says that the port is in use, and how to find out by whom."""
    with (
        simulator(tmp_path, boot_ms=60_000) as sim,
        linked(Line(str(sim.link))) as first,
        linked(Line(str(sim.link))) as second,
    ):
        until(lambda: "opening" in {first.state(), second.state()} and "hello" in {first.state(), second.state()})
        refused = first if first.state() == "opening" else second
        until(lambda: "in use" in refused.link.client.reason)
        assert "fuser" in refused.link.client.remedy
