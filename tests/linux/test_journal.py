"""Lines for the journal."""

from __future__ import annotations

import io
import json

from hypothesis import given
from hypothesis import strategies as st

from agent.linux.journal import LINE, StderrJournal, pair
from agent.ports import Journal


def line(message: str, **fields: str | int | list[int]) -> str:
    """Give what is written for a warning."""
    stream = io.StringIO()
    journal: Journal = StderrJournal(stream)
    journal.line("warning", message, fields)  # type: ignore[arg-type]
    return stream.getvalue()


def test_priority_and_pairs() -> None:
    """Pins the form: sd-daemon's priority, the message, words as they are, all else in quotes."""
    expected = '<4>timer late function=tick_sched_timer us=1200 list="[1, 2]" empty="" text="a b"\n'
    assert line("timer late", function="tick_sched_timer", us=1200, list=[1, 2], empty="", text="a b") == expected


def test_credentials_stay_out() -> None:
    """Pins that a URL loses its user and password, in a message and in a value, also when it is cut."""
    text = line("no answer of rtsp://user:secret@camera/", url="rtsp://user:secret@camera/", long="x" * 230 + " a://b:secret@c")
    assert "secret" not in text


def test_a_peer_cannot_forge_a_line() -> None:
    """Pins that line feeds, escapes and characters that turn text round do not reach the terminal as such."""
    text = line("a\n<0>forged", comm="x\x1b[2J\r\n\u202e=y")
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert not {"\x1b", "\r", "\u202e"} & set(text)


@given(message=st.text(), key=st.sampled_from(["comm", "unit"]), value=st.text())
def test_any_text_is_one_bounded_line(message: str, key: str, value: str) -> None:
    """Pins that whatever a peer calls itself, it is one printable line, and quoting can be undone."""
    text = line(message, **{key: value})
    assert text.endswith("\n")
    assert text[:-1].isprintable()
    assert len(text) <= LINE + 5
    shown = pair(key, value).partition("=")[2]
    assert json.loads(shown).isprintable() if shown.startswith('"') else shown
