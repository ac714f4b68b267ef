"""The shapes of what agentctl prints and agentd sends, for `agentctl schema`; more keys may come within version 1."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

from agent.model import Severity, State

Open: TypeAlias = dict[str, object]


class Probe(TypedDict):
    """One probe."""

    name: str
    state: State
    reason: str
    remedy: str
    events: int
    lost: int
    ns_per_event: float | None


class Reset(TypedDict):
    """Why the machine started last."""

    cause: str
    confidence: str


class Mqtt(TypedDict):
    """The way to the broker; sizes in bytes, ages in seconds, `dropped` in records (`dropped_s` is the newest drop's age)."""

    state: str
    backlog_bytes: int | None
    oldest_s: float | None
    dropped: int | None
    dropped_s: float | None


class FindingRow(TypedDict):
    """What a detector holds at the moment; `evidence` are numbers (seq) of events."""

    detector: str
    subject: str
    state: State
    summary: str
    evidence: list[int]


class Footprint(TypedDict, total=False):
    """What the agent costs; null is unknown. `cpu_pct` is of one core."""

    uss_kib: int | None
    cpu_pct: float | None
    wakeups_per_s: float | None
    map_kib: int | None
    flash_bytes_per_day: int | None


class Workload(TypedDict):
    """One workload: times in seconds, null where nothing is known or due. `margin_s` is what is left of its deadline now."""

    name: str
    state: str
    """Of the keeper: starting, running, reloading, stopping, backoff, stopped, failed, held; unknown if nobody tells."""
    pid: int | None
    restarts: int
    deadline_s: float | None
    """Null while silence proves nothing."""
    margin_s: float | None
    margin_p1_s: float | None
    """What 99 of 100 beats of the last 24 h had left."""
    misses: int
    last_rung: str | None
    next_rung: str | None
    """What would be done next if it did not work."""
    last_recovery_ms: float | None
    """From the finding to the end of the last cure."""
    hold_until: float | None
    """Seconds since the epoch."""


class _Workloads(TypedDict):
    schema: str
    workloads: list[Workload]


class Workloads(_Workloads, total=False):
    """`agentctl workloads --json`; in `status --json` the rows have more keys. The last two only if agentd does not run."""

    stale_s: float | None
    not_running: str


class WatchdogRow(TypedDict):
    """One watchdog: times in seconds, null where nothing is known. `margin_s` is what is left until it resets the machine."""

    name: str
    kind: str
    """Is kernel or mcu."""
    state: State
    condition: str
    """armed, withheld, delegated, busy, forbidden, absent, failed, off; of an mcu that of its link."""
    owner: str | None
    """Who feeds it: agentd, systemd, or null."""
    identity: str | None
    hardware: bool | None
    ttl_s: float | None
    margin_s: float | None
    margin_p1_s: float | None
    """What 99 of 100 feeds of the last 24 h had left."""
    misses: int | None
    """How often work was missing for half of its time-out."""
    feeds: int | None
    last_rung: str | None
    evidence: str | None
    """How a pretimeout is kept: fd, kmsg, pstore or none."""
    pretimeout_s: int | None
    nowayout: bool | None
    reason: str
    remedy: str


class Feeding(TypedDict, total=False):
    """How the process that feeds is protected itself, and what decided who feeds. Empty without an agentd that says so."""

    memory: str
    """Is locked, or why it is not."""
    feeding_thread: str
    """Its scheduling: real-time, ordinary (and why), not started."""
    oom_score_adj: int | None
    why: str


class _Watchdogs(TypedDict):
    schema: str
    watchdogs: list[WatchdogRow]
    kernel: list[Open]
    """What /sys/class/watchdog says now, whoever runs."""
    feeding: Feeding
    last_reset: Reset


class Watchdogs(_Watchdogs, total=False):
    """`agentctl watchdog --json`. The last two only if agentd does not run."""

    stale_s: float | None
    not_running: str


class Held(TypedDict):
    """`agentctl hold --json`: what is on hold (null: everything), until when (seconds since the epoch), and why."""

    schema: str
    workload: str | None
    until: float
    why: str


class Resumed(TypedDict):
    """`agentctl resume --json`: whether there was a hold to be ended."""

    schema: str
    workload: str | None
    ended: bool


class _Status(TypedDict):
    schema: str
    state: State
    gateway: str
    site: str
    version: str | None
    boot_id: str | None
    uptime_s: float | None
    tier: str | None
    last_reset: Reset
    probes: list[Probe]
    mqtt: Mqtt
    workloads: list[Workload]
    streams: list[Open]
    gpus: list[Open]
    watchdogs: list[Open]
    findings: list[FindingRow]
    agent: Footprint


class Status(_Status, total=False):
    """`agentctl status --json`. Only if agentd does not run, `stale_s` is the age of this status; null: there never was one."""

    stale_s: float | None
    not_running: str


class MetricsProbe(TypedDict):
    """One probe in a metrics sample."""

    name: str
    state: State
    events: int
    lost: int
    ns_per_event: float | None
    cpu_pct: float | None


class Metrics(TypedDict):
    """One metrics sample; beside these keys one for each probe, with its report of the interval."""

    schema: str
    pressure: Open
    probes: list[MetricsProbe]
    agent: Footprint


class Event(TypedDict):
    """One recorded event. `(boot_id, seq)` is unique on a gateway; what `data` holds is the schema of its kind."""

    record: Literal["event"]
    boot_id: str
    seq: int
    t_mono_ns: int
    t_wall: float
    source: str
    kind: str
    subject: str
    severity: Severity
    data: Open
