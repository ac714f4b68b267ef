"""What a support bundle is made of: one function for each file in it. Each may raise whatever it likes."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from agent import __version__, config
from agent.commands import _doctor, _redact, _status, _store
from agent.commands._bundle import Collector
from agent.commands._call import Call
from agent.config import reading
from agent.errors import ConfigError
from agent.linux import evidence, processes, procfs
from agent.model import Data, Json
from agent.place import Place

EVENTS = 500
_PACKAGES = ("gatewarden", "annotated-types", "paho-mqtt", "psutil", "pydantic", "prometheus-client", "nvidia-ml-py", "av")
_PROC = ("version", "cmdline", "uptime", "loadavg", "meminfo", "interrupts", "softirqs", "mounts", "self/cgroup")
_SYS = (
    "proc/sys/kernel/unprivileged_bpf_disabled",
    "proc/sys/kernel/kptr_restrict",
    "proc/sys/kernel/dmesg_restrict",
    "proc/sys/kernel/perf_event_paranoid",
    "sys/kernel/security/lockdown",
    "etc/os-release",
)
_ENTRIES = 500


def of(call: Call) -> Mapping[str, Collector]:
    """Give the collectors by the name of their file."""
    place = _place(call)
    return {
        "versions.json": _versions,
        "config.json": lambda: _config(call.config),
        "status.json": lambda: _status.fetch_or_last(place),
        "doctor.json": lambda: _doctor.result(call.config),
        "events.json": lambda: [*_store.read(place, EVENTS, None, "*").records],
        "kernel.json": _kernel,
        "kmsg.txt": lambda: _kmsg(place),
        "processes.json": lambda: list[Json](processes.largest()),
        "files.json": lambda: _files(place),
    }


def known_secrets(call: Call) -> frozenset[str]:
    """Give what must not leave, out of a configuration that may be bad: its tree, its bare text, or nothing."""
    try:
        text = reading.read_text(call.config)
    except ConfigError:
        return frozenset()
    try:
        return _redact.secrets(json.loads(json.dumps(reading.parse(call.config, text), default=str)))
    except (ConfigError, ValueError, RecursionError):
        return _redact.secrets({"lines": [*text.split("\n")]})


def _place(call: Call) -> Place:
    try:
        return call.place()
    except ConfigError:
        return Place()


def _versions() -> Json:
    packages: Data = {}
    for name in _PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = None
    return {"agent": __version__, "python": sys.version, "machine": list(platform.uname()), "packages": packages}


def _config(path: Path) -> Json:
    try:
        return {"file": str(path), "problems": [], "config": _redact.configuration(config.to_plain(config.check(path)))}
    except ConfigError as error:
        return {"file": str(path), "problems": [str(problem) for problem in error.problems], "config": None}


def _kernel() -> Json:
    found: Data = {f"/proc/{name}": procfs.read(Path("/proc", name)) for name in _PROC}
    found |= {f"/{name}": procfs.read(Path("/", name)) for name in _SYS}
    found |= {f"/proc/pressure/{name}": procfs.read(Path("/proc/pressure", name)) for name in procfs.RESOURCES}
    return found | {
        "/sys/kernel/btf/vmlinux": Path("/sys/kernel/btf/vmlinux").exists(),
        "CapEff": procfs.read_process().capabilities,
    }


def _kmsg(place: Place) -> str:
    return "\n".join(evidence.kernel_log(place.broker)) + "\n"


def _files(place: Place) -> Json:
    return {str(folder): _listing(folder) for folder in (place.state_dir, place.runtime_dir)}


def _listing(folder: Path) -> Json:
    if not folder.is_dir():
        return None
    found: Data = {}
    for root, folders, files in os.walk(folder):
        for name in sorted((*folders, *files)):
            path = Path(root, name)
            stat = path.lstat()
            found[str(path.relative_to(folder))] = f"{stat.st_mode:o} {stat.st_uid}:{stat.st_gid} {stat.st_size}"
            if len(found) >= _ENTRIES:
                return found
    return found
