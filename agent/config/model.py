"""The schema of agent.toml, once: frozen dataclasses whose annotations are the ranges and whose docstrings are the help.

Every key has a default except the name of a thing. The sections of probes and detectors are not here: each is the `Options`
dataclass in the file of that probe or detector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Gt, Le, MaxLen, MinLen

from agent.config.constraints import Pattern

# The longest name that we add to a folder is 20 characters; a unix socket's address holds 107 (unix(7)).
_FOLDER = Pattern(r"/[^\x00-\x1f\x7f]{0,79}", "absolute path of at most 80 characters")
_FILE = Pattern(r"/[^\x00-\x1f\x7f]{1,1023}", "absolute path")
_NAME = Pattern(r"[a-z0-9-]{1,32}", "1 .. 32 of a-z 0-9 -")
_LOOPBACK = r"(?:127\.0\.0\.1|\[::1\]):(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"

Name: TypeAlias = Annotated[str, _NAME]
Folder: TypeAlias = Annotated[Path, _FOLDER]
File: TypeAlias = Annotated[Path, _FILE]
Words: TypeAlias = Annotated[
    tuple[Annotated[str, Pattern(r"[^\x00]{1,4096}", "string of 1 .. 4096 characters")], ...], MaxLen(256)
]
Seconds: TypeAlias = Annotated[float, Gt(0), Le(86400)]


@dataclass(frozen=True, slots=True)
class Gateway:
    """Who this box is; both names are levels of every MQTT topic."""

    site: Name = "lab"
    """Where it stands."""
    name: Name = "gw-1"
    """Its own name, unique within the site."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Where this agent keeps its things; with three folders of their own, several agents run side by side."""

    state_dir: Folder = Path("/var/lib/gatewarden")
    """Durable: outbox, history, intent, snapshots."""
    runtime_dir: Folder = Path("/run/gatewarden")
    """Volatile: sockets and status.json."""
    bpffs_dir: Folder = Path("/run/gatewarden-bpf")
    """A bpffs of its own, where the loader pins."""

    @property
    def control_socket(self) -> Path:
        """Where agentd answers agentctl."""
        return self.runtime_dir / "control.sock"

    @property
    def broker_socket(self) -> Path:
        """Where the privileged broker answers."""
        return self.runtime_dir / "broker.sock"

    @property
    def keeper_socket(self) -> Path:
        """Where the keeper of the workloads answers."""
        return self.runtime_dir / "keeper" / "keeper.sock"

    @property
    def status_file(self) -> Path:
        """The last status, readable when agentd is dead."""
        return self.runtime_dir / "status.json"


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS to the broker; with `certificate` and `key` also the other way (mTLS)."""

    ca: File | None = None
    """Certificates that sign the broker's; the system's own if absent."""
    certificate: File | None = None
    """The gateway's certificate, PEM; needs `key`."""
    key: File | None = None
    """Its private key, PEM."""


@dataclass(frozen=True, slots=True)
class Mqtt:
    """The MQTT 5 broker. Without this section nothing is sent, and everything stays queryable on the box."""

    host: Annotated[str, Pattern(r"[A-Za-z0-9._:%-]{1,253}", "host name or address")] = "127.0.0.1"
    """Name or address of the broker."""
    port: Annotated[int, Ge(1), Le(65535)] = 1883
    """Its TCP port; 8883 is usual with TLS."""
    username: Annotated[str, Pattern(r"[^\x00-\x1f]{1,256}", "1 .. 256 printable characters")] | None = None
    """User name, if the broker wants one."""
    password_file: File | None = None
    """File whose first line is the password."""
    keepalive_s: Annotated[int, Ge(5), Le(3600)] = 30
    """Seconds of silence after which the connection is probed (MQTT keep alive)."""
    tls: Tls | None = None
    """Absent: plain TCP."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What the agent may cost."""

    cpu_pct: Annotated[float, Gt(0), Le(100)] = 0.8
    """Share of all CPU time that the BPF programs may take together, in percent; above it the dearest probe is switched off."""


@dataclass(frozen=True, slots=True)
class Outbox:
    """How much waits on disk for the broker."""

    bytes: Annotated[int, Ge(1 << 20), Le(1 << 36)] = 64 << 20
    """Largest size of the store in bytes."""
    age_days: Annotated[float, Gt(0), Le(3650)] = 7.0
    """What is older is dropped, and the gap recorded."""
    headroom_bytes: Annotated[int, Ge(0), Le(1 << 40)] = 64 << 20
    """Free bytes of the file system that are left to others."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics: the period of MQTT samples and the OpenMetrics endpoint."""

    listen: Annotated[
        str,
        Pattern(
            rf"|unix:/[^\x00-\x1f]{{1,100}}|{_LOOPBACK}",
            '"" (off), "127.0.0.1:PORT", "[::1]:PORT" or "unix:/PATH" (at most 101 long)',
        ),
    ] = ""
    """Where OpenMetrics text is served: "" (off), "127.0.0.1:9464" or "unix:/path"."""
    period_s: Annotated[float, Ge(1), Le(3600)] = 10.0
    """Seconds between two samples."""


@dataclass(frozen=True, slots=True)
class HealthProbe:
    """An HTTP health check of a workload."""

    http: Annotated[str, Pattern(r"https?://[^\x00-\x20]{1,1000}", "http:// or https:// URL")]
    """URL that answers 2xx while all is well."""
    period_s: Seconds = 3.0
    """Seconds between two checks."""


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
    """Program and arguments; watched by its name, this version starts no workload."""
    unit: Annotated[str, Pattern(r"[A-Za-z0-9:_.@\\-]{1,245}\.service", "name of a .service unit")] | None = None
    """A systemd unit instead."""
    container: Annotated[str, Pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", "name of a container")] | None = None
    """A container instead."""
    env: dict[str, str] = field(default_factory=dict)
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
    """What it says over sd_notify(3)."""
    deadline_s: Seconds = 10.0
    """First value of its watchdog deadline, which adapts."""
    probe: HealthProbe | None = None
    """A health check from outside."""
    degrade: Annotated[tuple[Name, ...], MaxLen(16)] = ()
    """Profiles that it can fall back to, best first."""
    restart: Restart = field(default_factory=Restart)
    """Budget of immediate restarts."""


@dataclass(frozen=True, slots=True)
class Adapt:
    """The picture format that the model behind the stream wants."""

    size: Annotated[str, Pattern(r"[1-9][0-9]{0,4}x[1-9][0-9]{0,4}", "WIDTHxHEIGHT")] | None = None
    """Width and height in pixels."""
    pixel_format: Annotated[str, Pattern(r"[a-z0-9_]{1,32}", "an FFmpeg pixel format")] | None = None
    """FFmpeg's name, as `yuv420p`."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One camera stream."""

    name: Name
    """Unique among the streams."""
    url: Annotated[str, Pattern(r"[^\x00-\x20]{1,2048}", "URL of at most 2048 characters")]
    """Where it comes from; credentials in it are shown nowhere."""
    transport: Literal["tcp", "udp"] = "tcp"
    """RTSP transport."""
    adapt: Adapt = field(default_factory=Adapt)
    """Absent: frames as they come."""
    chain: Annotated[tuple[Annotated[str, Pattern(r"[a-z0-9_.-]{1,32}", "name of a decoder")], ...], MaxLen(16)] = ()
    """Decoders to try in order; empty: the default for its codec."""
    reader: Literal["shm", "pipe"] = "shm"
    """How frames reach their reader."""
    trace_1_in: Annotated[int, Ge(1), Le(1_000_000)] = 250
    """One frame in this many is traced."""


@dataclass(frozen=True, slots=True)
class OpenSet:
    """Members of a folder of ours (`agent/probes`, `agent/detectors`): which are on, and the `Options` of each that is."""

    enabled: tuple[str, ...]
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Config:
    """The whole of agent.toml."""

    probes: OpenSet
    """Probes: what looks into the kernel."""
    detectors: OpenSet
    """Detectors: what concludes from it."""
    gateway: Gateway = field(default_factory=Gateway)
    """Who this box is."""
    paths: Paths = field(default_factory=Paths)
    """Where things are kept."""
    mqtt: Mqtt | None = None
    """The broker; absent: none."""
    budget: Budget = field(default_factory=Budget)
    """What the agent may cost."""
    outbox: Outbox = field(default_factory=Outbox)
    """What waits on disk."""
    metrics: Metrics = field(default_factory=Metrics)
    """Metrics."""
    workload: Annotated[tuple[Workload, ...], MaxLen(64)] = ()
    """Programs to keep alive."""
    stream: Annotated[tuple[Stream, ...], MaxLen(256)] = ()
    """Camera streams."""
