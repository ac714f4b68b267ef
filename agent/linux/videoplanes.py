"""The samples of a picture without the padding that libraries put behind each line."""

from __future__ import annotations

from typing import Any

from agent.linux.pyav import library


def planes(frame: Any) -> list[tuple[Any, int, int]]:
    """Give (plane, bytes of samples in a line, lines) for each plane of a planar or packed PyAV frame."""
    count, found = len(frame.planes), []
    for at, plane in enumerate(frame.planes):
        if count == 1:
            width = plane.width * frame.format.padded_bits_per_pixel // 8
        else:
            width = plane.width * sum(-(-part.bits // 8) for part in frame.format.components if part.plane == at)
        found.append((plane, width, plane.height))
    return found


def packed(frame: Any) -> list[bytes | memoryview]:
    """Give the samples of a frame, plane after plane."""
    out: list[bytes | memoryview] = []
    for plane, width, lines in planes(frame):
        view = memoryview(plane)
        if plane.line_size == width:
            out.append(view[: width * lines])
        else:
            out.append(b"".join(view[line * plane.line_size : line * plane.line_size + width] for line in range(lines)))
    return out


def unpacked(data: memoryview, width: int, height: int, pixel_format: str) -> Any:
    """Give a frame that holds the samples that `packed` wrote."""
    frame = library().VideoFrame(width, height, pixel_format)
    at = 0
    for plane, length, lines in planes(frame):
        view, stride = memoryview(plane).cast("B"), plane.line_size
        if stride == length:  # the usual sizes have no padding
            view[: length * lines] = data[at : at + length * lines]
        else:
            for line in range(lines):
                view[line * stride : line * stride + length] = data[at + line * length : at + (line + 1) * length]
        at += length * lines
    return frame


def size(width: int, height: int, pixel_format: str) -> int:
    """Give how many bytes `packed` writes for such a frame."""
    return sum(length * lines for _plane, length, lines in planes(library().VideoFrame(width, height, pixel_format)))
