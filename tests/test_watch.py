"""agent.watch, as a workload uses it: what it sends, what it does without a supervisor, what importing it costs."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent import watch
from agent.keeping.notify import Said, parse
from tests.brokers import wait_for


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Give the receiving end of NOTIFY_SOCKET, and a profile file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("GATEWARDEN_PROFILE_FILE", str(tmp_path / "profile"))
        yield sock


def _next(sock: socket.socket) -> Said:
    return parse(sock.recv(1 << 16))


def test_what_it_says(supervisor: socket.socket) -> None:
    """Pins every call, read back by the keeper's own parser."""
    with watch.Watch() as me:
        assert _next(supervisor) == Said(ready=True)
        me.beat()
        assert _next(supervisor) == Said(beat=True)
        me.beat(done=2, status="two\nframes")
        assert _next(supervisor) == Said(beat=True, work=2, status="two frames")
        me.beat(done=1)
        assert _next(supervisor).work == 3
        me.extend(1.5)
        assert _next(supervisor) == Said(extend_us=1_500_000)
        me.reloading()
        assert _next(supervisor) == Said(reloading=True)
        me.ready("again")
        assert _next(supervisor) == Said(ready=True, status="again")
        me.event("video.audio_lost", {"camera": "c-1"})
        assert _next(supervisor) == Said(event="video.audio_lost", event_data={"camera": "c-1"})
        with pytest.raises(ValueError, match="4096"):
            me.event("work.big", {"x": "x" * 5000})
    assert _next(supervisor) == Said(stopping=True)
    me.beat()  # after its end it says nothing, and does not fail


@pytest.mark.parametrize("kind", ["fifo", "folder", "nowhere", "device"])
def test_an_odd_profile_file_is_no_change_and_no_wait(supervisor: socket.socket, tmp_path: Path, kind: str) -> None:
    """Pins that whatever lies where the profile was, a beat neither waits for it nor fails."""
    path = tmp_path / "profile"
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "absent")
    me = watch.Watch()
    me.beat()
    me.close()
    assert (_next(supervisor).beat, me.profile) == (True, "")


def test_a_change_of_profile(supervisor: socket.socket, tmp_path: Path) -> None:
    """Pins both ways: a callback, whose return confirms, and reading `profile`, confirmed by hand."""
    seen: list[str] = []
    with_callback, by_hand = watch.Watch(seen.append), watch.Watch()
    (tmp_path / "new").write_text("low")
    (tmp_path / "new").replace(tmp_path / "profile")
    with_callback.beat()
    assert (_next(supervisor).beat, _next(supervisor).profile, seen) == (True, "low", ["low"])
    with_callback.beat()
    by_hand.beat()
    assert by_hand.profile == "low"
    by_hand.confirm()
    assert [_next(supervisor).profile for _ in range(3)] == [None, None, "low"]
    (tmp_path / "new").write_text("")
    (tmp_path / "new").replace(tmp_path / "profile")
    with_callback.beat()
    assert seen == ["low", ""]
    with_callback.close()
    by_hand.close()


def test_without_a_supervisor_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins that a program can be started by hand, and that a supervisor that went away stops no work."""
    for name in ("NOTIFY_SOCKET", "GATEWARDEN_PROFILE_FILE", "WATCHDOG_USEC"):
        monkeypatch.delenv(name, raising=False)
    with watch.Watch() as me:
        me.beat(done=1)
        assert (me.work, me.profile, me.deadline_s) == (1, "", None)
    monkeypatch.setenv("NOTIFY_SOCKET", "/nonexistent/socket")
    monkeypatch.setenv("GATEWARDEN_PROFILE_FILE", "/nonexistent/file")
    monkeypatch.setenv("WATCHDOG_USEC", "1500000")
    with watch.Watch() as me:
        me.beat()
        assert me.deadline_s == 1.5


def test_a_supervisor_that_does_not_read_holds_nobody_up(supervisor: socket.socket) -> None:
    """Pins that a full queue costs beats, not time."""
    with watch.Watch() as me:
        begun = time.monotonic()
        for _ in range(1000):
            me.beat()
        assert time.monotonic() - begun < 2
    assert _next(supervisor).ready


def test_the_thread_beats_only_on_progress(supervisor: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins the form for code that cannot be touched: no progress, no beat, although its thread lives."""
    monkeypatch.setenv("WATCHDOG_USEC", "90000")
    done = [0]
    with watch.Thread(lambda: done[0]):
        assert _next(supervisor).ready
        assert _next(supervisor).beat
        supervisor.settimeout(0.3)
        with pytest.raises(TimeoutError):
            supervisor.recv(100)
        done[0] += 1
        assert _next(supervisor).beat
    wait_for(lambda: "gatewarden-watch" not in {thread.name for thread in threading.enumerate()}, "its end")


def test_the_asyncio_form_notices_a_loop_that_stands_still(supervisor: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins that beats come from the loop itself: while it is blocked there are none."""
    monkeypatch.setenv("WATCHDOG_USEC", "60000")
    count = iter(range(10_000))

    async def work() -> None:
        async with watch.beating(lambda: next(count)):
            await asyncio.sleep(0.2)
            _drain(supervisor)
            time.sleep(0.3)  # noqa: ASYNC251 - this is the fault
            assert not _drain(supervisor)
            await asyncio.sleep(0.1)
            assert _drain(supervisor)

    asyncio.run(work())
    assert _drain(supervisor)[-1] == Said(stopping=True)


def _drain(sock: socket.socket) -> list[Said]:
    found, before = [], sock.gettimeout()
    sock.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            found.append(parse(sock.recv(1 << 16)))
    sock.settimeout(before)
    return found


def test_importing_it_brings_nothing_of_the_agent() -> None:
    """Pins that a workload pays for a socket, not for Gatewarden."""
    code = "import sys; from agent import watch; print([m for m in sys.modules if m in ('asyncio', 'typing') or 'agent' in m])"
    root = Path(__file__).parent.parent
    env = {**os.environ, "PYTHONPATH": str(root)}
    said = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=root, env=env
    ).stdout
    assert said.strip() == "['agent', 'typing', 'agent.watch']"
