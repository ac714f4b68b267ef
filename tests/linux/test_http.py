"""The metrics responder: real sockets, good and bad clients."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import GatewardenError
from agent.linux import http as ours
from agent.linux import unixserver
from agent.linux.loop import EpollLoop
from agent.linux.peer import DEADLINE_S, Listener

TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
BODY = b"gatewarden_up 1\n# EOF\n"


Serve = Callable[[socket.socket, ours.Page], None]


def page() -> tuple[str, bytes]:
    """Give the one page."""
    return TYPE, BODY


@pytest.fixture
def served(serving: EpollLoop, listening: Callable[[Callable[[], Listener]], Listener]) -> Serve:
    """Give a function that serves a page on a socket."""

    def serve(sock: socket.socket, source: ours.Page) -> None:
        listening(lambda: ours.serve(serving, sock, source))

    return serve


@pytest.fixture
def port(served: Serve) -> int:
    """Give the port of a served page."""
    sock = ours.listen("127.0.0.1:0")
    served(sock, page)
    number: int = sock.getsockname()[1]
    return number


def get(port: int, path: str = "/metrics", method: str = "GET") -> tuple[int, bytes, http.client.HTTPMessage]:
    """Ask by the standard library's client."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def raw(port: int, request: bytes) -> bytes:
    """Send bytes, read until the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S + 2) as sock:
        sock.sendall(request)
        parts = []
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_the_page(port: int) -> None:
    """Pins that GET /metrics gives the page with its type and length, with or without a query."""
    for path in ("/metrics", "/metrics?name=x"):
        status, body, headers = get(port, path)
        assert (status, body, headers["Content-Type"]) == (200, BODY, TYPE)
        assert headers["Connection"] == "close"


def test_all_else_is_refused(port: int) -> None:
    """Pins 404 for another path, 405 (naming GET) for another method, 400 for what is no request."""
    assert get(port, "/")[0] == 404
    assert get(port, "/metrics/../etc/passwd")[0] == 404
    status, _, headers = get(port, method="POST")
    assert (status, headers["Allow"]) == (405, "GET")
    for rubbish in (b"\x16\x03\x01\x02\r\n\r\n", b"GET /metrics\r\n\r\n", b"GET metrics HTTP/1.1\r\n\r\n", b"\r\n\r\n"):
        assert raw(port, rubbish).startswith(b"HTTP/1.1 400 ")


def test_an_endless_head_is_cut_off(port: int) -> None:
    """Pins that more than 8 KiB of headers end the connection, and a good client is served after it."""
    with socket.create_connection(("127.0.0.1", port)) as sock, pytest.raises((ConnectionResetError, BrokenPipeError)):
        sock.sendall(b"X-Filler: x\r\n" * 1_000_000)
    assert get(port)[0] == 200


def test_idle_connections_starve_nobody(port: int) -> None:
    """Pins that a scraper is served at once beside fifty connections that say nothing."""
    with contextlib.ExitStack() as idle:
        for _ in range(50):
            idle.enter_context(socket.create_connection(("127.0.0.1", port)))
        start = time.monotonic()
        assert get(port)[0] == 200
        assert time.monotonic() - start < DEADLINE_S / 2


def test_a_fault_in_the_page_is_500(served: Serve, reported: list[str]) -> None:
    """Pins that a page which raises is reported here and is a 500 there."""

    def broken() -> tuple[str, bytes]:
        raise KeyError("metric")

    sock = ours.listen("127.0.0.1:0")
    number: int = sock.getsockname()[1]
    served(sock, broken)
    assert get(number)[0] == 500
    assert reported == ["metrics: KeyError('metric')"]


def test_on_a_unix_socket(served: Serve, tmp_path: Path) -> None:
    """Pins that the same page is served on a unix socket path."""
    path = tmp_path / "metrics.sock"
    served(unixserver.listen(path), page)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with sock.makefile("rb") as stream:
            answer = stream.read()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(BODY)


def test_a_port_in_use_is_named(port: int) -> None:
    """Pins the error for a port that somebody has, and for a number that is none."""
    for number in (port, 70_000):
        with pytest.raises(GatewardenError, match=rf"127\.0\.0\.1:{number}: cannot listen"):
            ours.listen(f"127.0.0.1:{number}")


@given(request=st.binary() | st.tuples(st.sampled_from([b"GET", b"PUT"]), st.binary()).map(b" /metrics HTTP/1.1".join))
def test_any_head_has_an_answer(request: bytes) -> None:
    """Pins that every head gets one whole response of a known status."""
    answer = ours.route(request, "/metrics", page)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] in {b"200", b"400", b"404", b"405"}
    assert f"Content-Length: {len(body)}".encode() in head
