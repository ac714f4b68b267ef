"""Decoders of libraries: how they end, and what becomes of one that does not."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.errors import DecoderFailed
from agent.linux.videodeadline import Deadlined
from agent.linux.videodecoder import AvDecoder
from agent.linux.videostages import MachineStages
from agent.ports import Packet, Picture
from tests.brokers import wait_for
from tests.video.decoders import media

pytest.importorskip("av")
PACKET = Packet(7, "h264", b"\0\0\1\x65junk", key=True, pts_s=None)
LEFT_UNDRAINED = """
from tests.video.decoders import media
from agent.linux.videodecoder import AvDecoder
for _ in range(20):
    decoder = AvDecoder("h264")
    for packet in media("b-frames")[:10]:
        decoder.decode(packet)
    decoder.close()
    del decoder
print("ended")
"""


@dataclass
class Stuck:
    """`Decoder` that waits for ever where it is told to."""

    where: str
    free: threading.Event = field(default_factory=threading.Event)
    closed: bool = False

    def _at(self, where: str) -> Sequence[Picture]:
        if where == self.where:
            self.free.wait()
        return ()

    def decode(self, packet: Packet) -> Sequence[Picture]:
        """Wait, or take it."""
        assert packet is PACKET
        return self._at("decode")

    def collect(self) -> Sequence[Picture]:
        """Wait, or give nothing."""
        return self._at("collect")

    def drain(self) -> Sequence[Picture]:
        """Wait, or give nothing."""
        return self._at("drain")

    def close(self) -> None:
        """Remember."""
        self.closed = True


@pytest.mark.parametrize("where", ["decode", "collect", "drain"])
def test_a_call_that_hangs_is_cut_off(where: str) -> None:
    """Pins that a library which does not come back costs its deadline, once; after that every call fails at once."""
    stuck = Stuck(where)
    decoder = Deadlined(lambda: stuck, 0.1)
    calls = {"decode": lambda: decoder.decode(PACKET), "collect": decoder.collect, "drain": decoder.drain}
    begun = time.monotonic()
    for _ in range(2):
        with pytest.raises(DecoderFailed) as failed:
            calls[where]()
        assert (failed.value.reason, failed.value.final) == ("hang", True)
    assert 0.1 <= time.monotonic() - begun < 2
    decoder.close()
    assert not stuck.closed
    stuck.free.set()


def test_the_deadline_follows_what_calls_take() -> None:
    """Pins that a decoder which has been quick is cut off after 0.2 s, not after the second that an unknown one may take."""
    stuck = Stuck("drain")
    decoder = Deadlined(lambda: stuck)
    for _ in range(30):
        decoder.decode(PACKET)
    begun = time.monotonic()
    with pytest.raises(DecoderFailed, match="no answer"):
        decoder.drain()
    assert 0.2 <= time.monotonic() - begun < 0.9
    stuck.free.set()


def test_what_it_raises_comes_through() -> None:
    """Pins that errors of the decoder are those of the call, and that one in opening is one of opening."""
    decoder = Deadlined(lambda: AvDecoder("h264"))
    with pytest.raises(DecoderFailed) as failed:
        decoder.decode(PACKET)
    assert (failed.value.reason, failed.value.final) == ("error", False)
    decoder.close()
    with pytest.raises(DecoderFailed, match="nosuch") as failed:
        Deadlined(lambda: AvDecoder("nosuch"))
    assert failed.value.reason == "absent"


def test_letting_go_in_mid_stream_does_not_hang() -> None:
    """Pins hazard 4: contexts that are left with pictures inside are let go of, in a process that then ends."""
    command = [sys.executable, "-c", LEFT_UNDRAINED]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=root)
    assert done.stdout == "ended\n"


def test_a_drained_decoder_gives_no_more() -> None:
    """Pins that draining twice is harmless."""
    decoder = AvDecoder("h264")
    for packet in media("b-frames")[:10]:
        decoder.decode(packet)
    assert decoder.drain()
    assert not decoder.drain()
    decoder.close()


def test_what_hangs_is_not_tried_for_ever() -> None:
    """Pins that a stage which hangs three times over is absent, as each keeps a thread and memory; until one of them ends."""
    stuck = Stuck("decode")
    stages = MachineStages(deadline_s=0.05, library=lambda _name: stuck)
    for _ in range(3):
        decoder = stages.open("libavcodec", "h264")
        for _again in range(2):
            with pytest.raises(DecoderFailed, match=r"no answer|hangs already"):
                decoder.decode(PACKET)
    with pytest.raises(DecoderFailed, match="hangs 3 times over") as failed:
        stages.open("libavcodec", "h264")
    assert failed.value.reason == "absent"
    stuck.free.set()
    wait_for(lambda: _opens(stages), "a thread that came back has ended")
    assert stuck.closed


def _opens(stages: MachineStages) -> bool:
    try:
        stages.open("libavcodec", "h264").close()
    except DecoderFailed:
        return False
    return True


@pytest.mark.parametrize("name", ["cuvid", "v4l2m2m", "qsv"])
def test_hardware_that_is_not_there(name: str, tmp_path: Path) -> None:
    """Pins that a stage without a device is absent, whatever the library believes (h264_qsv opens without one)."""
    with pytest.raises(DecoderFailed, match="no device") as failed:
        MachineStages(dev=tmp_path).open(name, "h264")
    assert failed.value.reason == "absent"


def test_all_names_of_the_chain_can_be_opened() -> None:
    """Pins that software stages open for what they decode."""
    stages = MachineStages()
    for name, codec in (("libavcodec", "h264"), ("libavcodec", "hevc"), ("libdav1d", "av1"), ("ffmpeg", "av1")):
        stages.open(name, codec).close()
