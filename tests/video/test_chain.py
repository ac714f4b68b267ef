"""The order of stages, their back-off, and when a decoder is given up: pure, time is handed in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.errors import BadRequest
from agent.ports import Packet, Picture
from agent.video.chain import STAGES, Chain, order
from agent.video.health import Health, Rules
from agent.video.reading import CODECS
from agent.video.replay import Replay
from agent.video.steps import Form, Step
from agent.video.switches import KEPT, Switch, Switches

S = 1_000_000_000
FORM = Form("h264", 1280, 720, (1280, 720), "4:2:0", 8, 2)


def test_the_chain_is_filtered_by_codec() -> None:
    """Pins that dav1d is never given H.264 (it takes it and gives nothing, without a word), and what each codec has."""
    assert order("h264") == ("cuvid", "v4l2m2m", "qsv", "libavcodec", "ffmpeg")
    assert order("av1") == ("cuvid", "qsv", "libdav1d", "ffmpeg")
    assert order("hevc", ("ffmpeg", "libdav1d", "libavcodec")) == ("ffmpeg", "libavcodec")


@pytest.mark.parametrize(
    ("names", "words"), [(("libdav1d",), "none of libdav1d decodes h264"), (("ffmpg",), "did you mean ffmpeg")]
)
def test_orders_that_cannot_be(names: tuple[str, ...], words: str) -> None:
    """Pins the error."""
    with pytest.raises(BadRequest, match=words):
        order("h264", names)


@pytest.mark.parametrize(
    ("form", "first"),
    [
        (FORM, "cuvid"),
        (replace(FORM, bit_depth=10), "v4l2m2m"),
        (replace(FORM, chroma_format="4:4:4"), "v4l2m2m"),
        (None, "cuvid"),
    ],
)
def test_formats_that_hardware_cannot(form: Form | None, first: str) -> None:
    """Pins that NVDEC and QSV get 8 bit 4:2:0 of H.264 alone."""
    assert Chain("h264").best(form, 0) == first


def test_back_off() -> None:
    """Pins: 10 s, 20 s, … while another stage works; at most 10 min; forgiven after a minute of work."""
    chain = Chain("h264", ("cuvid", "libavcodec"))
    now = 0
    for pause_s in (10, 20, 40, 80, 160, 320, 600, 600):
        chain.failed("cuvid", now)
        assert chain.best(FORM, now) == "libavcodec"
        assert chain.better("libavcodec", FORM, now + pause_s * S - 1) is None
        now += pause_s * S
        assert chain.better("libavcodec", FORM, now) == "cuvid"
    chain.good("cuvid", now)
    chain.good("cuvid", now + 61 * S)
    chain.failed("cuvid", now + 62 * S)
    assert chain.better("libavcodec", FORM, now + 72 * S) == "cuvid"


def test_in_need_everything_is_tried_again_sooner() -> None:
    """Pins that without any stage that is due, one is tried after 0.2 s, 0.4 s, … 10 s at most."""
    chain = Chain("hevc", ("libavcodec",))
    now = 0
    for pause_s in (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10):
        chain.failed("libavcodec", now)
        assert chain.best(None, now + int(pause_s * S) - 1000) is None
        now += int(pause_s * S)
        assert chain.best(None, now) == "libavcodec"


def health(**rules: float) -> Health:
    """Give the health of a decoder that answers at once, opened at 0."""
    return Health(replace(Rules(), **rules), 0, True, 0.25)  # type: ignore[arg-type] # int or float


def test_five_errors_of_the_last_ten() -> None:
    """Pins that one damaged packet proves nothing, and four in ten neither."""
    one = health()
    for at in range(100):
        one.packet(failed=at % 10 in {0, 3, 5, 8})
        one.picture(at, corrupt=False, stale=False)
    assert not one.verdict(100, FORM)
    one.packet(failed=True)
    one.packet(failed=True)
    assert one.verdict(100, FORM) == "errors"
    one.forgive(100)
    assert not one.verdict(100, FORM)


def test_silence_in_time_and_in_packets() -> None:
    """Pins the frame watchdog at the beginning: more packets inside than the stream reorders, for 250 ms; or 21 packets."""
    slow, fast = health(), health()
    for at in range(3):
        slow.packet(failed=False)
        assert slow.verdict(int((0.3 + at / 100) * S), FORM) == ("silent" if at == 2 else "")
    for _ in range(20):
        fast.packet(failed=False)
        assert not fast.verdict(1, FORM)
    fast.packet(failed=False)
    assert fast.verdict(1, FORM) == "silent"


def test_what_is_usual_is_known_after_a_while() -> None:
    """Pins that a decoder which has given a picture a packet is silent after three packets too many, and 0.1 s."""
    one = health()
    for at in range(12):
        one.packet(failed=False)
        one.picture(at, corrupt=False, stale=False)
    for _ in range(3):
        one.packet(failed=False)
    one.packet(failed=True)
    assert not one.verdict(S, FORM)
    one.packet(failed=False)
    assert not one.verdict(S // 20, FORM)
    assert one.verdict(S, FORM) == "silent"


def test_a_stream_that_pauses_is_no_silent_decoder() -> None:
    """Pins that ten seconds without a packet are the camera's."""
    one = health()
    one.packet(failed=False)
    one.packet(failed=False)
    assert not one.verdict(10 * S, FORM)


def test_a_process_is_not_counted_in_packets() -> None:
    """Pins that a process has its time to begin, whatever is stuffed into it meanwhile."""
    one = Health(Rules(), 0, False, 1.5)
    for _ in range(100):
        one.packet(failed=False)
    assert not one.verdict(int(1.4 * S), FORM)
    assert one.verdict(int(1.6 * S), FORM) == "silent"


def test_damage_and_geometry() -> None:
    """Pins: over half of the last 20 pictures damaged; one picture of a size that the SPS does not admit."""
    one = health()
    for at in range(20):
        one.picture(at, corrupt=at < 11, stale=False)
    assert one.verdict(20, FORM) == "corrupt"
    one.picture(21, corrupt=False, stale=True)
    assert one.verdict(21, FORM) == "geometry"


@pytest.mark.parametrize(
    ("size", "admitted"), [((300, 168), True), ((326, 168), True), ((352, 288), False), ((299, 168), False)]
)
def test_a_picture_may_be_cropped_less(size: tuple[int, int], admitted: bool) -> None:  # noqa: FBT001 - a parameter
    """Pins hazard 7: FFmpeg leaves an unaligned left crop (CVFC1_Sony_C: 300 -> 326), which is no contradiction."""
    assert Form("h264", 300, 168, (336, 176), "4:2:0", 8, 2).admits(*size) is admitted


def step(serial: int, *, entry: bool = False, closed: bool = True, size: int = 10) -> Step:
    """Give a step."""
    packet = Packet(serial, "h264", bytes(size), key=entry, pts_s=serial / 25)
    return Step(packet, "h264", serial, entry, entry and closed, b"", FORM, None)


def test_replay_begins_at_a_random_access_point() -> None:
    """Pins that what is still wanted is told from the last random-access point before it; nothing, if nothing is wanted."""
    replay = Replay()
    for serial in range(30):
        replay.add(step(serial, entry=serial % 10 == 0))
    for serial in range(25):
        replay.answered(serial)
    assert [each.packet.serial for each in replay.again()] == list(range(20, 30))
    for serial in range(25, 30):
        replay.answered(serial)
    assert replay.again() == ()
    assert (replay.lost, replay.pending) == (0, 0)


def test_an_open_one_is_told_with_what_it_leans_on() -> None:
    """Pins that the group before an open one is kept and told too."""
    replay = Replay()
    for serial in range(30):
        replay.add(step(serial, entry=serial % 10 == 0, closed=serial < 15))
        if serial != 21:
            replay.answered(serial)
    assert [each.packet.serial for each in replay.again()] == list(range(10, 30))


def test_replay_is_bounded() -> None:
    """Pins that an endless group, and one of huge packets, are forgotten from their beginning, and counted."""
    many, large = Replay(most_packets=100), Replay(most_bytes=1000)
    for serial in range(1000):
        many.add(step(serial, entry=serial == 0))
        large.add(step(serial, entry=serial == 0, size=90))
    assert (len(many.again()), many.lost) == (100, 900)
    assert (len(large.again()), large.lost) == (11, 989)


def test_what_never_came_is_written_off() -> None:
    """Pins that a picture which is missing 32 packets later is lost, and no longer the reason for a replay."""
    replay = Replay()
    for serial in range(40):
        replay.add(step(serial, entry=serial == 0))
        if serial != 3:
            replay.answered(serial)
    assert (replay.lost, replay.pending) == (1, 0)


def test_recovery_is_measured_to_a_good_picture() -> None:
    """Pins that a damaged picture ends no outage, nor one from before it; and that the list is bounded."""
    switches = Switches()
    switches.begin(Switch(10 * S, 9 * S, 50, "a", "b", "silent"))
    good = Picture(49, 16, 16, "yuv420p", corrupt=False, image=None)
    switches.shown(good, 11 * S)
    switches.shown(replace(good, serial=50, corrupt=True), 12 * S)
    switches.shown(replace(good, serial=51), 13 * S)
    assert [one.recovery_ms for one in switches.all()] == [4000.0]
    for _ in range(2 * KEPT):
        switches.begin(Switch(0, 0, 10**9, "a", "b", "silent"))
    assert len(switches.all()) < 2 * KEPT
    assert switches.count == 2 * KEPT + 1


def test_each_stage_is_somebodys() -> None:
    """Pins that every stage is reached by some codec's default order."""
    assert {name for codec in CODECS for name in order(codec)} == set(STAGES)
