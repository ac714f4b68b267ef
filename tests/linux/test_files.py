"""The bounded folder of snapshots, on a real file system, with a process that is killed in the middle."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import StoreError
from agent.linux import files
from agent.linux.files import SnapshotFolder

WRITER = """
import sys
from pathlib import Path
from agent.linux.files import SnapshotFolder
folder = SnapshotFolder(Path(sys.argv[1]), entries=5)
print("up", flush=True)
count = 0
while True:
    count += 1
    folder.keep(f"{count:06d}", {f"file{index}": "x" * 20_000 for index in range(8)})
"""


def test_an_entry_is_whole(tmp_path: Path) -> None:
    """Pins that an entry holds its files, mode 0640 in a folder of 0750, and is listed by its name."""
    folder = SnapshotFolder(tmp_path / "snapshots")
    assert folder.names() == []
    path = Path(folder.keep("20260101T000000.000Z-timer_late-tick", {"meminfo.json": "{}\n", "kmsg.txt": "ä\n"}))
    assert folder.names() == [path.name]
    assert (path / "kmsg.txt").read_text() == "ä\n"
    assert (path / "kmsg.txt").stat().st_mode & 0o777 == 0o640


def test_the_oldest_make_room(tmp_path: Path) -> None:
    """Pins both limits: number of entries and bytes together, oldest first, the new one always kept."""
    folder = SnapshotFolder(tmp_path, entries=3, total=100)
    for name in ("a", "b", "c", "d"):
        folder.keep(name, {"file": "x" * 10})
    assert folder.names() == ["b", "c", "d"]
    folder.keep("e", {"file": "x" * 85})
    assert folder.names() == ["d", "e"]
    folder.keep("a", {"file": "x" * 100})  # a clock that was set back: it is the newest all the same
    assert folder.names() == ["a"]


def test_a_name_that_is_taken_is_counted_up(tmp_path: Path) -> None:
    """Pins that two findings of the same millisecond do not overwrite each other."""
    folder = SnapshotFolder(tmp_path)
    paths = [folder.keep("same", {"file": str(count)}) for count in range(3)]
    assert [Path(path, "file").read_text() for path in paths] == ["0", "1", "2"]


def test_a_long_file_is_cut_and_says_so(tmp_path: Path) -> None:
    """Pins the bound of one file."""
    path = SnapshotFolder(tmp_path).keep("long", {"file": "x" * (files.FILE + 5)})
    text = Path(path, "file").read_text()
    assert text.endswith("\n[5 more bytes left out]\n")
    assert len(text) < files.FILE + 100


def test_credentials_do_not_reach_the_disk(tmp_path: Path) -> None:
    """Pins that URLs are kept without user and password."""
    path = SnapshotFolder(tmp_path).keep("url", {"file": "opening rtsp://user:secret@camera/1 failed"})
    text = Path(path, "file").read_text()
    assert "secret" not in text
    assert "camera/1 failed" in text


def test_what_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    """Pins a StoreError naming the folder when something is in the way, and that nothing half-made stays."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/snapshots: cannot keep x"):
        SnapshotFolder(tmp_path / "file" / "snapshots").keep("x", {"a": "b"})


@pytest.mark.root
def test_a_full_disk_leaves_no_half_entry(tmp_path: Path) -> None:
    """Pins ENOSPC on a real, tiny file system: one StoreError, the whole entries stay listed, no temporary folder is left."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(tmp_path)], check=True)
    try:
        folder = SnapshotFolder(tmp_path)
        folder.keep("a", {"file": "x" * 60_000})
        with pytest.raises(StoreError, match="No space left"):
            folder.keep("b", {f"file{index}": "x" * 60_000 for index in range(5)})
        assert folder.names() == ["a"]
        assert [path.name for path in tmp_path.iterdir()] == ["a"]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_kill_9_leaves_no_half_entry(tmp_path: Path) -> None:
    """Pins that whatever is listed is whole, wherever kill -9 hits the writer, and that the next writer clears the rest."""
    for delay_ms in range(0, 40, 4):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as child:
            assert child.stdout
            assert child.stdout.readline() == b"up\n"
            time.sleep(delay_ms / 1000)
            child.kill()
        for name in SnapshotFolder(tmp_path).names():
            sizes = [(path.name, path.stat().st_size) for path in sorted((tmp_path / name).iterdir())]
            assert sizes == [(f"file{index}", 20_000) for index in range(8)], name
    folder = SnapshotFolder(tmp_path, entries=5)
    folder.keep("last", {"file": "x"})
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert len(folder.names()) <= 5


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    """Pins that while entries come and go, one that is listed before and after a look into it was whole."""
    folder = SnapshotFolder(tmp_path, entries=3)
    stop = threading.Event()
    wrong: list[str] = []

    def look() -> None:
        while not stop.is_set():
            for name in folder.names():
                with contextlib.suppress(FileNotFoundError):
                    held = sorted(path.name for path in (tmp_path / name).iterdir())
                    if held != ["a", "b"] and name in folder.names():
                        wrong.append(f"{name}: {held}")

    thread = threading.Thread(target=look)
    thread.start()
    for count in range(60):
        folder.keep(f"{count:03d}", {"a": "1", "b": "2"})
    stop.set()
    thread.join()
    assert not wrong


@given(text=st.text())
def test_any_name_is_safe(text: str) -> None:
    """Pins that foreign text (a comm, a device) never leaves the folder, hides, or exceeds what a file name may be."""
    name = files.safe_name(text)
    assert "/" not in name
    assert not name.startswith(".")
    assert 0 < len(name.encode()) <= 96
