"""Devices that must be there (`[[device]]`): the kernel tells when one comes or goes, and each tick looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

from agent.config import Device
from agent.linux import usb
from agent.linux.loop import EpollLoop
from agent.linux.uevents import Uevent, Uevents
from agent.model import Data, Sighting
from agent.ports import Clock

SOURCE = "agent"


class Devices:
    """One per agentd, on the loop's thread; `told` takes events."""

    def __init__(
        self,
        devices: Sequence[Device],
        loop: EpollLoop,
        clock: Clock,
        told: Callable[[Sighting], None],
        say: Callable[[str], None],
        root: Path = usb.ROOT,
    ) -> None:
        """Look at nothing yet."""
        self._root = root
        self._devices = {one.usb: one for one in devices}
        self._loop, self._clock, self._told, self._say = loop, clock, told, say
        self._there = dict.fromkeys(self._devices, True)
        self._what = dict.fromkeys(self._devices, "")
        self._uevents: Uevents | None = None

    def start(self) -> None:
        """Listen, then look: what is not there at the start is told as gone."""
        if not self._devices:
            return
        try:
            self._uevents = Uevents(self._loop, self._heard, self.look)
        except OSError as error:
            self._say(f"devices are looked at each 10 s only: the kernel does not tell of them: {error.strerror}")
        self.look()

    def look(self) -> None:
        """Compare what is there with what was."""
        for port in self._devices:
            self._note(port, there=usb.present(port, self._root))

    def close(self) -> None:
        """Hear no more."""
        if self._uevents is not None:
            self._uevents.close()

    def _heard(self, event: Uevent) -> None:
        port = PurePath(event.path).name
        if event.devtype == "usb_device" and port in self._devices and event.action in ("add", "remove"):
            self._note(port, there=event.action == "add")

    def _note(self, port: str, *, there: bool) -> None:
        if there:
            self._what[port] = usb.describe(port, self._root) or self._what[port]
        if there == self._there[port]:
            return
        self._there[port] = there
        one = self._devices[port]
        data: Data = {"port": port, "what": self._what[port], "workload": one.workload}
        kind = "device.back" if there else "device.gone"
        self._told(Sighting(self._clock.mono_ns(), SOURCE, kind, one.name, "info" if there else "error", data))
