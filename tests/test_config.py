"""agent.toml: what is accepted, what every fault says and where, and that nothing at all makes it fall over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent import config
from agent.config.constraints import one_line, redact, shown
from agent.config.locate import line_of, lines
from agent.config.open_sets import SETS, available
from agent.errors import ConfigError, Problem

NO_PROBES = '[probes]\nenabled = []\n[detectors]\nenabled = ["timer_late"]\n'
FULL = """
[gateway]
site = "north-1"
name = "gw-7"
[paths]
state_dir = "/srv/state"
[mqtt]
host = "broker.example"
port = 8883
username = "u"
password_file = "/etc/gatewarden/password"
tls = { ca = "/etc/ca.pem", certificate = "/etc/c.pem", key = "/etc/k.pem" }
[probes]
enabled = []
[detectors]
enabled = ["timer_late"]
[detectors.timer_late]
hrtimer_budget_us = 20000
[metrics]
listen = "127.0.0.1:9464"
period_s = 5
[[workload]]
name = "detector-1"
command = ["/usr/bin/pipeline", "--x"]
env = { A = "b" }
gpu = "GPU-uuid"
priority = 0
notify = "watchdog"
deadline_s = 10
probe = { http = "http://127.0.0.1:8000/v2/health/ready", period_s = 3 }
degrade = ["profile-low"]
restart = { burst = 5, window_s = 60 }
[[workload]]
name = "viewer"
unit = "viewer.service"
after = ["detector-1"]
[[stream]]
name = "camera-1"
url = "rtsp://user:secret@camera/live"
adapt = { size = "1280x720", pixel_format = "yuv420p" }
reader = "shm"
trace_1_in = 250
"""


def written(folder: Path, text: str | bytes) -> Path:
    """Write a file `bad.toml` and give its path."""
    path = folder / "bad.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def faults(folder: Path, text: str | bytes) -> list[str]:
    """Give the lines of the ConfigError that `text` raises, the folder left out."""
    with pytest.raises(ConfigError) as caught:
        config.check(written(folder, text))
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).split("\n")]


def problems_of(path: Path) -> tuple[Problem, ...]:
    """Give what the check finds wrong, nothing if it gives a Config."""
    try:
        assert isinstance(config.check(path), config.Config)
    except ConfigError as error:
        return error.problems
    return ()


def test_every_key_of_the_design_is_accepted(tmp_path: Path) -> None:
    """The full configuration reads, with whole numbers where fractions are due, and nested tables."""
    read = config.check(written(tmp_path, FULL))
    assert (read.gateway.site, read.gateway.name) == ("north-1", "gw-7")
    assert read.paths.state_dir == Path("/srv/state")
    assert read.paths.control_socket == Path("/run/gatewarden/control.sock")
    assert read.mqtt is not None
    assert read.mqtt.tls is not None
    assert read.mqtt.tls.key == Path("/etc/k.pem")
    assert read.workload[0].command == ("/usr/bin/pipeline", "--x")
    assert isinstance(read.workload[0].deadline_s, float)
    assert read.workload[1].after == ("detector-1",)
    assert read.stream[0].adapt.size == "1280x720"


def test_empty_sections_give_the_defaults(tmp_path: Path) -> None:
    """No broker without `[mqtt]`; an empty `[mqtt]` is a broker on this host; detectors get their default options."""
    read = config.check(written(tmp_path, NO_PROBES))
    assert read.mqtt is None
    assert read.metrics.listen == ""
    assert read.metrics.period_s == 10
    assert read.budget.cpu_pct == 0.8
    assert type(read.detectors.options["timer_late"]).__name__ == "Options"
    assert config.check(written(tmp_path, NO_PROBES + "[mqtt]\n")).mqtt == config.Mqtt()


def test_three_faults_give_three_located_problems(tmp_path: Path) -> None:
    """The issue's own example: all faults of a file are told at once, each with line, key and what is allowed."""
    assert faults(tmp_path, '[gateway]\nsite = 5\nnane = "x"\n[mqtt]\nhost = "h"\nport = 99999\n') == [
        "bad.toml:2: gateway.site: 5 should be a valid string, allowed: 1 .. 32 of a-z 0-9 -",
        'bad.toml:3: gateway.nane: unknown key; did you mean "name"?, allowed: site, name',
        "bad.toml:6: mqtt.port: 99999 should be less than or equal to 65535, allowed: integer 1 .. 65535",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gateway]\nsite = \n", "bad.toml:2: file: Invalid value, allowed: TOML 1.0"),
        ("a = 1\na = 2\n", "bad.toml:2: file: Cannot overwrite a value, allowed: TOML 1.0"),
        ("[gateway", "bad.toml:1: file: Expected ']' at the end of a table declaration, allowed: TOML 1.0"),
        ("\n\n[mqt]\n", 'bad.toml:3: mqt: unknown key; did you mean "mqtt"?'),
        ("gateway = 3\n", "bad.toml:1: gateway: 3 should be an object, allowed: a table with site, name"),
        ('[probes]\nenabled = ["timer"]\n', 'bad.toml:2: probes.enabled: there is no probe "timer"; did you mean "timers"?'),
        ('[probes]\nenabled = ["../linux/bpf"]\n', 'bad.toml:2: probes.enabled: there is no probe "../linux/bpf"'),
        ("[detectors.timer_lat]\n", 'bad.toml:1: detectors.timer_lat: unknown key; did you mean "timer_late"?'),
        ("[detectors.timer_late]\nquiet_s = -1\n", "bad.toml:2: detectors.timer_late.quiet_s: -1 should be greater"),
        ("[mqtt]\ntls = { key = '/k' }\n", "bad.toml:2: mqtt.tls: certificate and key need each other"),
        (
            "[mqtt]\ntls = { ca = 'ca.pem' }\n",
            'bad.toml:2: mqtt.tls.ca: "ca.pem" does not have the form of a ca, allowed: absolute path',
        ),
        ("[mqtt]\npassword_file = '/p'\n", "bad.toml:2: mqtt.password_file: needs username"),
        ("[metrics]\nlisten = '0.0.0.0:80'\n", 'bad.toml:2: metrics.listen: "0.0.0.0:80" does not have'),
        ("[metrics]\nlisten = '127.0.0.1:65536'\n", "bad.toml:2: metrics.listen:"),
        ('[[workload]]\nname = "a"\ncommand = ["x"]\nenv = { "A=B" = "c" }\n', 'bad.toml:4: workload[0].env: "A=B" is no name'),
        ('[[workload]]\nname = "a"\ncommand = ["x"]\nenv = { "" = "c" }\n', 'bad.toml:4: workload[0].env: "" is no name'),
        (
            '[[workload]]\nname = "a"\ncommand = ["x"]\nenv = { A = "\\u0000" }\n',
            "bad.toml:4: workload[0].env.A: this value does",
        ),
        (
            '[[workload]]\nname = "a"\ncommand = ["x"]\nprobe = { tcp = "a:1", period_s = 1e-6 }\n',
            "bad.toml:4: workload[0].probe.period_s: 1e-06 should be",
        ),
        ("[metrics]\nperiod_s = nan\n", "bad.toml:2: metrics.period_s: nan should be"),
        ("[metrics]\nperiod_s = 1979-05-27\n", "bad.toml:2: metrics.period_s: a date should be a valid number"),
        ("[outbox]\nbytes = 1.5\n", "bad.toml:2: outbox.bytes: 1.5 should be a valid integer"),
        ("[[workload]]\nname = 'a'\n", "bad.toml:1: workload[0].command: says nothing to run"),
        ("[[workload]]\ncommand = ['x']\n", "bad.toml:1: workload[0].name: is missing"),
        ("[[workload]]\nname = 'a'\ncommand = []\n", "bad.toml:3: workload[0].command: an array"),
        (
            "[[workload]]\nname='a'\nunit='a.service'\ncontainer='b'\n",
            "bad.toml:4: workload[0].container: has unit and container",
        ),
        (
            "[[workload]]\nname='a'\nunit='a.service'\nnotify='watchdog'\n",
            'bad.toml:4: workload[0].notify: who started a unit hears it, not this agent, allowed: "none", and a probe',
        ),
        (
            "[[workload]]\nname='a'\ncommand=['x']\n[workload.probe]\nhttp='http://u:secret@[x/'\n",
            "bad.toml:5: workload[0].probe.http: names no host and port",
        ),
        (
            "[[workload]]\nname='a'\ncommand=['x']\n[workload.probe]\ntcp='h:65536'\n",
            "bad.toml:5: workload[0].probe.tcp: names no host and port, allowed: a host, and a port of 1 .. 65535",
        ),
        (
            "[[workload]]\nname='a'\ncommand=['x']\n[workload.probe]\ntcp='h:1'\ncounter='x'\n",
            "bad.toml:6: workload[0].probe.counter: needs http",
        ),
        ("[[device]]\nname='a'\nusb='../x'\n", 'bad.toml:3: device[0].usb: "../x" does not have the form'),
        ("[[device]]\nname='a'\nusb='1-1'\nworkload='b'\n", 'bad.toml:4: device[0].workload: there is no workload "b"'),
        (
            "[[device]]\nname='a'\nusb='1-1'\n[[device]]\nname='b'\nusb='1-1'\n",
            'bad.toml:6: device[1].usb: another device is at "1-1"',
        ),
        ("[[stream]]\nname = 'a'\nurl = 'rtsp://u:secret@[x'\n", "bad.toml:3: stream[0].url: is no URL of a stream"),
        ("[[stream]]\nname = 'a'\nurl = 'rtsp://u:secret@h:x/'\n", "bad.toml:3: stream[0].url: is no URL of a stream"),
        ("[[stream]]\nname = 'a'\nurl = 'gopher://u:secret@h/'\n", "bad.toml:3: stream[0].url: is no URL of a stream"),
        ("[[stream]]\nname = 'a'\nurl = 'rtsp://u:secret @h/'\n", "bad.toml:3: stream[0].url: this value does not have"),
    ],
)
def test_one_fault_one_problem(tmp_path: Path, text: str, said: str) -> None:
    """Each kind of fault is one problem at its line; no credential is repeated."""
    found = faults(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith(said)
    assert "secret" not in found[0]


def test_faults_between_workloads(tmp_path: Path) -> None:
    """Names are unique, `after` names a workload, and the order has no circle."""
    rows = [("a", '["b"]'), ("b", '["a"]'), ("a", '["nobody"]')]
    text = "".join(f'[[workload]]\nname = "{name}"\nunit = "x.service"\nafter = {after}\n' for name, after in rows)
    found = faults(tmp_path, text)
    assert found[0] == 'bad.toml:10: workload[2].name: another workload is called "a", allowed: a name of its own'
    assert found[1] == 'bad.toml:12: workload[2].after: there is no workload "nobody", allowed: a, b'
    circle = faults(
        tmp_path, "".join(f'[[workload]]\nname="{a}"\nunit="x.service"\nafter=["{b}"]\n' for a, b in [("a", "b"), ("b", "a")])
    )
    assert len(circle) == 1
    assert "workload[0].after: goes in a circle: a -> b -> a" in circle[0] or "goes in a circle: b -> a -> b" in circle[0]


def test_files_that_are_none(tmp_path: Path) -> None:
    """A missing file, a folder, a fifo, a device, a NUL, another encoding, 10 MB: one clear problem each, soon."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, said in [
        (tmp_path / "none.toml", "cannot be read: No such file or directory"),
        (tmp_path, "not a regular file"),
        (fifo, "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (Path("/tmp/a\0b"), "cannot be read: embedded null byte"),
    ]:
        with pytest.raises(ConfigError) as caught:
            config.check(path)
        assert said in str(caught.value)
        assert len(caught.value.problems) == 1
    assert "is too large" in faults(tmp_path, b"#" * 10_000_000)[0]
    assert faults(tmp_path, b"a = 1\nb = '\xff'\n")[0].startswith("bad.toml:2: file: is not UTF-8")


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 4000,
        "\n".join("a = " + "[" * 50 for _ in range(60)),
        "\n".join("[" * 2000 for _ in range(100)),
        "a." * 2000 + "b = 1\n",
        "".join(f"k{index}." + "a." * 1900 + "b = 1\n" for index in range(60)),
        "[budget]\ncpu_pct = 0x" + "f" * 4000,
        "[budget]\ncpu_pct = " + "9" * 4090,
        "a" * 200_000,
        "".join(f"k{index} = 1\n" for index in range(20_000)),
        "".join(f"[[workload]]\nname = 'w{index}'\n" for index in range(5000)),
    ],
)
def test_hostile_sizes_end_soon(tmp_path: Path, text: str) -> None:
    """Depth, length and number cost neither a traceback nor minutes; at most 101 problems are told."""
    assert len(faults(tmp_path, text)) <= 101


SNIPPETS = [
    "[gateway]",
    "site = ",
    '"x"',
    "[[workload]]",
    "name",
    "=",
    "\n",
    "{",
    "}",
    "[",
    "]",
    "'",
    '"""',
    "5",
    ".",
    "probes",
    "enabled",
    "#",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("config")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    raw=st.binary(max_size=200) | st.lists(st.sampled_from(SNIPPETS), max_size=40).map(lambda parts: " ".join(parts).encode())
)
def test_any_file_is_a_config_or_our_error(folder: Path, raw: bytes) -> None:
    """Garbage in: a Config or a ConfigError, whose text is one line for each problem."""
    told = problems_of(written(folder, raw))
    assert all(len(str(problem).splitlines()) == 1 for problem in told)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["gateway", "paths", "mqtt", "probes", "detectors", "workload", "stream", "metrics", "budget", "outbox"]


def toml(value: Any) -> str:
    """Write `value` as TOML (inline)."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(key))} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value.encode(errors="replace").decode())
    if isinstance(value, bool):
        return str(value).lower()
    return "0" if value is None else str(value)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(KEYS), VALUES | st.lists(st.fixed_dictionaries({"name": VALUES, "after": VALUES})), max_size=4
    )
)
def test_any_value_anywhere_is_a_config_or_our_error(folder: Path, tree: dict[str, Any]) -> None:
    """Valid TOML of any types below our own keys."""
    assert all(
        problem.what
        for problem in problems_of(written(folder, "".join(f"{key} = {toml(value)}\n" for key, value in tree.items())))
    )


def test_plain_data_comes_back(tmp_path: Path) -> None:
    """`from_plain` rebuilds what the child printed, through JSON, and rejects what it did not print."""
    read = config.check(written(tmp_path, FULL))
    assert config.from_plain(json.loads(json.dumps(config.to_plain(read)))) == read
    with pytest.raises(ConfigError):
        config.from_plain({"gateway": {"sight": 1}})
    with pytest.raises(ConfigError):
        config.from_plain({"probes": {"enabled": ["os"]}})


def child(path: Path) -> subprocess.CompletedProcess[str]:
    """Run the check as agentd does."""
    return subprocess.run([sys.executable, "-P", "-m", "agent.config", str(path)], capture_output=True, text=True, check=False)


def test_the_child_prints_the_config_or_the_problems(tmp_path: Path) -> None:
    """Exit 0 and one JSON line, or exit 2, silence on stdout and one line for each problem on stderr."""
    good = child(written(tmp_path, FULL))
    assert good.returncode == 0, good.stderr
    assert config.from_plain(json.loads(good.stdout)) == config.check(tmp_path / "bad.toml")
    bad = child(written(tmp_path, "[gateway]\nsite = 5\n[mqtt]\nport = 0\n"))
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.count("bad.toml:") == 2


def test_rebuilding_needs_no_pydantic(tmp_path: Path) -> None:
    """The daemon rebuilds the configuration without holding pydantic in memory."""
    path = written(tmp_path, NO_PROBES)
    code = (
        "import sys, tomllib; from pathlib import Path; from agent import config;"
        f"path = Path({str(path)!r}); c = config.from_plain(tomllib.loads(path.read_text()));"
        "assert 'pydantic' not in sys.modules and 'pydantic_core' not in sys.modules; print(c.gateway.name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("gw-1\n", "")


def test_only_what_is_named_is_imported(tmp_path: Path) -> None:
    """A detector that is neither enabled nor described stays unimported."""
    path = written(tmp_path, NO_PROBES)
    code = (
        "import sys; from pathlib import Path; from agent import config;"
        f"config.check(Path({str(path)!r}));"
        "print(sorted(m for m in sys.modules if m.startswith(('agent.detectors.', 'agent.probes.')) and '._' not in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("['agent.detectors.timer_late']\n", "")


def test_the_schema_tells_ranges_and_help() -> None:
    """The JSON Schema carries docstrings as descriptions, ranges, and the options of every detector there is."""
    schema: dict[str, Any] = config.schema()
    text = json.dumps(schema)
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Mqtt"]["properties"]["port"]["maximum"] == 65535
    assert "Where RTSP" not in text
    assert schema["$defs"]["Gateway"]["properties"]["site"]["description"] == "Where it stands."
    assert set(available("detectors")) <= set(schema["$defs"]["Detectors"]["properties"])


def test_what_is_on_by_default_exists() -> None:
    """Every detector that is on by default is a file of the folder; helpers are none."""
    assert set(SETS["detectors"]) <= set(available("detectors"))
    assert not [name for name in available("detectors") if name.startswith("_")]


TRICKY = '''
# [not.a.table]
top = 1
[a]
text = """
[not.a.table]
key = 1 \\""" still
"""
raw = \'\'\'
[[no]]
\'\'\'\'
"quoted key".sub = [ # comment with ]
  "]", \'[\',
  { x = 1 },
]
d.e.f = { inline = [1, 2] }
[[b]]
n = 1
[b.c]
m = 1
[[b.d]]
k = 1
[[b.d]]
k = 2
[[b]]
n = 2
'''


def test_lines_of_tricky_toml() -> None:
    """Strings, comments, arrays and inline tables that look like headers do not mislead the locator."""
    tomllib.loads(TRICKY)
    found = lines(TRICKY)
    expected = {
        ("top",): 3,
        ("a",): 4,
        ("a", "text"): 5,
        ("a", "raw"): 9,
        ("a", "quoted key", "sub"): 12,
        ("a", "d", "e", "f"): 16,
        ("b", 0): 17,
        ("b", 0, "n"): 18,
        ("b", 0, "c"): 19,
        ("b", 0, "c", "m"): 20,
        ("b", 0, "d", 0, "k"): 22,
        ("b", 0, "d", 1, "k"): 24,
        ("b", 1, "n"): 26,
    }
    assert {path: line_of(found, path) for path in expected} == expected
    assert line_of(found, ("a", "d", "e", "f", "inline", 0)) == 16
    assert line_of(found, ("b", 7, "zz")) == 17
    assert line_of(found, ("unknown",)) == 1


def paths_of(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every table and scalar of `tree`."""
    yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from paths_of(value, (*path, key))


@given(
    st.dictionaries(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=5), VALUES, max_size=5)
)
def test_every_top_level_key_is_found_at_its_line(tree: dict[str, Any]) -> None:
    """One statement a line: the locator finds key number n in line n, whatever the values are."""
    text = "".join(f"{key} = {toml(value)}\n" for key, value in tree.items())
    found = lines(text)
    for number, key in enumerate(tree, 1):
        assert line_of(found, (key,)) == number


@given(st.text())
def test_the_locator_takes_any_text(text: str) -> None:
    """Also what is no TOML: some mapping comes back, with a line for the whole."""
    assert line_of(lines(text), ("x", 0)) >= 1


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("rtsp://user:secret@camera/live", "rtsp://***@camera/live"),
        ("rtsp://user:se/cr@et@camera/live", "rtsp://***@camera/live"),
        ("http://h/x?user=admin&password=secret&n=1", "http://h/x?user=***&password=***&n=***"),
        ("http://h/x?Secret;a=b&c#d=e", "http://h/x?***;a=***&***#d=***"),
        ("GET /?sid=secret?x=1&y HTTP/1.1", "GET /?sid=***&y HTTP/1.1"),
        ("really? so=1", "really? so=1"),
        ("rtsp://camera/live", "rtsp://camera/live"),
        ("two rtsp://a:b@c and rtsp://d:e@f", "two rtsp://***@c and rtsp://***@f"),
    ],
)
def test_credentials_are_redacted(text: str, clean: str) -> None:
    """User, password and secret-looking query arguments go, the rest of the URL stays."""
    assert redact(text) == clean


@pytest.mark.parametrize("text", ["?pass" * 200_000, "://" * 300_000, "?" * 1_000_000, "a://b@" * 100_000])
def test_redaction_takes_linear_time(text: str) -> None:
    """A megabyte made to hurt regular expressions is done within the test's time limit (it takes well below a second)."""
    assert len(redact(text)) <= 2 * len(text)


@given(st.text() | st.integers() | st.floats() | st.lists(st.integers()))
def test_shown_values_are_short_single_lines(value: object) -> None:
    """A wrong value never breaks the line of its problem, nor fills it."""
    assert len(shown(value)) < 600
    assert len(shown(value).splitlines()) == 1
    assert one_line("a\nb\x1b[31m") == "a\\nb\\x1b[31m"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"BZh91AY&SY", "holds no BTF"),
        (b"", "holds no BTF"),
        (b"\x9f\xeb\x01\0", ""),
        (b"\xeb\x9f\x01\0", ""),
        (b"\x7fELF\x02", ""),
    ],
)
def test_a_file_with_btf_is_looked_at(tmp_path: Path, content: bytes | None, said: str) -> None:
    """`[bpf] btf_path` must be a file that begins as BTF (of either byte order) or as ELF; the line and the key are named."""
    file = tmp_path / "vmlinux.btf"
    if content is not None:
        file.write_bytes(content)
    text = f'[bpf]\nbtf_path = "{file}"\n'
    if said:
        assert faults(tmp_path, text) == [
            f"bad.toml:2: bpf.btf_path: {shown(str(file))} {said}, allowed: a file with the BTF of this kernel"
        ]
    else:
        assert config.check(written(tmp_path, text)).bpf.btf_path == file
