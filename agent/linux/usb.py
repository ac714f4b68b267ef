"""USB devices by their stable port path (`1-1.4`: bus, port of the root hub, port of the hub behind it), from sysfs.

Sources: Documentation/ABI/testing/sysfs-bus-usb, include/uapi/linux/usbdevice_fs.h. Nothing but the port that is
asked for is ever disturbed. `root` is a fixture tree in tests.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from agent.errors import Refused

ROOT = Path("/")
_DEVICES = "sys/bus/usb/devices"
_RESET = 0x5514  # USBDEVFS_RESET, _IO('U', 20)
_OFF_S = 2.0  # without power: long enough for what its capacitors hold


def present(port: str, root: Path = ROOT) -> bool:
    """Whether a device is there."""
    return (root / _DEVICES / port).exists()


def describe(port: str, root: Path = ROOT) -> str:
    """Give what the device calls itself, empty if it is not there or says nothing."""
    folder = root / _DEVICES / port
    words = [_text(folder / key) for key in ("manufacturer", "product")]
    ids = [_text(folder / key) for key in ("idVendor", "idProduct")]
    return " ".join(word for word in words if word)[:80] or ":".join(ids).strip(":")


def reset(port: str, root: Path = ROOT, off_s: float = _OFF_S) -> str:
    """Reset the device at `port`; with none there, switch the port off and on. Raises Refused, OSError."""
    folder = root / _DEVICES / port
    if folder.exists():
        return _reset_device(folder, port, root)
    switch = _switch(port, root)
    if switch is None or not switch.exists():
        why = "its hub is not there either" if switch is None else "this kernel cannot switch ports (6.0 and newer can)"
        raise Refused(f"no device at USB port {port}, and {why}: cable, hub or power")
    switch.write_text("1")
    time.sleep(off_s)
    switch.write_text("0")
    return f"USB port {port} was switched off and on"


def _reset_device(folder: Path, port: str, root: Path) -> str:
    bus, number = int(_text(folder / "busnum") or 0), int(_text(folder / "devnum") or 0)
    fd = os.open(root / f"dev/bus/usb/{bus:03d}/{number:03d}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _RESET, 0)
    finally:
        os.close(fd)
    return f"the device at USB port {port} was reset"


def _switch(port: str, root: Path) -> Path | None:
    """Give the file that disables a port of a hub; None without that hub."""
    parent, dot, number = port.rpartition(".")
    bus, _, first = port.partition("-")
    hub, interface, number = (parent, f"{parent}:1.0", number) if dot else (f"usb{bus}", f"{bus}-0:1.0", first)
    folder = root / _DEVICES / hub
    return folder / interface / f"{hub}-port{number}" / "disable" if folder.exists() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="backslashreplace").strip()
    except OSError:
        return ""
