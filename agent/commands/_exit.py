"""The exit codes of agentctl (LSB-like, as `systemctl status` has them), and what leads to which."""

from __future__ import annotations

import argparse

from agent.errors import BadRequest, ConfigError, GatewardenError, NotRunning
from agent.model import STATES, State

OK = 0
DEGRADED = 1
USAGE = 2
NOT_RUNNING = 3
UNKNOWN = 4
CRITICAL = 5
INTERRUPTED = 130  # 128 + SIGINT, as a shell counts
BROKEN_PIPE = 141  # 128 + SIGPIPE

HELP = """exit codes:
  0 ok   1 degraded   2 usage or unreadable input   3 agentd not running
  4 unknown, or no permission   5 critical"""

_OF_STATE: dict[State, int] = {"ok": OK, "degraded": DEGRADED, "unknown": UNKNOWN, "critical": CRITICAL}
_OF_ERROR: tuple[tuple[type[Exception], int], ...] = (
    (ConfigError, USAGE),
    (BadRequest, USAGE),
    (NotRunning, NOT_RUNNING),
    (GatewardenError, UNKNOWN),
    (PermissionError, UNKNOWN),
    (OSError, USAGE),
)


class Usage(BadRequest):
    """Options that do not go together."""


def add_fail_on(parser: argparse.ArgumentParser) -> None:
    """Add `--fail-on`."""
    parser.add_argument(
        "--fail-on", choices=("degraded", "critical"), help="exit 0 for a state better than this; 2, 3 and 4 stay what they are"
    )


def of_state(state: State, fail_on: State | None = None) -> int:
    """Give the code of a verdict; one better than `fail_on` counts as ok, `unknown` stays unknown."""
    below = fail_on is not None and state in {"ok", "degraded", "critical"} and STATES.index(state) > STATES.index(fail_on)
    return OK if below else _OF_STATE[state]


def of_error(error: Exception) -> int:
    """Give the code of an error that ends a verb."""
    return next(code for kind, code in _OF_ERROR if isinstance(error, kind))
