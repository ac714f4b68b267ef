"""Options that several verbs share, and the values that they take."""

from __future__ import annotations

import argparse

_MOST_S = 86_400.0


def add_seconds(parser: argparse.ArgumentParser) -> None:
    """Add `--seconds`."""
    parser.add_argument("--seconds", type=seconds, default=5.0, metavar="N", help="how long to measure (default 5)")


def seconds(text: str) -> float:
    """Read a duration in seconds from the command line."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= _MOST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, allowed: above 0 .. {_MOST_S:g}")
    return value


def positive(text: str) -> int:
    """Read a count from the command line."""
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 0 < int(text) <= 100_000):
        raise argparse.ArgumentTypeError(f"{text!r} is no count, allowed: 1 .. 100000")
    return int(text)
