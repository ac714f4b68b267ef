"""The broker's verb `watchpoint`: a real broker measures as root for a caller without any capability."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import broker
from agent.errors import BadRequest
from agent.model import Data, Json
from tests.kernel.target import PLAIN, SPARE, Target
from tests.test_broker import as_user, end, folder, start  # noqa: F401 - a fixture

pytestmark = [
    pytest.mark.root,
    pytest.mark.kernel,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="watchpoints with a program on them work on x86-64 only"),
]
MEASURE = """
import sys
from agent import cli
sys.exit(cli.main(sys.argv[1:]))
"""
TWICE = """
import os, sys
from pathlib import Path
from agent.errors import Refused
from agent.linux.brokerclient import BrokerClient
client = BrokerClient(Path(sys.argv[1]))
first = client.watchpoint("prove", sys.argv[2], 1.0)
try:
    client.watchpoint("prove", sys.argv[2], 1.0)
except Refused as error:
    print(error)
os.close(first)
"""


@pytest.fixture
def words(tmp_path: Path) -> Iterator[Target]:
    """Give words to write to."""
    made = Target(tmp_path)
    yield made
    made.close()


@pytest.fixture
def running(folder: Path) -> Iterator[Popen[str]]:  # noqa: F811 - the fixture above
    """Give a running broker."""
    child = start(folder)
    yield child
    if child.poll() is None:
        end(child)


def test_gatewarden_proves_through_the_broker(folder: Path, running: Popen[str], words: Target) -> None:  # noqa: F811
    """Pins the whole way: `agentctl race prove` as user gatewarden, without a capability, gives root's measurement."""
    config = str(folder / "agent.toml")
    with words.writing(("plain", 1, 0), gap_s=0.02):
        asked = ("race", "prove", words.place(PLAIN), "--seconds", "0.8", "--json", "--config", config)
        result = as_user("gatewarden", MEASURE, *asked)
    report: Data = json.loads(result.stdout)
    assert (report["schema"], report["verdict"], report["writes"]) == ("gatewarden.race.prove/1", "none seen", report["growth"])
    assert "verb=watchpoint" in end(running)


@pytest.mark.usefixtures("running")
def test_the_childs_error_is_the_callers(folder: Path) -> None:  # noqa: F811
    """Pins that what stops the measurement is told in its own words, with exit code 4."""
    config = str(folder / "agent.toml")
    result = as_user("gatewarden", MEASURE, "race", "prove", "schedule_timeout", "--seconds", "1", "--config", config)
    assert (result.returncode, result.stdout) == (4, "")
    assert result.stderr == "agentctl: schedule_timeout is text (a function), not data: name the variable that it writes\n"


@pytest.mark.usefixtures("running")
def test_one_at_a_time(folder: Path, words: Target) -> None:  # noqa: F811
    """Pins that a second measurement is refused while one is under way."""
    result = as_user("gatewarden", TWICE, folder / "broker.sock", words.place(SPARE))
    assert result.stdout == "another measurement is under way, one at a time\n", result.stderr


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("what", "scan"),
        ("what", 1),
        ("target", "a; b"),
        ("target", "x" * 257),
        ("target", None),
        ("seconds", 0),
        ("seconds", 121),
        ("seconds", True),
        ("seconds", "1"),
    ],
)
def test_arguments_are_checked(key: str, value: Json) -> None:
    """Pins the checks of each argument."""
    good: Data = {"what": "prove", "target": "jiffies:8", "seconds": 1}
    broker.checked("watchpoint", good)
    with pytest.raises(BadRequest, match=f"^{key}: want"):
        broker.checked("watchpoint", good | {key: value})


@given(
    st.dictionaries(st.sampled_from(["what", "target", "seconds"]), st.one_of(st.text(), st.floats(), st.booleans(), st.none()))
)
def test_any_arguments(given_: dict[str, Json]) -> None:
    """Pins that any arguments are good ones or one error of ours."""
    try:
        _verb, good = broker.checked("watchpoint", given_)
    except BadRequest:
        return
    assert good["what"] in {"prove", "hunt"}
