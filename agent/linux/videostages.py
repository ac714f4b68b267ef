"""The ways of decoding of this machine, by the names that the chain knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread

from agent.errors import DecoderFailed
from agent.linux import tool
from agent.linux.videodeadline import DEADLINE_S, Deadlined
from agent.linux.videodecoder import AvDecoder
from agent.linux.videoprocess import ProcessDecoder
from agent.ports import Decoder

# Without the device, opening fails anyway, but h264_qsv does not even notice.
_DEVICES = {"cuvid": ("nvidiactl", "nvhost-ctrl", "nvhost-gpu"), "v4l2m2m": ("video*",), "qsv": ("dri/renderD*",)}

MOST_HANGS = 3
"""Each keeps a thread and what the library holds, 50 MiB for 1080p: nobody can end a thread. One that was only slow ends."""


class MachineStages:
    """`ports.Stages`."""

    def __init__(
        self,
        dev: Path = Path("/dev"),
        path: str = tool.PATH,
        deadline_s: float = DEADLINE_S,
        library: Callable[[str], Decoder] = AvDecoder,
    ) -> None:
        """Look for devices under `dev`, for ffmpeg along `path`; give up a call into `library` after `deadline_s`."""
        self._dev, self._path, self._deadline_s, self._library = dev, path, deadline_s, library
        self._hung: dict[str, list[Thread]] = {}

    def open(self, name: str, codec: str) -> Decoder:
        """Open a stage. Raises DecoderFailed (absent)."""
        if name == "ffmpeg":
            return ProcessDecoder(codec, self._path)
        devices = _DEVICES.get(name)
        if devices and not any(any(self._dev.glob(device)) for device in devices):
            raise DecoderFailed("absent", f"{name}: no device {' or '.join(devices)} in {self._dev}", final=True)
        hung = self._hung.setdefault(name, [])
        hung[:] = [thread for thread in hung if thread.is_alive()]
        if len(hung) >= MOST_HANGS:
            raise DecoderFailed("absent", f"{name} hangs {MOST_HANGS} times over: not again in this process", final=True)
        library_name = {"libavcodec": codec, "libdav1d": name}.get(name, f"{codec}_{name}")
        return Deadlined(lambda: self._library(library_name), self._deadline_s, hung.append)
