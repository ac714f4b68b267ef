"""Streams at 1080p25 in real time whose parameters change, or whose decoder fails: how long until the first good picture.

Each sample is a stream of its own: 20 frames of one format and 14 of another one, or 48 of one. The first packet of the new
format (or the first whose picture the broken decoder kept) is where the time begins; it ends when a picture of it or later has
been adapted to 1920x1080 yuv444p. Reordering, two frames deep, makes 80 ms of it. Beside it what PyAV alone and the ffmpeg
program do with the same packets; neither goes on where a decoder fails.
"""

from __future__ import annotations

import importlib.util
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.linux.clock import SystemClock
from agent.linux.videoadapter import Adapter, Shape
from agent.linux.videodeadline import DEADLINE_S, Deadlined
from agent.linux.videodecoder import AvDecoder
from agent.linux.videosource import packets
from agent.linux.videostages import MachineStages
from agent.ports import Decoder, Packet, Picture, Stages
from agent.video.decoding import Decoding
from agent.video.running import Ways
from tests.bench.plan import Plan
from tests.bench.table import Row, quantile, unmeasured
from tests.media import making, transport
from tests.media.recipes import Part, Recipe
from tests.video.decoders import Hostile, Opening

TITLE = "recovery of a stream at 1080p25"
NEEDS: Sequence[str] = ()
BEFORE, AFTER = 20, 14
FAILS, WHOLE = 39, 48
MUST_MS, AIM_MS = 417, 160
CHANGES = {
    "77-100": (Part("1280x720", profile="main", frames=BEFORE), Part("1920x1080", frames=AFTER)),
    "100-244": (Part("1920x1080", frames=BEFORE), Part("1920x1080", "yuv444p", profile="high444", frames=AFTER)),
}
SOUND = (Part("1920x1080", frames=WHOLE),)
OURS, FAULTS, PEERS = ("in_place", "fresh", "process"), ("nothing", "crash", "hang"), ("pyav", "ffmpeg")
ROWS = (
    *(f"recovery.{change}.{way}" for change in CHANGES for way in (*OURS, *PEERS)),
    *(f"recovery.failure.{fault}" for fault in FAULTS),
)
WANTED = Shape(1920, 1080, "yuv444p")
WORDS = {
    "in_place": "the decoder goes on",
    "fresh": "a new decoder",
    "process": "an ffmpeg process",
    "nothing": "hardware gives nothing any more",
    "crash": "hardware reports an error",
    "hang": "hardware does not come back",
    "pyav": "PyAV alone",
    "ffmpeg": "the ffmpeg program",
}
_SIZE = WANTED.width * WANTED.height * 3
_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One stream: what the gap took (None: it never ended), and how many frames did not come."""

    ms: float | None
    lost: int


@dataclass(frozen=True, slots=True)
class Stream:
    """The same twice: as packets, and as the bytes of each access unit."""

    packets: tuple[Packet, ...]
    units: tuple[bytes, ...]


def seconds(plan: Plan) -> int:
    """Give about how long it takes."""
    return plan.of(430, 55)


def measure(plan: Plan) -> Iterator[Row]:
    """Measure each way on each change, in turn, so that a busy minute of the machine is shared by all."""
    if importlib.util.find_spec("av") is None:
        yield from unmeasured(ROWS, "PyAV is missing: pip install 'gatewarden[video]'")
        return
    taken: dict[str, list[Sample]] = {}
    for _ in range(plan.of(20, 2)):
        for change in CHANGES:
            for way in (*OURS, *PEERS):
                taken.setdefault(f"recovery.{change}.{way}", []).append(_changed(way, stream(change)))
        for fault in FAULTS:
            taken.setdefault(f"recovery.failure.{fault}", []).append(_failed(fault, stream("failure")))
    for name, samples in taken.items():
        yield _row(name, samples)


def _row(name: str, samples: Sequence[Sample]) -> Row:
    change, way = name.split(".")[1:]
    took = [sample.ms for sample in samples if sample.ms is not None]
    lost = sum(sample.lost for sample in samples)
    if not took:
        return unmeasured([name], f"never recovered in {len(samples)} streams, {lost} frames lost")[0]
    p50, p95, p99 = (quantile(took, q) for q in (0.5, 0.95, 0.99))
    note = f"p50 {p50:.0f}, p95 {p95:.0f}, {len(took)} of {len(samples)} streams, {lost} frames lost"
    must, aim = (None, None) if way in PEERS else (MUST_MS, AIM_MS)
    return Row(name, f"{change}, {WORDS[way]}: p99", "ms", p99, must, aim, note)


@cache
def stream(change: str) -> Stream:
    """Encode one of CHANGES, or else the stream that does not change."""
    data = making.stream(Recipe(CHANGES.get(change, SOUND)))
    with TemporaryDirectory(prefix="gatewarden-recovery-") as folder:
        path = Path(folder) / "stream.ts"
        path.write_bytes(data)
        found = tuple(packets(str(path)))
    units: list[bytearray] = []
    for packet in transport.packets(data):
        if not units or (transport.pid(packet) == making._VIDEO_PID and packet[1] & 0x40):
            units.append(bytearray())
        units[-1] += packet
    units[1] = units[0] + units[1]  # the tables
    return Stream(found, tuple(map(bytes, units[1:])))


def _changed(way: str, found: Stream) -> Sample:
    if way == "pyav":
        return _pyav(found.packets)
    if way == "ffmpeg":
        return _program(found)
    ways = Ways(("ffmpeg",) if way == "process" else ("libavcodec",), in_place=way == "in_place")
    return _ours(found.packets, MachineStages(), ways, {"in place", "parameter_set"})


def _failed(fault: str, found: Stream) -> Sample:
    """Let a decoder fail in the 15th packet after the random-access point."""
    machine = MachineStages()

    def software(codec: str) -> Decoder:
        return machine.open("libavcodec", codec)

    def hardware(codec: str) -> Decoder:
        if fault == "hang":
            return Deadlined(lambda: Stuck(AvDecoder(codec), "", FAILS))
        return Hostile(software(codec), fault, FAILS)

    stages = Opening({"cuvid": hardware, "libavcodec": software})
    reasons = {"nothing": {"silent"}, "crash": {"dead"}, "hang": {"hang"}}
    return _ours(found.packets, stages, Ways(), reasons[fault])


class Stuck(Hostile):
    """A decoder that does not come back, as far as anybody waits."""

    def decode(self, packet: Packet) -> Sequence[Picture]:
        """Take a packet."""
        if packet.serial >= self.after:
            time.sleep(2 * DEADLINE_S)
        return super().decode(packet)


def _paced(found: Sequence[Packet], meanwhile: Callable[[], None]) -> Iterator[Packet]:
    """Yield each packet when its time has come."""
    begun = time.monotonic()
    for packet in found:
        while (left := begun + packet.due_s - time.monotonic()) > 0:
            meanwhile()
            time.sleep(min(left, 0.005))
        yield packet


def _ours(found: Sequence[Packet], stages: Stages, ways: Ways, reasons: set[str]) -> Sample:
    clock, adapter, count = SystemClock(), Adapter(WANTED), 0
    decoding = Decoding(found[0].codec, stages, clock, ways)

    def take(pictures: Sequence[Picture]) -> None:
        nonlocal count
        for picture in pictures:
            decoding.switches.shown(adapter.adapted(picture), clock.mono_ns())
            count += 1

    for packet in _paced(found, lambda: take(decoding.collect())):
        take(decoding.packet(packet))
    take(decoding.finish())
    took = [switch.recovery_ms for switch in decoding.switches.all() if switch.reason in reasons]
    return Sample(took[0] if took else None, len(found) - count)


def _pyav(found: Sequence[Packet]) -> Sample:
    """Decode with one context, as a loop over `container.decode` does."""
    decoder, adapter = AvDecoder(found[0].codec), Adapter(WANTED)
    begun = ended = 0.0
    count = 0
    for packet in _paced(found, lambda: None):
        if packet.serial == BEFORE:
            begun = time.monotonic()
        for picture in decoder.decode(packet):
            adapter.adapted(picture)
            count += 1
            if picture.serial >= BEFORE and not ended:
                ended = time.monotonic()
    count += len(decoder.drain())
    decoder.close()
    return Sample((ended - begun) * 1000 if ended else None, len(found) - count)


def _program(found: Stream) -> Sample:
    """Give ffmpeg the same bytes at the same times, with the least probing that it can be asked for."""
    shape = ("-vf", f"scale={WANTED.width}:{WANTED.height},format={WANTED.pixel_format}", "-fps_mode", "passthrough")
    little = ("-probesize", "32", "-analyzeduration", "0", "-threads", "2", "-thread_type", "slice")
    command = ["ffmpeg", "-loglevel", "quiet", *little, "-f", "mpegts", "-i", "pipe:0", *shape, "-f", "rawvideo", "pipe:1"]
    times: list[float] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        output = child.stdout

        def read() -> None:
            while len(output.read(_SIZE)) == _SIZE:
                times.append(time.monotonic())

        reader = threading.Thread(target=read)
        reader.start()
        begun = 0.0
        for packet in _paced(found.packets, lambda: None):
            begun = time.monotonic() if packet.serial == BEFORE else begun
            child.stdin.write(found.units[packet.serial])
            child.stdin.flush()
        child.stdin.close()
        reader.join(_PATIENCE_S)
    ms = (times[BEFORE] - begun) * 1000 if len(times) > BEFORE else None
    return Sample(ms, len(found.packets) - len(times))
