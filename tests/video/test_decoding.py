"""A decoder that fails in any way, at any moment, on real streams: no picture that was received is lost, none comes twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.linux.clock import SystemClock
from agent.linux.videodecoder import AvDecoder
from agent.linux.videoplanes import packed
from agent.ports import Decoder, Packet, Picture
from agent.video.decoding import Decoding
from agent.video.health import Rules
from agent.video.running import Ways
from tests.doubles import HandClock
from tests.video.decoders import FAULTS, Counting, Hostile, Opening, decoded, media, presentation

pytest.importorskip("av")
STREAMS = ("77-100-244", "b-frames", "open-gop", "hevc", "flips")


@cache
def stream(name: str) -> tuple[Packet, ...]:
    """Give the packets of a stream."""
    return tuple(media(name))


def digest(picture: Picture) -> str:
    """Give what is in a picture in short."""
    return hashlib.sha256(b"".join(map(bytes, packed(picture.image)))).hexdigest()


@cache
def reference(name: str) -> tuple[tuple[int, str], ...]:
    """Give each picture of a stream, as one context of libavcodec decodes it that nothing happens to."""
    decoder = AvDecoder(stream(name)[0].codec)
    found = [picture for packet in stream(name) for picture in decoder.decode(packet)] + list(decoder.drain())
    decoder.close()
    return tuple((picture.serial, digest(picture)) for picture in found)


def sound(codec: str) -> Decoder:
    """Open a decoder that works."""
    return AvDecoder(codec)


def hostile(fault: str, after: int) -> Callable[[str], Decoder]:
    """Open a real decoder that fails on purpose."""
    return lambda codec: Hostile(AvDecoder(codec), fault, after)


@pytest.mark.parametrize("name", STREAMS)
def test_changes_cost_nothing(name: str) -> None:
    """Pins that over every change each packet gives its picture, in order, bit by bit that of an undisturbed decoder."""
    decoding, found = decoded(stream(name), Opening({"libavcodec": sound}), SystemClock())
    assert [(picture.serial, digest(picture)) for picture in found] == list(reference(name))
    assert (decoding.state, decoding.lost) == ("ok", 0)
    assert all(switch.recovery_ms is not None for switch in decoding.switches.all())


@pytest.mark.parametrize("after", [0, 1, 30, 52, 99])
@pytest.mark.parametrize("fault", FAULTS)
def test_killing_a_decoder_costs_no_frame(fault: str, after: int) -> None:
    """Pins that a decoder which dies in mid-stream, in whichever way, costs no frame that was received already."""
    name = "b-frames"
    stages = Opening({"cuvid": hostile(fault, after), "libavcodec": sound})
    decoding, found = decoded(stream(name), stages, SystemClock())
    assert [(picture.serial, digest(picture)) for picture in found] == list(reference(name))
    assert (decoding.decoder, decoding.state, decoding.lost) == ("libavcodec", "ok", 0)
    left = [switch for switch in decoding.switches.all() if switch.old == "cuvid" and switch.new == "libavcodec"]
    reasons = {"crash": "dead", "stale": "geometry", "nothing": "silent"}
    assert [switch.reason for switch in left] == [reasons.get(fault, fault)]
    assert all(decoder.closed for decoder in stages.decoders if isinstance(decoder, Hostile))


@pytest.mark.parametrize("fault", FAULTS)
def test_it_costs_none_in_an_open_gop_either(fault: str) -> None:
    """Pins the same where pictures lean on what stands before the last random-access point."""
    stages = Opening({"cuvid": hostile(fault, 27), "libavcodec": sound})
    decoding, found = decoded(stream("open-gop"), stages, SystemClock())
    assert [(picture.serial, digest(picture)) for picture in found] == list(reference("open-gop"))
    assert decoding.lost == 0


def test_what_hardware_cannot_decode_goes_elsewhere_and_comes_back() -> None:
    """Pins that 10 bit never reach a decoder of 8 bit 4:2:0, and that it is used again when they are over."""
    stages = Opening({"cuvid": sound, "libavcodec": sound})
    decoding, found = decoded(stream("depth"), stages, SystemClock())
    assert [(picture.serial, digest(picture)) for picture in found] == list(reference("depth"))
    told = [(switch.old, switch.new, switch.reason) for switch in decoding.switches.all()]
    assert told == [("cuvid", "libavcodec", "unsupported"), ("libavcodec", "cuvid", "due again")]


def test_flips_between_known_formats_open_nothing() -> None:
    """Pins that a camera which flips between two formats has each of them opened once."""
    stages = Opening({"libavcodec": sound})
    decoding, _found = decoded(stream("flips"), stages, SystemClock())
    assert (len(stages.opened), decoding.counts.changes) == (2, 15)


def test_another_codec_on_one_pid() -> None:
    """Pins that H.264 turning into HEVC on one PID (FFmpeg itself goes on with H.264) costs no frame."""
    decoding, found = decoded(stream("h264-hevc"), Opening({"libavcodec": sound}), SystemClock())
    assert [picture.serial for picture in found] == presentation(stream("h264-hevc"))
    assert [switch.reason for switch in decoding.switches.all()] == ["codec"]
    assert not any(picture.corrupt for picture in found)


def test_a_fault_that_others_see() -> None:
    """Pins that a stage is left when somebody else knows that it is broken (gpu.xid), and that it costs no frame."""
    stages, packets = Opening({"cuvid": sound, "libavcodec": sound}), stream("b-frames")
    decoding = Decoding("h264", stages, SystemClock())
    found = [picture for packet in packets[:40] for picture in decoding.packet(packet)]
    found += decoding.fault("gpu.xid", "cuvid")
    found += decoding.fault("gpu.xid", "cuvid")
    found += [picture for packet in packets[40:] for picture in decoding.packet(packet)] + decoding.finish()
    assert [(picture.serial, digest(picture)) for picture in found] == list(reference("b-frames"))
    assert [switch.reason for switch in decoding.switches.all()] == ["gpu.xid", "parameter_set"]
    assert set(stages.opened[1:]) == {"libavcodec"}


def test_parameter_sets_lost_at_the_switch() -> None:
    """Pins hazard 1: pictures whose SPS is lost are not shown in the old geometry as sound ones; all ends in bounded time."""
    decoding, found = decoded(stream("sps-lost"), Opening({"libavcodec": sound}), HandClock())
    assert [picture.serial for picture in found if not picture.corrupt] == list(range(50))
    assert (decoding.state, decoding.lost + len(found)) != ("ok", 100)
    assert decoding.state in {"degraded", "critical"}


def test_parameter_sets_that_come_after_all() -> None:
    """Pins that decoding goes on with the first random-access point whose parameter sets are there."""
    packets = [*stream("77-100-244")[:50], *map(_bare, stream("77-100-244")[50:75]), *stream("77-100-244")[75:]]
    decoding, found = decoded(packets, Opening({"libavcodec": sound}), HandClock())
    good = [picture.serial for picture in found if not picture.corrupt]
    assert sorted(good) == [*range(50), *range(75, 150)]
    assert decoding.state == "ok"


@pytest.mark.parametrize("name", ["b-frames", "hevc"])
@pytest.mark.parametrize("seed", range(3))
def test_a_stream_that_loses_packets_is_no_reason_to_go_to_and_fro(name: str, seed: int) -> None:
    """Pins that where no stage has more to give, decoding stays with one after one try; no picture comes twice."""
    dice = Random(seed)
    kept = [packet for packet in stream(name) if dice.random() > 0.15]
    decoding, found = decoded(kept, Opening({"libavcodec": sound, "ffmpeg": sound}), HandClock())
    assert len({picture.serial for picture in found}) == len(found)
    assert len([switch for switch in decoding.switches.all() if switch.old != switch.new]) <= 1


def _bare(packet: Packet) -> Packet:
    """Give a packet without its SPS and PPS."""
    units = packet.data.replace(b"\0\0\0\1", b"\0\0\1").split(b"\0\0\1")[1:]
    kept = b"".join(b"\0\0\1" + unit for unit in units if unit and unit[0] & 0x1F not in {7, 8})
    return Packet(packet.serial, packet.codec, kept, packet.key, packet.pts_s, packet.due_s)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_run_of_failures(data: st.DataObject) -> None:
    """Pins that whatever all stages but the last do, each picture comes once and in order, in a bounded number of openings."""
    name = data.draw(st.sampled_from(STREAMS))
    packets, order = stream(name), presentation(stream(name))
    ranks = {serial: rank for rank, serial in enumerate(order)}
    shapes = _shapes(name)
    clock = HandClock()
    failing = st.builds(lambda fault, after: (fault, after), st.sampled_from(FAULTS), st.integers(0, 150))

    def fails(_codec: str) -> Decoder:
        fault, after = data.draw(failing)
        return Hostile(Counting(ranks, shapes), fault, after, clock)

    def works(_codec: str) -> Decoder:
        return Counting(ranks, shapes)

    names = ("cuvid", "v4l2m2m", "qsv")
    stages = Opening({**dict.fromkeys(names, fails), "libavcodec": works})
    decoding, found = decoded(packets, stages, clock, Ways(rules=Rules()))
    assert [picture.serial for picture in found] == order
    assert decoding.lost == 0
    assert len(stages.opened) < 60


@cache
def _shapes(name: str) -> dict[int, tuple[int, int, str]]:
    decoder = AvDecoder(stream(name)[0].codec)
    found = [picture for packet in stream(name) for picture in decoder.decode(packet)] + list(decoder.drain())
    decoder.close()
    return {picture.serial: (picture.width, picture.height, picture.pixel_format) for picture in found}
