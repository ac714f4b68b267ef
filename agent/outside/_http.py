"""A GET of one page, as far as a health check needs it (RFC 9112); pure."""

from __future__ import annotations

import re

from agent.linux.dialogue import Answer

HEAD = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: ([^\r\n]{0,80}))?")
_NUMBER = rb"([0-9.eE+-]{1,40})"


class Get:
    """`dialogue.Conversation`. With `counter`, the page must show that Prometheus counter, whose samples are added up."""

    def __init__(self, host: str, target: str, counter: str | None = None) -> None:
        """Ask `host` for `target`, a path with its query."""
        self._request = (
            f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: gatewarden\r\nAccept: */*\r\n"
            "Accept-Encoding: identity\r\nConnection: close\r\n\r\n"
        ).encode()
        self._counter = counter
        self._in = bytearray()

    def begin(self) -> bytes:
        """Give the request."""
        return self._request

    def more(self) -> bytes:
        """Give nothing: all has been said."""
        return b""

    def take(self, data: bytes) -> Answer | None:
        """Read on; without a counter the head is enough, and a short page that it announces."""
        self._in += data
        head, blank, body = bytes(self._in).partition(b"\r\n\r\n")
        if not blank:
            first, end, _ = head.partition(b"\r\n")
            if (end and not _STATUS.match(first)) or len(head) > HEAD or (not data and head):
                return Answer(ok=False, why="does not speak HTTP" if not _STATUS.match(first) else "its answer has no end")
            return None
        return self._judge(head, body, closed=not data)

    def _judge(self, head: bytes, body: bytes, *, closed: bool) -> Answer | None:
        status = _STATUS.match(head)
        if status is None:
            return Answer(ok=False, why="does not speak HTTP")
        if self._counter is None and not closed and len(body) < min(_length(head), HEAD):
            return None  # a server that is hung up on before it has sent a short page logs that as an error
        code = int(status[1])
        if code // 100 == 3:
            return Answer(ok=False, why=f"answers {code}, a redirect: name the URL that it leads to")
        if code // 100 != 2:
            return Answer(ok=False, why=f"answers {code} {(status[2] or b'').decode(errors='backslashreplace')}".strip())
        if self._counter is None:
            return Answer(ok=True)
        page = _page(head, body, closed=closed)
        return None if page is None else _counted(page, self._counter)


def _page(head: bytes, body: bytes, *, closed: bool) -> bytes | None:
    """Give the page once it is whole; one that was cut off counts as far as it came."""
    lines = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
    if b"chunked" in lines.get(b"transfer-encoding", b""):
        whole, ended = _unchunked(body)
        return whole if ended or closed else None
    if b"content-length" in lines and len(body) >= _length(head):
        return body[: _length(head)]
    return body if closed else None


def _length(head: bytes) -> int:
    """Give how long the page is to be, 0 if its head does not say."""
    found = re.search(rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*(?:\r\n|$)", head, re.IGNORECASE)
    return int(found[1]) if found else 0


def _unchunked(body: bytes) -> tuple[bytes, bool]:
    """Give what the chunks hold, and whether the last one was there."""
    found = bytearray()
    while True:
        size, end, rest = body.partition(b"\r\n")
        digits = size.partition(b";")[0].strip()
        if not end or not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", digits):
            return bytes(found), False
        length = int(digits, 16)
        if length == 0:
            return bytes(found), True
        found += rest[:length]
        body = rest[length + 2 :]


def _counted(page: bytes, counter: str) -> Answer:
    samples = re.findall(rb"^" + re.escape(counter.encode()) + rb"(?:\{[^\n]*\})?[ \t]+" + _NUMBER, page, re.MULTILINE)
    try:
        values = [float(sample) for sample in samples]
    except ValueError:
        values = []
    if not values:
        return Answer(ok=False, why=f"its page shows no number for {counter}")
    return Answer(ok=True, count=sum(values))
