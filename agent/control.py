"""The control socket's brain: a request line in, a reply line out, by a table of verbs. It opens nothing and never raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.errors import BadRequest, GatewardenError
from agent.linux import wire
from agent.model import Data, Json

Verb = Callable[[Data], Json]


def answer(line: bytes, verbs: Mapping[str, Verb], on_error: Callable[[str, Exception], None]) -> bytes:
    """Give the reply to `line`; `verbs[verb](arguments)` does the work.

    What a verb raises on purpose (GatewardenError) becomes its error text; anything else is a fault of ours, told to
    `on_error(name, exception)` and to the client without a traceback.
    """
    verb = "?"
    try:
        verb, arguments = wire.request(line)
        return wire.success(_found(verb, verbs)(arguments))
    except GatewardenError as error:
        return wire.failure(error)
    except Exception as error:  # noqa: BLE001 - one request's fault ends neither the daemon nor the connection
        on_error(f"control.{verb}"[:64], error)
        return wire.failure(GatewardenError(f"internal error in {verb[:64]}: {type(error).__name__}: {error}"[:500]))


def _found(verb: str, verbs: Mapping[str, Verb]) -> Verb:
    try:
        return verbs[verb]
    except KeyError:
        known = ", ".join(sorted(verbs))
        raise BadRequest(f"unknown verb {verb[:64]!r}, known: {known}") from None
