"""A workload that uses agent.watch: it "handles" ten frames a second, five in the profile `slow`."""
# ruff: noqa: INP001, T201, TID251 - an example of a workload, no part of the agent

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))  # a real workload has the package installed
from agent import watch

with watch.Watch(on_profile=lambda name: print(f"demo: profile {name or 'full'}", flush=True)) as me:
    for _frame in itertools.count():
        time.sleep(0.2 if me.profile == "slow" else 0.1)
        me.beat(done=1)
