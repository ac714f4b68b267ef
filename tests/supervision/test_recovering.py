"""What holds recovery together: lanes, holds and their ends, safe mode, what is remembered, what counts as a report of work."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import pytest

from agent import config
from agent.config import Workload
from agent.detectors import crash_loop
from agent.errors import BadRequest, StoreError
from agent.model import Data, Decision, Event, Finding, Outcome, Sighting
from agent.policies.ladder import Ladder
from agent.ports import Remembers
from agent.supervision import actionports
from agent.supervision.recovering import Recovering, lane
from agent.supervision.remembering import BoundedIntents, Remembering
from agent.supervision.workloads import Owners
from agent.watchdogs.guarding import sign
from tests.doubles import HandClock, MemoryMachine

BOOT = "b" * 32
TWO = '[[workload]]\nname = "camera-1"\ncommand = ["x"]\n[[workload]]\nname = "camera-2"\ncommand = ["y"]\n'


@dataclass
class Told:
    """`recovering.Effects`: remembers."""

    holds: list[tuple[bool, tuple[str, ...]]] = field(default_factory=list)
    orders: list[tuple[str, str]] = field(default_factory=list)
    events: list[Sighting] = field(default_factory=list)

    def held(self, everything: bool, names: Collection[str]) -> None:  # noqa: FBT001 - of the port
        """Keep it."""
        self.holds.append((everything, tuple(sorted(names))))

    def ordered(self, verb: str, name: str, reason: str) -> None:
        """Keep it."""
        assert reason
        self.orders.append((verb, name))

    def told(self, sighting: Sighting) -> None:
        """Keep it."""
        self.events.append(sighting)


def now(_key: str, job: Callable[[], None]) -> bool:
    """Run a job at once."""
    job()
    return True


@pytest.fixture
def clock() -> HandClock:
    """Give a clock."""
    return HandClock(ns=3_600_000_000_000)


@pytest.fixture
def make(lab_config: Callable[..., Path], clock: HandClock) -> Callable[[], tuple[Recovering, Told]]:
    """Give the function that starts the recovery of an agentd; the second call is that of the next one."""
    settings = config.check(lab_config(TWO))

    def one() -> tuple[Recovering, Told]:
        detectors = [crash_loop.make(crash_loop.Options())]
        made, told = Recovering(settings, BOOT, clock, detectors, now, pytest.fail), Told()
        made.effects = told
        made.start(mcu=False)
        made.judged("unknown")
        return made, told

    return one


Make = Callable[[], tuple[Recovering, Told]]


def decision(action: str, subject: str = "camera-1") -> Decision:
    """Give a decision about a workload."""
    finding = Finding(1_000_000, "deadline", subject, "critical", "silent")
    return Decision(2_000_000, action, finding, "because", {"workload": subject})


def test_who_waits_for_whom() -> None:
    """Pins the lanes: rungs of one workload in order, others beside them, the machine's own never behind anybody's."""
    assert lane(decision("capture")) == lane(decision("restart")) == "of camera-1"
    assert lane(decision("restart", "camera-2")) == "of camera-2"
    assert lane(decision("reboot")) == lane(decision("power_cycle")) == "machine"
    assert lane(decision("snapshot")) == lane(decision("log")) == "evidence"


def test_a_hold_of_everything(make: Make, clock: HandClock) -> None:
    """Pins who hears of it and of its end, which comes by itself; the keeper goes on restarting what exits."""
    one, told = make()
    given = one.hold({"seconds": 60, "why": "new lens"})
    assert given == {"workload": None, "until": clock.wall() + 60, "why": "new lens"}
    assert told.holds == [(True, ("camera-1", "camera-2"))]
    assert [(event.subject, event.kind, event.data["why"]) for event in told.events] == [
        ("gateway", "workload.hold", "new lens")
    ]
    assert told.orders == []
    assert one.view("camera-2", clock.ns)["hold_until"] == clock.wall() + 60
    clock.pass_s(61)
    one.tick()
    assert told.holds[-1] == (False, ())
    assert one.view("camera-2", clock.ns)["hold_until"] is None
    assert {event.subject for event in told.events if not event.data["until_ns"]} == {"camera-1", "camera-2", "gateway"}


def test_a_hold_of_one_workload_binds_its_keeper_too(make: Make) -> None:
    """Pins that what is held by name is not even restarted when it exits, until `resume`, and that the rest goes on."""
    one, told = make()
    one.hold({"workload": "camera-1", "seconds": 60, "why": "debugging"})
    assert (told.holds, told.orders) == ([(False, ("camera-1",))], [("hold", "camera-1")])
    assert one.resume({"workload": "camera-1"}) == {"workload": "camera-1", "ended": True}
    assert (told.holds[-1], told.orders[-1]) == ((False, ()), ("resume", "camera-1"))
    assert one.resume({}) == {"workload": None, "ended": False}


def test_a_hold_outlives_agentd(make: Make, clock: HandClock) -> None:
    """Pins that the next agentd keeps it for the rest of its time, and tells its detectors."""
    make()[0].hold({"seconds": 60, "why": "new lens"})
    clock.pass_s(10)
    one, told = make()
    assert one.view("camera-1", clock.ns)["hold_until"] == pytest.approx(clock.wall() + 50, abs=1)
    assert told.holds == [(True, ("camera-1", "camera-2"))]
    assert {(event.subject, event.data["why"]) for event in told.events} == {("camera-1", "new lens"), ("camera-2", "new lens")}


@pytest.mark.parametrize(
    "request_",
    [
        {"seconds": 0, "why": "x"},
        {"seconds": 1e9, "why": "x"},
        {"seconds": True, "why": "x"},
        {"why": "x"},
        {"seconds": 60, "why": " "},
        {"seconds": 60},
        {"seconds": 60, "why": "x", "workload": "sshd"},
    ],
)
def test_a_hold_that_is_none(make: Make, request_: Data) -> None:
    """Pins that a hold has an end, a reason, and a workload of the configuration."""
    one, told = make()
    with pytest.raises(BadRequest):
        one.hold(request_)
    assert told.holds == []


def test_safe_mode_stops_the_workloads_and_tries_them_again(make: Make, clock: HandClock, tmp_path: Path) -> None:
    """Pins that the fourth boot of a loop comes up without workloads, decides nothing, and ends that by itself."""
    lives = [{"key": f"boot-{n}", "lasted_s": 60.0, "cause": "panic", "version": "1"} for n in range(3)]
    kept = {"schema": 1, "boots": lives, "loops": 0, "now": {"boot_id": "a" * 32, "version": "1", "uptime_s": 50.0, "why": ""}}
    (tmp_path / "state/boot_loop.json").write_text(json.dumps(kept))
    clock.ns = 5_000_000_000
    one, told = make()
    assert one.ladder.safe.startswith("boot loop")
    assert told.orders == [("stop", "camera-1"), ("stop", "camera-2")]
    clock.pass_s(3600)
    one.tick()
    assert one.ladder.safe == ""
    assert told.orders[2:] == [("start", "camera-1"), ("start", "camera-2")]


@pytest.mark.parametrize(
    ("safe", "held", "state", "kept", "orders"),
    [
        ("", False, "running", False, []),
        ("", False, "held", True, ["resume"]),  # the hold ended while nobody was there to say so
        ("", False, "running", True, ["resume"]),
        ("", True, "running", False, ["hold"]),  # it was ordered while the keeper was away
        ("", True, "running", True, []),
        ("", False, "stopped", False, ["start"]),  # safe mode ended in the same way
        ("", True, "stopped", True, []),  # it is held: not even started
        ("", True, "stopped", False, ["hold"]),
        ("loop", False, "running", False, ["stop"]),
        ("loop", False, "stopped", False, []),
    ],
)
def test_the_keeper_is_told_what_it_missed(
    make: Make, *, safe: str, held: bool, state: str, kept: bool, orders: list[str]
) -> None:
    """Pins that a hold or a stop whose end was lost between two agents, or two keepers, does not last for ever."""
    one, told = make()
    one.ladder.safe = safe
    if held:
        one.hold({"workload": "camera-1", "seconds": 60, "why": "x"})
    told.orders.clear()
    one.agree("camera-1", state, kept)
    assert told.orders == [(verb, "camera-1") for verb in orders]


def test_a_hold_puts_off_a_start(make: Make) -> None:
    """Pins that what is stopped and held by name is started when the hold is over, which alone would not start it."""
    one, told = make()
    one.hold({"workload": "camera-1", "seconds": 60, "why": "x"})
    one.agree("camera-1", "stopped", held=True)
    told.orders.clear()
    one.resume({"workload": "camera-1"})
    assert told.orders == [("resume", "camera-1"), ("start", "camera-1")]
    one.hold({"workload": "camera-1", "seconds": 60, "why": "x"})
    one.resume({"workload": "camera-1"})
    assert told.orders[2:] == [("hold", "camera-1"), ("resume", "camera-1")]


def test_how_long_a_cure_took(make: Make, clock: HandClock) -> None:
    """Pins that it counts from the finding to the end of a rung that worked; a capture cures nothing."""
    one, _told = make()
    for action, ok in (("capture", True), ("restart", False)):
        one.done(decision(action), Outcome(901_000_000, action, "camera-1", ok=ok, detail=""))
        assert "last_recovery_ms" not in one.view("camera-1", clock.ns)
    one.done(decision("terminate"), Outcome(901_000_000, "terminate", "camera-1", ok=True, detail=""))
    assert one.view("camera-1", clock.ns)["last_recovery_ms"] == 900.0


def test_what_cannot_be_read_back_is_begun_anew(tmp_path: Path, clock: HandClock) -> None:
    """Pins that a damaged file, or one of another version, is told once and costs nothing but what was learned."""
    for text in ("{", '{"schema": 9}', "", "\0" * 64):
        (tmp_path / "crash_loop.json").write_text(text)
        said: list[str] = []
        detector = crash_loop.make(crash_loop.Options())
        Remembering(tmp_path, {"crash_loop": detector}, clock, lambda job: now("", job), said.append).restore()
        assert len(said) == 1
        assert "crash_loop.json" in said[0]


def test_the_most_that_can_be_kept_is_read_back(tmp_path: Path, clock: HandClock) -> None:
    """Pins the room of a file: 64 workloads, all in a crash loop, all on hold for reasons in another script, all restarted."""
    names = [f"workload-with-a-long-name-{n:04}"[:32] for n in range(64)]
    loops, ladder = crash_loop.make(crash_loop.Options()), Ladder(BOOT)
    listed = "".join(f'[[workload]]\nname = "{name}"\ncommand = ["x"]\n' for name in names)
    (tmp_path / "agent.toml").write_text(listed)
    ladder.learn(config.check(tmp_path / "agent.toml").workload, mcu=True)
    for name in names:
        for n in range(16):
            data: Data = {"pid": 4_000_000 + n, "signal": 9}
            list(loops.see(Event(BOOT, n, clock.ns, 0.0, "keeper_link", "workload.exit", name, "warning", data)))
        ladder.hold(name, clock.ns + 10**12, "鏡頭" * 128)
    parts: dict[str, Remembers] = {"crash_loop": loops, "ladder": ladder}
    kept = {name: one.plain(clock.ns) for name, one in parts.items()}
    Remembering(tmp_path, parts, clock, lambda job: now("", job), pytest.fail).save()
    again: dict[str, Remembers] = {"crash_loop": crash_loop.make(crash_loop.Options()), "ladder": Ladder(BOOT)}
    Remembering(tmp_path, again, clock, lambda job: now("", job), pytest.fail).restore()
    assert {name: one.plain(clock.ns) for name, one in again.items()} == kept


def test_a_full_disk_is_told_once_for_each_file(tmp_path: Path, clock: HandClock) -> None:
    """Pins that two files that cannot be written do not fill the journal by turns."""
    said: list[str] = []
    both = {name: crash_loop.make(crash_loop.Options()) for name in ("one", "two")}
    kept = Remembering(tmp_path / "absent", both, clock, lambda job: now("", job), said.append)
    for _ in range(3):
        kept.save()
    assert len(said) == 2


def test_only_what_changed_is_written(tmp_path: Path, clock: HandClock) -> None:
    """Pins that flash is spared: the same again is not written; a disk that takes nothing is told once."""
    said: list[str] = []
    detector = crash_loop.make(crash_loop.Options())
    keeping = Remembering(tmp_path, {"crash_loop": detector}, clock, lambda job: now("", job), said.append)
    keeping.save()
    written = (tmp_path / "crash_loop.json").stat().st_ino
    keeping.save()
    assert (tmp_path / "crash_loop.json").stat().st_ino == written
    nowhere = Remembering(tmp_path / "gone", {"crash_loop": detector}, clock, lambda job: now("", job), said.append)
    nowhere.save()
    nowhere.save()
    assert len(said) == 1


def test_while_the_disk_hangs_the_newest_waits_alone(tmp_path: Path, clock: HandClock) -> None:
    """Pins that at most one write of each file is in line, and that it writes what holds by then."""
    line: list[Callable[[], None]] = []
    loops = crash_loop.make(crash_loop.Options())

    def later(job: Callable[[], None]) -> bool:
        line.append(job)
        return True

    keeping = Remembering(tmp_path, {"crash_loop": loops}, clock, later, pytest.fail)
    for pid in range(3):
        data: Data = {"pid": pid, "code": 1, "signal": 0, "replaced_pid": pid + 1}
        loops.see(Event(BOOT, pid + 1, clock.ns, 0.0, "keeper_link", "workload.exit", "camera-1", "warning", data))
        keeping.save()
    assert len(line) == 1
    line[0]()
    assert len(json.loads((tmp_path / "crash_loop.json").read_text())["workloads"]["camera-1"]) == 3


def test_what_changes_while_the_worker_takes_the_rest_is_written(tmp_path: Path, clock: HandClock) -> None:
    """Pins that no moment of the worker's loses the newest: here it begins to write between the look for it and its change."""
    line: list[Callable[[], None]] = []
    loops = crash_loop.make(crash_loop.Options())

    class Interrupted(dict[str, Data]):
        def __contains__(self, key: object) -> bool:
            found = super().__contains__(key)
            while line:
                worker = Thread(target=line.pop(0))
                worker.start()
                workers.append(worker)
                worker.join(0.2)
            return found

    def later(job: Callable[[], None]) -> bool:
        line.append(job)
        return True

    workers = list[Thread]()
    keeping = Remembering(tmp_path, {"crash_loop": loops}, clock, later, pytest.fail)
    keeping._pending = Interrupted()
    for pid in range(3):
        data: Data = {"pid": pid, "code": 1, "signal": 0, "replaced_pid": pid + 1}
        loops.see(Event(BOOT, pid + 1, clock.ns, 0.0, "keeper_link", "workload.exit", "camera-1", "warning", data))
        keeping.save()
    for worker in workers:
        worker.join(10)
    for job in line:
        job()
    assert len(json.loads((tmp_path / "crash_loop.json").read_text())["workloads"]["camera-1"]) == 3


def test_last_words_do_not_wait_for_ever() -> None:
    """Pins that a queue without room is a StoreError at once, and that the inner error comes through."""
    with pytest.raises(StoreError, match="did not take it"):
        BoundedIntents(MemoryMachine(), lambda _job: False).declare("reboot", "because")
    with pytest.raises(StoreError, match="full"):
        BoundedIntents(MemoryMachine(error=StoreError("full")), lambda job: now("", job)).declare("reboot", "because")


RUNS: Data = {"state": "running", "phase": "run", "parent": "keeper", "deadline_s": 2.0, "margin_s": 1.5, "starved_s": 0.0}


@pytest.mark.parametrize(
    ("row", "how", "seconds"),
    [
        ({}, "silent", 0.0),  # it beats: the beats themselves report
        ({"starved_s": 0.4}, "excused", 1.5),
        ({"starved_s": 0.4, "margin_s": -0.1}, "silent", 0.0),
        ({"state": "starting", "phase": "start", "margin_s": 30.0}, "excused", 30.0),
        ({"deadline_s": None, "margin_s": None}, "reports", 0.0),
        ({"state": "backoff"}, "excused", 20.0),
        ({"state": "unknown"}, "excused", 20.0),
        ({"state": "unknown", "parent": "unit"}, "reports", 0.0),
        ({"state": "stopped"}, "silent", 0.0),
        ({"deadline_s": None, "margin_s": None, "causes": ["health_check"]}, "silent", 0.0),
    ],
)
def test_what_feeds_the_watchdogs_between_beats(row: Data, how: str, seconds: float) -> None:
    """Pins the table of `guarding`: what is excused, what counts as a report, and what lets the hardware act."""
    assert sign(RUNS | row) == (how, seconds)


def test_dependants_come_behind_all_that_they_need() -> None:
    """Pins the order of restarts: over several steps, each once, and nobody who does not depend on it."""
    rows = [("d", ("b", "c")), ("b", ("a",)), ("c", ("b",)), ("a", ()), ("x", ("y",)), ("y", ())]
    workloads = [Workload(name=name, unit=f"{name}.service", after=after) for name, after in rows]
    assert actionports.dependants("a", workloads) == ("b", "c", "d")
    assert actionports.dependants("d", workloads) == ()
    assert actionports.targets(workloads)["b"].by == "b.service"


def test_whose_death_it_was() -> None:
    """Pins that a death belongs to a workload by its pid, or, killed for memory, by its command's name; else to nobody."""
    owners = Owners([Workload(name="camera-1", command=("/opt/cam/decoder", "-x"), required=False)])
    owners.note("camera-1", 77)
    death: Data = {"pid": 77, "tgid": 77, "comm": "python", "oom": False, "workload": None}

    def label(**more: object) -> tuple[str, object]:
        found = owners.label(Sighting(1, "process_exit", "proc.exit", "python", "info", death | more))  # type: ignore[arg-type]
        return found.subject, found.data.get("required")

    assert label() == ("camera-1", False)
    assert label(tgid=78) == ("python", None)
    assert label(tgid=78, comm="decoder") == ("python", None)
    assert label(tgid=78, comm="decoder", oom=True) == ("camera-1", False)


def test_a_name_that_many_have_tells_of_nobody() -> None:
    """Pins that a strange `python` killed for memory is no workload's, nor is one of two workloads with one command."""
    commands = {"a": ("python3.11", "a.py"), "b": ("/opt/decoder",), "c": ("/usr/bin/decoder",)}
    owners = Owners([Workload(name=name, command=command) for name, command in commands.items()])
    for comm in ("python3.11", "decoder"):
        death = Sighting(1, "process_exit", "proc.exit", comm, "info", {"tgid": 5, "comm": comm, "oom": True})
        assert owners.label(death).subject == comm
