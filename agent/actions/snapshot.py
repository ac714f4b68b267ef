"""`snapshot`: keep what the machine looked like when a finding was raised, as one folder of small files.

`decision.json`, one file for each reader in `tools.collect` (run-queue waits, pressure, meminfo, kmsg, events …), and
`stacks.txt` with every stack that the finding or a reader's events carry. What cannot be read says why in its file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from agent.actions._tools import Tools
from agent.model import Data, Decision, Finding, Json, plain

LIMIT_NS = 3_000_000_000  # all readers together; each is bounded itself
STACKS = 32
DEPTH = 8  # of nesting searched for stacks

Reader = Callable[[Finding], Json]


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Collect and keep. Raises StoreError if nothing could be kept."""
    return kept(decision, tools, tools.collect)


def kept(decision: Decision, tools: Tools, readers: Mapping[str, Reader]) -> tuple[str, Data]:
    """Keep what `readers` give, in their order as long as there is time. Raises StoreError."""
    finding = decision.finding
    collected = _collected(finding, tools, readers)
    texts = {_file_name(name, value): _text(value) for name, value in collected.items()}
    texts["decision.json"] = _text(plain(decision))
    stacks = [stack for part in (finding.data, decision.arguments, *collected.values()) for stack in _stacks(part, DEPTH)]
    if stacks:
        texts["stacks.txt"] = "\n\n".join("\n".join(stack) for stack in stacks[:STACKS]) + "\n"
    path = tools.archive.keep(f"{_stamp(tools.clock.wall())}-{finding.detector}-{finding.subject}", texts)
    return f"kept as {path}", {"path": path, "files": list[Json](sorted(texts))}


def _collected(finding: Finding, tools: Tools, readers: Mapping[str, Reader]) -> dict[str, Json]:
    end = tools.clock.mono_ns() + LIMIT_NS
    return {
        name: _one(read, finding) if tools.clock.mono_ns() < end else "not read: the time of this snapshot was up"
        for name, read in readers.items()
    }


def _one(read: Reader, finding: Finding) -> Json:
    try:
        return read(finding)
    except Exception as error:  # noqa: BLE001 - one reader that fails leaves the others their place
        return f"not readable: {error}"


def _is_lines(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _file_name(name: str, value: Json) -> str:
    return f"{name}.txt" if isinstance(value, str) or _is_lines(value) else f"{name}.json"


def _text(value: Json) -> str:
    if isinstance(value, list) and _is_lines(value):
        return "".join(f"{line}\n" for line in value)
    return f"{value}\n" if isinstance(value, str) else json.dumps(value, indent=1, default=str) + "\n"


def _stacks(value: Json, depth: int) -> Iterator[list[str]]:
    """Yield every list of strings under a key `stack`."""
    parts: list[Json] = []
    if isinstance(value, dict):
        stack = value.get("stack")
        if isinstance(stack, list) and stack and _is_lines(stack):
            yield [str(frame) for frame in stack]
        parts = list(value.values())
    elif isinstance(value, list):
        parts = value
    for part in parts if depth else []:
        yield from _stacks(part, depth - 1)


def _stamp(wall: float) -> str:
    """Give a time that sorts as text."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
