"""What no single key shows: names that must be unique or known, keys that need each other, URLs that must parse.

Works on the raw tree, so that these problems are told together with those of single keys; what has a wrong type is skipped
here, as it has been told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from agent import regular
from agent.config.constraints import one_line, shown
from agent.config.locate import KeyPath
from agent.config.open_sets import SETS, available

_BTF_HEADS = (b"\x9f\xeb", b"\xeb\x9f", b"\x7fELF")  # BTF_MAGIC of either byte order (include/uapi/linux/btf.h); vmlinux
_PROBES = ("http", "tcp", "grpc", "file")
_SCHEMES = ("rtsp", "rtsps", "rtmp", "rtmps", "http", "https", "srt", "udp", "rtp", "file")


class Fault(NamedTuple):
    """One problem before its line is known."""

    path: KeyPath
    what: str
    allowed: str = ""


def faults(tree: dict[str, Any]) -> Iterator[Fault]:
    """Yield every problem between keys of `tree`."""
    for group in SETS:
        yield from _enabled(group, _table(tree.get(group)))
    yield from _folders(_table(tree.get("paths")))
    yield from _mqtt(_table(tree.get("mqtt")))
    yield from _btf(_table(tree.get("bpf")).get("btf_path"))
    workloads, streams = _rows(tree.get("workload")), _rows(tree.get("stream"))
    yield from _unique("workload", workloads)
    yield from _unique("stream", streams)
    devices = _rows(tree.get("device"))
    yield from _unique("device", devices)
    yield from _served(devices, tuple(row["name"] for _, row in workloads if isinstance(row.get("name"), str)))
    for index, row in workloads:
        yield from _runs(index, row)
    yield from _order(workloads)
    for index, row in streams:
        yield from _url(("stream", index, "url"), row.get("url"))


def nearest(name: str, known: tuple[str, ...]) -> str:
    """Give `; did you mean "…"?` for the nearest of the known names, nothing if none is near."""
    match = get_close_matches(name[:64], known, n=1)
    return f'; did you mean "{match[0]}"?' if match else ""


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(value: Any) -> list[tuple[int, dict[str, Any]]]:
    return [(index, row) for index, row in enumerate(value if isinstance(value, list) else []) if isinstance(row, dict)]


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _folders(paths: dict[str, Any]) -> Iterator[Fault]:
    """Tell of a bpffs that would hide one of our own folders."""
    bpffs = paths.get("bpffs_dir")
    for key in ("state_dir", "runtime_dir"):
        other = paths.get(key)
        if isinstance(bpffs, str) and isinstance(other, str) and PurePath(other).is_relative_to(bpffs):
            yield Fault(("paths", "bpffs_dir"), f"would hide {key}", "a folder of its own that holds neither of the others")


def _enabled(group: str, section: dict[str, Any]) -> Iterator[Fault]:
    known = available(group)
    for name in _strings(section.get("enabled")):
        if name not in known:
            yield Fault((group, "enabled"), f"there is no {group[:-1]} {shown(name)}{nearest(name, known)}", ", ".join(known))


def _mqtt(mqtt: dict[str, Any]) -> Iterator[Fault]:
    tls = _table(mqtt.get("tls"))
    if ("certificate" in tls) != ("key" in tls):
        yield Fault(("mqtt", "tls"), "certificate and key need each other", "both or none")
    if "password_file" in mqtt and "username" not in mqtt:
        yield Fault(("mqtt", "password_file"), "needs username", "both or none")


def _btf(path: Any) -> Iterator[Fault]:
    """Look at the file, whose form is told by its first bytes; one that is root's alone is left to the loader."""
    if not isinstance(path, str) or not path.startswith("/"):
        return
    wanted = "a file with the BTF of this kernel"
    try:
        if not regular.read(Path(path), 4).startswith(_BTF_HEADS):
            yield Fault(("bpf", "btf_path"), f"{shown(path)} holds no BTF", wanted)
    except PermissionError:
        return
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        said = getattr(error, "strerror", None) or str(error)
        yield Fault(("bpf", "btf_path"), f"{shown(path)} cannot be read: {said}", wanted)


def _unique(group: str, rows: list[tuple[int, dict[str, Any]]]) -> Iterator[Fault]:
    seen: Counter[str] = Counter()
    for index, row in rows:
        name = row.get("name")
        if isinstance(name, str):
            seen[name] += 1
            if seen[name] > 1:
                yield Fault((group, index, "name"), f"another {group} is called {shown(name)}", "a name of its own")


def _served(devices: list[tuple[int, dict[str, Any]]], names: tuple[str, ...]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, row in devices:
        port, name = row.get("usb"), row.get("workload")
        if isinstance(port, str):
            if port in seen:
                yield Fault(("device", index, "usb"), f"another device is at {shown(port)}", "a port of its own")
            seen.add(port)
        if isinstance(name, str) and name not in names:
            said = f"there is no workload {shown(name)}{nearest(name, names)}"
            yield Fault(("device", index, "workload"), said, ", ".join(names))


def _runs(index: int, row: dict[str, Any]) -> Iterator[Fault]:
    ways = [key for key in ("command", "unit", "container") if key in row]
    if len(ways) != 1:
        said = f"has {' and '.join(ways)}" if ways else "says nothing to run"
        yield Fault(("workload", index, ways[-1] if ways else "command"), said, "exactly one of command, unit, container")
    if len(ways) == 1 and ways[0] != "command" and row.get("notify", "none") != "none":
        yield Fault(("workload", index, "notify"), f"who started a {ways[0]} hears it, not this agent", '"none", and a probe')
    env = row.get("env")
    for name in env if isinstance(env, dict) else ():
        if not name or "=" in name or "\0" in name:
            yield Fault(("workload", index, "env"), f"{shown(name)} is no name of a variable", "a name without = and NUL")
    probe = row.get("probe")
    if isinstance(probe, dict) and sum(way in probe for way in _PROBES) != 1:
        said = f"has {' and '.join(way for way in _PROBES if way in probe) or 'nothing to ask'}"
        yield Fault(("workload", index, "probe"), said, f"exactly one of {', '.join(_PROBES)}")
    if isinstance(probe, dict):
        yield from _probe(index, probe)


def _probe(index: int, probe: dict[str, Any]) -> Iterator[Fault]:
    """Look at what a health check asks: a URL that parses, a port that exists, a counter on a page."""
    if "counter" in probe and "http" not in probe:
        yield Fault(("workload", index, "probe", "counter"), "needs http", "both or none")
    url = probe.get("http")
    for way, text in (
        ("http", url),
        *((way, f"x://{probe.get(way)}") for way in ("tcp", "grpc") if isinstance(probe.get(way), str)),
    ):
        if isinstance(text, str) and not _asks(text):
            yield Fault(("workload", index, "probe", way), "names no host and port", "a host, and a port of 1 .. 65535")


def _asks(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _order(rows: list[tuple[int, dict[str, Any]]]) -> Iterator[Fault]:
    names = tuple(dict.fromkeys(row["name"] for _, row in rows if isinstance(row.get("name"), str)))
    graph: dict[str, list[str]] = {}
    for index, row in rows:
        after = _strings(row.get("after"))
        for name in after:
            if name not in names:
                yield Fault(
                    ("workload", index, "after"), f"there is no workload {shown(name)}{nearest(name, names)}", ", ".join(names)
                )
        if isinstance(row.get("name"), str):
            graph[row["name"]] = after
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        first = error.args[1][0]
        index = next((index for index, row in rows if row.get("name") == first), 0)
        circle = one_line(" -> ".join(reversed(error.args[1])))
        yield Fault(("workload", index, "after"), f"goes in a circle: {circle}", "an order that can be kept")


def _url(path: KeyPath, url: Any) -> Iterator[Fault]:
    """Check that `url` parses; its text is never repeated, it may hold credentials."""
    if not isinstance(url, str):
        return
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _SCHEMES and (bool(parts.hostname) or parts.scheme == "file") and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        yield Fault(path, "is no URL of a stream", f"SCHEME://HOST[:PORT]/PATH with a scheme of {', '.join(_SCHEMES)}")
