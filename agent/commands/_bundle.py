"""Collecting parts that may fail or hang, and packing them: bounded in time and size."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent import __version__
from agent.commands import _redact
from agent.model import Data, Json

PART_S = 8.0
PART_BYTES = 1536 * 1024  # eight or nine parts together stay below the 16 MiB that a ticket takes
TOTAL_BYTES = 16 << 20
_CUT = "\n[cut here]\n"

Collector = Callable[[], "Json | str"]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Texts by file name, and why others are missing."""

    files: dict[str, str]
    failed: dict[str, str]


def collect(
    collectors: Mapping[str, Collector],
    known: frozenset[str],
    progress: Callable[[str], None],
    limit_s: float = PART_S,
) -> Bundle:
    """Run each collector by itself, at most `limit_s` long; what they give is redacted (`known` secrets) and cut."""
    files: dict[str, str] = {}
    failed: dict[str, str] = {}
    for name, collector in collectors.items():
        progress(f"collecting {name} …")
        found, reason = _bounded(lambda run=collector: _text(run(), known), limit_s)  # type: ignore[misc] # bound at once
        if reason:
            failed[name] = _redact.text(reason, known)
        else:
            files[name] = found if len(found) <= PART_BYTES else found[:PART_BYTES] + _CUT
    progress("")
    return Bundle(files, failed)


def _bounded(work: Callable[[], str], limit_s: float) -> tuple[str, str]:
    """Run `work` in a thread of its own; gives `(result, "")` or `("", why not)`. One that hangs is left behind."""
    result: list[str] = []
    reason: list[str] = []

    def run() -> None:
        try:
            result.append(work())
        except Exception as error:  # noqa: BLE001 - whatever one part fails of, the others are wanted
            reason.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if result:
        return result[0], ""
    return "", reason[0] if reason else f"no answer within {limit_s:g} s"


def _text(found: Json | str, known: frozenset[str]) -> str:
    if isinstance(found, str):
        return _redact.text(found[:PART_BYTES], known)
    safe = _redact.redacted({"": found}, known)[""]
    return json.dumps(safe, indent=1) + "\n"


def pack(name: str, bundle: Bundle, wall: float) -> bytes:
    """Give the archive: a folder `name` with the files and manifest.json; never more than TOTAL_BYTES."""
    manifest: Data = {
        "schema": "gatewarden.support-bundle/1",
        "version": __version__,
        "t_wall": round(wall, 3),
        "collected": [*sorted(bundle.files)],
        "failed": dict[str, Json](bundle.failed),
    }
    files = {"manifest.json": json.dumps(manifest, indent=1) + "\n", **bundle.files}
    block = io.BytesIO()
    with gzip.GzipFile(fileobj=block, mode="wb", mtime=int(wall)) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for file, text in files.items():
            raw = text.encode("utf-8", "backslashreplace")[:PART_BYTES]
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size, entry.mtime, entry.mode = len(raw), int(wall), 0o600
            archive.addfile(entry, io.BytesIO(raw))
    return block.getvalue()
