"""The status object as people read it: verdict, probes, telemetry, what there is of the rest, findings, own cost."""

from __future__ import annotations

from collections.abc import Iterator

from agent.commands._screen import Screen, clean
from agent.commands._status import running, state_of
from agent.commands._table import NOTHING, duration, number, pairs, size, table, wrapped
from agent.model import Data, Json
from agent.narrow import part, rows

INDENT = "  "
_SHOWN = {
    "workloads": ("pid", "restarts", "margin_s", "misses", "last_rung", "profile"),
    "watchdogs": ("condition", "ttl_s", "margin_s", "margin_p1_s", "misses"),
}
"""What of a thing stands on its line; its own verb has the rest."""


def view(screen: Screen, status: Data, start: str) -> Iterator[str]:
    """Give the lines of the whole view; `start` is what starts an agentd that does not run."""
    yield verdict(screen, status)
    if not running(status):
        yield from _absent(screen, status, start)
        if status["stale_s"] is None:
            return
    yield from wrapped(screen, _facts(status), INDENT)
    for section in (probes, _telemetry, _things, findings, _footprint):
        lines = list(section(screen, status))
        if lines:
            yield ""
            yield from lines


def verdict(screen: Screen, status: Data) -> str:
    """Give the one line that says how it is."""
    state = state_of(status)
    name = f"{text(status['site'])}/{text(status['gateway'])}"
    if running(status):
        return f"{screen.paint(f'● {state}', state)}  {name}"
    stale = status["stale_s"]
    last = "it left no status" if stale is None else f"last known {state}, {duration(stale)} ago"
    return f"{screen.paint('● not running', 'critical')}  {name}: {last}"


def _absent(screen: Screen, status: Data, start: str) -> Iterator[str]:
    journal = ", then: journalctl -u gatewarden" if start.startswith("systemctl") else ""
    yield from wrapped(screen, text(status.get("not_running")), INDENT)
    yield from wrapped(screen, f"→ {start}{journal}", INDENT)


def _facts(status: Data) -> str:
    reset = part(status, "last_reset")
    known = reset.get("cause") not in {None, "", "unknown"}
    facts = [
        f"version {text(status['version'])}",
        f"up {duration(status['uptime_s'])}",
        f"tier {text(status['tier'])}{_because(status.get('tier_reason'))}",
        f"boot {text(status['boot_id'])[:8]}",
        *([f"last reset {text(reset.get('cause'))} (confidence {text(reset.get('confidence'))})"] if known else []),
    ]
    return " · ".join(facts)


def _because(reason: Json) -> str:
    return f" ({text(reason)})" if reason else ""


def probes(screen: Screen, status: Data) -> Iterator[str]:
    """Give the table of probes, below each the reason and the remedy if it has them."""
    listed = rows(status, "probes")
    if not listed:
        yield screen.paint("no probes", "dim")
        return
    header, *lines = table(screen, ("PROBE", "STATE", "EVENTS", "LOST", "NS/EVENT", "CPU %"), [_probe(row) for row in listed])
    yield header
    for row, line in zip(listed, lines, strict=True):
        yield line
        yield from reasons(screen, row)
        yield from _instead(screen, row)


def _instead(screen: Screen, row: Data) -> Iterator[str]:
    """Say what serves in place of a probe that does not run."""
    origin = text(row.get("origin"))
    if origin == "pidfd":
        yield from wrapped(screen, "instead: pidfds, which tell that a process ended, not how", INDENT * 2)
    elif origin.startswith("/proc"):
        yield from wrapped(screen, f"instead: {origin}, sums without latencies or single events", INDENT * 2)


def _probe(row: Data) -> tuple[str, ...]:
    return (
        text(row.get("name")),
        text(row.get("state")),
        number(row.get("events")),
        number(row.get("lost")),
        number(row.get("ns_per_event")),
        number(row.get("cpu_pct")),
    )


def reasons(screen: Screen, row: Data) -> Iterator[str]:
    """Give the reason and the remedy of a row, on lines of their own."""
    for key, sign in (("reason", ""), ("remedy", "→ ")):
        if row.get(key):
            yield from wrapped(screen, f"{sign}{text(row[key])}", INDENT * 2)


def _telemetry(screen: Screen, status: Data) -> Iterator[str]:
    mqtt = part(status, "mqtt")
    backlog, oldest, dropped = size(mqtt.get("backlog_bytes")), duration(mqtt.get("oldest_s")), number(mqtt.get("dropped"))
    yield f"MQTT {text(mqtt.get('state'))} · backlog {backlog} · oldest {oldest} · dropped {dropped}"
    page = part(status, "metrics")
    if page:
        yield "METRICS page cannot be served"
        yield from reasons(screen, page)


def _things(screen: Screen, status: Data) -> Iterator[str]:
    for key, title in (("watchdogs", "WATCHDOGS"), ("gpus", "GPUS"), ("streams", "STREAMS"), ("workloads", "WORKLOADS")):
        listed = rows(status, key)
        if not listed:
            continue
        yield screen.paint(title, "bold")
        for row in listed:
            keys = _SHOWN.get(key) or [name for name in row if name not in {"name", "state", "reason", "remedy"}]
            rest = {name: row[name] for name in keys if row.get(name) is not None}
            state = text(row.get("state"))
            yield f"{INDENT}{screen.paint(state, state)}  {text(row.get('name'))}  {pairs(rest)}".rstrip()
            yield from reasons(screen, row)


def findings(screen: Screen, status: Data) -> Iterator[str]:
    """Give what the detectors hold at the moment."""
    listed = rows(status, "findings")
    if listed:
        yield screen.paint("FINDINGS", "bold")
    for row in listed:
        state = text(row.get("state"))
        yield f"{INDENT}{screen.paint(state, state)}  {text(row.get('detector'))}  {text(row.get('subject'))}"
        yield from wrapped(screen, text(row.get("summary")), INDENT * 2)


def _footprint(_screen: Screen, status: Data) -> Iterator[str]:
    own = part(status, "agent")
    memory, maps, flash = size(own.get("uss_kib"), 1024), size(own.get("map_kib"), 1024), size(own.get("flash_bytes_per_day"))
    cpu, wakeups = number(own.get("cpu_pct")), number(own.get("wakeups_per_s"))
    bpf = f"BPF {number(own.get('bpf_cpu_pct'))} % of all CPUs, maps {maps}"
    yield f"AGENT {memory} · CPU {cpu} % of one · {wakeups} wake-ups/s · {bpf} · flash {flash}/day"


def text(value: Json) -> str:
    """Give a scalar fit for the terminal, `-` for nothing."""
    return NOTHING if value is None or value == "" else clean(value)
