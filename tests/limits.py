"""Protect a process as agentd does, but as an ordinary user, by limits as a unit sets them: `python -m tests.limits RTPRIO=10`.

Prints what became of the memory and of the thread, then how many KiB are locked after 64 MiB were touched. Needs root.
"""

from __future__ import annotations

import os
import resource
import sys

from agent.linux import feedthread, memlock, procfs

LIMITS = {"MEMLOCK": resource.RLIMIT_MEMLOCK, "RTPRIO": resource.RLIMIT_RTPRIO}
NOBODY = 65534


def main() -> int:
    """Set the limits, become nobody, be protected."""
    for text in sys.argv[1:]:
        name, value = text.split("=")
        number = resource.RLIM_INFINITY if value == "infinity" else int(value)
        resource.setrlimit(LIMITS[name], (number, number))
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    print(memlock.lock())
    print(feedthread.real_time())
    touched = bytearray(os.urandom(1 << 20) * 64)
    fields = procfs.parse_fields(procfs.read(procfs.ROOT / "proc/self/status") or "")
    print(fields["VmLck"] if touched else 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
