"""The schema of agent.toml, once: frozen dataclasses whose annotations are the ranges and whose docstrings are the help.

Every key has a default except the name of a thing. The sections of probes and detectors are not here: each is the `Options`
dataclass in the file of that probe or detector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, MaxLen

from agent.config.constraints import Pattern
from agent.config.keys import File, Folder, Name
from agent.config.work import Device, Workload

_LOOPBACK = r"(?:127\.0\.0\.1|\[::1\]):(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"


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
class Bpf:
    """How programs are fitted to the kernel."""

    btf_path: File | None = None
    """For a kernel without BTF of its own: a file with that of exactly this kernel, raw or a vmlinux with a .BTF section."""


@dataclass(frozen=True, slots=True)
class Watchdog:
    """The kernel's watchdogs: `/dev/watchdog*`, which reset the machine when they are not fed."""

    mode: Literal["auto", "own", "delegated", "off"] = "auto"
    """Who feeds them: `own` agentd, `delegated` systemd (RuntimeWatchdogSec=), `off` nobody; `auto`: agentd those that systemd
    leaves, if it runs as a service."""
    devices: Annotated[tuple[File, ...], MaxLen(16)] = ()
    """Only these, as "/dev/watchdog0"; empty: every one that there is."""
    timeout_s: Annotated[int, Ge(4), Le(3600)] = 60
    """Seconds without a feed after which the machine is reset; what the driver makes of it is what counts."""
    pretimeout_s: Annotated[int, Ge(0), Le(1800)] = 10
    """Seconds before that at which evidence is kept, where the driver can; 0 for none."""


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
class Mcu:
    """The microcontroller that watches this machine from outside, on a serial line. Absent: there is none."""

    port: Annotated[str, Pattern(r"/dev/[^\x00-\x20]{1,250}|auto", '"auto" or a path under /dev')] = "auto"
    """Its serial port, best a link in /dev/serial/by-id; "auto": the one that answers."""
    baud: Literal[9600, 19200, 38400, 57600, 115200, 230400, 460800, 921600] = 115200
    """Bits per second."""


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
    bpf: Bpf = field(default_factory=Bpf)
    """How programs are fitted to the kernel."""
    outbox: Outbox = field(default_factory=Outbox)
    """What waits on disk."""
    watchdog: Watchdog = field(default_factory=Watchdog)
    """The kernel's watchdogs."""
    metrics: Metrics = field(default_factory=Metrics)
    """Metrics."""
    workload: Annotated[tuple[Workload, ...], MaxLen(64)] = ()
    """Programs to keep alive."""
    mcu: Mcu | None = None
    """The microcontroller; absent: none."""
    device: Annotated[tuple[Device, ...], MaxLen(32)] = ()
    """Devices that must be there."""
    stream: Annotated[tuple[Stream, ...], MaxLen(256)] = ()
    """Camera streams."""
