"""The smallest HTTP/1.1 server that a Prometheus scraper needs: GET of one page, one request per connection."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from agent.errors import BadRequest, GatewardenError
from agent.linux import unixserver
from agent.linux.loop import EpollLoop
from agent.linux.peer import Listener, Reply

Page = Callable[[], tuple[str, bytes]]  # gives (content type, body)
LIMIT = 8 * 1024  # request line and headers; a scraper sends about 400 bytes
BACKLOG = 128  # when it is full the kernel drops a SYN, which costs that client a second
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error"}


def response(status: int, content_type: str, body: bytes) -> bytes:
    """Give the bytes of a whole response that ends its connection."""
    allow = "Allow: GET\r\n" if status == 405 else ""
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{allow}Connection: close\r\n\r\n"
    )
    return head.encode() + body


def route(request: bytes, path: str, page: Page) -> bytes:
    """Answer a request head: `page` for a GET of `path` (a query is ignored), else 400, 404 or 405."""
    parts = request.split(b"\r\n", 1)[0].split(b" ")
    if len(parts) != 3 or not parts[2].startswith(b"HTTP/1.") or not parts[1].startswith(b"/"):
        return _error(400)
    method, target = parts[0], parts[1].partition(b"?")[0]
    if target != path.encode():
        return _error(404)
    if method != b"GET":
        return _error(405)
    return response(200, *page())


def _error(status: int, why: str = "") -> bytes:
    return response(status, "text/plain; charset=utf-8", f"{why or _REASONS[status]}\n".encode())


class _Http:
    """`peer.Service` for one page."""

    terminator = b"\r\n\r\n"
    limit = LIMIT

    def __init__(self, path: str, page: Page) -> None:
        self._path = path
        self._page = page

    def handle(self, request: bytes, _sock: socket.socket) -> Reply:
        return Reply(route(request, self._path, self._page))

    def refuse(self, error: GatewardenError) -> bytes:
        return _error(400 if isinstance(error, BadRequest) else 500, str(error))


def listen(address: str) -> socket.socket:
    """Listen on `127.0.0.1:PORT`, `[::1]:PORT` (port 0: any free one) or `unix:/PATH`. Raises GatewardenError naming it."""
    if address.startswith("unix:"):
        return unixserver.listen(Path(address.removeprefix("unix:")))
    host, _, port = address.rpartition(":")
    sock = socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host.strip("[]"), int(port)))
        sock.listen(BACKLOG)
    except (OSError, OverflowError, ValueError) as error:
        sock.close()
        raise GatewardenError(f"{address}: cannot listen: {error}") from error
    return sock


def serve(loop: EpollLoop, sock: socket.socket, page: Page, path: str = "/metrics", name: str = "metrics") -> Listener:
    """Serve `page` at `path` on a listening socket (`listen`)."""
    return Listener(loop, sock, _Http(path, page), name)
