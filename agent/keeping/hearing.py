"""What a workload says by sd_notify, as effects on its life."""

from __future__ import annotations

from agent.keeping.effects import Effects
from agent.keeping.lifecycle import Lifecycle
from agent.keeping.notify import Said


def heard(life: Lifecycle, said: Said, now_ns: int, *, quietly: bool = False) -> Effects:
    """Take in one datagram of a process that belongs to the workload. MAINPID and descriptors are the caller's business.

    `quietly`: it says too much; its RELOADING means nothing, and its STATUS is told with the next transition.
    """
    if life.pid is None:
        return []  # the last words of a process that is gone
    effects: Effects = []
    if said.faults:
        effects.append(life.notice("malformed", now_ns, {"faults": list(said.faults)}))
    if said.extend_us is not None:
        life.extend(said.extend_us, now_ns)
    if said.watchdog_us is not None:
        life.watchdog_us = said.watchdog_us or None
    news = said.status is not None and said.status != life.status
    life.status = said.status if said.status is not None else life.status
    phase = _phase(life, said, now_ns, quietly=quietly)
    effects += phase or (life.tell_state(now_ns) if news and not quietly else [])
    moved = said.work is not None and life.beats.worked(said.work)
    if said.beat or moved:
        life.beats.beat(now_ns)
    return effects + _unusual(life, said, now_ns) + _profile(life, said, now_ns)


def _phase(life: Lifecycle, said: Said, now_ns: int, *, quietly: bool) -> Effects:
    if life.state == "stopping":
        return []
    if said.stopping:
        return life.stopping(now_ns)
    if said.reloading and not quietly:
        return life.enter("reloading", "", now_ns)
    if said.ready and life.state != "running":
        return life.now_ready(now_ns)
    return []


def _unusual(life: Lifecycle, said: Said, now_ns: int) -> Effects:
    effects: Effects = []
    if said.trigger:
        effects.append(life.notice("watchdog_trigger", now_ns, {"pid": life.pid}))
    if said.errno:
        effects.append(life.notice("errno", now_ns, {"errno": said.errno}))
    if said.event is not None:
        effects.append(life.notice("event", now_ns, {"kind": said.event, "data": said.event_data or {}}))
    return effects


def _profile(life: Lifecycle, said: Said, now_ns: int) -> Effects:
    if said.profile is None or said.profile != life.profile:
        return []
    life.deadlines.pop("confirm", None)
    effects = [life.notice("profile", now_ns, {"profile": said.profile})]
    return [*effects, *life.answer(now_ns, f"confirmed profile {said.profile or 'full'}", verbs=("degrade", "restore"))]
