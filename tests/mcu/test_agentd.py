"""agentd with a microcontroller: the simulated one, on the port that agent.toml names."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.linux.clock import boot_id
from tests.agents import Agent, agent
from tests.mcu.sim import simulator, until

QUIET = '[probes]\nenabled = []\n[metrics]\nperiod_s = 1\n[mcu]\nport = "{port}"\n'


def row(gateway: Agent) -> dict[str, Any]:
    """Give the row of the microcontroller."""
    rows: list[dict[str, Any]] = gateway.status()["watchdogs"]
    return next((one for one in rows if one["name"] == "mcu"), {})


def test_agentd_holds_the_lease_and_without_it_the_power_goes(tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """Pins the whole way: agentd's gate feeds, `status` and `mcu` show it, a dead agentd ends in a power cycle, the next knows.

    What its tick asks for is bounded by 30 s; the simulated firmware grants no more than 4.
    """
    with simulator(tmp_path, boot_ms=20_000, ttl_min_ms=300, ttl_max_ms=4_000, off_ms=100) as sim:
        with agent(lab_config(QUIET.format(port=sim.link.readlink()))) as gateway:
            until(lambda: row(gateway).get("link") == "leased", 20)
            shown = row(gateway)
            assert (shown["state"], shown["kind"], shown["condition"]) == ("ok", "mcu", "armed")
            assert gateway.ctl("mcu")[1]["link"] == "leased"
            code, log = gateway.ctl("mcu", "log")
            assert (code, log["fresh"]) == (0, True)
            time.sleep(5)  # more than one ttl: only feeds can have kept it
            assert sim.power() == [True]
            kinds = {one["kind"] for one in gateway.ctl("events", "--since", "1h")[1]["events"]}
            assert {"mcu.version", "mcu.reset", "mcu.status"} <= kinds
            gateway.end(9)
        until(lambda: False in sim.power())
        assert next(one for one in sim.told("power") if not one["on"])["reason"] == "lease_expired"
        until(lambda: sim.power()[-1])
        for name in ("boots.json", "intent.json"):  # what they tell of was the boot before
            path = tmp_path / "state" / name
            path.write_text(path.read_text().replace(boot_id(), "0" * 32))
        with agent(lab_config(QUIET.format(port=sim.link.readlink()))) as gateway:
            until(lambda: gateway.status()["last_reset"]["cause"] != "unknown", 15)
            found = gateway.status()["last_reset"]
            assert (found["cause"], found["evidence"]) == ("watchdog", ["mcu:lease_expired"])


def test_agentd_covers_a_planned_shutdown(tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """Pins that a machine which goes down in good order gets the time of phase SHUTDOWN, and is cycled if it hangs then."""
    times = {"boot_ms": 20_000, "ttl_min_ms": 300, "ttl_max_ms": 3_000, "shutdown_ms": 7_000, "off_ms": 100}
    with simulator(tmp_path, **times) as sim, agent(lab_config(QUIET.format(port=sim.link.readlink()))) as gateway:
        until(lambda: row(gateway).get("link") == "leased", 20)
        (tmp_path / "state/shutdown").write_text(boot_id())  # as gatewarden-shutdown.service does, which is stopped before
        assert gateway.end() == 0
        time.sleep(5)
        assert sim.power() == [True]
        until(lambda: False in sim.power())


def test_agentd_without_its_microcontroller_goes_on(lab_config: Callable[..., Path]) -> None:
    """Pins that a port that is not there is a row with its reason and remedy, and nothing else stops."""
    with agent(lab_config(QUIET.format(port="/dev/serial/by-id/usb-none"))) as gateway:
        until(lambda: row(gateway).get("condition") == "absent", 20)
        shown = row(gateway)
        assert "/dev/serial/by-id/usb-none" in shown["reason"]
        assert shown["remedy"]
        assert gateway.ctl("mcu")[1]["link"] == "absent"
        assert gateway.end() == 0
