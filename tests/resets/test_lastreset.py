"""Last words and the judgement of a boot, on real files: one boot's agentd after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import pytest

from agent.errors import GatewardenError, StoreError
from agent.linux import intent
from agent.linux.intent import DurableFile
from agent.linux.pstore import Record
from agent.model import Data, Json
from agent.resets.causes import CARDRESET, OPERATORS_CYCLE, Words
from agent.resets.lastreset import LastReset, Witnesses
from agent.resets.lastwords import ACT_S, ALIVE_S, PER_HOUR, LastWords
from tests.brokers import wait_for
from tests.doubles import HandClock

PANIC = Record("Panic-1", "Panic", "Kernel panic - not syncing: x")


@dataclass
class CountedFile:
    """`Durable` in memory: counts its writes, or takes none."""

    value: Json = None
    writes: int = 0
    full: bool = False
    before: Callable[[], None] = lambda: None

    def read(self) -> Json:
        """Give it."""
        return self.value

    def write(self, value: Data) -> None:
        """Keep it."""
        self.before()
        if self.full:
            raise StoreError("/state/intent.json: No space left on device")
        self.value = value
        self.writes += 1


@dataclass
class Box:
    """A machine that boots again and again on one state_dir."""

    folder: Path
    clock: HandClock = field(default_factory=HandClock)
    dumps: list[Record] = field(default_factory=list)
    registers: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    number: int = 0

    def boot(self) -> tuple[LastWords, LastReset]:
        """Start agentd in a new boot."""
        self.number += 1
        return self.agentd()

    def agentd(self) -> tuple[LastWords, LastReset]:
        """Start agentd (again) in this boot."""
        words = LastWords(
            DurableFile(self.folder / "intent.json"), self.clock, Words(f"boot{self.number}", "1.0"), self.said.append
        )
        seen = Witnesses(lambda: self.dumps, lambda: self.registers, lambda: intent.planned(self.folder))
        return words, LastReset(DurableFile(self.folder / "boots.json"), words, self.clock, seen, self.said.append)

    def reset(self, act: Callable[[LastWords], object] = LastWords.alive) -> str:
        """Run one boot up to what `act` leaves, then the next one; gives what that one says of it."""
        words, last = self.boot()
        last.resolve()
        act(words)
        _words, last = self.boot()
        last.resolve()
        return last.verdict.cause


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """Give one."""
    return Box(tmp_path)


def test_the_first_boot_knows_nothing_and_blames_no_old_dump(box: Box) -> None:
    """Pins that what lay in pstore before the agent came is not taken for the last reset."""
    box.dumps = [PANIC]
    _words, last = box.boot()
    found = last.resolve()
    assert found is not None
    assert (found.data["cause"], found.data["confidence"]) == ("unknown", "none")
    assert box.reset() == "power_cut", "and the old dump is never told again"


def test_each_boot_is_told_once(box: Box) -> None:
    """Pins one event per boot, also over restarts of agentd, with the verdict kept for the status."""
    box.reset()
    box.dumps = [PANIC]
    words, last = box.boot()
    found = last.resolve()
    assert found is not None
    assert found.data["cause"] == "panic"
    assert last.resolve() is None
    words.alive()
    _words, again = box.agentd()
    assert again.resolve() is None
    assert again.row()["cause"] == "panic"
    assert box.reset() == "power_cut", "the dump was told before"


def test_every_cause_by_what_a_boot_leaves(box: Box, tmp_path: Path) -> None:
    """Pins the five causes from files: panic, watchdog, power cut, operator's and agent's reboot."""
    assert box.reset() == "power_cut"
    assert box.reset(lambda words: words.declare("reboot", "ladder")) == "agent_reboot"
    assert box.reset(lambda words: words.declare(OPERATORS_CYCLE, "agentctl mcu power-cycle")) == "operator_reboot"
    assert box.reset(lambda words: words.phase("missed", "supervisor: a missed its deadline")) == "watchdog"

    def operator(words: LastWords) -> None:
        (tmp_path / "shutdown").write_text(f"{words.now.boot_id}\n")
        words.end()

    assert box.reset(operator) == "operator_reboot"
    assert box.reset() == "power_cut", "an old mark names an old boot"
    box.registers = {"watchdog0": CARDRESET}
    assert box.reset() == "watchdog"
    box.dumps = [PANIC]
    box.registers = {}
    _words, last = box.boot()
    last.resolve()
    assert last.verdict.cause == "panic"
    assert last.boots.counted() == {
        "panic": 1,
        "watchdog": 3,
        "power_cut": 7,
        "operator_reboot": 2,
        "agent_reboot": 1,
        "unknown": 1,
    }


def test_how_long_a_boot_lasted(box: Box) -> None:
    """Pins that signs of life give the length of a boot to ten minutes, by the monotonic clock (systemd issue 5014)."""
    words, last = box.boot()
    last.resolve()
    box.clock.ns = 100 * 10**9
    words.alive()
    box.clock.pass_s(ALIVE_S)
    box.clock.wall_s -= 1e6
    words.alive()
    _words, last = box.boot()
    found = last.resolve()
    assert found is not None
    assert found.data["uptime_s"] == 700.0
    assert last.boots.ring[0].uptime_s == 700.0


def test_what_cannot_be_read_is_said(box: Box) -> None:
    """Pins that a closed pstore is told, and costs nothing else."""

    def closed() -> list[Record]:
        raise GatewardenError("no broker")

    words, _last = box.boot()
    seen = Witnesses(closed, dict, lambda: "")
    last = LastReset(DurableFile(box.folder / "boots.json"), words, box.clock, seen, box.said.append)
    assert last.resolve() is not None
    assert box.said == ["pstore cannot be read, so a panic would stay unknown: no broker"]


def test_flash_is_spared() -> None:
    """Pins the budget: a day of quiet is 144 writes, and phases that flap all day stay below 900."""
    clock, file = HandClock(), CountedFile()
    words = LastWords(file, clock, Words("b", "1"), lambda _text: None)
    for _ in range(86_400 // 10):
        clock.pass_s(10)
        words.phase("run")
        words.alive()
    assert file.writes == pytest.approx(144, abs=2)
    for number in range(86_400 // 10):
        clock.pass_s(10)
        words.phase("missed" if number % 2 else "run", "x")
        words.alive()
    assert file.writes < 144 + 25 * PER_HOUR + 150


def test_an_act_is_not_overwritten_by_what_goes_on_meanwhile() -> None:
    """Pins that feeding while the machine goes down leaves the declared reboot in the file, until it has clearly failed."""
    clock, file = HandClock(), CountedFile()
    words = LastWords(file, clock, Words("b", "1"), lambda _text: None)
    words.declare("reboot", "ladder")
    words.phase("run")
    words.end()
    assert isinstance(file.value, dict)
    assert (file.value["phase"], file.value["act"]) == ("act", "reboot")
    clock.pass_s(ACT_S)
    words.phase("run")
    assert file.value["phase"] == "run"


def test_an_act_is_not_overwritten_before_it_is_written() -> None:
    """Pins that a feed leaves a declared reboot alone while a disk that hangs has taken nothing for long."""
    hangs, writes = Event(), Event()

    def hang() -> None:
        writes.set()
        assert hangs.wait(20)

    clock, file = HandClock(), CountedFile(before=hang)
    words = LastWords(file, clock, Words("b", "1"), lambda _text: None)
    threads = [Thread(target=act) for act in (words.alive, lambda: words.declare("reboot", "ladder"))]
    threads[0].start()
    assert writes.wait(20)
    clock.pass_s(ACT_S)
    threads[1].start()
    wait_for(lambda: words.now.phase == "act", "declared")
    words.later = lambda _job: True
    words.phase("run")
    assert words.now.act == "reboot"
    hangs.set()
    for thread in threads:
        thread.join()
    assert isinstance(file.value, dict)
    assert file.value["act"] == "reboot"


def test_what_is_said_while_the_last_is_being_written_is_not_lost() -> None:
    """Pins that the thread that writes puts nothing back that the loop has replaced meanwhile."""
    words = LastWords(CountedFile(), HandClock(), Words("b", "1"), lambda _text: None, later=lambda _job: True)
    over, before = Event(), sys.getswitchinterval()

    def write() -> None:
        while not over.is_set():
            words.alive()
            words.declare("none", "")
            words.revoke("none")

    sys.setswitchinterval(1e-6)
    writer = Thread(target=write)
    writer.start()
    try:
        for number in range(5000):
            words.armed({str(number): True})
            for _ in range(10):
                assert words.now.armed == {str(number): True}
    finally:
        over.set()
        writer.join()
        sys.setswitchinterval(before)


def test_an_act_that_failed_is_taken_back() -> None:
    """Pins that a reboot that was refused is not the cause of the reset that comes instead."""
    file = CountedFile()
    words = LastWords(file, HandClock(), Words("b", "1"), lambda _text: None)
    words.declare("reboot", "ladder")
    words.revoke("power_cycle")
    assert words.now.phase == "act"
    words.revoke("reboot")
    assert isinstance(file.value, dict)
    assert (file.value["phase"], file.value["act"]) == ("run", "")


def test_a_full_disk_is_said_once_and_stops_nothing() -> None:
    """Pins that a phase that cannot be kept is told once, and that an act hears of it."""
    said: list[str] = []
    file = CountedFile(full=True)
    words = LastWords(file, HandClock(), Words("b", "1"), said.append)
    words.phase("missed", "x")
    words.phase("run")
    assert said == ["the cause of the next reset may stay unknown: /state/intent.json: No space left on device"]
    with pytest.raises(StoreError):
        words.declare("reboot", "x")


def test_a_mark_of_any_content(tmp_path: Path) -> None:
    """Pins the mark: dashes are left out, rubbish names no boot, absence neither."""
    assert intent.planned(tmp_path) == ""
    (tmp_path / "shutdown").write_text("cafe-01\n")
    assert intent.planned(tmp_path) == "cafe01"
    (tmp_path / "shutdown").write_bytes(b"\xff\xfe")
    assert intent.planned(tmp_path) == ""


def test_a_torn_or_foreign_file_is_nothing(tmp_path: Path) -> None:
    """Pins that a file of another form is as good as none, and that it is replaced whole."""
    file = DurableFile(tmp_path / "intent.json")
    for content in (b"", b"{", b"\xff", b"[" * 5000):
        file.path.write_bytes(content)
        assert file.read() is None
    file.write({"a": 1})
    assert file.read() == {"a": 1}
    with pytest.raises(StoreError, match="nowhere"):
        DurableFile(tmp_path / "nowhere/x.json").write({})


def test_a_watchdog_that_told_once_is_known_to_tell(box: Box) -> None:
    """Pins what is learned: i6300esb does not declare that it reports its resets; after one it is taken at its word."""
    armed = {"watchdog0": False}
    assert box.reset(lambda words: words.armed(armed)) == "watchdog"
    box.registers = {"watchdog0": CARDRESET}
    assert box.reset(lambda words: words.armed(armed)) == "watchdog"
    box.registers = {"watchdog0": 0}
    assert box.reset(lambda words: words.armed(armed)) == "power_cut"
