"""The ffmpeg process as a decoder: killed and stopped in mid-stream on real media; which picture belongs to which packet."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import DecoderFailed
from agent.linux.clock import SystemClock, pause
from agent.linux.videodecoder import AvDecoder
from agent.linux.videoprocess import Order, ProcessDecoder
from agent.ports import Packet, Picture
from agent.video.decoding import Decoding
from agent.video.running import Ways
from tests.video.decoders import Opening, media, presentation

pytest.importorskip("av")


@pytest.mark.parametrize("at", [3, 30, 60])
def test_a_killed_process_costs_no_frame(at: int) -> None:
    """Pins that SIGKILL to ffmpeg in mid-stream costs no frame that was received already: libavcodec gives the rest."""
    stream = media("b-frames")
    stages = Opening({"ffmpeg": ProcessDecoder, "libavcodec": AvDecoder})
    decoding = Decoding("h264", stages, SystemClock(), Ways(("ffmpeg", "libavcodec")))
    found: list[Picture] = []
    for packet in stream:
        if packet.serial == at:
            last = stages.decoders[-1]
            assert isinstance(last, ProcessDecoder)
            os.kill(last.pid, signal.SIGKILL)
            pause(0.05)
        found += decoding.packet(packet)
    found += decoding.finish()
    assert [picture.serial for picture in found] == presentation(stream)
    assert ("ffmpeg", "libavcodec", "dead") in [(one.old, one.new, one.reason) for one in decoding.switches.all()]
    assert not any(picture.corrupt for picture in found)


def test_a_stopped_process_is_a_hang() -> None:
    """Pins that a process which neither reads nor writes is given up in bounded time, once its pipes are full."""
    decoder = ProcessDecoder("h264")
    try:
        os.kill(decoder.pid, signal.SIGSTOP)
        with pytest.raises(DecoderFailed) as failed:
            _all(decoder, media("77-100-244"))
        assert (failed.value.reason, failed.value.final) == ("hang", True)
    finally:
        decoder.close()


def _all(decoder: ProcessDecoder, stream: list[Packet]) -> None:
    for packet in stream:
        decoder.decode(packet)
    decoder.drain()


def test_its_pictures_are_those_of_libavcodec() -> None:
    """Pins the numbering: each picture of the process is that of the packet whose number it bears, with B-frames too."""
    stream = media("b-frames")[:50]
    found = {}
    for decoder in (ProcessDecoder("h264"), AvDecoder("h264")):
        pictures = [picture for packet in stream for picture in decoder.decode(packet)] + list(decoder.drain())
        decoder.close()
        found[type(decoder)] = [(picture.serial, picture.image.to_ndarray().tobytes()) for picture in pictures]
    assert found[ProcessDecoder] == found[AvDecoder]


def test_without_ffmpeg() -> None:
    """Pins that a machine without ffmpeg lacks this stage and no more."""
    with pytest.raises(DecoderFailed, match="ffmpeg is not installed") as failed:
        ProcessDecoder("h264", path="/nonexistent")
    assert failed.value.reason == "absent"


@given(st.lists(st.none() | st.floats(-1e6, 1e6), max_size=50))
def test_every_picture_has_one_packet(stamps: list[float | None]) -> None:
    """Pins that whatever time stamps say, each packet is named once, and nothing after the last one."""
    order = Order()
    for serial, stamp in enumerate(stamps):
        order.add(Packet(serial, "h264", b"", key=False, pts_s=stamp))
    assert sorted(order.next() for _ in stamps) == list(range(len(stamps)))
    assert order.next() == -1


def test_a_jump_in_time_begins_anew() -> None:
    """Pins that pictures from before a jump come before those after it, whichever way time jumps."""
    order = Order()
    for serial, stamp in enumerate((95443.0, 95443.08, 95443.04, 0.0, 0.08, 0.04)):
        order.add(Packet(serial, "h264", b"", key=False, pts_s=stamp))
    assert [order.next() for _ in range(6)] == [0, 2, 1, 3, 5, 4]
