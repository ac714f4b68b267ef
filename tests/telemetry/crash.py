"""kill -9 at random points, many times, then the books: what was lost, what was there twice."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from agent.telemetry.flow import START
from tests.telemetry.crash_child import RING
from tests.telemetry.doubles import open_outbox

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Books:
    """The result: ring records declared durable, lost, and duplicated after the consumer's dedup by (stream, seq)."""

    kills: int
    declared: int
    committed: int
    lost: int
    duplicated: int
    repeated: int


def crash_loop(folder: Path, kills: int, seed: int = 1) -> Books:
    """Kill the child `kills` times; compare the consumer's file with the ring."""
    chance = random.Random(seed)
    declared = 0
    for _ in range(kills):
        declared = max(declared, _run_and_kill(folder, chance))
    (folder / "run").mkdir(exist_ok=True)
    box = open_outbox(folder)
    with (folder / "consumed").open("ab") as file:
        for message in box.pending(START, 1_000_000):
            file.write(b"%d %s %s\n" % (message.seq, message.stream.encode(), message.body))
    committed = box.cursor(RING)
    box.close()
    return _audit(folder / "consumed", kills, declared, committed)


def _run_and_kill(folder: Path, chance: random.Random) -> int:
    command = [sys.executable, "-m", "tests.telemetry.crash_child", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        if chance.random() < 0.9:
            assert child.stdout.readline() == b"started\n"
        time.sleep(chance.random() * 0.12)
        child.kill()
        lines = child.stdout.read().split()
    return max((int(line) for line in lines if line.isdigit()), default=0)


def _audit(consumed: Path, kills: int, declared: int, committed: int) -> Books:
    by_number: dict[tuple[str, int], set[int]] = {}
    repeated = 0
    for line in consumed.read_bytes().splitlines():
        try:
            seq, stream, body = line.split(b" ", 2)
            n = int(json.loads(body)["data"]["n"])
        except ValueError:
            continue  # torn by a kill
        known = by_number.setdefault((stream.decode(), int(seq)), set())
        repeated += bool(known)
        known.add(n)
    records = [n for numbers in by_number.values() for n in numbers]
    lost = len(set(range(max(declared, committed))) - set(records))
    return Books(kills, declared, committed, lost, len(records) - len(set(records)), repeated)
