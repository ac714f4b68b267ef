"""Devices on USB: a tree of sysfs that changes, the kernel's own messages, and what is made of both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import Device
from agent.linux import uevents
from agent.linux.clock import SystemClock
from agent.linux.loop import EpollLoop
from agent.linux.pressure import PressureTriggers
from agent.linux.uevents import Uevent
from agent.model import Sighting
from agent.outside.devices import Devices

REMOVE = (
    b"remove@/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.4\0ACTION=remove\0DEVPATH=/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.4\0"
    b"SUBSYSTEM=usb\0DEVTYPE=usb_device\0SEQNUM=4000\0"
)
# In a network namespace of its own, as nobody: a device comes and goes, and the kernel tells.
HEARS = """
import os, socket, subprocess, sys
from agent.linux.loop import EpollLoop
from agent.linux.uevents import Uevents
os.setgroups([]); os.setgid(65534); os.setuid(65534)
heard = []
loop = EpollLoop(lambda name, error: sys.exit(str(error)))
def hear(event):
    heard.append(event)
    if event.action == "remove" and event.subsystem == "net":
        loop.stop()
made = Uevents(loop, hear, lambda: None)
sys.stdout.write("ready\\n"); sys.stdout.flush()
loop.once(10, loop.stop, "limit")
loop.run()
print([(one.action, one.path.split("/")[-1]) for one in heard if one.subsystem == "net"])
"""


def test_a_message_of_the_kernel() -> None:
    """Pins the form."""
    path = "/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.4"
    assert uevents.parse(REMOVE) == Uevent("remove", path, "usb", "usb_device")
    assert uevents.parse(b"libudev\0\xfe\xed\xca\xfe") is None


@given(st.binary(max_size=300))
def test_any_message(message: bytes) -> None:
    """Pins that no message raises."""
    assert uevents.parse(message) is None or b"@" in message


@pytest.mark.root
def test_the_kernel_tells_whoever_listens() -> None:
    """Pins that an ordinary user without any capability hears devices come and go, with nothing else running."""
    child = subprocess.Popen(
        ["unshare", "-n", sys.executable, "-c", HEARS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    if child.stdout.readline() != "ready\n":
        assert child.stderr is not None
        pytest.skip(f"no namespace, or no such socket: {child.stderr.read()[-200:]}")
    inside = ("nsenter", "-n", "-t", str(child.pid), "ip", "link")
    added = subprocess.run([*inside, "add", "gw0", "type", "veth", "peer", "name", "gw1"], capture_output=True, check=False)
    if added.returncode:
        child.kill()
        child.communicate()
        pytest.skip(f"no veth here: {added.stderr.decode()[-200:]}")
    subprocess.run([*inside, "del", "gw0"], check=True)
    out, _ = child.communicate(timeout=20)
    assert "('add', 'gw0')" in out
    assert "('remove', 'gw" in out


def test_what_is_told_of_devices(tmp_path: Path) -> None:
    """Pins one event for each change, whoever told of it first; the name that it had; and what is absent at the start."""
    devices = tmp_path / "sys/bus/usb/devices"
    (devices / "1-1.4").mkdir(parents=True)
    (devices / "1-1.4/product").write_text("Camera\n")
    told: list[Sighting] = []
    said: list[str] = []
    loop = EpollLoop(lambda _name, _error: None)
    configured = [Device("camera", "1-1.4", "a"), Device("tpu", "2-1")]
    made = Devices(configured, loop, SystemClock(), told.append, said.append, tmp_path)
    made.start()
    assert [(one.kind, one.subject, one.data["what"]) for one in told] == [("device.gone", "tpu", "")]
    found = uevents.parse(REMOVE)
    assert found is not None
    made._heard(found)
    made._heard(found._replace(devtype="usb_interface", path=found.path + "/1-1.4:1.0"))
    made._heard(found._replace(path="/devices/usb1/1-7"))
    (devices / "1-1.4/product").unlink()
    (devices / "1-1.4").rmdir()
    made.look()
    assert [(one.kind, one.subject, one.data) for one in told[1:]] == [
        ("device.gone", "camera", {"port": "1-1.4", "what": "Camera", "workload": "a"})
    ]
    (devices / "1-1.4").mkdir()
    made._heard(found._replace(action="add"))
    made.look()
    assert [one.kind for one in told[2:]] == ["device.back"]
    made.close()
    loop.close()
    assert said == []


def test_the_machine_begins_to_starve() -> None:
    """Pins that the kernel wakes the loop by a trigger, where it lets this user have one, and never faster than its window."""
    loop = EpollLoop(lambda _name, _error: None)
    fired: list[int] = []

    def starved() -> None:
        fired.append(loop.wakeups)
        loop.stop()

    made = PressureTriggers(loop, starved, {"cpu": "some 1 2000000", "nosuch": "some 1 2000000"})
    if not made.on:
        loop.close()
        pytest.skip("this kernel has no PSI, or gives this user no triggers (6.5)")
    assert made.on == ("cpu",)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    loop.once(15, loop.stop, "limit")
    loop.run()
    for one in busy:
        one.kill()
        one.wait()
    made.close()
    loop.close()
    assert len(fired) == 1
