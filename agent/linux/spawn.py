"""Starting and ending the keeper's children: posix_spawn(3), so that nothing of ours runs between fork and exec.

posix_spawn is vfork: 0.1 ms where a fork of this interpreter takes over 1 ms, and it comes back once the exec has happened.
Children get a session of their own, default signal handlers, /dev/null as stdin, stdout and stderr as this process has them:
nobody here reads a pipe, so a child that fills one blocks nobody but itself. Resource limits stay as they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
from collections.abc import Mapping, Sequence

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)
_FIRST_FD = 3  # SD_LISTEN_FDS_START
_HIGH_FD = 256  # passed descriptors live from here on, so that none of them stands where another one is to go
_STDIN = (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)
# LISTEN_PID must be the child's own number, which only the child knows (sd_listen_fds(3)). $$ stays the same over the exec.
_AS_LISTENER = ("/bin/sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh")
_DEFAULT = signal.valid_signals()  # this interpreter ignores SIGPIPE, whoever started it maybe SIGHUP: exec would pass that on


def adopt_orphans() -> None:
    """Become the parent of what descendants leave behind (prctl(2)): they can be waited for, and found. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def spawn(command: Sequence[str], env: Mapping[str, str], fds: Mapping[int, str]) -> int:
    """Start `command` with exactly `env`, and with the descriptors `fds` by name as socket activation passes them.

    Comes back when the program has been executed. Raises OSError if it cannot be.
    """
    actions: list[tuple[object, ...]] = [_STDIN]
    argv, env = list(command), dict(env)
    if fds:
        actions += [(os.POSIX_SPAWN_DUP2, fd, _FIRST_FD + at) for at, fd in enumerate(fds)]
        env |= {"LISTEN_FDS": str(len(fds)), "LISTEN_FDNAMES": ":".join(fds.values())}
        argv = [*_AS_LISTENER, *argv]
    pid = os.posix_spawnp(argv[0], argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_DEFAULT)
    _ordinary(pid)
    return pid


def kept(fd: int) -> int:
    """Give a duplicate of `fd` that `spawn` may pass, and close `fd`. Raises OSError."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD)
    finally:
        os.close(fd)


def _ordinary(pid: int) -> None:
    """Take from the child what puts this process before others: it inherits the nice value and the OOM score."""
    with contextlib.suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, 0) < 0:
            os.setpriority(os.PRIO_PROCESS, pid, 0)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", encoding="ascii") as ours:  # noqa: PTH123 - each ms counts
        if int(ours.read()) < 0:
            with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as theirs:  # noqa: PTH123
                theirs.write("0")
