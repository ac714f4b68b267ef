"""The C codec and the Python codec speak the same bytes, and take any others. The C side is a program: text in, text out."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.mcu.wire import PAYLOAD_MAX, WIRE_MAX, Decoder, Frame, crc, encode
from tests.mcu.sim import built

FRAMES = st.builds(
    Frame,
    ver=st.integers(0, 255),
    type=st.integers(0, 255),
    seq=st.integers(0, 65535),
    flags=st.integers(0, 255),
    payload=st.binary(max_size=PAYLOAD_MAX) | st.binary(max_size=PAYLOAD_MAX).map(lambda raw: bytes(len(raw))),
)
SLOW = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ERRORS = {"error:-5": "crc"}


class Tool:
    """`gw-hex` of firmware_hooks, under the sanitizers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Talk to a running one."""
        self._process = process

    def ask(self, line: str) -> str:
        """Give the answer to one line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def encode(self, frame: Frame) -> bytes:
        """Encode in C."""
        payload = frame.payload.hex() or "-"
        return bytes.fromhex(self.ask(f"encode {frame.ver} {frame.type} {frame.seq} {frame.flags} {payload}"))

    def decode(self, data: bytes) -> tuple[list[Frame], dict[str, int]]:
        """Decode in C: the frames, and how many errors of each kind."""
        frames, errors = [], {"crc": 0, "frame": 0}
        for item in self.ask(f"decode {data.hex() or '-'}").split():
            if item.startswith("error:"):
                errors[ERRORS.get(item, "frame")] += 1
                continue
            ver, type_, seq, flags, payload = item.split(":")
            frames.append(Frame(int(ver), int(type_), int(seq), int(flags), bytes.fromhex(payload.removeprefix("-"))))
        return frames, errors


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    """Start it."""
    command = [str(built("sanitized", "sanitized") / "gw-hex")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Tool(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 0  # the sanitizers found nothing


def test_known_bytes() -> None:
    """Pins the published check value of CRC-16/CCITT-FALSE, and one frame by its bytes: the ends may not drift together."""
    assert crc(b"123456789") == 0x29B1
    lease = Frame(1, 2, 0x0102, 0, bytes.fromhex("102700005544332201"))
    assert encode(lease).hex(" ") == "05 01 02 02 01 04 09 10 27 01 08 55 44 33 22 01 96 2b 00"


@SLOW
@given(frame=FRAMES)
def test_c_reads_what_python_writes(tool: Tool, frame: Frame) -> None:
    """Pins one direction."""
    assert tool.decode(encode(frame)) == ([frame], {"crc": 0, "frame": 0})


@SLOW
@given(frame=FRAMES)
def test_python_reads_what_c_writes(tool: Tool, frame: Frame) -> None:
    """Pins the other direction: even the bytes are the same."""
    wire = tool.encode(frame)
    assert wire == encode(frame)
    assert len(wire) <= WIRE_MAX
    assert Decoder().feed(wire) == [frame]


BROKEN = st.one_of(
    st.binary(max_size=150),
    st.builds(lambda frame: encode(frame)[:-3] + b"\0", FRAMES),
    st.builds(lambda frame, at, bit: _flipped(encode(frame), at, bit), FRAMES, st.integers(0, 57), st.integers(0, 7)),
    FRAMES.map(encode),
)


def _flipped(wire: bytes, at: int, bit: int) -> bytes:
    at %= len(wire)
    return wire[:at] + bytes([wire[at] ^ 1 << bit]) + wire[at + 1 :]


@SLOW
@given(pieces=st.lists(BROKEN, max_size=6))
def test_both_agree_on_any_bytes(tool: Tool, pieces: list[bytes]) -> None:
    """Pins that both decoders take the same frames out of any stream, and count the same errors."""
    data = b"".join(pieces)
    decoder = Decoder()
    frames = decoder.feed(data)
    assert tool.decode(data) == (frames, decoder.errors)


@SLOW
@given(pieces=st.lists(BROKEN, max_size=6), cut=st.integers(1, 80))
def test_cuts_change_nothing(pieces: list[bytes], cut: int) -> None:
    """Pins that a stream may arrive in any portions, and that the decoder never holds more than a frame."""
    data = b"".join(pieces)
    whole, parts = Decoder(), Decoder()
    found = [frame for at in range(0, len(data), cut) for frame in parts.feed(data[at : at + cut])]
    assert found == whole.feed(data)
    assert parts.errors == whole.errors
    assert len(parts._held) < WIRE_MAX


@given(frames=st.lists(FRAMES, min_size=1, max_size=4), noise=st.binary(max_size=200))
def test_a_good_frame_after_noise_is_not_lost(frames: list[Frame], noise: bytes) -> None:
    """Pins resynchronisation: noise costs at most what it touches; a delimiter later everything is read."""
    found = Decoder().feed(noise + b"\0" + b"".join(encode(frame) for frame in frames))
    assert found[-len(frames) :] == frames


def test_no_frame_is_longer_than_agreed() -> None:
    """Pins our own error for a payload that is too long."""
    with pytest.raises(ValueError, match="49 bytes"):
        encode(Frame(1, 1, 0, 0, bytes(PAYLOAD_MAX + 1)))
