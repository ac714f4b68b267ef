"""`capture`: keep what a workload was doing before anything is done to it, as one folder of small files.

A snapshot, and `threads.json`: for every thread of the workload its state, what it waits for, its system call and its kernel
stack, each as far as this user may read it; what was not allowed says so in its place.
"""

from __future__ import annotations

from agent.actions import snapshot
from agent.actions._tools import Tools, target
from agent.model import Data, Decision


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Collect and keep. Raises StoreError if nothing could be kept."""
    name = target(decision, tools).name
    readers = {"threads": lambda _finding: tools.recovery.threads(name), **tools.collect}
    return snapshot.kept(decision, tools, readers)
