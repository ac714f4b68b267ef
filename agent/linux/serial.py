"""A serial port by pyserial: opened with an exclusive lock, non-blocking, found again by its stable name."""

from __future__ import annotations

import contextlib
import errno
import os
import termios
from dataclasses import dataclass
from pathlib import Path

from agent.errors import NotPermitted, ProbeError, Unsupported

AUTO = "auto"
BY_ID = "serial/by-id"
_CHUNK = 4096
_KINDS = ("ttyUSB*", "ttyACM*", "ttyAMA*", "ttyTHS*")


class Gone(ProbeError):
    """The port is not there, or not there any more."""


class SerialPort:
    """An open port; `fd` for the loop."""

    def __init__(self, path: Path, baud: int) -> None:
        """Open `path` and lock it. Raises Gone, NotPermitted, Unsupported or ProbeError, each with its remedy."""
        try:
            import serial  # noqa: PLC0415 - only where a port is used
        except ImportError as error:
            raise Unsupported("pyserial is not installed", "pip install pyserial") from error
        try:
            self._port = serial.Serial(str(path), baud, timeout=0, write_timeout=0, exclusive=True)
        except (OSError, ValueError) as error:
            raise _refused(path, error) from error
        self.path = path
        self.fd: int = self._port.fileno()

    def read(self) -> bytes:
        """Give what has come, empty if nothing has. Raises Gone."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise Gone(f"{self.path}: {error.strerror}", "plug the microcontroller in again") from error
        if not data:  # readable and empty: the other end is gone, as pyserial takes it too
            raise Gone(f"{self.path}: hung up", "plug the microcontroller in again")
        return data

    def write(self, data: bytes) -> None:
        """Send what the port takes at once; the rest is dropped, as the peer's answer to it will be missed. Raises Gone."""
        try:
            os.write(self.fd, data)
        except BlockingIOError:
            pass
        except OSError as error:
            raise Gone(f"{self.path}: {error.strerror}", "plug the microcontroller in again") from error

    def close(self) -> None:
        """Give it back."""
        with contextlib.suppress(OSError):
            self._port.close()


@dataclass(frozen=True, slots=True)
class Line:
    """Which port, as it is configured: a path, or `auto`: whichever is there."""

    port: str
    baud: int = 115200
    dev: Path = Path("/dev")

    def candidates(self) -> tuple[Path, ...]:
        """Give the ports to try; with `auto` all that there are, each once, by their stable names."""
        if self.port != AUTO:
            return (Path(self.port),)
        with contextlib.suppress(OSError):
            if found := tuple(sorted((self.dev / BY_ID).iterdir())):
                return found
        return tuple(sorted(path for kind in _KINDS for path in self.dev.glob(kind)))

    def stable(self, path: Path) -> Path:
        """Give the name of a port that stays when it comes back under another number; `path` itself if there is none."""
        with contextlib.suppress(OSError):
            target = path.resolve(strict=True)
            for link in sorted((self.dev / BY_ID).iterdir()):
                if link != path and link.resolve() == target:
                    return link
        return path

    def open(self, path: Path) -> SerialPort:
        """Open one of the candidates. Raises as `SerialPort` does."""
        return SerialPort(path, self.baud)


def _refused(path: Path, error: Exception) -> ProbeError:
    inner = error.__context__
    # pyserial wraps what tcgetattr(3) says without its number.
    number = inner.args[0] if isinstance(inner, termios.error) else getattr(error, "errno", None)
    reason = f"{path}: {os.strerror(number) if isinstance(number, int) else error}"
    if number in {errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EIO}:
        return Gone(reason, "plug the microcontroller in; if ls /dev/serial/by-id lists it: the drop-in of docs/mcu.md")
    if number in {errno.EACCES, errno.EPERM}:
        return NotPermitted(
            reason, "usermod -aG dialout gatewarden, or the drop-in of docs/mcu.md; systemctl restart gatewarden"
        )
    if number in {errno.EAGAIN, errno.EBUSY}:
        return ProbeError(f"{path} is in use by another program", f"fuser -v {path} shows it; end it")
    if number in {errno.ENOTTY, errno.EINVAL}:
        return Unsupported(f"{path} is no serial port", "set [mcu] port to one of /dev/serial/by-id")
    return ProbeError(reason, "see dmesg")
