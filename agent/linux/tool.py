"""Programs of the system that root runs: found on a fixed PATH, with an empty environment, bounded in time, never a shell."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from agent.errors import Refused, Unsupported

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SAID = 1000  # characters kept of what it printed


def find(name: str, path: str = PATH) -> str | None:
    """Give where a program is, None if it is not installed."""
    return shutil.which(name, path=path)


def run(words: Sequence[str], timeout_s: float, path: str = PATH) -> str:
    """Run a program and give what it printed. Raises Unsupported if it is not there, Refused if it fails or takes too long."""
    program = find(words[0], path)
    if program is None:
        raise Unsupported(f"{words[0]} is not installed", f"looked in {path}")
    try:
        done = subprocess.run(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={"PATH": path, "LC_ALL": "C"},
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{' '.join(words[:3])}: not done within {timeout_s:g} s") from error
    except OSError as error:
        raise Refused(f"{program}: {error.strerror}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="backslashreplace").strip()[:SAID]
        raise Refused(f"{' '.join(words[:3])}: {said or f'ended with {done.returncode}'}")
    return done.stdout.decode(errors="backslashreplace")
