"""keeper.sock on a loop of its own, where its process runs out of descriptors."""

from __future__ import annotations

import os
import resource
import socket
from contextlib import closing, suppress
from pathlib import Path

from agent.linux import unixserver
from agent.linux.keeperserver import REST_S, Client, KeeperServer
from agent.linux.loop import FAULTS, EpollLoop


def test_who_comes_while_no_descriptor_is_left_is_served_later(tmp_path: Path) -> None:
    """Pins that keeper.sock is not given up for good, nor spun on, when accept(2) finds no descriptor."""
    faults: list[str] = []
    loop = EpollLoop(lambda name, _error: faults.append(name))
    path = tmp_path / "keeper.sock"

    def answer(client: Client, line: bytes) -> None:
        client.send(line + b" too\n")

    server = KeeperServer(loop, unixserver.listen(path), 1024, answer, lambda _uid: b"")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(loop), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
        caller.sendall(b"here\n")
        taken: list[int] = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        try:
            with suppress(OSError):
                while True:
                    taken.append(os.open("/dev/null", os.O_RDONLY))
            loop.once(REST_S / 2, loop.stop, "end")
            loop.run()
        finally:
            for fd in taken:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert 0 < len(faults) < FAULTS
        loop.once(REST_S, loop.stop, "end")
        loop.run()
        assert caller.recv(64) == b"here too\n"
        server.close()
