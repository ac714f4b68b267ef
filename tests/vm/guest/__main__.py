"""Run the steps inside a virtual machine, and write the table to `--out` after each: `python -m tests.vm.guest`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.vm.guest.rows import Row, Setting
from tests.vm.guest.steps import DEFAULT, STEPS


def run(name: str, setting: Setting) -> list[Row]:
    """Run one step; whatever goes wrong in it is a row, so that the steps after it still run."""
    rows: list[Row] = []
    try:
        rows.extend(STEPS[name](setting))
    except Exception as error:  # noqa: BLE001 - a step that fails must not hide the others
        rows.append(Row(name, "", f"{type(error).__name__}: {error}", passed=False))
    return rows


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.vm.guest")
    parser.add_argument("--modules", type=Path, required=True)
    parser.add_argument("--unknown", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", default=",".join(DEFAULT))
    parser.add_argument("--begin", type=float, default=3600.0, help="begin no step after so many seconds")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("tests", nargs="*", default=["tests/kernel"])
    arguments = parser.parse_args()
    setting = Setting(arguments.modules, arguments.unknown, tuple(arguments.tests), quick=arguments.quick)
    table: list[dict[str, object]] = []
    passed = True
    started = time.monotonic()
    for name in arguments.steps.split(","):
        began = time.monotonic()
        if began - started > arguments.begin:
            late = f"{began - started:.0f} s had passed, and no step begins after {arguments.begin:.0f}"
            table.append({"step": name, "seconds": 0.0, "rows": [], "skipped": late})
            arguments.out.write_text(json.dumps(table, indent=1))
            continue
        rows = run(name, setting)
        seconds = round(time.monotonic() - began, 1)
        for row in rows:
            print(f"{name:<10} {'ok' if row.passed else 'FAILED':<7} {row.what:<22} {row.found}", flush=True)
        passed &= all(row.passed for row in rows)
        table.append({"step": name, "seconds": seconds, "rows": [asdict(row) for row in rows]})
        arguments.out.write_text(json.dumps(table, indent=1))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
