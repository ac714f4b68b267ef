"""TLS around another conversation, by memory buffers.

The certificate is not verified: the question is whether it answers, nothing secret is said, and neither a gateway whose clock
is wrong nor a service with a certificate of its own must be restarted for that.
"""

from __future__ import annotations

from typing import Any

from agent.linux.dialogue import Answer, Conversation

_CHUNK = 64 * 1024


class Tls:
    """`dialogue.Conversation`."""

    def __init__(self, inner: Conversation, host: str) -> None:
        """Say `inner` to `host`, by whose name the server may choose its certificate."""
        import ssl  # noqa: PLC0415 - imported where a check is https

        self._ssl: Any = ssl
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_hostname=host)
        self._inner = inner
        self._shaken = False

    def begin(self) -> bytes | Answer:
        """Give the first bytes of the handshake."""
        return self._shake() or self.more()

    def more(self) -> bytes:
        """Give what TLS has to say."""
        return self._out.read()

    def take(self, data: bytes) -> Answer | None:
        """Go on with the handshake, then with what it protects."""
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()
        if not self._shaken:
            answer = self._shake()
            if answer is not None or not self._shaken:
                return answer
        return self._hear()

    def _shake(self) -> Answer | None:
        try:
            self._object.do_handshake()
        except self._ssl.SSLWantReadError:
            return None
        except self._ssl.SSLError as error:
            return Answer(ok=False, why=f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()[:120]}")
        self._shaken = True
        first = self._inner.begin()
        if isinstance(first, Answer):
            return first
        self._object.write(first)
        return None

    def _hear(self) -> Answer | None:
        while True:
            try:
                plain = self._object.read(_CHUNK)
            except self._ssl.SSLWantReadError:
                return None
            except self._ssl.SSLError as error:  # cut off without a goodbye is an end, too
                return self._inner.take(b"") or Answer(ok=False, why=f"TLS: {(error.reason or str(error)).lower()[:120]}")
            answer = self._inner.take(plain)
            if answer is not None or not plain:
                return answer
            if said := self._inner.more():
                self._object.write(said)
