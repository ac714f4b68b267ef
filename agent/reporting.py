"""Telemetry put together: marks, outbox, spool thread, and a publisher where a broker is configured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent import regular
from agent.config import Config, Mqtt
from agent.errors import StoreError
from agent.model import Data
from agent.ports import Clock, Loop
from agent.telemetry import history
from agent.telemetry.bounds import Limits
from agent.telemetry.link import Broker
from agent.telemetry.marks import Marks
from agent.telemetry.messages import Names
from agent.telemetry.outbox import Outbox
from agent.telemetry.publisher import Publisher
from agent.telemetry.session import Identity
from agent.telemetry.spool import Spool
from agent.telemetry.tls import Tls

_DAY_S = 86_400.0
_PASSWORD_BYTES = 64 * 1024  # MQTT allows no longer one
_REPLY_BYTES = 1 << 20  # of one answer on the control socket; some ten times that as Python objects, for a moment


class Reporting:
    """`service.Telemetry` for the daemon. Raises StoreError if state_dir or runtime_dir cannot hold it."""

    def __init__(
        self,
        settings: Config,
        loop: Loop,
        clock: Clock,
        boot_id: str,
        chance: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        """Open everything; threads begin with `start`. `report` is called on the main loop, for an operator to read."""
        self._folder = settings.paths.state_dir
        self._clock = clock
        limits = Limits(settings.outbox.bytes, settings.outbox.age_days * _DAY_S, settings.outbox.headroom_bytes)
        marks = Marks(settings.paths.runtime_dir, boot_id)
        outbox = Outbox(self._folder, limits, clock, marks, boot_id=boot_id, deliver=settings.mqtt is not None)
        self.spool = Spool(outbox, marks, loop, clock, boot_id, report)
        self._publisher: Publisher | None = None
        if settings.mqtt is not None:

            def changed(state: str, reason: str) -> None:
                loop.call_soon_threadsafe(lambda: report(f"mqtt {state}: {reason}" if reason else f"mqtt {state}"))

            who = Identity(Names(settings.gateway.site, settings.gateway.name), boot_id)
            self._publisher = Publisher(_broker(settings.mqtt), who, self.spool, clock, marks, chance, changed)

    def start(self, birth: Data) -> None:
        """Start the threads; `birth` is what the agent says of itself on every connection."""
        self.spool.start(self._publisher)
        if self._publisher is not None:
            self._publisher.introduce(birth)
            self._publisher.start()

    def state(self) -> Data:
        """Give the `mqtt` part of the status."""
        stats = self.spool.stats()
        oldest = None if stats.oldest_wall is None else round(max(0.0, self._clock.wall() - stats.oldest_wall), 1)
        drop = None if stats.dropped_ns is None else round((self._clock.mono_ns() - stats.dropped_ns) / 1e9, 1)
        link: Data = {"state": "off", "reason": "no [mqtt] section"} if self._publisher is None else self._publisher.state()
        return {
            **link,
            "backlog_bytes": stats.backlog_bytes,
            "oldest_s": oldest,
            "dropped": stats.dropped,
            "dropped_s": drop,
            "store_failures": stats.failures,
            "store_error": stats.error,
            "store_faults": stats.faults,
        }

    def metric(self, payload: Data) -> None:
        """Send a metrics sample."""
        self.spool.metric(payload)

    def health(self, payload: Data) -> None:
        """Send a health message, if there is a broker to hear it."""
        if self._publisher is not None:
            self._publisher.health(payload)

    def presence(self, state: str) -> None:
        """Say (retained) that the gateway is `online` or in `maintenance`."""
        if self._publisher is not None:
            self._publisher.announce(state)

    def retry(self) -> None:
        """Connect at once if the publisher waits for its next attempt."""
        if self._publisher is not None:
            self._publisher.retry()

    def recent(self, limit: int, since_wall: float | None, kind: str | None) -> history.Found:
        """Give recorded events, newest last, of at most `_REPLY_BYTES` together. Raises StoreError."""
        return history.recent(self._folder, limit, since_wall, kind, most_bytes=_REPLY_BYTES)

    def close(self) -> None:
        """Commit what waits, say goodbye, end the threads; in bounded time."""
        if self._publisher is not None:
            self._publisher.close()
        self.spool.close()


def _broker(section: Mqtt) -> Broker:
    tls = section.tls
    files = None if tls is None else Tls(_text(tls.ca), _text(tls.certificate), _text(tls.key))
    password = None if section.password_file is None else _first_line(section.password_file)
    return Broker(section.host, section.port, section.username, password, files, section.keepalive_s)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _first_line(path: Path) -> str:
    try:
        return regular.read(path, _PASSWORD_BYTES).decode().split("\n", 1)[0]
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise StoreError(f"{path}: cannot be read ({said}); [mqtt] password_file must be readable by agentd's user") from error
