"""Units, containers, USB ports and reboots: what the system's programs and files say, read; what is asked of them, done."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import BadRequest, GatewardenError, Refused, Unsupported
from agent.linux import containers, reboot, servicestate, tool, units, usb
from agent.linux.servicestate import ServiceState
from agent.model import Json

RUNNING = """MainPID=812
Restart=on-failure
NRestarts=2
LoadState=loaded
ActiveState=active
SubState=running
Result=success
ControlGroup=/system.slice/a.service
ExecMainPID=812
ExecMainExitTimestampMonotonic=0
ExecMainCode=0
ExecMainStatus=0
"""


def system(tmp_path: Path, **programs: str) -> str:
    """Give a PATH with shell scripts as the system's programs."""
    for name, text in programs.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return f"{tmp_path}:/bin"


def test_a_unit_that_runs() -> None:
    """Pins the words of systemd for a unit that works, with a Restart= of its own."""
    found = units.parse(RUNNING)
    assert (found.state, found.pid, found.restarts, found.supervised) == ("running", 812, 2, True)
    assert (found.cgroup, found.last_pid, found.code) == ("/system.slice/a.service", None, None)


@pytest.mark.parametrize(
    ("changed", "state", "reason"),
    [
        ({"ActiveState": "activating", "SubState": "start-pre"}, "starting", "activating (start-pre)"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "backoff", "activating (auto-restart)"),
        ({"ActiveState": "deactivating", "SubState": "stop-sigterm"}, "stopping", "deactivating (stop-sigterm)"),
        ({"ActiveState": "reloading", "SubState": "reload"}, "reloading", "reloading (reload)"),
        ({"ActiveState": "inactive", "SubState": "dead"}, "stopped", "inactive (dead)"),
        ({"ActiveState": "failed", "SubState": "failed", "Result": "start-limit-hit"}, "failed", "start-limit-hit"),
        ({"LoadState": "not-found", "ActiveState": "inactive"}, "failed", "systemd knows no such unit"),
        ({"ActiveState": "maintenance"}, "unknown", "maintenance"),
    ],
)
def test_states_of_units(changed: dict[str, str], state: str, reason: str) -> None:
    """Pins the table from systemd's states to ours; given up is `failed`, about to be restarted is `backoff`."""
    rows = dict(line.split("=", 1) for line in RUNNING.splitlines()) | changed
    found = units.parse("\n".join(f"{key}={value}" for key, value in rows.items()))
    assert found.state == state
    assert reason in found.reason


@pytest.mark.parametrize(("code", "status", "ended"), [(1, 3, (3, 0, False)), (2, 9, (0, 9, False)), (3, 6, (0, 6, True))])
def test_how_a_unit_ended(code: int, status: int, ended: tuple[int, int, bool]) -> None:
    """Pins exit codes, signals and core dumps of the process that ended last."""
    text = RUNNING.replace("MonotonicTime", "") + (
        f"ExecMainExitTimestampMonotonic=5\nExecMainCode={code}\nExecMainStatus={status}\nExecMainPID=700\n"
    )
    found = units.parse(text)
    assert (found.last_pid, (found.code, found.signal, found.core)) == (700, ended)


@given(st.text(max_size=300))
def test_any_text_of_systemctl(text: str) -> None:
    """Pins that no output raises."""
    assert units.parse(text).state


def test_orders_to_systemd(tmp_path: Path) -> None:
    """Pins what is run: a start limit is lifted, then the verb, the name behind `--`; a failure carries systemd's words."""
    log = tmp_path / "log"
    path = system(tmp_path, systemctl=f'echo "$@" >> {log}; [ "$1" != stop ] || {{ echo "Unit is masked." >&2; exit 4; }}')
    assert units.order("restart", "a.service", path) == "systemd did restart a.service"
    with pytest.raises(Refused, match=r"systemctl stop --: Unit is masked\."):
        units.order("stop", "a.service", path)
    assert log.read_text().splitlines() == ["reset-failed -- a.service", "restart -- a.service", "stop -- a.service"]


def test_programs_are_bounded(tmp_path: Path) -> None:
    """Pins the time, the empty environment, and what is said of an absent program."""
    path = system(tmp_path, hangs="exec sleep 60", shows='echo "$HOME$LC_ALL"')
    with pytest.raises(Refused, match=r"hangs: not done within 0\.2 s"):
        tool.run(["hangs"], 0.2, path)
    assert tool.run(["shows"], 5, path) == "C\n"
    with pytest.raises(Unsupported, match="nosuch is not installed"):
        tool.run(["nosuch"], 5, path)


def test_reboots_in_good_order_first(tmp_path: Path) -> None:
    """Pins the order of ways: systemd, the init's own program, and the kernel only when both fail."""
    path = f"{tmp_path}"
    assert reboot.begin("why", path, lambda: "cut") == "nobody reboots in good order here: cut"
    system(tmp_path, reboot="true")
    assert reboot.begin("why", path, lambda: "cut") == "reboot: why"
    system(tmp_path, systemctl="echo 'no bus' >&2; exit 1")
    assert reboot.begin("why", path, lambda: "cut") == "reboot: why"
    system(tmp_path, reboot="exit 1")
    assert reboot.begin("why", path, lambda: "cut").startswith("systemctl --no-block reboot: no bus; reboot: ended with 1: cut")


class Docker(BaseHTTPRequestHandler):
    """The Engine API, as far as it is asked."""

    answers: ClassVar[dict[str, tuple[int, bytes]]] = {}
    asked: ClassVar[list[str]] = []

    def _serve(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        status, body = self.answers.get(f"{self.command} {self.path}", (404, b'{"message":"No such container: b"}'))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _serve  # noqa: N815 - the base class names them

    def address_string(self) -> str:
        """Give no address: a unix socket has none."""
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of the base class
        """Log nothing."""


@contextmanager
def docker(path: Path) -> Iterator[type[Docker]]:
    """Serve it on `path`."""
    Docker.answers.clear()
    Docker.asked.clear()
    with socketserver.ThreadingUnixStreamServer(str(path), Docker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Docker
        server.shutdown()


def container(status: str, policy: str = "no", **more: Any) -> bytes:
    """Give what docker tells of one."""
    state = {"Status": status, "Pid": more.pop("Pid", 0), "ExitCode": more.pop("ExitCode", 0), "OOMKilled": False} | more
    host = {"RestartPolicy": {"Name": policy, "MaximumRetryCount": 3}}
    return json.dumps({"State": state, "HostConfig": host, "RestartCount": more.get("RestartCount", 0)}).encode()


@pytest.mark.parametrize(
    ("body", "state", "supervised"),
    [
        (container("running", Pid=77), "running", False),
        (container("running", "unless-stopped"), "running", True),
        (container("restarting", "always"), "backoff", True),
        (container("exited", ExitCode=1), "failed", False),
        (container("exited", ExitCode=0), "stopped", False),
        (container("exited", ExitCode=143), "stopped", False),
        (container("exited", ExitCode=137, OOMKilled=True), "failed", False),
        (container("exited", "always", ExitCode=137), "stopped", True),
        (container("exited", "on-failure", ExitCode=1, RestartCount=3), "failed", True),
        (container("exited", "on-failure", ExitCode=1, RestartCount=1), "stopped", True),
        (container("dead"), "failed", False),
        (container("paused"), "stopped", False),
    ],
)
def test_states_of_containers(body: bytes, state: str, supervised: bool) -> None:  # noqa: FBT001
    """Pins the table from docker's words to ours: what somebody stopped is no failure, what was given up is one."""
    found = containers.parse(body)
    assert (found.state, found.supervised) == (state, supervised)


@given(
    st.binary(max_size=200) | st.recursive(st.none() | st.integers(), st.lists).map(lambda value: json.dumps(value).encode())
)
def test_any_answer_of_docker(body: bytes) -> None:
    """Pins that an answer is read, or Refused."""
    with pytest.raises(Refused):
        containers.parse(body)


def test_a_container_over_the_socket(tmp_path: Path) -> None:
    """Pins the calls, the signal of an end, an absent container, and a daemon that is not there."""
    sockets = (tmp_path / "nosuch.sock", tmp_path / "docker.sock")
    with docker(tmp_path / "docker.sock") as api:
        api.answers["GET /containers/b/json"] = (200, container("exited", ExitCode=139))
        api.answers["POST /containers/b/restart?t=10"] = (204, b"")
        assert (containers.read("b", sockets).signal, containers.read("b", sockets).code) == (11, 0)
        assert containers.restart("b", sockets) == "container b was restarted"
        assert containers.read("other", sockets) == ServiceState("failed", reason="there is no such container")
        with pytest.raises(Refused, match="container other: 404 No such container"):
            containers.restart("other", sockets)
        assert api.asked[2] == "POST /containers/b/restart?t=10"
    with pytest.raises(GatewardenError, match=r"docker\.sock: ConnectionRefusedError"):
        containers.read("b", sockets)
    with pytest.raises(Unsupported, match="neither docker nor podman"):
        containers.read("b", sockets[:1])


def test_a_state_travels_as_json() -> None:
    """Pins the way out of the broker's errand; another version's answer is told from ours, and so is one that was cut off."""
    found = units.parse(RUNNING)
    fields = {name: getattr(found, name) for name in ServiceState.__slots__}
    assert servicestate.from_text(json.dumps(fields)) == found
    others: tuple[Json, ...] = ({}, None, [], {**fields, "more": 1})
    for other in (*map(json.dumps, others), json.dumps(fields)[:-5], "[" * 100_000):
        with pytest.raises(BadRequest, match="not of this version's form"):
            servicestate.from_text(other)


def tree(root: Path) -> Path:
    """Make a bus with a hub at 1-1, a device at its port 3, none at 4."""
    devices = root / "sys/bus/usb/devices"
    for name in ("usb1", "1-0:1.0/usb1-port1", "1-1", "1-1:1.0/1-1-port4", "1-1.3"):
        (devices / name).mkdir(parents=True)
    for key, value in {"busnum": "1", "devnum": "7", "manufacturer": "Acme", "product": "Camera", "idVendor": "0a"}.items():
        (devices / "1-1.3" / key).write_text(f"{value}\n")
    # As the kernel has it: usb1/1-0:1.0, with links below devices/.
    (devices / "usb1/1-0:1.0").symlink_to(devices / "1-0:1.0")
    (devices / "1-1/1-1:1.0").symlink_to(devices / "1-1:1.0")
    return devices


def test_usb_ports(tmp_path: Path) -> None:
    """Pins what is known of a port, that an empty one is switched off and on, and nothing else is touched."""
    devices = tree(tmp_path)
    assert usb.present("1-1.3", tmp_path)
    assert not usb.present("1-1.4", tmp_path)
    assert (usb.describe("1-1.3", tmp_path), usb.describe("1-1.4", tmp_path)) == ("Acme Camera", "")
    with pytest.raises(Refused, match=r"no device at USB port 1-1\.4, and this kernel cannot switch ports"):
        usb.reset("1-1.4", tmp_path)
    switch = devices / "1-1:1.0/1-1-port4/disable"
    switch.write_text("0")
    assert usb.reset("1-1.4", tmp_path, 0.01) == "USB port 1-1.4 was switched off and on"
    assert switch.read_text() == "0"
    (devices / "1-0:1.0/usb1-port1/disable").write_text("0")
    assert usb._switch("1-1", tmp_path) == devices / "usb1/1-0:1.0/usb1-port1/disable"
    with pytest.raises(Refused, match="its hub is not there either: cable, hub or power"):
        usb.reset("2-1.1", tmp_path)


def test_a_device_that_is_there_is_reset_by_its_node(tmp_path: Path) -> None:
    """Pins which device node is asked; what the kernel answers is passed on."""
    tree(tmp_path)
    with pytest.raises(FileNotFoundError, match="dev/bus/usb/001/007"):
        usb.reset("1-1.3", tmp_path)
    node = tmp_path / "dev/bus/usb/001/007"
    node.parent.mkdir(parents=True)
    node.touch()
    with pytest.raises(OSError, match="Inappropriate ioctl"):
        usb.reset("1-1.3", tmp_path)
