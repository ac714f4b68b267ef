"""What goes wrong on gateways in the field, each from the first sign to its good end, through the whole pipeline."""

from __future__ import annotations

import pytest

from agent.config import Workload
from tests.stories import NS, Gateway

CAMERA = Workload("camera", command=("/usr/bin/camera",), notify="watchdog", degrade=("low",), priority=3)
DETECTOR = Workload(
    "detector", command=("/usr/bin/detector",), notify="watchdog", after=("camera",), degrade=("half",), priority=6
)
RECORDER = Workload(
    "recorder", command=("/usr/bin/recorder",), notify="watchdog", required=False, degrade=("sparse",), priority=9
)
SERVER = Workload("server", container="triton", notify="none", priority=4)


def gateway(*workloads: Workload, settled_s: float = 120) -> Gateway:
    """Give one that has worked for a while."""
    box = Gateway(workloads or (CAMERA, DETECTOR, RECORDER))
    box.run(settled_s)
    assert box.orders == []
    return box


def test_fps_zero_while_the_process_lives() -> None:
    """The process is there and nothing is delivered: the one capture is ended and works again; nobody else is touched."""
    box = gateway()
    box.programs["camera"].sick = True
    box.run(120)
    assert box.findings("deadline") == ["critical", "ok"]
    assert [(verb, name) for _, verb, name, _ in box.orders] == [("abort", "camera")]
    assert box.outcomes("capture")[0]["subject"] == "camera"
    assert box.row("camera")["last_rung"] == "terminate"
    assert box.machine.asked == []
    assert box.faults == []


def test_frames_stop_and_the_call_that_stops_the_pipeline_hangs_as_well() -> None:
    """The program neither ends by itself nor on SIGABRT: the restart from outside does it, after its start time was given."""
    box = gateway()
    box.programs["camera"].sick = True
    box.programs["camera"].obeys = ("restart",)
    box.run(300)
    assert box.verbs("camera") == ["abort", "restart"]
    assert box.findings("deadline") == ["critical", "ok"]


def test_a_start_of_92_seconds_is_waited_for() -> None:
    """A health wait of 15 s made a self-heal that never succeeded: one abort, then patience, then it works."""
    box = gateway()
    box.programs["detector"].sick = True
    box.programs["detector"].starts_in_s = 92
    box.run(300)
    assert box.verbs("detector") == ["abort"]
    assert box.findings("deadline") == ["critical", "ok"]


def test_starvation_is_no_deadlock() -> None:
    """Where every watchdog that fired was starvation: half a minute of a standing machine, and nothing is done."""
    box = gateway()
    box.starved = True
    box.run(25)
    box.starved = False
    box.run(60)
    assert box.orders == []
    assert box.findings("deadline") == []


def test_the_clock_goes_back_and_no_watchdog_pauses() -> None:
    """An hour back, then two days forward: no deadline is missed by it, and a hang meanwhile is found in time."""
    box = gateway()
    for step in (-3600.0, 172800.0):
        box.clock.wall_s += step
        box.happens("clock.step", "realtime", "agent", step_s=step, wall_s=box.clock.wall_s)
        box.run(30)
        assert box.orders == []
    box.programs["camera"].sick = True
    box.clock.wall_s -= 3600
    box.run(30)
    assert box.verbs("camera") == ["abort"]


def test_crash_restart_crash_ends_at_a_reduced_rate() -> None:
    """CUDA error 700 every 60 s: restarts with back-off are the keeper's; then a reduced rate; no reboot, no power cycle."""
    box = gateway()
    box.programs["detector"].crashes_after_s = 60
    box.run(1500)
    assert box.verbs("detector")[0] == "degrade"
    assert box.findings("crash_loop")[:2] == ["critical", "ok"]
    assert box.machine.asked == []
    assert box.verbs("camera") == []


@pytest.mark.parametrize("kind", ["video.audio_lost", "video.timeout"])
def test_loss_of_sound_or_stream_is_degraded_within_5_s_and_the_picture_goes_on(kind: str) -> None:
    """Degraded at once, timed in the outcome, without a new process; ten quiet minutes later it is given back."""
    box = gateway()
    pid = box.programs["camera"].pid
    box.happens(kind, "camera", stream="camera-1")
    outcome = box.outcomes("degrade")[0]
    finding = box.records("finding", detector="service_loss")[0]
    assert isinstance(outcome["t_mono_ns"], int)
    assert isinstance(finding["t_mono_ns"], int)
    assert outcome["ok"]
    assert outcome["t_mono_ns"] - finding["t_mono_ns"] < 5 * NS
    assert isinstance(outcome["data"], dict)
    assert "ms" in outcome["data"]
    assert (box.programs["camera"].profile, box.programs["camera"].pid) == ("low", pid)
    box.run(900)
    assert box.verbs("camera") == ["degrade", "restore"]
    assert (box.programs["camera"].profile, box.programs["camera"].pid) == ("", pid)


def test_out_of_memory_the_least_important_gives_way() -> None:
    """The camera was the kernel's victim and is back; the recorder, last in importance, is lowered within the second."""
    box = gateway()
    box.crash("camera", 9, oom=True, code=0, core=False)
    assert [(verb, name) for _, verb, name, _ in box.orders] == [("degrade", "recorder")]
    assert box.outcomes("degrade")[0]["ok"]
    box.run(60)
    assert len(box.orders) == 1


def test_a_hung_gpu_needs_one_reboot() -> None:
    """The program does not come back however it is restarted; the machine is rebooted once, with its reason written before."""
    box = gateway(CAMERA, RECORDER)
    box.programs["camera"].sick = True
    box.programs["camera"].cures = ()
    box.run(900)
    assert [what[0] for what in box.machine.asked][:2] == ["intent", "reboot"]
    assert sum(what[0] == "reboot" for what in box.machine.asked) == 1
    assert box.verbs("camera")[:3] == ["abort", "restart", "degrade"]


def test_an_operator_at_work_is_left_alone() -> None:
    """A hold of half an hour: nothing is restarted and nothing rebooted under their hands; then the ladder goes on."""
    box = gateway()
    box.ladder.hold(None, box.clock.ns + 1800 * NS, "replacing the lens")
    box.programs["camera"].sick = True
    box.run(1790)
    assert box.orders == []
    assert box.machine.asked == []
    box.run(30)
    assert box.verbs("camera") == ["abort"]


def test_the_container_that_lost_its_gpu_is_made_anew() -> None:
    """The host is fine, the health check inside is not: the container is restarted, and nothing hits the others."""
    box = gateway(SERVER, CAMERA, settled_s=60)
    box.programs["server"].answers = True
    box.run(60)
    box.programs["server"].sick = True
    box.run(30)
    assert box.machine.asked == [("container", "triton")]
    assert box.verbs("camera") == []


def test_a_unit_of_systemds_is_not_restarted_by_two_masters() -> None:
    """Its own Restart= is left to work; when systemd has given up, it and what needs it are restarted."""
    unit = Workload("vision", unit="vision.service")
    follower = Workload("follower", command=("/usr/bin/follower",), notify="watchdog", after=("vision",))
    box = Gateway((unit, follower), supervised=("vision",))
    box.run(60)
    for _ in range(6):
        box.crash("vision")
    assert box.machine.asked == []
    box.happens("workload.state", "vision", "agent", state="failed", pid=None, reason="start limit reached", restarts=5)
    assert box.machine.asked == [("unit", "restart", "vision.service")]
    assert box.verbs("follower") == ["restart"]


def test_silence_of_who_never_promised_a_beat_is_no_failure() -> None:
    """A workload without any evidence of life is not killed for having none."""
    box = gateway(Workload("mute", command=("/usr/bin/mute",)))
    box.programs["mute"].beats = False
    box.run(600)
    assert box.orders == []


def test_the_keeper_that_is_gone_for_a_minute_costs_nobody_a_restart() -> None:
    """Its upgrade, or its crash: no beat arrives, and no deadline is missed by that."""
    box = gateway()
    box.happens("workload.link", "keeper", "agent", up=False)
    for one in box.programs.values():
        one.beats = False
    box.run(60)
    for one in box.programs.values():
        one.beats = True
    box.happens("workload.link", "keeper", "agent", up=True)
    box.run(60)
    assert box.orders == []
