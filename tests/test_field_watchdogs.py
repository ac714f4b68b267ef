"""Stories from the field on watchdogs, clocks, silence and restarts: the thinking parts together, over doubles of the rest."""

from __future__ import annotations

from collections.abc import Callable

from agent.config import Workload
from agent.detectors import crash_loop, deadline, health_check, service_loss
from agent.model import Data, Decision, Outcome, Sighting
from agent.pipeline import Pipeline
from agent.policies.ladder import Ladder
from tests.doubles import HandClock, MemoryStore

NS = 1_000_000_000


class Gateway:
    """Detectors and ladder on a clock that is moved by hand; every action succeeds and is remembered."""

    def __init__(self, *workloads: Workload) -> None:
        self.clock, self.store = HandClock(ns=3600 * NS), MemoryStore()
        self.acted: list[tuple[str, str]] = []
        self.ladder = Ladder("b" * 32)
        self.ladder.learn(workloads, mcu=True)
        modules = (deadline.make(deadline.Options()), crash_loop.make(crash_loop.Options()))
        more = (service_loss.make(service_loss.Options()), health_check.make(health_check.Options()))
        self.hub = Pipeline(
            boot_id="b" * 32,
            clock=self.clock,
            store=self.store,
            detectors=[*modules, *more],
            policies=[self.ladder],
            actions=dict.fromkeys(("capture", "terminate", "restart", "degrade", "reboot", "power_cycle"), self._act),
            submit=_at_once,
            back=lambda job: job(),
            fault=_never,
        )
        for one in workloads:
            self.show("workload.known", one.name, deadline_s=one.deadline_s, liveness=one.notify, ceiling_s=None)

    def _act(self, decision: Decision) -> Outcome:
        self.acted.append((decision.action, decision.finding.subject))
        return Outcome(self.clock.mono_ns(), decision.action, decision.finding.subject, ok=True, detail="done")

    def show(self, kind: str, subject: str, **data: object) -> None:
        """Show a sample."""
        self.hub.sample(self._sighting(kind, subject, data))

    def take(self, kind: str, subject: str, **data: object) -> None:
        """Take an event."""
        self.hub.take([self._sighting(kind, subject, data)])

    def _sighting(self, kind: str, subject: str, data: object) -> Sighting:
        assert isinstance(data, dict)
        plain: Data = dict(data)
        return Sighting(self.clock.mono_ns(), "keeper_link", kind, subject, "info", plain)

    def state(self, name: str, state: str, pid: int | None) -> None:
        """Tell a state."""
        self.take("workload.state", name, state=state, pid=pid, reason="", restarts=0, ready=True, status="")

    def beat(self, name: str, seconds: float) -> None:
        """Let it beat once a second for so long."""
        for _ in range(int(seconds)):
            self.clock.pass_s(1)
            beats = {"last_ns": self.clock.mono_ns(), "intervals_ms": [1000.0], "phase": "run"}
            self.show("workload.beats", name, watchdog_us=5_000_000, extend_until_ns=None, **beats)
            self.tick()

    def tick(self, seconds: float = 0) -> None:
        """Let time pass."""
        for _ in range(max(1, int(seconds))):
            self.clock.pass_s(1 if seconds else 0)
            self.show("machine.pressure", "psi", cpu_some_us_total=0.0, memory_full_us_total=0.0, io_full_us_total=0.0)
            self.hub.tick()


def _at_once(_decision: Decision, job: Callable[[], None]) -> bool:
    job()
    return True


def _never(name: str, error: Exception) -> None:
    raise AssertionError(f"{name}: {error}")


CAMERA = Workload(name="camera", command=("x",), notify="watchdog", deadline_s=5.0)


def test_the_clock_goes_back_and_no_watchdog_pauses() -> None:
    """R35: the time service sets the clock back and on: nobody is killed for it, and a hang is found as soon as ever."""
    gateway = Gateway(CAMERA)
    gateway.state("camera", "running", 7)
    gateway.beat("camera", 60)
    for step_s in (-3600.0, 7200.0):
        gateway.clock.wall_s += step_s
        gateway.take("clock.step", "realtime", step_s=step_s, wall_s=gateway.clock.wall_s)
        gateway.beat("camera", 60)
    assert gateway.acted == []
    gateway.clock.wall_s -= 86_400
    gateway.tick(20)
    assert gateway.acted[:2] == [("capture", "camera"), ("terminate", "camera")]


def test_crash_restart_crash_after_a_minute() -> None:
    """R53: each life looks healthy, and the loop is found all the same; a reduced rate cures it, and nothing is rebooted."""
    gateway = Gateway(Workload(name="kiosk", command=("x",), notify="watchdog", degrade=("half-rate",)))
    for pid in range(10, 15):
        gateway.state("kiosk", "running", pid)
        gateway.beat("kiosk", 60)
        gateway.take("workload.exit", "kiosk", pid=pid, code=188, signal=0, core=False, replaced_pid=pid + 1, replaced_ms=1.0)
        if gateway.acted:
            break
    assert gateway.acted == [("degrade", "kiosk")]
    gateway.state("kiosk", "running", 99)
    gateway.beat("kiosk", 1200)
    assert [action for action, _subject in gateway.acted if action in {"reboot", "power_cycle"}] == []
    assert gateway.hub.open == {}


def test_a_silent_keeper_proves_nothing() -> None:
    """R49: "no beat arrives" is said of the line, not of the workloads: nobody is killed while their keeper is replaced."""
    gateway = Gateway(CAMERA)
    gateway.state("camera", "running", 7)
    gateway.beat("camera", 60)
    gateway.take("workload.link", "keeper", up=False)
    gateway.tick(120)
    assert gateway.acted == []
    gateway.take("workload.link", "keeper", up=True, lost=0, version="1")
    gateway.state("camera", "running", 7)
    gateway.tick(20)
    assert gateway.acted[:2] == [("capture", "camera"), ("terminate", "camera")], "and then its silence counts again"


def test_what_says_nothing_is_shown_as_not_proven() -> None:
    """R51: a workload without a sign of life is never judged by its silence, and never shown as proven."""
    gateway = Gateway(Workload(name="mute", command=("x",)))
    gateway.state("mute", "running", 7)
    gateway.tick(600)
    assert gateway.acted == []
    (one,) = [part for part in gateway.hub.detectors if isinstance(part, deadline.Deadline)]
    assert one.row("mute", gateway.clock.ns)["proven"] is False


def test_frames_stop_after_days() -> None:
    """R33: four days of frames, then none: the hang is found within seconds, and the process is ended from outside."""
    gateway = Gateway(CAMERA)
    gateway.state("camera", "running", 7)
    gateway.beat("camera", 600)
    for _ in range(96):
        gateway.clock.pass_s(3600 - 600)
        gateway.state("camera", "running", 7)
        gateway.beat("camera", 6)
    gateway.acted.clear()
    gateway.tick(15)
    assert gateway.acted[:2] == [("capture", "camera"), ("terminate", "camera")]
