"""The simulated microcontroller (firmware_hooks/port/host) as a program to run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from agent.errors import Unsupported

PROGRAM = "gatewarden-mcu"
BUILT = Path(__file__).parents[2] / "build/firmware" / PROGRAM


def find(built: Path = BUILT) -> Path:
    """Give where it is: in this checkout, or on PATH. Raises Unsupported."""
    found = str(built) if os.access(built, os.X_OK) else shutil.which(PROGRAM)
    if found is None:
        raise Unsupported(
            f"{PROGRAM} is not built", "in a checkout: make -C firmware_hooks (it needs a C compiler, nothing else)"
        )
    return Path(found)


def become(program: Path, arguments: Sequence[str]) -> NoReturn:
    """Run it in the place of this process. Raises OSError."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [PROGRAM, *arguments])  # noqa: S606 - no shell is wanted
