"""Verbs about the kernel: its log, symbols, watchpoints, watchdogs, and what it kept over a reset."""

from __future__ import annotations

import re

from agent.collider import target as places
from agent.errors import BadRequest, GatewardenError
from agent.linux import kallsyms, kmsg, pstore, watchdog
from agent.linux.brokerclient import ADDRESSES
from agent.linux.child import Measurement
from agent.model import Json
from agent.rootverbs._base import Given

MEASURED_S = 120.0  # of one measurement
MEASUREMENT = Measurement()


def kmsg_open() -> Given:
    """Open the kernel's log for reading and hand it over."""
    try:
        return Given(None, kmsg.open_kmsg())
    except OSError as error:
        raise GatewardenError(f"/dev/kmsg: {error.strerror}") from error


def ksym(addresses: list[int]) -> Given:
    """Name kernel addresses: a list of `name+0x1f [module]` or null, in their order."""
    return Given(list(kallsyms.read(addresses)))


def kernel_addresses(value: Json) -> list[int]:
    """Check 1 to 256 unsigned 64-bit integers."""
    if not isinstance(value, list) or not 1 <= len(value) <= ADDRESSES:
        raise BadRequest(f"addresses: a list of 1 to {ADDRESSES} integers is needed")
    numbers = [item for item in value if type(item) is int and 0 < item < 1 << 64]
    if len(numbers) < len(value):
        raise BadRequest("addresses: only integers from 1 to 2^64 - 1 are allowed")
    return numbers


def watchpoint(what: str, target: str, seconds: float) -> Given:
    """Start `agentctl race prove|hunt` in a child and hand over the pipe that its JSON comes out of.

    The caller gets a result, never a watchpoint: whoever holds the fd of one could arm it again without its budget.
    """
    if what == "hunt":
        return Given(None, MEASUREMENT.start(["race", "hunt", "--json", f"--seconds={seconds}", f"--module={target}"]))
    parsed = places.parse(target)
    return Given(None, MEASUREMENT.start(["race", "prove", "--json", f"--seconds={seconds}", parsed.text]))


def watchdog_open(device: str) -> Given:
    """Open a watchdog and hand it over: from then on it counts, and its holder must feed it."""
    path = f"/dev/{device}"
    try:
        return Given(None, watchdog.open_fd(path))
    except OSError as error:
        return Given({"errno": error.errno})  # busy, absent, …: the caller has a state for each


def watchdog_name(value: Json) -> str:
    """Check the name of a watchdog's device file."""
    if not isinstance(value, str) or not re.fullmatch(r"watchdog[0-9]{0,2}", value, re.ASCII):
        raise BadRequest("device: want watchdog or watchdogN")
    return value


def pstore_read() -> Given:
    """Give the dumps that the kernel kept over a reset: a key, the reason, and the words of a panic. Nothing else of them."""
    try:
        return Given([list[Json](record.plain()) for record in pstore.read()])
    except OSError as error:
        raise GatewardenError(f"{error.filename}: {error.strerror}") from error


def watched(value: Json) -> str:
    """Check a place, or a module's name (empty: any)."""
    if not isinstance(value, str) or not re.fullmatch(r"[*\w.$:+-]{0,256}", value, re.ASCII):
        raise BadRequest("target: want [*]SYMBOL[+OFF][:LEN], or the name of a module")
    return value


def measured_s(value: Json) -> float:
    """Check how long."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MEASURED_S:
        raise BadRequest(f"seconds: want a number above 0 .. {MEASURED_S:g}")
    return float(value)
