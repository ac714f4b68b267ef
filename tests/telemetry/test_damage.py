"""Files that are not what they should be: set aside, said, never fatal."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.errors import StoreError
from agent.telemetry import history
from agent.telemetry.marks import FILE as MARKS
from agent.telemetry.marks import Marks
from agent.telemetry.messages import EVENT, GAP
from tests.telemetry.doubles import BOOT, event, open_outbox

START = (-1, 0)
DB = "outbox.db"
ROOT = Path(__file__).parent.parent.parent


def filled(folder: Path, n: int = 200) -> bytes:
    """Make a sound outbox and give its bytes."""
    box = open_outbox(folder)
    box.append([event(i, text="x" * 300) for i in range(1, n + 1)], {"r": n})
    box.close()
    return (folder / DB).read_bytes()


@settings(max_examples=60, deadline=None)
@given(raw=st.binary(max_size=5000))
@example(raw=b"")
@example(raw=b"SQLite format 3\0" + b"\0" * 84)
@example(raw=b"SQLite format 3\0")
def test_random_bytes_in_place_of_the_file(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Whatever stands there, the outbox opens and works; what was not empty is set aside and said."""
    folder = tmp_path_factory.mktemp("noise")
    (folder / DB).write_bytes(raw)
    box = open_outbox(folder)
    assert bool(box.incidents) == bool(raw)
    assert box.append([event(1)], {"r": 7})[0].seq == 1
    box.close()
    if raw:
        assert (folder / f"{DB}.corrupt-1").read_bytes()[100:] == raw[100:]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_flipped_and_cut_files(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A sound file with a hole, or cut short: it opens (as it is, or anew), takes records, and gives what it has."""
    folder = tmp_path_factory.mktemp("hurt")
    raw = bytearray(filled(folder, 120))
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(1, len(raw) - 1))]
    else:
        at = data.draw(st.integers(0, len(raw) - 600))
        raw[at : at + 600] = data.draw(st.binary(min_size=600, max_size=600))
    (folder / DB).write_bytes(raw)
    box = open_outbox(folder)
    made = box.append([event(121)], {"r": 121})
    assert made[-1].seq >= 1
    numbers = [m.seq for m in box.pending(START, 10_000) if m.stream == EVENT]
    assert len(set(numbers)) == len(numbers)
    assert box.cursor("r") == 121
    box.close()


def test_a_damaged_outbox_leaves_a_gap_record_of_all_its_numbers(tmp_path: Path) -> None:
    """Numbers go on behind those of the lost file, and a gap record with unknown count covers them."""
    filled(tmp_path, 50)
    (tmp_path / DB).write_bytes(b"rubbish" * 1000)
    box = open_outbox(tmp_path)
    made = box.append([event(51)], {})
    gap = json.loads(next(m.body for m in made if m.stream == GAP))
    assert (gap["stream"], gap["first_seq"], gap["last_seq"], gap["count"], gap["reason"]) == (EVENT, 1, 50, None, "damaged")
    assert [m.seq for m in made if m.stream == EVENT] == [51]
    assert "set aside" in box.incidents[0]
    box.close()


def test_another_program_s_database_is_set_aside(tmp_path: Path) -> None:
    """A sound SQLite file that is not an outbox is not touched, only renamed."""
    with closing(sqlite3.connect(tmp_path / DB)) as db, db:
        db.execute("CREATE TABLE other (x)")
        db.execute("INSERT INTO other VALUES (42)")
    box = open_outbox(tmp_path)
    assert "not an outbox" in box.incidents[0]
    box.close()
    with closing(sqlite3.connect(tmp_path / f"{DB}.corrupt-1")) as db:
        assert db.execute("SELECT x FROM other").fetchone() == (42,)


def test_a_folder_in_its_place_is_set_aside(tmp_path: Path) -> None:
    """Even that."""
    (tmp_path / DB).mkdir()
    box = open_outbox(tmp_path)
    assert box.append([event(1)], {})[0].seq == 1
    box.close()
    assert (tmp_path / f"{DB}.corrupt-1").is_dir()


@pytest.mark.parametrize("damage", ["cut", "noise", "empty"])
def test_a_hurt_log_costs_the_newest_commits_at_most(tmp_path: Path, damage: str) -> None:
    """After a crash with a torn write-ahead log the outbox opens with a prefix of what was committed."""
    box = open_outbox(tmp_path)
    for n in range(1, 51):
        box.append([event(n)], {"r": n})
    files = {name: (tmp_path / name).read_bytes() for name in (DB, f"{DB}-wal")}
    box.close()
    log = files[f"{DB}-wal"]
    hurt = {"cut": log[: len(log) // 2 + 17], "noise": log[: len(log) // 2] + b"\xff" * 5000, "empty": b""}[damage]
    (tmp_path / DB).write_bytes(files[DB])
    (tmp_path / f"{DB}-wal").write_bytes(hurt)
    again = open_outbox(tmp_path)
    assert again.incidents == []
    got = [m.seq for m in again.pending(START, 100) if m.stream == EVENT]
    assert got == list(range(1, len(got) + 1))
    assert again.cursor("r") == len(got)
    again.close()


def test_damage_found_while_running_begins_a_new_file(tmp_path: Path) -> None:
    """Pages that rot under the running agent: the record at hand is not lost, numbers and ring positions go on."""
    filled(tmp_path, 300)
    box = open_outbox(tmp_path)
    with (tmp_path / DB).open("r+b") as file:
        file.seek(1024)
        file.write(b"\xa5" * ((tmp_path / DB).stat().st_size - 1024))
    box._store.db.execute("PRAGMA cache_size = 0")
    made = box.append([event(301)], {"r": 301})
    assert [m.seq for m in made if m.stream == EVENT] == [301]
    assert box.cursor("r") == 301
    assert box.incidents
    assert len(list(tmp_path.glob(f"{DB}.corrupt-?"))) == 1
    assert [row["seq"] for row in box.recent(9, kind="timer")] == [301]
    box.close()


def test_at_most_three_damaged_files_are_kept(tmp_path: Path) -> None:
    """The oldest goes; the log of a damaged file goes with it."""
    for n in range(5):
        (tmp_path / DB).write_bytes(b"rubbish %d" % n)
        (tmp_path / f"{DB}-wal").write_bytes(b"log")
        open_outbox(tmp_path).close()
    names = sorted(path.name for path in tmp_path.glob(f"{DB}.corrupt-*"))
    assert [name for name in names if name.count("-") == 1] == [f"{DB}.corrupt-{n}" for n in (3, 4, 5)]
    assert not (tmp_path / f"{DB}.corrupt-1-wal").exists()


@settings(max_examples=100, deadline=None)
@given(raw=st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode), st.just(b'{"boot_id":1,"last":[]}')))
def test_marks_of_any_content_count_as_none(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """A marks file that is not ours never stops the agent."""
    folder = tmp_path_factory.mktemp("marks")
    (folder / MARKS).write_bytes(raw)
    marks = Marks(folder, BOOT)
    assert marks.take("metrics") >= 1
    assert Marks(folder, BOOT).last("metrics") == marks.last("metrics")
    assert Marks(folder, "another").last("metrics") == 0


def test_history_of_a_killed_agent_leaves_its_files_as_they_are(tmp_path: Path) -> None:
    """File, log and index as kill -9 leaves them: the newest commit is readable and no byte changes."""
    box = open_outbox(tmp_path)
    box.append([event(1)], {})
    left = tmp_path / "left"
    left.mkdir()
    for name in (DB, f"{DB}-wal", f"{DB}-shm"):
        (left / name).write_bytes((tmp_path / name).read_bytes())
    box.close()
    before = {path.name: path.read_bytes() for path in left.iterdir()}
    assert [row["seq"] for row in history.recent(left, 9).records] == [1]
    assert {path.name: path.read_bytes() for path in left.iterdir()} == before


@pytest.mark.root
def test_history_is_readable_by_another_user_who_may_only_read() -> None:
    """`agentctl events` of a group member: with the owner running, and after a clean stop; nothing is created."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        box = open_outbox(folder)
        box.append([event(1)], {})
        assert as_nobody(folder) == "1"
        box.close()
        names = sorted(path.name for path in folder.iterdir())
        assert as_nobody(folder) == "1"
        assert sorted(path.name for path in folder.iterdir()) == names
        (folder / DB).chmod(0o600)
        assert "permission denied" in as_nobody(folder)


def a_socket(path: Path) -> None:
    """Put the file of a socket there."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


ODD: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
    "a socket": a_socket,
    "a symbolic link": lambda path: path.symlink_to(path.parent / "target"),
}


@pytest.mark.parametrize("tail", ["", "-wal", "-shm"])
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_regular_file_is_set_aside(tmp_path: Path, kind: str, tail: str) -> None:
    """A FIFO, a directory, a socket, a link: named and set aside as it is, neither opened nor followed; the outbox works."""
    if tail:
        filled(tmp_path, 5)
    ODD[kind](tmp_path / f"{DB}{tail}")
    with pytest.raises(StoreError, match=f"{DB}{tail} is {kind}"):
        history.recent(tmp_path, 9)
    box = open_outbox(tmp_path)
    assert f"is {kind}, not a regular file" in box.incidents[0]
    assert box.append([event(1)], {"r": 7})
    box.close()
    again = open_outbox(tmp_path)
    assert (again.incidents, again.cursor("r")) == ([], 7)
    again.close()
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("kind", ODD)
def test_a_lock_that_is_no_regular_file_is_named(tmp_path: Path, kind: str) -> None:
    """Nothing is opened or made through it."""
    ODD[kind](tmp_path / "outbox.lock")
    with pytest.raises(StoreError, match=f"outbox.lock: {kind}, not a regular file; remove it"):
        open_outbox(tmp_path)
    assert not (tmp_path / "target").exists()


def test_a_link_in_place_of_the_reserve_is_not_followed(tmp_path: Path) -> None:
    """Root would make its target."""
    (tmp_path / "outbox.reserve").symlink_to(tmp_path / "target")
    open_outbox(tmp_path).close()
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("kind", ODD)
def test_marks_over_what_is_no_regular_file(tmp_path: Path, kind: str) -> None:
    """It is replaced without being opened or followed; a directory is named as what is in the way."""
    ODD[kind](tmp_path / MARKS)
    if kind == "a directory":
        with pytest.raises(StoreError, match=f"{tmp_path / MARKS}: Is a directory: .* remove it"):
            Marks(tmp_path, BOOT)
    else:
        assert Marks(tmp_path, BOOT).take("metrics") == 1
        assert (tmp_path / MARKS).is_file()
    assert not (tmp_path / "target").exists()


@pytest.mark.root
def test_a_read_only_file_system_is_called_that(tmp_path: Path) -> None:
    """Not `unable to open` nor `disk I/O error`: outbox and marks say what is really wrong."""
    program = """
import sys
from pathlib import Path
from tests.telemetry.doubles import BOOT, open_outbox
from agent.telemetry.database import Database
from agent.telemetry.ledger import Ledger
from agent.telemetry.marks import Marks
for make in (lambda folder: Database(folder, Ledger(), 0), lambda folder: Marks(folder, BOOT)):
    try: make(Path(sys.argv[1]))
    except Exception as error: print(type(error).__name__, error)
"""
    script = f'mount -t tmpfs -o ro tmpfs {tmp_path} && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    first, second = done.stdout.splitlines()
    assert first.startswith(f"StoreError {tmp_path}: read-only file system; ")
    assert second.startswith(f"StoreError {tmp_path}: Read-only file system; set paths.runtime_dir")


def as_nobody(folder: Path) -> str:
    """Count the records that uid 65534 sees."""
    code = (
        "import sys; from pathlib import Path; from agent.telemetry import history; from agent.errors import StoreError\n"
        "try: print(len(history.recent(Path(sys.argv[1]), 9).records))\n"
        "except StoreError as error: print(error)"
    )
    command = ["/usr/bin/python3", "-c", code, str(folder)]
    done = subprocess.run(command, cwd=ROOT, user=65534, group=65534, capture_output=True, text=True, check=True)
    return done.stdout.strip()
