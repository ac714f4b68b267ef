"""agentctl as a whole: usage, help, speed of import, pipes, terminals."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent import commands

AGENTCTL = [sys.executable, "-P", "-m", "agent.cli"]
PART_1 = {"status", "doctor", "events", "probes", "timers", "sched", "config", "schema", "support-bundle"}
# What `status` must not pay for.
HEAVY = {"pydantic", "paho", "asyncio", "logging", "sqlite3", "subprocess", "ctypes", "annotated_types", "shutil"}


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run agentctl without a terminal."""
    return subprocess.run(
        [*AGENTCTL, *arguments], capture_output=True, text=True, check=False, timeout=60, env=dict(os.environ) | environ
    )


def on_a_terminal(columns: int, *arguments: str, **environ: str) -> tuple[int, str]:
    """Run agentctl with a pseudo-terminal as stdout; gives exit code and what it showed."""
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "COLUMNS"}}
    env |= {"TERM": "xterm-256color", "COLUMNS": str(columns)} | environ
    with subprocess.Popen([*AGENTCTL, *arguments], stdout=theirs, stderr=subprocess.PIPE, env=env) as child:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(ours)
    return child.returncode, shown.decode()


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Give the configuration of a gateway without an agentd."""
    path = tmp_path / "agent.toml"
    path.write_text(f'[paths]\nstate_dir = "{tmp_path}"\nruntime_dir = "{tmp_path}"\n')
    return str(path)


def test_the_verbs_of_part_one_are_there() -> None:
    """Pins the list of verbs: the folder."""
    assert set(commands.names()) >= PART_1


@pytest.mark.parametrize("verb", commands.names())
def test_help_of_each_verb_has_an_example_and_the_exit_codes(verb: str) -> None:
    """Pins that `agentctl VERB --help` exits 0, shows an example of this verb, and documents the codes."""
    ran = run(verb, "--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(rf"examples?:\n  (?:sudo )?agentctl {verb}", ran.stdout)
    assert "3 agentd not running" in ran.stdout
    assert commands.summary(commands.load(verb)) in ran.stdout


def test_help_lists_every_verb() -> None:
    """Pins that `agentctl --help` says one line of each verb."""
    out = run("--help").stdout
    assert all(re.search(rf"^  {verb} +\S", out, re.MULTILINE) for verb in commands.names())


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("status", "--nonsense"),
        ("status", "extra"),
        ("status", "--watch", "soon"),
        ("status", "--brief", "--json"),
        ("status", "--fail-on", "ok"),
        ("timers", "--seconds", "-1"),
        ("timers", "--seconds", "nan"),
        ("timers", "--top", "0"),
        ("sched", "--pid", "x"),
        ("sched", "--cgroup", "/nowhere"),
        ("events", "--since", "yesterday"),
        ("events", "--since", "-5h"),
        ("events", "--since=-5h"),
        ("events", "--limit", "99999999999999999999"),
        ("config",),
        ("config", "break"),
        ("schema", "nonsense"),
        ("probes", "nonsense"),
        ("__init__",),
        ("_exit",),
        ("support_bundle",),
        ("nonsense\x1b[2J\n",),
        ("--config",),
        ("--config", "/nowhere/agent.toml", "status"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(arguments: tuple[str, ...]) -> None:
    """Pins that whatever is typed wrongly is told in one clear line on stderr, without a traceback or an escape."""
    ran = run(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("agentctl")
    assert "\x1b" not in ran.stderr


def test_a_value_with_a_sign_gets_a_useful_answer() -> None:
    """Pins what is said to `--since -5h`, which looks like an option, and to `--since=-5h`."""
    assert (
        "argument --since: expected one argument; a value that begins with - is written --since=-VALUE"
        in run("events", "--since", "-5h").stderr
    )
    assert "allowed: 90s, 15m, 1h, 2d (ago, without a sign)" in run("events", "--since=-5h").stderr


def test_config_and_json_stand_before_or_after_the_verb(config: str) -> None:
    """Pins both places of the common options."""
    for arguments in (("--config", config, "--json", "status"), ("status", "--json", "--config", config)):
        assert run(*arguments).stdout.startswith('{\n  "schema": "gatewarden.status/1"')


def test_a_fifo_is_no_configuration(tmp_path: Path) -> None:
    """Pins that what lies in the place of the file holds nobody up."""
    os.mkfifo(tmp_path / "fifo")
    ran = run("status", "--config", str(tmp_path / "fifo"))
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "text",
    [
        "\n" + ".".join("a" * 9000) + " = 1",
        "[paths",
        "[paths]\nstate_dir = 5\n",
        "paths = 3\n",
        "a = " + "[" * 5000,
        "\xff\xfe",
    ],
)
def test_a_bad_configuration_is_one_line_and_exit_2(tmp_path: Path, text: str) -> None:
    """Pins that `status` names the file that it cannot use."""
    path = tmp_path / "bad.toml"
    path.write_bytes(text.encode("latin-1"))
    ran = run("status", "--config", str(path))
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert "bad.toml:" in ran.stderr


def test_status_imports_nothing_heavy(config: str) -> None:
    """Pins what keeps `agentctl status` below 150 ms: none of the heavy modules is imported for it."""
    code = (
        "import sys; from agent.cli import main; code = main(sys.argv[1:]); "
        f"print(sorted(set(sys.modules) & {HEAVY!r}), code, file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "status", "--config", config], capture_output=True, text=True, check=False
    )
    assert ran.stderr == "[] 3\n"


def test_a_closed_pipe_is_quiet(config: str) -> None:
    """Pins that `agentctl … | head` ends without a complaint."""
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -P -m agent.cli schema all --config {config} | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == "141\n"


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "doctor",
        "probes",
        "config show",
        "schema",
        "events --kind",
        "nonsense",
        *(f"{name} --help" for name in commands.names()),
    ],
)
def test_closed_streams_are_quiet(config: str, command: str) -> None:
    """Pins that `>&-`, `2>&-` and both change no exit code and bring no traceback; a full stderr neither."""
    words = f"{sys.executable} -P -m agent.cli --config {config} {command}"
    script = f"""
{words} >/dev/null 2>/dev/null; echo $?
{words} >&-; echo $?
{words} 2>&- >/dev/null; echo $?
{words} <&- >&- 2>&-; echo $?
{words} >/dev/null 2>/dev/full; echo $?"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert len(set(done.stdout.split())) == 1, done.stdout
    assert len(done.stdout.split()) == 5
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("command", ["status", "schema all", "--help"])
def test_a_full_disk_under_stdout_is_said(config: str, command: str) -> None:
    """Pins exit 4 and one line when the result cannot be written."""
    words = f"{sys.executable} -P -m agent.cli --config {config} {command} > /dev/full"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (4, "agentctl: standard output: No space left on device\n")


def test_colour_only_on_a_terminal_that_wants_it(config: str) -> None:
    """Pins colour on a terminal, none with NO_COLOR or TERM=dumb, none into a pipe."""
    assert "\x1b[1;31m" in on_a_terminal(80, "status", "--config", config)[1]
    assert "\x1b" not in on_a_terminal(80, "status", "--config", config, NO_COLOR="1")[1]
    assert "\x1b" not in on_a_terminal(80, "status", "--config", config, TERM="dumb")[1]
    assert "\x1b" not in run("status", "--config", config).stdout


def test_ascii_where_the_encoding_has_no_more(config: str) -> None:
    """Pins the fallback for a terminal that cannot show our signs."""
    code, shown = on_a_terminal(80, "status", "--config", config, PYTHONIOENCODING="ascii")
    assert code == 3
    assert shown.isascii()
    assert "* not running" in shown
    assert "-> " in shown


@pytest.mark.parametrize("columns", [30, 50, 80])
def test_a_narrow_terminal_is_respected(config: str, columns: int) -> None:
    """Pins that sentences wrap at the terminal's width (a path that has no blank may stick out)."""
    _, shown = on_a_terminal(columns, "status", "--config", config, NO_COLOR="1")
    assert all(len(line) <= columns for line in shown.splitlines() if "/" not in line)


@pytest.mark.root
@pytest.mark.parametrize("arguments", [("config", "check", "/proc/kmsg"), ("--config", "/proc/kmsg", "status")])
def test_a_configuration_that_would_wait_is_refused(arguments: tuple[str, ...]) -> None:
    """Pins exit 2 for a file that looks regular and blocks its reader, by both readers of the configuration."""
    ran = run(*arguments)
    assert (ran.returncode, (ran.stdout + ran.stderr).count("\n")) == (2, 1)
    assert re.search("without waiting|too large|larger than", ran.stdout + ran.stderr)
