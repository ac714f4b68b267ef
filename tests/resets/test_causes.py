"""The cause of the last reset out of every mix of witnesses, the ring of boots, and the stories of the field about them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model import Json
from agent.resets import boots, causes
from agent.resets.boots import Boot, BootRing
from agent.resets.causes import CARDRESET, CAUSES, POWERUNDER, Evidence, Verdict, Words, judge

RAN = Words("old", "1.0", uptime_s=3600.0)
GUARDED = replace(RAN, armed={"watchdog0": True})
MISSED = replace(GUARDED, phase="missed", reason="supervisor: camera-1 missed its deadline")
REBOOT = replace(RAN, phase="act", act="reboot", reason="ladder: camera-1")
FIRED = {"watchdog0": CARDRESET}
PANIC = "Kernel panic - not syncing: Fatal exception"


@pytest.mark.parametrize(
    ("found", "cause", "confidence"),
    [
        (Evidence(), "unknown", "none"),
        (Evidence(RAN, panic=PANIC), "panic", "high"),
        (Evidence(MISSED, panic=PANIC, planned=True, registers=FIRED), "panic", "high"),
        (Evidence(RAN, panic="Kernel panic - not syncing: watchdog pretimeout event"), "watchdog", "high"),
        (Evidence(REBOOT), "agent_reboot", "high"),
        (Evidence(REBOOT, planned=True), "agent_reboot", "high"),
        (Evidence(REBOOT, registers=FIRED), "agent_reboot", "medium"),
        (Evidence(RAN, planned=True), "operator_reboot", "high"),
        (Evidence(replace(RAN, phase="stopped"), planned=True), "operator_reboot", "high"),
        (Evidence(None, planned=True), "operator_reboot", "high"),
        (Evidence(GUARDED, registers=FIRED), "watchdog", "high"),
        (Evidence(None, registers=FIRED), "watchdog", "medium"),
        (Evidence(MISSED, registers=FIRED), "watchdog", "high"),
        (Evidence(MISSED, registers={"watchdog0": 0}), "watchdog", "medium"),
        (Evidence(replace(MISSED, armed={"watchdog": False})), "watchdog", "high"),
        (Evidence(GUARDED, registers={"watchdog0": 0}), "power_cut", "medium"),
        (Evidence(GUARDED, registers={"watchdog0": POWERUNDER}), "power_cut", "high"),
        (Evidence(RAN), "power_cut", "low"),
        (Evidence(replace(RAN, phase="stopped")), "operator_reboot", "low"),
        (Evidence(RAN, mcu="brownout"), "power_cut", "high"),
        (Evidence(RAN, mcu="lease_expired"), "watchdog", "high"),
        (Evidence(RAN, mcu="requested"), "agent_reboot", "high"),
        (Evidence(REBOOT, mcu="power_on"), "agent_reboot", "high"),
        (Evidence(RAN, mcu="something new"), "power_cut", "low"),
    ],
)
def test_the_cause(found: Evidence, cause: str, confidence: str) -> None:
    """Pins the order of the witnesses and what their agreement makes of the confidence."""
    verdict = judge(found)
    assert (verdict.cause, verdict.confidence) == (cause, confidence), verdict.reason


def test_disabled_and_yet_a_reboot() -> None:
    """After watchdogd issue 16: the register says software reset, the supervisor knows better and names the client."""
    verdict = judge(Evidence(replace(MISSED, armed={"watchdog0": False}), registers={"watchdog0": 0}))
    assert verdict == Verdict("watchdog", "high", "supervisor: camera-1 missed its deadline", ("intent",))


def test_a_planned_reboot_that_hung_is_told_as_such() -> None:
    """After systemd issue 27491: planned, but a watchdog had to end it: the cause stays, the doubt is in the line."""
    verdict = judge(Evidence(RAN, planned=True, registers=FIRED))
    assert (verdict.cause, verdict.confidence) == ("operator_reboot", "medium")
    assert "may have hung" in verdict.reason


def test_healthy_every_ten_seconds_then_nothing() -> None:
    """The log ends in the middle, a watchdog that cannot tell was armed: "watchdog, no trace", and hardly sure."""
    verdict = judge(Evidence(replace(RAN, armed={"watchdog": False})))
    assert (verdict.cause, verdict.confidence) == ("watchdog", "low")
    assert verdict.reason.startswith("watchdog, no trace")


WORDS = st.builds(
    Words,
    boot_id=st.just("old"),
    version=st.text(max_size=9),
    phase=st.sampled_from(causes.PHASES),
    armed=st.dictionaries(st.sampled_from(["watchdog0", "mcu"]), st.booleans()),
)


@given(
    st.builds(
        Evidence,
        words=st.none() | WORDS,
        panic=st.sampled_from(["", PANIC]),
        planned=st.booleans(),
        registers=st.dictionaries(st.sampled_from(["watchdog0", "watchdog1"]), st.integers(0, 0xFFFF)),
        mcu=st.sampled_from(["", *causes.MCU, "nonsense"]),
    )
)
def test_there_is_always_one_cause(found: Evidence) -> None:
    """Pins for any evidence: one known cause; a panic on record is never anything else; with nothing at all it is unknown."""
    verdict = judge(found)
    assert verdict.cause in CAUSES
    assert verdict.reason or verdict.cause == "watchdog"
    assert not found.panic or verdict.cause == "panic"
    assert found != Evidence() or verdict == causes.UNKNOWN


def boot(name: str, cause: causes.Cause = "watchdog", uptime_s: float = 0.0) -> Boot:
    """Give one of the ring."""
    return Boot(name, 1.0, "1.0", Verdict(cause, "high", "why", ("intent",)), uptime_s)


def test_the_ring_keeps_how_long_each_boot_lasted() -> None:
    """Pins that the last words of a boot give its length, and that a boot is in the ring once."""
    ring = BootRing().begun(boot("a"), None, ("dump-1",)).begun(boot("b"), replace(RAN, boot_id="a"), ("dump-1", "dump-2"))
    assert [(one.boot_id, one.uptime_s) for one in ring.ring] == [("a", 3600.0), ("b", 0.0)]
    assert ring.seen == ("dump-1", "dump-2")
    assert len(ring.begun(boot("b"), None, ()).ring) == 2


def test_the_ring_is_bounded() -> None:
    """Pins both bounds."""
    ring = BootRing()
    for number in range(100):
        ring = ring.begun(boot(str(number)), None, (f"dump-{number}",))
    assert (len(ring.ring), len(ring.seen)) == (boots.BOOTS, boots.SEEN)
    assert ring.ring[-1].boot_id == "99"


def test_a_watchdog_is_proven_by_a_reset_of_its_own_only() -> None:
    """Dasharo issue 734: believed to work is not proven to work; only a reset on record proves it."""
    assert not BootRing((boot("a", "power_cut"),)).proven()
    doubtful = Boot("b", 1.0, "1.0", Verdict("watchdog", "low", "no trace"))
    assert not BootRing((doubtful,)).proven()
    assert BootRing((boot("c"),)).proven()
    assert BootRing((boot("a", "panic"), boot("c"))).counted() == {"panic": 1, "watchdog": 1}


@given(st.lists(st.builds(boot, st.text(max_size=9), st.sampled_from(CAUSES), st.floats(0, 1e9)), max_size=5))
def test_the_ring_reads_back(ring: list[Boot]) -> None:
    """Pins the form of boots.json."""
    whole = BootRing(tuple(ring), ("x",))
    assert boots.read(whole.plain()) == whole


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["boots", "seen", "verdict", "boot_id", "armed", "phase", "uptime_s"]), inner, max_size=5
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_a_ring_and_words_or_none(value: Json) -> None:
    """Pins that files of another form cost nothing but what they would have told."""
    assert len(boots.read(value).ring) <= boots.BOOTS
    found = causes.words(value)
    assert found is None or found.phase in causes.PHASES
