"""Passing an attached object from the loader process to agentd: names as one JSON datagram, fds by SCM_RIGHTS.

A datagram of `{"probe", "attach", "left_out", "maps", "programs", "links"}` (lists of names, their fds in that order) is a
loaded probe; one of `{"probe", "error", "reason", "remedy"}` is a probe that could not be.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent import errors
from agent.errors import LoadFailed, ProbeError
from agent.linux.loaded import Loaded

_MESSAGE = 64 * 1024
_FDS = 128


@dataclass(frozen=True, slots=True)
class Handed:
    """One probe as it arrived: either the fds or why there are none."""

    probe: str
    loaded: Loaded | None = None
    error: ProbeError | None = field(default=None)


def pair() -> tuple[socket.socket, socket.socket]:
    """Give the two ends; the second is for the child (its fd number goes into the child's arguments)."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@contextlib.contextmanager
def adopt(fd: int) -> Iterator[socket.socket]:
    """Use the inherited `fd` as the sending end for the length of the block."""
    with socket.socket(fileno=fd) as end:
        yield end


def send_loaded(end: socket.socket, probe: str, loaded: Loaded) -> None:
    """Hand over the fds of `loaded`."""
    groups = (loaded.maps, loaded.programs, loaded.links)
    names = {key: list(group) for key, group in zip(("maps", "programs", "links"), groups, strict=True)}
    head = {"probe": probe, "attach": loaded.attach, "left_out": loaded.left_out, **names}
    socket.send_fds(end, [json.dumps(head).encode()], [fd for group in groups for fd in group.values()])


def send_error(end: socket.socket, probe: str, error: ProbeError) -> None:
    """Tell that `probe` could not be loaded."""
    head = {"probe": probe, "error": type(error).__name__, "reason": error.reason, "remedy": error.remedy}
    end.send(json.dumps(head).encode())


def receive(end: socket.socket) -> Handed | None:
    """Give the next probe; None when the loader is through. Raises LoadFailed on anything that is not of this form."""
    data, fds, _flags, _address = socket.recv_fds(end, _MESSAGE, _FDS)
    if not data:
        return None
    try:
        head = json.loads(data)
        probe = str(head["probe"])
        if "error" in head:
            kind = getattr(errors, str(head["error"]), LoadFailed)
            return Handed(probe, error=kind(str(head["reason"]), str(head["remedy"])))
        rest = iter(fds)
        groups = [{str(name): next(rest) for name in head[key]} for key in ("maps", "programs", "links")]
        return Handed(probe, Loaded(groups[0], groups[1], groups[2], str(head["attach"]), dict(head["left_out"])))
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        for fd in fds:
            os.close(fd)
        raise LoadFailed("the loader sent a message that cannot be read", "report this") from error
