"""video decode: decode a file or a camera, over every change of its parameters, and tell how that went."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from agent.commands import _exit
from agent.commands._call import Call
from agent.commands._screen import Screen
from agent.commands._status_view import text
from agent.commands._table import number, table
from agent.errors import BadRequest
from agent.linux import videoadapter, videosource
from agent.linux.clock import SystemClock, pause
from agent.linux.pyav import library
from agent.linux.videosink import Sink
from agent.linux.videostages import MachineStages
from agent.model import Data, Json, State
from agent.narrow import rows
from agent.ports import Packet, Picture
from agent.video import chain
from agent.video.decoding import Decoding
from agent.video.reading import CODECS
from agent.video.running import Ways
from agent.video.switches import Switch

SCHEMA = "gatewarden.video.decode/1"
_MOST = 1000
"""Rows of each table that are kept."""
_LOOK_S = 0.005


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument("source", metavar="SOURCE", help="a file, or rtsp://, http:// or https://")
    parser.add_argument("--out", default="null", metavar="WHERE", help="null, raw:PATH or y4m:PATH (default null)")
    parser.add_argument(
        "--adapt", metavar="WxH:PIX_FMT", help="give pictures of one size and pixel format, as 1280x720:yuv420p"
    )
    parser.add_argument("--realtime", action="store_true", help="a file: take its packets when their time comes")
    names = ",".join(chain.STAGES)
    parser.add_argument("--chain", default="", metavar="NAMES", help=f"ways of decoding in order (default {names})")
    _exit.add_fail_on(parser)


def run(call: Call) -> int:
    """Decode and show. Exit code 0 whatever is found, unless `--fail-on` says otherwise."""
    library()
    names = [name for name in call.option("chain").split(",") if name]
    for name in names:
        chain.known(name)
    wanted = call.option("adapt")
    adapter = videoadapter.Adapter(videoadapter.shape(wanted)) if wanted else None
    with contextlib.closing(Sink(call.option("out"))) as sink:
        decoded = _Run(Ways(names), adapter, sink, realtime=call.option("realtime"))
        decoded.all(videosource.packets(call.option("source")))
    found = decoded.json()
    if call.json:
        call.screen.json(found)
    else:
        for line in view(call.screen, found, decoded.state):
            call.screen.line(line)
    if decoded.ended:
        call.screen.note(decoded.ended)
    fail_on = call.option("fail_on")
    return _exit.of_state(decoded.state, fail_on) if fail_on else _exit.OK


@dataclass(slots=True)
class _Formats:
    """What pictures were, from which one on."""

    rows: list[Json] = field(default_factory=list)
    last: tuple[int, int, str] | None = None

    def add(self, count: int, picture: Picture) -> None:
        """Note picture `count`."""
        now = (picture.width, picture.height, picture.pixel_format)
        if now != self.last and len(self.rows) < _MOST:
            width, height, pixels = self.last = now
            self.rows.append({"from_frame": count, "width": width, "height": height, "pixel_format": pixels})


class _Run:
    """One source from its first packet to its last."""

    def __init__(self, ways: Ways, adapter: videoadapter.Adapter | None, sink: Sink, *, realtime: bool) -> None:
        self._ways, self._adapter, self._sink, self._realtime = ways, adapter, sink, realtime
        self._clock = SystemClock()
        self._begun_ns, self._begun_cpu_s = self._clock.mono_ns(), _cpu_s()
        self._decoding: Decoding | None = None
        self._formats, self._output = _Formats(), _Formats()
        self._frames = self._corrupt = 0
        self.ended = ""

    def all(self, packets: Iterable[Packet]) -> None:
        """Decode them all. Raises BadRequest if there is not one."""
        try:
            for packet in packets:
                decoding = self._decoding = self._decoding or self._begin(packet)
                if self._realtime:
                    self._wait(decoding, packet.due_s)
                self._take(decoding, decoding.packet(packet))
        except BadRequest as error:
            if self._decoding is None or isinstance(error, _exit.Usage):
                raise
            self.ended = str(error)
        except KeyboardInterrupt:  # a camera has no end of its own
            self.ended = "interrupted"
        if self._decoding is None:
            raise BadRequest("there is not one packet of video in it")
        self._take(self._decoding, self._decoding.finish())

    def _begin(self, packet: Packet) -> Decoding:
        """Begin with the first packet. Raises BadRequest where none of the chain's names can decode it."""
        self._begun_ns = self._clock.mono_ns() - int(packet.due_s * 1e9)
        chain.order(next(known for known in CODECS if known == packet.codec), self._ways.names)
        return Decoding(packet.codec, MachineStages(), self._clock, self._ways)

    def _wait(self, decoding: Decoding, due_s: float) -> None:
        """Wait until a packet is due, and take what becomes ready meanwhile."""
        while (left := due_s - self._elapsed_s()) > 0:
            self._take(decoding, decoding.collect())
            pause(min(left, _LOOK_S))

    def _elapsed_s(self, at_ns: int | None = None) -> float:
        return ((self._clock.mono_ns() if at_ns is None else at_ns) - self._begun_ns) / 1e9

    def _take(self, decoding: Decoding, pictures: Iterable[Picture]) -> None:
        for picture in pictures:
            adapted = self._adapter.adapted(picture) if self._adapter else picture
            self._formats.add(self._frames, picture)
            self._output.add(self._frames, adapted)
            try:
                self._sink.put(adapted)
            except BadRequest as error:
                raise _exit.Usage(str(error)) from error
            decoding.switches.shown(adapted, self._clock.mono_ns())
            self._frames += 1
            self._corrupt += picture.corrupt

    @property
    def state(self) -> State:
        """`ok` if each packet gave a sound picture, `critical` if none did."""
        decoding = self._decoding
        if decoding is None or not self._frames:
            return "critical"
        whole = self._frames >= decoding.counts.packets and not self._corrupt and not self.ended
        return "ok" if whole else "degraded"

    def json(self) -> Data:
        """Give the report."""
        assert self._decoding is not None
        decoding = self._decoding
        cpu_ms = (_cpu_s() - self._begun_cpu_s) * 1000
        return {
            "schema": SCHEMA,
            "frames_in": decoding.counts.packets,
            "frames_out": self._frames,
            "formats": self._formats.rows,
            "output": self._output.rows,
            "corrupt": self._corrupt,
            "switches": [self._switch(switch) for switch in decoding.switches.all()],
            "parameter_changes": decoding.counts.changes,
            "segments_retried": 0,
            "decoder": decoding.decoder,
            "cpu_ms_per_frame": round(cpu_ms / self._frames, 3) if self._frames else None,
        }

    def _switch(self, switch: Switch) -> Data:
        at_s = round(self._elapsed_s(switch.at_ns), 6)
        told: Data = {"at_s": at_s, "from": switch.old, "to": switch.new, "reason": switch.reason}
        return told | {"recovery_ms": switch.recovery_ms}


def _cpu_s() -> float:
    """Give what this process and its children that have ended took so far."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def view(screen: Screen, found: Data, state: State) -> Iterator[str]:
    """Draw a report."""
    told: Callable[[str], str] = lambda key: number(found.get(key))  # noqa: E731 - one place, many uses
    yield f"{screen.paint(state, state)}  {told('frames_out')} of {told('frames_in')} frames, {told('corrupt')} corrupt"
    yield f"decoder   {text(found.get('decoder'))}, {told('cpu_ms_per_frame')} ms of CPU a frame"
    yield f"changes   {told('parameter_changes')} of parameter sets, {told('segments_retried')} segments fetched again"
    for title, key in (("DECODED", "formats"), ("GIVEN", "output")):
        yield ""
        shown = [
            (
                number(row.get("from_frame")),
                f"{text(row.get('width'))}x{text(row.get('height'))}",
                text(row.get("pixel_format")),
            )
            for row in rows(found, key)
        ]
        yield from table(screen, (f"{title} FROM FRAME", "SIZE", "PIXELS"), shown)
    if switches := rows(found, "switches"):
        keys = ("at_s", "from", "to", "reason", "recovery_ms")
        told_rows = [tuple(_cell(row, key) for key in keys) for row in switches]
        yield ""
        yield from table(screen, ("AT s", "FROM", "TO", "REASON", "RECOVERY ms"), told_rows)


def _format(row: Data) -> tuple[str, ...]:
    size = f"{text(row.get('width'))}x{text(row.get('height'))}"
    return number(row.get("from_frame")), size, text(row.get("pixel_format"))


def _cell(row: Data, key: str) -> str:
    value = row.get(key)
    return number(value) if value is None or isinstance(value, int | float) else text(value)
