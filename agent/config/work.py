"""The schema of `[[workload]]` and `[[device]]`, as `agent.config.model` has it of the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from agent.config.constraints import Pattern
from agent.config.keys import File, HostPort, Name, Seconds, Text, Words


@dataclass(frozen=True, slots=True)
class HealthProbe:
    """A health check of a workload from outside: exactly one of `http`, `tcp`, `grpc` and `file`."""

    http: Annotated[str, Pattern(r"https?://[^\x00-\x20]{1,1000}", "http:// or https:// URL")] | None = None
    """URL that answers 2xx while all is well (Triton: http://HOST:8000/v2/health/ready)."""
    tcp: HostPort | None = None
    """HOST:PORT that takes connections."""
    grpc: HostPort | None = None
    """HOST:PORT that answers SERVING to grpc.health.v1.Health/Check."""
    counter: Annotated[str, Pattern(r"[A-Za-z_:][A-Za-z0-9_:]{0,127}", "name of a Prometheus metric")] | None = None
    """With `http`: a counter of work done on that (Prometheus) page; it is alive while the sum of its samples goes on (Triton:
    http://HOST:8002/metrics and nv_inference_request_success)."""
    file: File | None = None
    """File with a count of work done: it is alive while the count, or the file's time, goes on."""
    period_s: Annotated[float, Ge(0.1), Le(3)] = 3.0
    """Seconds between two checks."""
    timeout_s: Annotated[float, Ge(0.1), Le(60)] = 2.0
    """Seconds within which an answer must come."""

    @property
    def counts(self) -> bool:
        """Whether it tells of work done, which is a beat; an answer is none."""
        return self.file is not None or self.counter is not None


@dataclass(frozen=True, slots=True)
class Restart:
    """How often a workload may be restarted at once before that is given up."""

    burst: Annotated[int, Ge(0), Le(1000)] = 5
    """Restarts within the window."""
    window_s: Seconds = 60.0
    """Length of the window in seconds."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One program that must run: exactly one of `command`, `unit` and `container`."""

    name: Name
    """Unique among the workloads."""
    command: Annotated[Words, MinLen(1)] | None = None
    """Program and arguments; the keeper starts it, and starts it again."""
    unit: Annotated[str, Pattern(r"[A-Za-z0-9:_.@\\-]{1,245}\.service", "name of a .service unit")] | None = None
    """A systemd unit instead."""
    container: Annotated[str, Pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", "name of a container")] | None = None
    """A container instead."""
    env: dict[str, Text] = field(default_factory=dict)
    """Environment, added to that of whoever starts it."""
    gpu: Annotated[str, Pattern(r"[A-Za-z0-9-]{1,64}", "UUID or index of a GPU")] | None = None
    """The GPU that it uses."""
    after: Annotated[tuple[Name, ...], MaxLen(64)] = ()
    """Workloads that must be ready before this one starts."""
    priority: Annotated[int, Ge(0), Le(9)] = 5
    """0 is kept longest, 9 given up first."""
    required: bool = True
    """Whether the hardware watchdogs are fed only while it works."""
    notify: Literal["none", "ready", "watchdog"] = "none"
    """What it says over sd_notify(3): `none`, `ready` or `watchdog`."""
    deadline_s: Seconds = 10.0
    """First value of its watchdog deadline, which adapts."""
    probe: HealthProbe | None = None
    """A health check from outside."""
    degrade: Annotated[tuple[Name, ...], MaxLen(16)] = ()
    """Profiles that it can fall back to, best first."""
    restart: Restart = field(default_factory=Restart)
    """Budget of immediate restarts."""


@dataclass(frozen=True, slots=True)
class Device:
    """One camera or accelerator on USB that must be there: it is reset when it vanishes."""

    name: Name
    """Unique among the devices."""
    usb: Annotated[str, Pattern(r"[1-9][0-9]?-[1-9][0-9]?(\.[1-9][0-9]?){0,6}", "stable USB port path, as 1-1.4")]
    """Its port, which stays the same over reboots: a name in /sys/bus/usb/devices, as "1-1.4"."""
    workload: Name | None = None
    """The workload that it serves."""
