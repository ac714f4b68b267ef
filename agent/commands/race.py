"""race: kernel timers that race, found (scan), proved (prove) and hunted down to the variable (hunt).

scan watches the life of every kernel timer and names what happens to it in a state in which it should not, with both sides.
prove traps every write to one kernel variable; hunt finds the variable by itself. docs/races.md tells how to read them.
"""

from __future__ import annotations

from agent.commands._ways import Ways

EXAMPLES = """examples:
  agentctl race scan --seconds 60
  agentctl race scan --seconds 30 --json | jq '.findings[] | select(.verdict != "benign")'
  agentctl race prove jiffies_64 --seconds 2
  agentctl race hunt --seconds 60
"""
WAYS = Ways(
    "_",
    {
        "scan": "what happens to timers in a state in which it should not",
        "prove": "lost updates of one variable, by hardware watchpoint (root)",
        "hunt": "find the variable of a module that loses updates (root)",
    },
    EXAMPLES,
)
arguments = WAYS.arguments
run = WAYS.run
