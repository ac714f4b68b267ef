"""Which set is active, by id and by what pictures refer to; and what a stream's changes are told as."""

from __future__ import annotations

from agent.video.reading import MOST_UNITS
from agent.video.sets import Seen, Sets
from tests.video.encoded import encode
from tests.video.writing import annex_b, h264_pps, h264_slice, h264_sps

SMALL, LARGE = h264_sps(20), h264_sps(40)
START = (SMALL, h264_pps(), h264_slice())


class Feed:
    """A stream of packets, each of some units, into a fresh `Sets`."""

    def __init__(self, *units: bytes) -> None:
        self.sets = Sets("h264")
        self.index = -1
        self(*units)

    def __call__(self, *units: bytes) -> Seen:
        """Give what the next packet brings."""
        self.index += 1
        data = annex_b(*units)
        return self.sets.packet(self.index, self.index / 25, data)


def test_a_set_is_active_with_the_first_picture_that_refers_to_it() -> None:
    """Pins that a new SPS of the active id changes nothing before a picture uses it, and then tells both sides."""
    feed = Feed(*START)
    assert feed(LARGE).change is None
    change = feed(h264_pps(), h264_slice()).change
    assert change is not None
    assert (change.packet, change.pts_s, change.grade) == (2, 0.08, "format")
    assert (change.old.content.width, change.new.content.width) == (320, 640)
    assert change.fields == ("pic_width_in_mbs_minus1",)


def test_a_change_by_id_alone() -> None:
    """Pins a stream that has two SPS from its beginning and changes size by referring to the other."""
    feed = Feed(SMALL, h264_sps(40, number=1), h264_pps(), h264_pps(1, 1), h264_slice())
    assert feed(h264_slice(idr=False)).change is None
    change = feed(h264_slice(1)).change
    assert change is not None
    assert change.grade == "format"
    assert feed(h264_slice(1)).change is None
    assert feed.sets.active is not None
    assert feed.sets.active.sequence.id == 1


def test_a_set_that_nobody_uses_changes_nothing() -> None:
    """Pins that the last SPS seen is not the active one."""
    feed = Feed(*START)
    assert feed(h264_sps(60, number=5), h264_slice(idr=False)).change is None
    assert feed.sets.active is not None
    assert feed.sets.active.content.width == 320


def test_repeats_are_counted() -> None:
    """Pins that identical sets are repeats, no arrivals and no changes."""
    seen = Feed(*START)(*START)
    assert (seen.arrived, seen.repeats, seen.change) == ((), 2, None)


def test_a_pps_is_compared_with_the_last_one_of_its_id() -> None:
    """Pins that pictures which use two PPS in turn change nothing, and a PPS with another initial QP is cosmetic."""
    feed = Feed(SMALL, h264_pps(0), h264_pps(1, qp=5), h264_slice())
    assert [feed(h264_slice(i % 2, idr=False)).change for i in range(4)] == [None] * 4
    change = feed(h264_pps(1, qp=6), h264_slice(1, idr=False)).change
    assert change is not None
    assert (change.grade, change.fields) == ("cosmetic", ("pic_init_qp_minus26",))


def test_flip_flopping() -> None:
    """Pins that a camera which goes back and forth is told each time, and costs no memory."""
    feed = Feed(*START)
    changes = [feed(sps, h264_pps(), h264_slice()).change for sps in (LARGE, SMALL) * 50]
    assert all(change and change.grade == "format" for change in changes)
    assert len(feed.sets._known) == 2


def test_a_damaged_set_leaves_the_old_one_active() -> None:
    """Pins that a set which cannot be read is told and changes nothing."""
    seen = Feed(*START)(b"\x67\x4d", h264_slice())
    assert seen.change is None
    assert seen.damaged == ("sps: cut off: 16 bits, 24 needed",)


def test_pictures_without_sets() -> None:
    """Pins a stream that never sends an SPS: nothing is active, and nothing is made up."""
    feed = Feed(h264_slice())
    assert feed(h264_pps(), h264_slice()).change is None
    assert feed.sets.active is None


def test_another_codec_in_the_same_stream() -> None:
    """Pins H.264 to HEVC and back where the container goes on calling it H.264, also in the middle of a packet."""
    h264, hevc = encode("h264", ""), encode("hevc", "")
    sets = Sets("h264")
    assert sets.packet(0, 0.0, h264).change is None
    there = sets.packet(1, 0.04, h264[-40:] + hevc).change
    assert there is not None
    assert (there.grade, there.old.sequence.codec, there.new.sequence.codec) == ("codec", "h264", "hevc")
    assert sets.packet(2, 0.08, hevc).change is None
    back = sets.packet(3, 0.12, h264).change
    assert back is not None
    assert (back.grade, back.new.sequence.codec, sets.codec) == ("codec", "h264", "h264")


def test_av1() -> None:
    """Pins that a new sequence header is active at once."""
    sets = Sets("av1")
    small, large = encode("av1", ""), encode("av1", "", "128x64")
    assert sets.packet(0, 0.0, small).change is None
    change = sets.packet(1, 0.04, large).change
    assert change is not None
    assert (change.grade, change.new.content.width) == ("format", 128)


def test_a_packet_full_of_sets() -> None:
    """Pins that of a packet with a million sets only the first few are looked at."""
    units = [h264_sps(20 + i % 40, number=i % 32) for i in range(100)] * 100
    seen = Feed(*START)(*units)
    assert len(seen.arrived) + seen.repeats == MOST_UNITS
