"""What the MCU tells when it is asked: STATUS and the event log."""

from __future__ import annotations

from agent.mcu import messages
from agent.mcu.exchange import Exchange
from agent.mcu.wire import Type
from agent.model import Data

STATUS_NS = 60 * 10**9  # between two, at a renewal: no wake-up of its own


class Reports:
    """Asks by the one exchange, keeps the newest answers."""

    def __init__(self, exchange: Exchange) -> None:
        self.status: dict[str, int] = {}
        self.log: list[dict[str, int]] = []
        """Newest first."""
        self.log_ns = 0
        """When it was last read to its end."""
        self._exchange = exchange
        self._asked_ns: int | None = None
        self._pages: list[dict[str, int]] = []

    def ask_all(self, now_ns: int) -> None:
        """Ask for both."""
        self.ask_status(now_ns)
        self.ask_log(now_ns)

    def ask_status(self, now_ns: int) -> None:
        """Ask for STATUS."""
        self._asked_ns = now_ns
        self._exchange.ask(Type.STATUS_ASK, b"", now_ns)

    def renewed(self, now_ns: int) -> None:
        """Ask for STATUS if it is time."""
        if self._asked_ns is not None and now_ns - self._asked_ns >= STATUS_NS:
            self.ask_status(now_ns)

    def ask_log(self, now_ns: int) -> None:
        """Ask for the event log from its newest entry on."""
        self._pages = []
        self._ask_page(now_ns)

    def on_status(self, payload: bytes, now_ns: int) -> Data:
        """Take STATUS; give it as a message, with the counters of errors that grew since the last one."""
        found, before = messages.STATUS.unpack(payload), self.status
        self.status = found
        grown: Data = {name: found[name] - before[name] for name in messages.ERRORS if before and found[name] > before[name]}
        return {"type": "status", "t_mono_ns": now_ns, "first": not before, "grown": grown, **found}

    def on_log(self, payload: bytes, now_ns: int) -> None:
        """Take one page and ask for the next, if there is one. Raises ValueError."""
        head, page = messages.EVENTLOG.unpack(payload), messages.entries(payload)
        if head["first"] != len(self._pages):
            raise ValueError(f"EVENTLOG: page {head['first']} instead of {len(self._pages)}")
        self._pages += page
        if page and len(self._pages) < head["total"]:
            self._ask_page(now_ns)
        else:
            self.log, self.log_ns = self._pages, now_ns

    def forget(self) -> None:
        """Begin with another MCU, or one that was reset: its counters start anew."""
        self.status = {}

    def _ask_page(self, now_ns: int) -> None:
        self._exchange.ask(Type.EVENTLOG_ASK, messages.EVENTLOG_ASK.pack(first=len(self._pages)), now_ns)
