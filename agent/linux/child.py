"""Child processes of agentd: the configuration check and the loader. Argument lists, bounded in time, never a shell."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent.errors import ConfigError, LoadFailed, Problem, Refused
from agent.linux import handover, programs
from agent.linux.handover import Handed
from agent.model import Data

# -P: a module that lies in the current directory is not ours, whatever its name (python -m would import it, as root maybe).
_PYTHON = (sys.executable, "-P", "-m")
_CONFIG_S = 20
_LOADER_S = 60
_GRACE_S = 5


def validated(path: Path) -> Data:
    """Have a short-lived child check the configuration, and give it as plain data. Raises ConfigError.

    pydantic costs 10-12 MiB resident: it comes and goes with the child.
    """
    try:
        result = subprocess.run(
            [*_PYTHON, "agent.config", str(path)], capture_output=True, text=True, timeout=_CONFIG_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError((Problem(str(path), 0, "", f"the check took longer than {_CONFIG_S} s"),)) from error
    if result.returncode != 0:
        raise Rejected(result.stderr.strip())
    plain: Data = json.loads(result.stdout)
    return plain


class Rejected(ConfigError):
    """A configuration that the child refused; the text is the child's, a line for each problem."""

    def __init__(self, text: str) -> None:
        """Keep the child's words."""
        super().__init__(())
        self.args = (text,)


def loaded_probes(config: Path) -> Iterator[Handed]:
    """Start a loader and yield each probe as it arrives. Raises LoadFailed if it dies or takes too long."""
    by_hand = programs.load_probes(config)
    ours, theirs = handover.pair()
    with ours, contextlib.ExitStack() as stack:
        child = subprocess.Popen(
            [*_PYTHON, "agent.loader", "--config", str(config), "--give", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
        )
        ended = stack.enter_context(_ending(child))
        theirs.close()
        ours.settimeout(_LOADER_S)
        try:
            while (handed := handover.receive(ours)) is not None:
                yield handed
        except TimeoutError as error:
            raise LoadFailed(f"the loader took longer than {_LOADER_S} s", by_hand) from error
        if code := ended():
            raise LoadFailed(f"the loader ended with {code}", f"see its last words above; {by_hand}")


@contextlib.contextmanager
def _ending(child: subprocess.Popen[bytes]) -> Iterator[Callable[[], int]]:
    """Give the function that waits for the exit code; whatever happens, nothing of the child is left behind."""

    def ended() -> int:
        try:
            return child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()

    try:
        yield ended
    finally:
        ended()


class Measurement:
    """The one `agentctl` that the broker runs as root for its caller; what it says goes into a pipe."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def busy(self) -> bool:
        """Whether it still runs."""
        return self._child is not None and self._child.poll() is None

    def start(self, arguments: Sequence[str]) -> int:
        """Start `agentctl` with `arguments`; give the pipe's reading end. Raises Refused while another one runs."""
        if self.busy:
            raise Refused("another measurement is under way, one at a time")
        reading, writing = os.pipe2(os.O_CLOEXEC)
        with os.fdopen(writing, "wb") as pipe:
            self._child = subprocess.Popen(
                [*_PYTHON, "agent.cli", *arguments], stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT
            )
        return reading
