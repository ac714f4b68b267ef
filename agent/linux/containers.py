"""Containers by the socket of docker or podman (Docker Engine API 1.40; podman serves it, too).

podman alone has no daemon: its restart by a client would make the container a child of the broker, gone with it. So it takes
`podman.socket`, or a unit of systemd (quadlet), which is `unit=`.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.errors import Refused, Unsupported
from agent.linux.servicestate import ServiceState

SOCKETS = (Path("/run/docker.sock"), Path("/run/podman/podman.sock"))
READ_S, RESTART_S = 2.0, 60.0
LIMIT = 1 << 20
_STOP_S = 10  # that it is given to end, as `docker restart` does
_STATES = {"created": "stopped", "running": "running", "paused": "stopped", "restarting": "backoff", "removing": "stopping"}
_STOPPED_CODES = (0, 143)  # 143: ended by SIGTERM, which is how somebody stops it


class _Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def read(name: str, sockets: Sequence[Path] = SOCKETS) -> ServiceState:
    """Ask for a container. Raises Unsupported without a socket, Refused if it does not answer."""
    status, body = _call("GET", f"/containers/{name}/json", READ_S, sockets)
    if status == http.client.NOT_FOUND:
        return ServiceState("failed", reason="there is no such container")
    if status != http.client.OK:
        raise Refused(f"container {name}: {_said(status, body)}")
    return parse(body)


def parse(body: bytes) -> ServiceState:
    """Read what the API tells of one container. Raises Refused if it is not of its form."""
    try:
        document = json.loads(body)
        state, policy = document["State"], document["HostConfig"]["RestartPolicy"]
        return _state(state, str(policy.get("Name") or "no"), int(policy.get("MaximumRetryCount") or 0), document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"not what docker tells of a container: {type(error).__name__} {error}"[:200]) from error


def _state(state: dict[str, Any], policy: str, most: int, document: dict[str, Any]) -> ServiceState:
    status, code, restarts = str(state["Status"]), int(state.get("ExitCode") or 0), int(document.get("RestartCount") or 0)
    oom, ended = bool(state.get("OOMKilled")), status in ("exited", "dead")
    reason = f"{status} with {code}{', out of memory' if oom else ''}" if ended else status
    if ended and policy in ("always", "unless-stopped"):  # docker starts it again, unless somebody stopped it
        found = "stopped"
    elif ended:
        gave_up = not policy.startswith("on-failure") or 0 < most <= restarts
        found = "failed" if status == "dead" or oom or (code not in _STOPPED_CODES and gave_up) else "stopped"
    else:
        found = _STATES.get(status, "unknown")
    return ServiceState(
        state=found,
        pid=int(state.get("Pid") or 0) or None,
        reason=reason,
        restarts=restarts,
        supervised=policy not in ("", "no"),
        code=code if ended and code < 128 else 0 if ended else None,
        signal=code - 128 if ended and code > 128 else 0 if ended else None,
    )


def restart(name: str, sockets: Sequence[Path] = SOCKETS) -> str:
    """Stop a container and start it again. Raises GatewardenError."""
    status, body = _call("POST", f"/containers/{name}/restart?t={_STOP_S}", RESTART_S, sockets)
    if status != http.client.NO_CONTENT:
        raise Refused(f"container {name}: {_said(status, body)}")
    return f"container {name} was restarted"


def _call(method: str, target: str, timeout_s: float, sockets: Sequence[Path]) -> tuple[int, bytes]:
    path = next((path for path in sockets if path.is_socket()), None)
    if path is None:
        raise Unsupported("neither docker nor podman serves its socket", "systemctl enable --now podman.socket, or unit = …")
    connection = _Connection(path, timeout_s)
    try:
        connection.request(method, target)
        answer = connection.getresponse()
        return answer.status, answer.read(LIMIT)
    except TimeoutError as error:
        raise Refused(f"{path}: no answer within {timeout_s:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise Refused(f"{path}: {type(error).__name__} {error}") from error
    finally:
        connection.close()


def _said(status: int, body: bytes) -> str:
    try:
        return f"{status} {json.loads(body)['message']}"[:200]
    except (ValueError, KeyError, TypeError, RecursionError):
        return str(status)
