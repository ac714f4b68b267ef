"""grpc.health.v1.Health/Check of the whole server, over plain HTTP/2; pure but for the library h2, which is imported when used.

The request is empty (`service` = ""), the answer is one enum: both are read and written by hand here, the framing is h2's.
https://github.com/grpc/grpc/blob/master/doc/health-checking.md
"""

from __future__ import annotations

from typing import Any

from agent.linux.dialogue import Answer

_EMPTY = b"\0" * 5  # not compressed, 0 bytes long
_SERVING = b"\x08\x01"  # field 1, varint: status = SERVING
_STATUS = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_UNIMPLEMENTED = "12"
_MOST = 4096


class Check:
    """`dialogue.Conversation`."""

    def __init__(self, authority: str) -> None:
        """Ask `authority`, HOST:PORT."""
        from h2.config import H2Configuration  # noqa: PLC0415 - 1.8 MiB, only where a gRPC check is configured
        from h2.connection import H2Connection  # noqa: PLC0415

        self._authority = authority
        self._h2: Any = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._body = self._first = b""
        self._headers: dict[str, str] = {}

    def begin(self) -> bytes:
        """Give the preface and the request."""
        self._h2.initiate_connection()
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/grpc.health.v1.Health/Check"),
            (":authority", self._authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("user-agent", "gatewarden"),
        ]
        self._h2.send_headers(1, headers)
        self._h2.send_data(1, _EMPTY, end_stream=True)
        return self.more()

    def more(self) -> bytes:
        """Give what HTTP/2 has to answer itself: settings, pings."""
        sent: bytes = self._h2.data_to_send()
        return sent

    def take(self, data: bytes) -> Answer | None:
        """Read frames until the stream has ended."""
        from h2 import events  # noqa: PLC0415
        from h2.exceptions import ProtocolError  # noqa: PLC0415

        if not data:
            return Answer(ok=False, why="closed the connection without an answer")
        self._first = (self._first + data)[:5]
        if self._first == b"HTTP/":
            return Answer(ok=False, why="does not speak HTTP/2 but HTTP/1")
        try:
            for event in self._h2.receive_data(data):
                if isinstance(event, events.ResponseReceived | events.TrailersReceived):
                    self._headers |= {str(key): str(value) for key, value in event.headers or ()}
                elif isinstance(event, events.DataReceived):
                    self._body = (self._body + (event.data or b""))[:_MOST]
                elif isinstance(event, events.StreamReset | events.ConnectionTerminated):
                    return Answer(ok=False, why=f"broke off with HTTP/2 error {event.error_code or 0:d}")
                elif isinstance(event, events.StreamEnded):
                    return self._judge()
        except (ProtocolError, ValueError) as error:  # ValueError: headers that are no UTF-8
            return Answer(ok=False, why=f"does not speak HTTP/2: {type(error).__name__}")
        return None

    def _judge(self) -> Answer:
        if (status := self._headers.get(":status", "")) != "200":
            return Answer(ok=False, why=f"answers HTTP status {status[:8]}")
        code = self._headers.get("grpc-status", "")[:8]
        if code == _UNIMPLEMENTED:
            return Answer(ok=False, why="has no service grpc.health.v1.Health")
        if code != "0":
            return Answer(
                ok=False, why=f"answers gRPC status {code or 'none'} {self._headers.get('grpc-message', '')[:80]}".strip()
            )
        if self._body[5:] == _SERVING:
            return Answer(ok=True)
        value = self._body[6] if len(self._body) == 7 and self._body[5] == _SERVING[0] else 0
        return Answer(ok=False, why=f"is {_STATUS.get(value, value)}")
