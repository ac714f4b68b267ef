"""Decoding that goes on: packets in, each picture once and in order out, whichever decoder fails on the way. Pure, by ports.

A decoder that is left is drained first if it still answers. The next one is told everything from the last random-access point
that it needs for the pictures still wanted; what it gives a second time is dropped by the number of its packet.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from agent.errors import DecoderFailed
from agent.model import State
from agent.ports import Clock, Packet, Picture, Stages
from agent.video.chain import STAGES, Chain, supports
from agent.video.health import Health
from agent.video.replay import Replay
from agent.video.running import Counts, Known, Running, Ways
from agent.video.steps import Form, Step, Steps
from agent.video.switches import Switch, Switches

_DEAD = frozenset({"hang", "dead", "absent"})
_PATIENT = 300


class Decoding:
    """One stream. What it holds is bounded by `Replay` and by what the decoders hold themselves."""

    def __init__(self, codec: str, stages: Stages, clock: Clock, ways: Ways | None = None) -> None:
        """Begin with what the container says of the codec. Raises BadRequest for a chain that cannot be."""
        self.switches = Switches()
        self.counts = Counts()
        self.reason = "no picture yet"
        self._stages, self._clock, self._ways = stages, clock, ways or Ways()
        self._steps = Steps(codec)
        self._chain = Chain(self._steps.codec, self._ways.names)
        self._codec = self._last = self._steps.codec
        self._held = 0
        self._tainted = False
        self._replay = Replay()
        self._running: Running | None = None
        self._left = ""
        self._known = Known()
        self._out: list[Picture] = []

    @property
    def decoder(self) -> str:
        """The stage in use, or the last one that was."""
        return self._running.name if self._running else self._left

    @property
    def lost(self) -> int:
        """Packets whose picture never came."""
        return self._replay.lost

    @property
    def state(self) -> State:
        """`ok`, `degraded` while no decoder gives what it should, `critical` without any; `reason` says why."""
        if not self.reason:
            return "ok"
        return "degraded" if self._running else "critical"

    def packet(self, packet: Packet) -> list[Picture]:
        """Take the next packet, give the pictures that are ready."""
        step = self._steps.step(packet, self._clock.mono_ns())
        self.counts.packets += 1
        self.counts.changes += step.change is not None or (step.codec != self._last and self.counts.packets > 1)
        self._last = step.codec
        self._replay.add(step)
        self._run([step] if self._running else self._begin(step))
        return self._taken()

    def collect(self) -> list[Picture]:
        """Give pictures that have become ready without a packet."""
        running = self._running
        if running and not STAGES[running.name].at_once:
            self._run(self._tried(running, None, running.decoder.collect))
        return self._taken()

    def fault(self, reason: str, prefix: str = "") -> list[Picture]:
        """Leave the stage in use if its name begins so: somebody else knows that it is broken (`gpu.xid`)."""
        running = self._running
        if running and running.name.startswith(prefix):
            self._run(self._recovered(running, reason))
        return self._taken()

    def finish(self) -> list[Picture]:
        """Give everything that is still inside, by another decoder if need be, and close."""
        for _ in STAGES:
            running = self._running
            if running is None:
                break
            again = self._drained(running)
            if not again:
                break
            self._run(again)
        self._close()
        if self._replay.pending:
            self.reason = self.reason or "pictures are missing"
            self._replay.clear()
        return self._taken()

    def _taken(self) -> list[Picture]:
        out, self._out = self._out, []
        return out

    def _run(self, steps: Iterable[Step]) -> None:
        """Hand on steps; where a decoder is left on the way, go on with what the next one must be told."""
        queue = deque(steps)
        tries = 2 * len(STAGES)
        while queue and tries:
            if again := self._give(queue.popleft()):
                queue = deque(again)
                tries -= 1
        if not tries:  # nobody gets over this stretch: begin anew with the next packet
            self._close()

    def _give(self, step: Step) -> Sequence[Step]:
        running = self._running
        if running is None:
            return ()
        if step.codec != self._codec or (step.form and step.form != running.form):
            turned = self._turned(running, step)
            if turned or self._running is None:
                return turned
        elif step.closed and (better := self._chain.better(running.name, step.form, self._clock.mono_ns())):
            self._promoted(running, better, step)
        current = self._running
        if current is None or self._holds(current, step):
            return ()
        sent = self._prefixed(current, step)
        current.form, current.first = step.form or current.form, False
        return self._tried(current, step, lambda: current.decoder.decode(sent))

    def _holds(self, running: Running, step: Step) -> bool:
        """Tell whether a fresh decoder has to wait for a random-access point; not for ever, some streams mark none."""
        self._held = 0 if step.entry or not running.first else self._held + 1
        return 0 < self._held <= _PATIENT

    def _prefixed(self, running: Running, step: Step) -> Packet:
        """Give the packet; to a fresh decoder with the parameter sets that it does not bring."""
        packet = step.packet
        if not (running.first and step.headers):
            return packet
        return Packet(packet.serial, packet.codec, step.headers + packet.data, packet.key, packet.pts_s, packet.due_s)

    def _tried(self, running: Running, step: Step | None, call: Callable[[], Sequence[Picture]]) -> Sequence[Step]:
        """Let a decoder work; give what the next one must be told if this one is left over it."""
        failed = False
        try:
            self._accept(running, call())
        except DecoderFailed as error:
            if error.final:
                return self._recovered(running, error.reason)
            failed = True
        if step:
            running.health.packet(failed=failed)
            running.refused = step.packet.serial if failed else running.refused
        reason = running.health.verdict(self._clock.mono_ns(), running.form)
        return self._recovered(running, reason) if reason else ()

    def _drained(self, running: Running, before: Step | None = None) -> Sequence[Step]:
        """Have a decoder give the rest; where it does not (up to `before`), give what another one must be told that can."""
        following = self._chain.following(running.name, running.form, self._clock.mono_ns())
        if self._replay.waiting(running.refused):
            # It may be damaged; a stage that marks no damage would pass it on as good. Drained first, it would come too late.
            if following and STAGES[following].judges:
                return self._recovered(running, "errors")
            following = None
        try:
            self._accept(running, running.decoder.drain())
        except DecoderFailed as error:
            return self._recovered(running, error.reason)
        oldest = self._replay.oldest
        owes = oldest is not None and (before is None or oldest.packet.serial < before.packet.serial)
        return self._recovered(running, "silent") if owes and following else ()

    def _accept(self, running: Running, pictures: Iterable[Picture]) -> None:
        for picture in pictures:
            now = self._clock.mono_ns()
            step = self._replay.waiting(picture.serial)
            sound = not self._damaged(picture, step)
            stale = step is not None and step.form is not None and not step.form.admits(picture.width, picture.height)
            running.health.picture(now, corrupt=not sound, stale=stale)
            if step is None or stale:
                continue
            self._replay.answered(picture.serial)
            self._out.append(picture if sound else replace(picture, corrupt=True))
            if sound:
                self.reason = ""
                self._chain.good(running.name, now)
                self._known.add(step.form)

    def _damaged(self, picture: Picture, step: Step | None) -> bool:
        """Tell whether a picture is: it says so, or it leans on a random-access point that is."""
        if step and step.entry:
            self._tainted = picture.corrupt
        return picture.corrupt or self._tainted

    def _turned(self, running: Running, step: Step) -> Sequence[Step]:
        """Go on in another format or codec. Gives what to tell a new decoder if the old one failed over its draining."""
        stage, old = STAGES[running.name], running.form
        if running.first or old is None:
            return ()
        same = step.codec == self._codec
        stays = same and stage.in_place and supports(running.name, step.form)
        if stays and (self._ways.in_place or step.form in self._known):
            if self._ways.in_place:
                self._note(step.arrived_ns, step, running.name, running.name, "in place")
            return ()
        fresh = self._fresh(step.form) if same else None  # before the old one is drained: a process takes a while to begin
        if again := self._drained(running, step):
            if fresh:
                fresh.decoder.close()
            return again
        self._close()
        if not same:
            self._codec = step.codec
            self._chain = Chain(step.codec, self._ways.names)
        reason = "codec" if not same else "parameter_set" if supports(running.name, step.form) else "unsupported"
        self._running = fresh or self._fresh(step.form)
        if self._running:
            self._note(step.arrived_ns, step, running.name, self.decoder, reason)
        return ()

    def _promoted(self, running: Running, better: str, step: Step) -> None:
        """Try a better stage again; the one in use goes only when the other one is there."""
        fresh = self._opened(better, step.form)
        if fresh is None:
            return
        with contextlib.suppress(DecoderFailed):
            self._accept(running, running.decoder.drain())
        self._close()
        self._running = fresh
        self._note(step.arrived_ns, step, running.name, better, "due again")

    def _recovered(self, running: Running, reason: str) -> Sequence[Step]:
        """Leave a decoder that fails for the next one, and give what that must be told; or stay, if there is none."""
        now = self._clock.mono_ns()
        self.reason = reason
        following = self._chain.following(running.name, running.form, now)
        if reason not in _DEAD and (following is None or (reason == "corrupt" and not STAGES[following].judges)):
            running.health.forgive(now)
            return ()
        self._chain.failed(running.name, now)
        again = self._replay.again()
        if reason not in _DEAD and again and not again[0].entry:  # too long ago to be told again: take what there is
            with contextlib.suppress(DecoderFailed):
                self._accept(running, running.decoder.drain())
        self._close()
        oldest = self._replay.oldest
        self._running = self._fresh(again[0].form if again else running.form)
        if self._running is None or oldest is None:
            return ()
        self._note(oldest.arrived_ns, oldest, running.name, self.decoder, reason)
        return again

    def _begin(self, step: Step) -> Sequence[Step]:
        """Open a decoder where there is none, and give all that it must be told."""
        if step.codec != self._codec:
            self._codec, self._chain = step.codec, Chain(step.codec, self._ways.names)
        self._running = self._fresh(step.form)
        if self._running is None:
            self.reason = self.reason or "absent"
            return ()
        if self._left and self._left != self.decoder:
            self._note(step.arrived_ns, step, self._left, self.decoder, self.reason)
        return self._replay.again()

    def _fresh(self, form: Form | None) -> Running | None:
        """Open the best stage there is; those that this machine has not are passed over."""
        while name := self._chain.best(form, self._clock.mono_ns()):
            if opened := self._opened(name, form):
                return opened
        return None

    def _opened(self, name: str, form: Form | None) -> Running | None:
        try:
            decoder = self._stages.open(name, self._codec)
        except DecoderFailed:
            self._chain.failed(name, self._clock.mono_ns())
            return None
        stage = STAGES[name]
        health = Health(self._ways.rules, self._clock.mono_ns(), stage.at_once, stage.patience_s)
        return Running(name, decoder, health, form)

    def _close(self) -> None:
        if self._running:
            self._left = self._running.name
            self._running.decoder.close()
            self._running = None

    def _note(self, since_ns: int, step: Step, old: str, new: str, reason: str) -> None:
        self.switches.begin(Switch(self._clock.mono_ns(), since_ns, step.packet.serial, old, new, reason))
