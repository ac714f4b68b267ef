"""Protocols of the outside world, and of the open sets. Real adapters live in `agent/linux/`, doubles in `tests/doubles.py`.

A stage receives the ports that it needs as arguments; nothing that thinks imports an adapter.
"""

from __future__ import annotations

from agent.ports.flow import Action, Detector, Hook, Link, Maps, Policy, Probe, Remembers, Standing, Timed
from agent.ports.machine import (
    Archive,
    Cancellable,
    Clock,
    Done,
    Intents,
    Journal,
    Keeper,
    Loop,
    Machine,
    Mcu,
    Store,
    Trapped,
    Units,
    Watchpoints,
    WatchSpot,
)
from agent.ports.video import Decoder, Packet, Picture, Stages

__all__ = [
    "Action",
    "Archive",
    "Cancellable",
    "Clock",
    "Decoder",
    "Detector",
    "Done",
    "Hook",
    "Intents",
    "Journal",
    "Keeper",
    "Link",
    "Loop",
    "Machine",
    "Maps",
    "Mcu",
    "Packet",
    "Picture",
    "Policy",
    "Probe",
    "Remembers",
    "Stages",
    "Standing",
    "Store",
    "Timed",
    "Trapped",
    "Units",
    "WatchSpot",
    "Watchpoints",
]
