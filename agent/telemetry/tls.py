"""TLS of the connection to the broker, and what foreign errors of connecting mean."""

from __future__ import annotations

import errno
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent import regular

_NOT_YET_VALID, _EXPIRED = 9, 10  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED (openssl/x509_vfy.h)


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM form. Without `ca` the system's authorities are trusted; `cert` and `key` are for mutual TLS."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """Why there is no connection: `state` is `waiting`, `clock` or `refused`; `code` the broker's reason code, if any."""

    state: str
    reason: str
    code: int = 0


class Context(ssl.SSLContext):
    """A client's TLS context that knows its socket: paho leaves it open when the handshake fails."""

    made: ssl.SSLSocket | None = None

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        """Remember what is given out."""
        self.made = super().wrap_socket(*arguments, **named)
        return self.made


def context(tls: Tls) -> Context:
    """Give a TLS context; files are read anew for each connection, so that a renewed certificate is used."""
    context = Context(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    reading = tls.ca
    try:
        for reading in (tls.ca, tls.cert, tls.key):
            if reading is not None:
                _require(Path(reading))
        reading = tls.ca
        if tls.ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(tls.ca)
        reading = tls.cert
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key, password="")  # an encrypted key must not ask on the terminal
    except OSError as error:
        raise ValueError(f"{reading}: {error.strerror or error}") from error
    return context


def _require(path: Path) -> None:
    """OpenSSL opens what it is given and would wait for a FIFO, or for a file of /proc (whose size is 0), for ever."""
    regular.require(path)
    if path.stat().st_size == 0:
        raise OSError(errno.ENODATA, "is empty")


def buffered(sock: Any) -> bool:
    """Whether TLS holds decrypted bytes that select does not see."""
    return isinstance(sock, ssl.SSLSocket) and sock.fileno() >= 0 and sock.pending() > 0


def loss_by(error: OSError | ValueError) -> Loss:
    """Give what `error` means for the connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _NOT_YET_VALID:
            return Loss("clock", "the broker's certificate is not yet valid: the clock of this gateway may not be set")
        if error.verify_code == _EXPIRED:
            return Loss("refused", "the broker's certificate has expired, or the clock of this gateway is ahead")
        return Loss("refused", f"the broker's certificate is not accepted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return Loss("refused", f"TLS: {error.reason or error.strerror or 'failed'}")
    if isinstance(error, OSError):
        return Loss("waiting", error.strerror or str(error) or type(error).__name__)
    return Loss("refused", str(error)[:200])
