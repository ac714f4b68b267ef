"""agentd, keeper and workloads that are proved by what they do: an answer, a count in a file, a counter on a page."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.linux.containers import SOCKETS
from tests.agents import Agent, agent
from tests.brokers import wait_for
from tests.keepers import keeper, python, workload

LabConfig = Callable[..., Path]
HERE = (Path("/run/systemd/system"), *SOCKETS)
QUIET = "[probes]\nenabled = []\n[metrics]\nperiod_s = 1\n"
# Answers well; the first of its kind answers 503 from its 20th request on, while its process lives and looks busy.
SERVER = """
import http.server, pathlib, sys
mark, port = pathlib.Path(sys.argv[1]), int(sys.argv[2])
sick = not mark.exists()
mark.touch()
class Handler(http.server.BaseHTTPRequestHandler):
    served = 0
    def do_GET(self):
        Handler.served += 1
        body = f"frames_total {Handler.served if not sick or Handler.served < 20 else 20}\\n".encode()
        self.send_response(503 if sick and Handler.served > 20 and "metrics" not in self.path else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
# Counts in a file ten times a second; the first of its kind stands still after 30, and lives on.
COUNTER = """
import pathlib, sys, time
mark, path = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
sick = not mark.exists()
mark.touch()
for n in range(10**9):
    time.sleep(1000 if sick and n == 30 else 0.1)
    path.write_text(f"{n}\\n")
"""


def free_port() -> int:
    """Give a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def row(found: Agent, name: str) -> dict[str, Any]:
    """Give what the status says of one workload."""
    return next(one for one in found.status()["workloads"] if one["name"] == name)


def has(found: Agent, name: str, **wanted: object) -> bool:
    """Whether the status says so of one workload."""
    return row(found, name).items() >= wanted.items()


def test_work_that_is_not_done_is_found_and_mended(tmp_path: Path, lab_config: LabConfig) -> None:
    """Pins, side by side: a server that answers wrongly, a count in a file and one on a page that stand still.

    Each process lives all the while. Each is ended and replaced, and works again; the one that does its work is left alone.
    """
    ready, page, well = free_port(), free_port(), free_port()
    (tmp_path / "well").touch()
    http = f"http://127.0.0.1:{ready}/v2/health/ready"
    metrics = {"http": f"http://127.0.0.1:{page}/metrics", "counter": "frames_total"}
    often = {"period_s": 0.1, "timeout_s": 1}
    config = lab_config(
        QUIET
        + workload("server", [*python(SERVER), str(tmp_path / "a"), str(ready)], probe={"http": http, **often})
        + workload("page", [*python(SERVER), str(tmp_path / "b"), str(page)], probe={**metrics, **often}, deadline_s=3)
        + workload(
            "file",
            [*python(COUNTER), str(tmp_path / "c"), str(tmp_path / "count")],
            probe={"file": str(tmp_path / "count"), **often},
            deadline_s=3,
        )
        + workload("well", [*python(SERVER), str(tmp_path / "well"), str(well)], probe={"tcp": f"127.0.0.1:{well}", **often})
    )
    with keeper(config), agent(config) as found:
        wait_for(lambda: row(found, "well")["check"], "a first check")
        for name in ("server", "page", "file"):
            wait_for(partial(has, found, name, restarts=1, state="running"), lambda: f"{found.status()['workloads']}", 60)
            assert row(found, name)["last_rung"] in {"capture", "terminate"}
        wait_for(lambda: not found.status()["findings"], lambda: f"{found.status()['findings']}", 60)
        assert (row(found, "well")["restarts"], row(found, "well")["proven"]) == (0, True)
        assert row(found, "server")["check"]["ok"]
        events = found.ctl("events", "--limit", "1000")[1]["events"]
    detectors = {
        (one["subject"], one["detector"]) for one in events if one["record"] == "finding" and one["state"] == "critical"
    }
    assert {("server", "health_check"), ("page", "deadline"), ("file", "deadline")} <= detectors
    assert not [one for one in events if one.get("kind") == "workload.check"], "samples are not recorded"


@pytest.mark.root
@pytest.mark.skipif(any(map(Path.exists, HERE)), reason="systemd, docker or podman runs here")
def test_nobody_tells_how_it_is(lab_config: LabConfig) -> None:
    """Pins a unit and a container where there is neither systemd nor docker: unknown, with the reason, and nothing is done.

    A device that is not there is a finding after 5 s, and its port is tried.
    """
    foreign = '[[workload]]\nname = "a"\nunit = "a.service"\n[[workload]]\nname = "b"\ncontainer = "b"\nrequired = false\n'
    with agent(lab_config(QUIET + foreign + '[[device]]\nname = "camera"\nusb = "9-1"\nworkload = "a"\n')) as found:
        wait_for(lambda: row(found, "a")["reason"] and row(found, "b")["reason"], "reasons")
        assert "systemctl" in row(found, "a")["reason"]
        assert "neither docker nor podman" in row(found, "b")["reason"]
        wait_for(lambda: found.status()["findings"], "a finding")
        wait_for(lambda: events_of(found, "outcome", action="usb_reset"), "a try")
        assert {one["detector"] for one in found.status()["findings"]} == {"device_lost"}
        assert (row(found, "a")["state"], row(found, "a")["last_rung"]) == ("unknown", None)
        (tried,) = events_of(found, "outcome", action="usb_reset")
    assert not tried["ok"]
    assert "no device at USB port 9-1, and its hub is not there either: cable, hub or power" in tried["detail"]


def events_of(found: Agent, record: str, **wanted: object) -> list[dict[str, Any]]:
    """Give the records of one envelope with these values."""
    listed = found.ctl("events", "--limit", "1000")[1]["events"]
    return [one for one in listed if one["record"] == record and one.items() >= wanted.items()]
