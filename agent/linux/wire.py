"""The protocol of our unix sockets, both halves: one request line, one reply line, JSON. Pure.

    {"verb": "status", ...}  ->  {"ok": true, "result": ...}  |  {"ok": false, "error": "text", "code": 2 | 4}

`code` is the exit code that agentctl ends with: 2 a request of the wrong form, 4 anything refused or not possible.
"""

from __future__ import annotations

import json

from agent.errors import BadRequest, Refused
from agent.model import Data, Json

REQUEST_BYTES = 64 * 1024
REPLY_BYTES = 16 * 1024 * 1024
_BAD, _NO = 2, 4


def encode(value: Data) -> bytes:
    """Give one line. Raises ValueError on what JSON cannot say (NaN, an endless nesting)."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def decode(line: bytes) -> Data:
    """Read one JSON object. Raises BadRequest on anything else."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"not JSON: {error}"[:200]) from error
    if not isinstance(value, dict):
        raise BadRequest('not a JSON object of the form {"verb": "...", ...}')
    return value


def request(line: bytes) -> tuple[str, Data]:
    """Give `(verb, arguments)` of a request line. Raises BadRequest."""
    value = decode(line)
    verb = value.pop("verb", None)
    if not isinstance(verb, str):
        raise BadRequest('a request needs "verb", a string')
    return verb, value


def success(result: Json) -> bytes:
    """Give the reply line for `result`. Raises ValueError as `encode` does."""
    return encode({"ok": True, "result": result})


def failure(error: Exception) -> bytes:
    """Give the reply line for `error`: code 2 for a BadRequest, else 4."""
    return encode({"ok": False, "error": str(error), "code": _BAD if isinstance(error, BadRequest) else _NO})


def result(line: bytes) -> Json:
    """Give what a reply line carries. Raises BadRequest or Refused as the other side did, BadRequest if it is no reply."""
    value = decode(line)
    if value.get("ok") is True and "result" in value:
        return value["result"]
    if value.get("ok") is False and isinstance(value.get("error"), str):
        raise (BadRequest if value.get("code") == _BAD else Refused)(str(value["error"]))
    raise BadRequest("the answer is not a reply of this protocol")
