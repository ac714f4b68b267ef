"""Dispatch on the control socket."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import control
from agent.errors import BadRequest, NotPermitted, Refused
from agent.model import Data, Json


def status(arguments: Data) -> Json:
    """Answer with what was asked."""
    return {"state": "ok", **arguments}


def failing(error: Exception) -> control.Verb:
    """Give a verb that raises `error`."""

    def verb(_arguments: Data) -> Json:
        raise error

    return verb


VERBS = {
    "status": status,
    "bad": failing(BadRequest("seconds: 1 .. 60")),
    "refused": failing(Refused("not you")),
    "denied": failing(NotPermitted("no CAP_BPF", "run it as root")),
    "fault": failing(KeyError("key")),
    "nan": lambda _arguments: math.nan,
}


def ask(line: bytes) -> tuple[dict[str, object], list[str]]:
    """Give the reply and the names that were reported."""
    reported: list[str] = []
    reply = control.answer(line, VERBS, lambda name, _error: reported.append(name))
    assert reply.endswith(b"\n")
    return json.loads(reply), reported


def test_a_verb_gets_its_arguments() -> None:
    """Pins that everything beside `verb` reaches the handler, and its result comes back."""
    assert ask(b'{"verb": "status", "brief": true}') == ({"ok": True, "result": {"state": "ok", "brief": True}}, [])


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        (b"rubbish", 2, "not JSON"),
        (b"[]", 2, "not a JSON object"),
        (b"{}", 2, 'needs "verb"'),
        (b'{"verb": "reboot"}', 2, "unknown verb 'reboot', known: bad, denied, fault, nan, refused, status"),
        (b'{"verb": "bad"}', 2, "seconds: 1 .. 60"),
        (b'{"verb": "refused"}', 4, "not you"),
        (b'{"verb": "denied"}', 4, "no CAP_BPF"),
    ],
)
def test_errors_become_replies(line: bytes, code: int, text: str) -> None:
    """Pins code and text of each way to be wrong, none of which is reported as a fault of ours."""
    reply, reported = ask(line)
    assert (reply["ok"], reply["code"], reported) == (False, code, [])
    assert text in str(reply["error"])


@pytest.mark.parametrize("verb", ["fault", "nan"])
def test_a_fault_of_ours_is_told_to_both_sides(verb: str) -> None:
    """Pins that an unexpected exception, or a result that is no JSON, is reported here and named there, without a traceback."""
    reply, reported = ask(json.dumps({"verb": verb}).encode())
    assert (reply["ok"], reply["code"], reported) == (False, 4, [f"control.{verb}"])
    assert "internal error" in str(reply["error"])
    assert "Traceback" not in str(reply["error"])


@given(line=st.binary() | st.builds(lambda verb: json.dumps({"verb": verb}).encode(), st.text()))
def test_any_line_has_a_reply(line: bytes) -> None:
    """Pins that no line raises: each gets one reply of the protocol's form."""
    reply, _ = ask(line)
    assert reply["ok"] is False
    assert reply["code"] in {2, 4}
