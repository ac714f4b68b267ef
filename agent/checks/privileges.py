"""Checks of privileges: capabilities, the bpffs, users and what the kernel hides from them."""

from __future__ import annotations

from collections.abc import Iterator

from agent.checks._base import Check, may_load, version
from agent.checks.kernel import tier
from agent.linux.facts import Bpffs, Facts
from agent.linux.programs import add_users
from agent.model import Data
from agent.narrow import rows

PIN_READERS = (5, 19)  # from here on reading pinned maps needs no capability (kernel commit c8644cd0efe7)
SYMBOLS = (5, 13)  # from here on a program can resolve symbols itself (7b15523a989b)


def checks(facts: Facts, status: Data) -> Iterator[Check]:
    """Yield the checks of the group."""
    yield _capabilities(facts)
    yield _owner(facts)
    yield _bpffs(facts, status)
    yield _accounts(facts)
    yield _unprivileged_bpf(facts)
    yield _perf_events(facts)
    yield _symbols(facts)
    yield _kernel_log(facts)
    yield _pids(facts)


def _capabilities(facts: Facts) -> Check:
    if facts.capabilities is None:
        return Check("privileges", "capabilities", "unknown", "CapEff cannot be read", "mount -t proc proc /proc")
    who = f"uid {facts.uid}"
    if may_load(facts):
        return Check("privileges", "capabilities", "ok", f"{who} may load programs")
    if not facts.bpffs.pinned:
        reason = f"{who} holds neither CAP_BPF with CAP_PERFMON nor readable pins"
        remedy = f"{facts.load_probes}; join group gatewarden"
        return Check("privileges", "capabilities", "degraded", reason, remedy)
    if "BPF" not in facts.capabilities and (version(facts.release) or PIN_READERS) < PIN_READERS:
        reason = f"{who}: reading pins takes CAP_BPF before Linux 5.19"
        remedy = "in gatewarden.service set CapabilityBoundingSet=CAP_BPF and AmbientCapabilities=CAP_BPF"
        return Check("privileges", "capabilities", "degraded", reason, remedy)
    return Check("privileges", "capabilities", "ok", f"{who} reads pinned maps without any capability")


def _owner(facts: Facts) -> Check:
    """Mind who may change agent.toml where a process of root's follows its paths: loader, broker, agentd itself."""
    if facts.exposed is None:
        return Check("privileges", "owner", "unknown", "who may change agent.toml cannot be seen", "ls -l /etc/gatewarden")
    reason, remedy = facts.exposed
    if not reason:
        return Check("privileges", "owner", "ok", "only root may change agent.toml")
    if facts.uid == 0 or facts.broker or facts.bpffs.pinned:
        return Check("privileges", "owner", "degraded", f"{reason}: root refuses to follow it", f"as root: {remedy}")
    return Check("privileges", "owner", "ok", f"{reason}; no process of root's follows it")


def _bpffs(facts: Facts, status: Data) -> Check:
    place = facts.bpffs
    running = any(row.get("state") == "ok" for row in rows(status, "probes"))
    if place.mounted is None:
        return Check("privileges", "bpffs", "unknown", "the mounts cannot be read", "mount -t proc proc /proc")
    if not place.mounted and running:
        return Check("privileges", "bpffs", "ok", f"none at {place.path}; the running agent needs none")
    if not place.mounted:
        return Check("privileges", "bpffs", "degraded", f"no bpffs at {place.path}", facts.load_probes)
    return _permissions(place)


def _permissions(place: Bpffs) -> Check:
    path, mode = place.path, place.mode
    mend = f"chgrp gatewarden {path} && chmod 0750 {path}"
    if mode is None:
        return Check("privileges", "bpffs", "unknown", f"{path} cannot be looked at", "join group gatewarden")
    if mode & 0o27:
        return Check("privileges", "bpffs", "degraded", f"{path} has mode {mode:04o}: too many may look in or write", mend)
    if place.group != "gatewarden":
        return Check("privileges", "bpffs", "degraded", f"{path} belongs to group {place.group}", mend)
    return Check("privileges", "bpffs", "ok", f"{path}, mode {mode:04o}, group {place.group}")


def _accounts(facts: Facts) -> Check:
    if facts.missing_users is None or facts.missing_groups is None:
        return Check(
            "privileges", "users", "unknown", "/etc/passwd or /etc/group cannot be read", "chmod 0644 /etc/passwd /etc/group"
        )
    missing = sorted({*facts.missing_users, *facts.missing_groups})
    if missing:
        return Check("privileges", "users", "degraded", f"{', '.join(missing)} missing", f"as root: {add_users(missing)}")
    return Check("privileges", "users", "ok", "users and groups are there")


def _sysctl(facts: Facts, name: str, bad: bool, reason: str, remedy: str) -> Check:  # noqa: FBT001 - a condition
    value = facts.sysctls.get(name)
    if value is None:
        return Check("privileges", name, "unknown", f"kernel.{name} cannot be read", f"sysctl kernel.{name}")
    return (
        Check("privileges", name, "degraded", f"{value}: {reason}", remedy)
        if bad
        else Check("privileges", name, "ok", str(value))
    )


def _unprivileged_bpf(facts: Facts) -> Check:
    name = "unprivileged_bpf_disabled"
    return _sysctl(facts, name, facts.sysctls.get(name) == 0, "every user may load programs", f"sysctl -w kernel.{name}=2")


def _perf_events(facts: Facts) -> Check:
    name = "perf_event_paranoid"
    closed = (facts.sysctls.get(name) or 0) > 2 and tier(facts).letter == "E" and "PERFMON" not in (facts.capabilities or ())
    return _sysctl(facts, name, closed, "tier E has no perf events either", f"sysctl -w kernel.{name}=2")


def _symbols(facts: Facts) -> Check:
    name = "kptr_restrict"
    hidden = bool(facts.sysctls.get(name)) and "SYSLOG" not in (facts.capabilities or ()) and not facts.broker
    blind = hidden and (version(facts.release) or SYMBOLS) < SYMBOLS
    return _sysctl(facts, name, blind, "stacks show addresses, not names", facts.start_broker)


def _kernel_log(facts: Facts) -> Check:
    name = "dmesg_restrict"
    hidden = bool(facts.sysctls.get(name)) and "SYSLOG" not in (facts.capabilities or ()) and not facts.broker
    return _sysctl(facts, name, hidden, "snapshots lack the kernel log", facts.start_broker)


def _pids(facts: Facts) -> Check:
    if facts.pid_namespace is None:
        return Check("privileges", "pid_namespace", "unknown", "/proc/self/ns/pid cannot be read", "mount -t proc proc /proc")
    if facts.pid_namespace == "own":
        reason = "a PID namespace of its own: pids in events are those of the host, no process here has them"
        return Check(
            "privileges", "pid_namespace", "degraded", reason, "run agentd on the host, or in a container with --pid=host"
        )
    return Check("privileges", "pid_namespace", "ok", "pids in events are those seen here")
