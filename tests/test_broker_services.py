"""The broker's verbs about services and the machine: what may be named, what is run, what comes back."""

from __future__ import annotations

import json
import os
import pwd
import resource
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import broker, rootverbs
from agent.errors import BadRequest, NotRunning, Refused
from agent.linux import errands, servicestate
from agent.linux.unixserver import Credentials
from agent.model import Data
from agent.rootverbs import _allowed
from tests.doubles import MemoryJournal
from tests.test_broker import as_user, end, folder, running, start

__all__ = ["folder", "running"]

CONFIG = """
[[workload]]
name = "a"
unit = "a.service"
[[workload]]
name = "b"
container = "b"
[[device]]
name = "camera"
usb = "1-1.4"
"""
ASKS = """
import sys
from pathlib import Path
from agent.errors import GatewardenError
from agent.linux.brokerclient import BrokerClient
client = BrokerClient(Path(sys.argv[1]))
for ask in (
    lambda: client.unit("restart", "sshd.service"),
    lambda: client.container_restart("other"),
    lambda: client.usb_reset("2-1"),
    lambda: client.usb_reset("1-1.4"),
    lambda: client.unit_state("a.service").state,
):
    try:
        print(ask())
    except GatewardenError as error:
        print(type(error).__name__, error)
"""


def ask(config: Path, request: Data) -> Data:
    """Give what the user gatewarden is answered."""
    caller = Credentials(1, pwd.getpwnam("gatewarden").pw_uid, 1)
    reply = broker.answer(json.dumps(request).encode(), caller, MemoryJournal(), rootverbs.table(config))
    if reply.fd is not None:
        os.close(reply.fd)
    answer: Data = json.loads(reply.data)
    return answer


@pytest.mark.root
@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"verb": "unit", "action": "restart", "name": "sshd.service"}, "unit 'sshd.service' is not in the configuration"),
        ({"verb": "unit", "action": "mask", "name": "a.service"}, "action: want start, stop, restart or state"),
        ({"verb": "unit", "action": "state", "name": "b"}, "unit = of a [[workload]] names a.service"),
        ({"verb": "unit", "action": ["stop"], "name": "a.service"}, "action: want start"),
        ({"verb": "unit", "action": "stop", "name": ""}, "name: want a text of 1 .. 256"),
        ({"verb": "container", "action": "restart", "name": "a.service"}, "container 'a.service' is not in"),
        ({"verb": "container", "action": "stop", "name": "b"}, "action: want restart or state"),
        ({"verb": "usb.reset", "port": "1-1"}, "USB port '1-1' is not in the configuration: usb = of a [[device]] names 1-1.4"),
        ({"verb": "usb.reset", "port": "../../x"}, "is not in the configuration"),
        ({"verb": "usb.reset", "port": 1}, "name: want a text"),
        ({"verb": "reboot", "reason": ""}, "reason: want a text of 1 .. 200"),
        ({"verb": "reboot"}, "takes exactly the arguments: reason"),
    ],
)
def test_only_what_the_configuration_names(folder: Path, request_: Data, why: str) -> None:
    """Pins that a name that the root-owned file does not have is refused, whoever asks, before anything is run."""
    (folder / "agent.toml").write_text(CONFIG)
    answer = ask(folder / "agent.toml", request_)
    assert (answer["ok"], answer["code"]) == (False, 2)
    assert why in str(answer["error"])


@pytest.mark.root
def test_a_file_that_others_may_change_allows_nothing(folder: Path) -> None:
    """Pins that the file is judged anew for each request, not only when the broker starts."""
    config = folder / "agent.toml"
    config.write_text(CONFIG)
    config.chmod(0o666)
    answer = ask(config, {"verb": "unit", "action": "restart", "name": "a.service"})
    assert "can be written by others than root" in str(answer["error"])


@pytest.mark.root
def test_gatewarden_asks_the_running_broker(folder: Path) -> None:
    """Pins the way of all of them through a real broker: its answer, its words, and a journal that tells how errands ended."""
    (folder / "agent.toml").write_text(f'[paths]\nruntime_dir = "{folder}"\n{CONFIG}')
    child = start(folder)
    result = as_user("gatewarden", ASKS, folder / "broker.sock")
    lines = result.stdout.splitlines()
    assert [line.split(" ")[0] for line in lines[:4]] == ["BadRequest", "BadRequest", "BadRequest", "Refused"], result.stderr
    assert "no device at USB port 1-1.4" in lines[3]
    said = end(child)
    assert said.count("verb=usb.reset") == 2
    assert 'errand="usb reset 1-1.4"' in said or "errand=usb" in said


@given(
    tree=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["workload", "device", "unit", "usb", "container", "name"]), inner, max_size=5)
        ),
        max_leaves=20,
    )
)
def test_any_tree_allows_only_names_of_their_form(tree: object) -> None:
    """Pins that no content of the file raises, and nothing that is no name gets through."""
    document: dict[str, object] = tree if isinstance(tree, dict) else {"workload": tree, "device": tree}
    for table, key, form in (("workload", "unit", _allowed.UNIT), ("device", "usb", _allowed.PORT)):
        assert all(form.fullmatch(value) for value in _allowed._values(document, table, key, form))


@pytest.mark.root
def test_a_state_is_asked_beside_the_loop(folder: Path) -> None:
    """Pins that a systemd or docker that does not answer keeps nobody waiting who asks the broker for something else."""
    config = folder / "agent.toml"
    config.write_text(CONFIG)
    table = rootverbs.table(config)
    for verb, name in (("unit", "a.service"), ("container", "b")):
        given = table[verb].run(action="state", name=name)
        assert given.result is None
        assert given.fd is not None
        with suppress(Refused):  # there is none here, or it says so
            servicestate.from_text(errands.result(given.fd, 10))


def wait(until: Callable[[], bool]) -> None:
    """Wait some seconds at most."""
    end_s = time.monotonic() + 10
    while not until() and time.monotonic() < end_s:
        time.sleep(0.005)
    assert until()


def test_an_errand_does_not_block() -> None:
    """Pins that it runs on its own, one of a name at a time, tells the journal, and its caller when it reads."""
    begun, told = threading.Event(), list[Data]()
    all_ = errands.Errands()

    def job() -> str:
        assert begun.wait(10)
        return "done"

    fd = all_.start("restart a", job, told.append)
    with pytest.raises(Refused, match="restart a is under way"):
        all_.start("restart a", job, told.append)
    assert all_.busy
    begun.set()
    assert errands.result(fd, 10) == "done"
    wait(lambda: not all_.busy)
    assert told == [{"errand": "restart a", "ok": True, "said": "done"}]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (Refused("no"), "no"),
        (OSError(19, "No such device", "/dev/bus/usb/001/002"), "/dev/bus/usb/001/002: No such device"),
        (ZeroDivisionError("x"), "internal error: ZeroDivisionError: x"),
    ],
)
def test_an_errand_that_fails_says_so(error: Exception, why: str) -> None:
    """Pins that whatever a job raises reaches the caller as Refused."""

    def job() -> str:
        raise error

    with pytest.raises(Refused, match=why):
        errands.result(errands.Errands().start("x", job, lambda _fields: None), 10)


def test_an_errand_that_takes_too_long() -> None:
    """Pins that a caller is never kept for longer than it wants, nor by a broker that dies."""
    stop = threading.Event()
    fd = errands.Errands().start("x", lambda: str(stop.wait(10)), lambda _fields: None)
    with pytest.raises(NotRunning, match=r"not done within 0\.05 s; it goes on"):
        errands.result(fd, 0.05)
    stop.set()
    reading, writing = os.pipe()
    os.close(writing)
    with pytest.raises(NotRunning, match="ended before it said"):
        errands.result(reading, 1)


def test_an_errand_that_could_not_begin_is_not_under_way() -> None:
    """Pins that a moment without descriptors costs that errand alone, and neither the next of its name nor the idle exit."""
    all_, taken = errands.Errands(), list[int]()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        with pytest.raises(OSError, match="Too many open files"):
            all_.start("reboot", lambda: "", lambda _fields: None)
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not all_.busy
    assert errands.result(all_.start("reboot", lambda: "done", lambda _fields: None), 10) == "done"


def test_errands_are_bounded() -> None:
    """Pins the most that are under way at once."""
    stop, all_ = threading.Event(), errands.Errands()
    fds = [all_.start(str(n), lambda: str(stop.wait(10)), lambda _fields: None) for n in range(errands.MOST)]
    with pytest.raises(Refused, match="8 errands are under way"):
        all_.start("one more", lambda: "", lambda _fields: None)
    stop.set()
    for fd in fds:
        assert errands.result(fd, 10) == "True"


def test_checks_of_arguments() -> None:
    """Pins that a reason has its length."""
    verb = rootverbs.table(Path("/nowhere"))["reboot"]
    assert verb.arguments["reason"]("x") == "x"
    with pytest.raises(BadRequest):
        verb.arguments["reason"]("x" * 201)
