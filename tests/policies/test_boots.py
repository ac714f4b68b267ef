"""boots: a boot loop leads to safe mode, safe mode ends, and a stable boot forgets it all."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import StoreError
from agent.policies.boots import IN_A_ROW, SAFE_MOST_S, SAFE_S, STABLE_S, Boots


def rebooted(old: Boots, number: int, cause: str = "watchdog") -> Boots:
    """Give what the next boot knows: the file of the last one, read anew."""
    fresh = Boots()
    fresh.restore(json.loads(json.dumps(old.plain(0))), 0)
    fresh.begin(f"boot-{number}", cause, "1.0", 20.0)
    return fresh


def looping(count: int, cause: str = "watchdog") -> Boots:
    """Boot `count` times for two minutes each, then once more."""
    one = Boots()
    one.begin("boot-0", "unknown", "1.0", 20.0)
    for number in range(1, count + 1):
        one.tick(120)
        one = rebooted(one, number, cause)
    return one


@pytest.mark.parametrize("cause", ["watchdog", "panic", "agent_reboot", "power_cut", "unknown"])
def test_three_short_boots_are_a_loop(cause: str) -> None:
    """The third reset within ten minutes of its boot leads to safe mode, with the reason and how long it lasts."""
    assert looping(IN_A_ROW - 1, cause).safe(21) == ""
    assert looping(IN_A_ROW, cause).safe(21) == (
        "boot loop: 3 in a row lasted less than 600 s; the workloads are tried again in 30 min"
    )


def test_a_person_who_reboots_is_no_loop() -> None:
    """Boots that an operator ended count not."""
    assert looping(5, "operator_reboot").safe(21) == ""


def test_safe_mode_ends_by_itself_and_a_stable_boot_forgets() -> None:
    """Half an hour to mend it; then all is tried again; ten minutes later it is forgotten."""
    one = looping(IN_A_ROW)
    assert not one.tick(SAFE_S - 1)
    assert one.safe(SAFE_S - 1)
    assert one.tick(SAFE_S)
    assert not one.safe(SAFE_S)
    assert one.tick(SAFE_S + STABLE_S)
    assert not one.tick(SAFE_S + STABLE_S + 10)
    assert rebooted(one, 99).safe(21) == ""


def test_the_next_loop_waits_twice_as_long() -> None:
    """Whoever loops again after safe mode is left alone for an hour, then two; never longer than a day."""
    one, waits = looping(IN_A_ROW), list[str]()
    for number in range(10, 18):
        one.tick(SAFE_MOST_S)  # through safe mode; it fails when the workloads are back
        one = rebooted(one, number * 10)
        for again in range(IN_A_ROW):
            one.tick(120)
            one = rebooted(one, number * 10 + again + 1)
        waits.append(one.safe(0).rpartition(" in ")[2])
    assert waits == ["30 min"] * 8  # each time a whole day went well in between
    two = looping(IN_A_ROW)
    for number, minutes in enumerate((60, 120, 240)):
        two.tick(SAFE_S * 2**number + 60)  # a minute after it was tried again
        two = rebooted(two, 200 + number)
        assert two.safe(0).endswith(f"in {minutes} min")


def test_a_stable_boot_between_is_no_loop() -> None:
    """Two short boots, a long one, two short ones."""
    one = looping(2)
    one.tick(STABLE_S)
    one = rebooted(one, 50)
    one.tick(100)
    assert rebooted(one, 51).safe(21) == ""


def test_agentd_that_comes_back_in_the_same_boot_goes_on() -> None:
    """A restart of agentd is no boot: nothing is counted, and safe mode stays as long as it would have."""
    one = looping(IN_A_ROW)
    one.tick(300)
    again = Boots()
    again.restore(one.plain(0), 0)
    again.begin(f"boot-{IN_A_ROW}", "watchdog", "1.0", 310)
    assert again.safe(310)
    assert not again.safe(SAFE_S)


@pytest.mark.parametrize("data", [None, {}, {"schema": 1}, {"schema": 1, "boots": [], "loops": -1, "now": {}}])
def test_a_corrupt_file_is_one_clear_error(data: object) -> None:
    """It is set aside, and nothing is remembered."""
    with pytest.raises(StoreError):
        Boots().restore(data, 0)  # type: ignore[arg-type]


@given(st.recursive(st.none() | st.integers() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)))
def test_any_json_is_taken_or_refused(data: object) -> None:
    """Whatever stands in the file: one error of ours at most."""
    with contextlib.suppress(StoreError):
        Boots().restore(data, 0)  # type: ignore[arg-type]
