"""Proof of lost updates from trapped writes: what was hit, which instruction wrote, what the numbers allow to conclude. Pure.

`agent/linux/watchpoint.py` traps, `agent/commands/race.py` composes; nothing here touches the machine.
"""
