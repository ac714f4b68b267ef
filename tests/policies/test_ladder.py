"""ladder: every rung in its order, within its budget, and back down; never latched, never during a hold."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agent.actions import ACTIONS
from agent.config import Workload
from agent.errors import StoreError
from agent.policies._rungs import ENTRIES, INDEX, RUNGS
from agent.policies.ladder import NS, RETRY_S, Ladder
from tests.policies.climbing import CAMERA, DETECTOR, RECORDER, Climber, finding

ORDER = ["capture", "terminate", "restart", "restart_dependants", "degrade", "degrade", "reboot", "power_cycle"]


def test_every_rung_is_taken_in_order() -> None:
    """A required workload that nothing helps climbs from evidence to the power switch; each rung waits for the one before."""
    one = Climber()
    assert one.find("camera") == ["capture", "terminate"]
    one.until(1200)
    assert [action for _, _, action in one.taken][:8] == ORDER
    seconds = [second for second, _, _ in one.taken]
    assert seconds[:8] == [0, 0, 10, 25, 55, 70, 85, 385]


def test_a_finding_that_says_how_long_it_needs_is_waited_for() -> None:
    """A start takes 92 s: no rung is taken before it could have ended (a wait shorter than the start never heals anything)."""
    one = Climber()
    one.find("camera", settle_s=92)
    assert one.until(91.9) == []
    assert one.until(92) == ["restart"]


def test_what_helps_ends_the_climb() -> None:
    """After the end of the finding nothing more is done."""
    one = Climber()
    one.find("camera")
    one.until(5)
    one.end("camera")
    assert one.until(300) == []


def test_a_new_failure_at_once_is_the_next_rung_and_one_after_a_cure_is_not() -> None:
    """Failing again within two minutes is no cure; later the cheap rungs are tried again, each within its budget."""
    one = Climber()
    one.find("camera", settle_s=100)
    one.second = 5
    one.end("camera")
    one.second = 20
    assert one.find("camera", settle_s=100) == ["restart"]
    one.second = 30
    one.end("camera")
    one.second = 200
    assert one.find("camera") == ["restart"]
    one.second = 210
    one.end("camera")
    one.second = 900  # one rung down after ten quiet minutes
    one.until(910)
    assert one.find("camera") == ["capture", "terminate"]


def test_a_workload_that_hangs_now_and_then_is_never_a_reason_to_reboot_until_its_budgets_are_spent() -> None:
    """Every ten minutes for an hour: ended each time, nothing worse."""
    one = Climber()
    for minute in range(0, 60, 10):
        one.until(minute * 60)
        one.find("camera")
        one.until(minute * 60 + 2)
        one.end("camera")
    assert {action for _, _, action in one.taken} == {"capture", "terminate"}


@pytest.mark.parametrize("cause", ["oom", "audio_lost", "timeout"])
def test_loss_of_service_is_degraded_at_once(cause: str) -> None:
    """The three causes of the promise of 5 s enter at `degrade`: nothing is stopped, and nothing is waited for."""
    one = Climber()
    assert one.find("camera", cause) == ["degrade"]
    assert one.decisions[0].arguments == {"workload": "camera", "rung": 5, "cause": cause, "profile": "low"} or cause == "oom"


def test_memory_is_taken_from_the_least_important() -> None:
    """The camera was killed: the detector (priority 5) is lowered first, the camera (3) only when that was not enough."""
    one = Climber()
    one.find("camera", "oom", settle_s=45)
    one.until(46)
    assert one.taken == [(0, "detector", "degrade"), (45, "camera", "degrade")]
    assert one.row("detector")["profile"] == "cpu"
    assert one.row("camera")["profile"] == "low"


def test_loss_of_a_stream_never_reboots_the_gateway() -> None:
    """A camera that is off stays off: lowest profile, then slow restarts of the workload, for as long as it takes."""
    one = Climber()
    one.find("camera", "timeout", settle_s=45)
    one.until(6 * 3600)
    actions = [action for _, _, action in one.taken]
    assert actions[:3] == ["degrade", "degrade", "restart"]
    assert set(actions) == {"degrade", "restart", "restart_dependants"}


def test_without_a_profile_the_same_causes_restart() -> None:
    """With nothing to fall back to a lost stream restarts it; after an OOM kill its keeper has done so already."""
    plain = Workload("plain", command=("/bin/plain",))
    one = Climber(plain)
    assert one.find("plain", "timeout") == ["restart"]
    two = Climber(plain)
    assert two.find("plain", "oom", settle_s=45) == []
    assert two.row("plain")["next_rung"] == "restart"
    assert two.until(46) == ["restart"]


def test_a_crash_loop_lowers_the_rate_before_anything_else() -> None:
    """Crash, restart, crash: a lower profile at once, and the next rung only when a whole stable life had time to show."""
    one = Climber()
    assert one.find("detector", "crash_loop", settle_s=360) == ["degrade"]
    assert one.until(359) == []


def test_a_unit_with_its_own_restart_is_only_watched() -> None:
    """Two masters are none: systemd restarts it; the ladder enters at its dependants once systemd has given up."""
    one = Climber(supervised=["unit"])
    assert one.find("unit") == []
    assert one.until(600) == []
    assert one.find("unit", "gave_up") == ["restart_dependants"]


def test_a_unit_has_no_keeper_that_could_terminate_or_degrade_it() -> None:
    """Rungs that its parent does not know are left out."""
    one = Climber(mcu=False)
    one.find("unit")
    one.until(400)
    assert [action for _, _, action in one.taken] == ["capture", "restart", "reboot"]


def test_only_required_work_reboots_the_machine() -> None:
    """The recorder is not required: its ladder ends below the reboot, and begins again after a while."""
    one = Climber()
    one.find("recorder")
    one.until(4 * 3600)
    assert {action for _, _, action in one.taken} == {"capture", "terminate", "restart"}


def test_no_power_cycle_without_an_mcu() -> None:
    """Two reboots a day, and in between slow restarts: the last rung of this machine is the reboot."""
    one = Climber(mcu=False)
    one.find("camera")
    one.until(86000)
    actions = [action for _, _, action in one.taken]
    assert "power_cycle" not in actions
    assert actions.count("reboot") == 2


def test_nothing_is_given_up_for_ever() -> None:
    """After the last rung there is always another try, with its time, at least every hour."""
    one = Climber()
    one.find("camera")
    one.until(3 * 86400)
    seconds = [second for second, _, _ in one.taken]
    assert max(later - sooner for sooner, later in pairwise(seconds)) <= 3600
    assert one.row("camera")["next_rung"] is not None
    assert one.row("camera")["next_in_s"] is not None


def test_a_hold_stops_everything_and_its_end_goes_on() -> None:
    """While an operator works nothing is done; what is still open is due when the hold is over."""
    one = Climber()
    one.ladder.hold(None, 600 * NS, "new lens")
    assert one.find("camera") == []
    assert one.row("camera") | {"causes": None} == {
        "last_rung": None,
        "next_rung": "capture",
        "next_in_s": None,
        "hold_s": 600,
        "hold_why": "new lens",
        "profile": None,
        "causes": None,
    }
    assert one.until(599.9) == []
    assert one.until(600) == ["capture", "terminate"]


def test_a_hold_of_one_workload_leaves_the_others_their_ladder_but_never_a_reboot() -> None:
    """A person works on the recorder: the camera is looked after, the machine stays up."""
    one = Climber()
    one.ladder.hold("recorder", 7200 * NS, "disk")
    assert one.find("recorder") == []
    one.find("camera")
    one.until(7100)
    assert {"restart_dependants", "degrade"} <= {action for _, _, action in one.taken}
    assert not {"reboot", "power_cycle"} & {action for _, _, action in one.taken}


def test_resume_ends_a_hold() -> None:
    """`agentctl resume` is effective at the next tick; a second one has nothing to end."""
    one = Climber()
    one.ladder.hold("camera", 600 * NS, "x")
    one.find("camera")
    assert one.ladder.held("camera", 0)
    assert one.ladder.held(None, 0)
    assert one.ladder.resume("camera")
    assert not one.ladder.resume("camera")
    assert one.until(10)[:2] == ["capture", "terminate"]


def test_safe_mode_decides_nothing() -> None:
    """After a boot loop: watchdog, telemetry and CLI."""
    one = Climber()
    one.ladder.safe = "boot loop"
    one.find("camera")
    assert one.until(3600) == []
    assert one.row("camera")["next_rung"] is None


def test_it_comes_down_again_one_profile_at_a_time() -> None:
    """Ten quiet minutes give one profile back, the most important workload first; the last step is `restore`."""
    one = Climber()
    one.find("camera", "oom", settle_s=45)
    one.until(60)
    one.end("camera", "oom")
    one.until(2000)
    assert one.taken[2:] == [(660, "camera", "restore"), (1260, "detector", "restore")]


def test_a_profile_between_is_a_degrade_too() -> None:
    """From the lowest profile it goes back to the next better one."""
    one = Climber()
    one.find("camera", "timeout", settle_s=1)
    one.until(20)
    one.end("camera", "timeout")
    one.until(1300)
    assert [(action, one.decisions[n].arguments.get("profile")) for n, (_, _, action) in enumerate(one.taken)] == [
        ("degrade", "low"),
        ("degrade", "lowest"),
        ("degrade", "low"),
        ("restore", None),
    ]


def test_a_profile_that_was_given_back_too_early_waits_twice_as_long() -> None:
    """It does not flap: each relapse after a restore doubles the quiet time that the next one needs."""
    one = Climber()
    for _ in range(3):
        one.find("camera", "timeout")
        one.until(one.second + 5)
        one.end("camera", "timeout")
        while "restore" not in one.until(one.second + 10):
            pass
    restores = [second for second, _, action in one.taken if action == "restore"]
    degrades = [second for second, _, action in one.taken if action == "degrade"]
    waits = [later - sooner for sooner, later in zip(degrades, restores, strict=True)]
    assert waits == [pytest.approx(expected, abs=20) for expected in (610, 1210, 2410)]


def test_budgets_and_positions_outlive_a_reboot() -> None:
    """After the reboot that the ladder ordered, the same fault is met by the next rung, not by another reboot."""
    one = Climber()
    one.find("camera")
    one.until(85)
    assert one.taken[-1][2] == "reboot"
    one.restart("boot-2", 40)
    assert one.row("camera")["last_rung"] == "reboot"
    assert one.find("camera") == []
    assert one.until(341) == ["power_cycle"]


def test_a_hold_outlives_a_reboot_with_what_is_left_of_it() -> None:
    """The monotonic clock begins anew: the seconds that remain count, not the time at which it would have ended."""
    one = Climber()
    one.second = 5000
    one.ladder.hold(None, 5600 * NS, "x")
    one.until(5100)
    one.restart("boot-2", 30)
    assert one.row("camera")["hold_s"] == 500


def test_the_same_boot_goes_on_by_the_clock() -> None:
    """Was agentd away for a minute, the hold is a minute shorter."""
    one = Climber()
    one.ladder.hold("camera", 600 * NS, "x")
    one.restart("boot-1", 60)
    assert one.row("camera")["hold_s"] == 540


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"schema": 2},
        {"schema": 1, "boot_id": "b", "now_ns": "x"},
        {
            "schema": 1,
            "boot_id": "b",
            "now_ns": 1,
            "restore_s": 600,
            "holds": {},
            "taken": {},
            "workloads": {"camera": {"at": 99}},
        },
        {"schema": 1, "boot_id": "b", "now_ns": 1, "restore_s": float("nan"), "holds": {}, "taken": {}, "workloads": {}},
        {
            "schema": 1,
            "boot_id": "b",
            "now_ns": 1,
            "restore_s": 1,
            "holds": {"": {"until_ns": True, "why": ""}},
            "taken": {},
            "workloads": {},
        },
    ],
)
def test_a_corrupt_state_is_one_clear_error(data: object) -> None:
    """The file is set aside by whoever read it; the ladder stays as it was."""
    one = Climber()
    with pytest.raises(StoreError):
        one.ladder.restore(data, 0)  # type: ignore[arg-type]
    assert one.find("camera") == ["capture", "terminate"]


def test_what_is_none_of_its_business() -> None:
    """Findings about no workload, of no known cause, or that are not critical call for nothing here."""
    ladder = Ladder("b")
    ladder.learn((CAMERA,), mcu=False)
    assert list(ladder.decide(finding(0, "sshd"))) == []
    assert list(ladder.decide(finding(0, "camera", cause="bad_mood"))) == []
    assert list(ladder.decide(finding(0, "camera", "degraded"))) == []
    assert ladder.row("sshd", 0) == {}
    assert ladder.next_due_ns() is None


def test_the_tables_fit_each_other() -> None:
    """Causes enter at rungs that exist, at or below their top; what is no cure is followed at once; the machine's are last."""
    for entry in ENTRIES.values():
        assert INDEX[entry.rung] <= INDEX[entry.top]
        assert not entry.otherwise or INDEX[entry.otherwise] < INDEX[entry.rung]
    assert [rung.machine for rung in RUNGS] == sorted(rung.machine for rung in RUNGS)
    assert RUNGS[-1].settle_s > 0
    assert {rung.name for rung in RUNGS} | {"restore"} <= set(ACTIONS)
    assert max(rung.cooldown_s for rung in RUNGS if not rung.machine) < RETRY_S


def test_a_dependant_is_known_by_after() -> None:
    """`restart_dependants` exists for whom another workload comes after, and for nobody else."""
    one = Climber(CAMERA, DETECTOR, RECORDER, mcu=False)
    one.find("recorder")
    one.find("detector")
    one.until(120)
    assert {name for _, name, action in one.taken if action == "restart_dependants"} == {"detector"}
