"""agentctl support-bundle, whole and broken."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.commands import _bundle
from tests.commands.conftest import Box, Replies, status

SECRET = "HUNTER22"
PARTS = {
    "versions.json",
    "config.json",
    "status.json",
    "doctor.json",
    "events.json",
    "kernel.json",
    "kmsg.txt",
    "processes.json",
    "files.json",
}


def unpack(path: Path) -> dict[str, str]:
    """Give the files of an archive by their names without the folder."""
    with tarfile.open(path) as archive:
        members = [(member, archive.extractfile(member)) for member in archive.getmembers()]
        return {member.name.partition("/")[2]: file.read().decode() for member, file in members if file}


def make(box: Box) -> tuple[dict[str, str], dict[str, Any]]:
    """Run it; gives the files and the manifest."""
    path = box.path / "bundle.tar.gz"
    ran = box.agentctl("support-bundle", "-o", str(path), "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["schema"], ran.json["bytes"]) == ("gatewarden.support-bundle/1", path.stat().st_size)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    files = unpack(path)
    manifest = json.loads(files["manifest.json"])
    assert manifest["collected"] == ran.json["collected"]
    assert {*manifest["collected"], *manifest["failed"]} == PARTS
    return files, manifest


def test_everything_is_in_it_and_no_secret(box: Box, serve: Callable[[Replies], None]) -> None:
    """Pins the whole: configuration, status, events, kernel; the camera's password nowhere, wherever it turned up."""
    with box.config.open("a") as file:
        file.write(f'[[stream]]\nname = "cam"\nurl = "rtsp://admin:{SECRET}@camera/x"\n')
    event = {"record": "event", "kind": "proc.exit", "data": {"comm": f"ffmpeg {SECRET}"}}
    serve({"status": [{"result": status("ok", tier=SECRET)}], "events": [{"result": {"events": [event], "cut": False}}]})
    files, _ = make(box)
    assert SECRET not in "".join(files.values())
    assert json.loads(files["config.json"])["config"]["stream"][0]["url"] == "rtsp://***@camera/x"
    assert json.loads(files["status.json"])["state"] == "ok"
    assert json.loads(files["events.json"])[0]["data"]["comm"] == "ffmpeg ***"
    assert "Linux version" in json.loads(files["kernel.json"])["/proc/version"]
    assert json.loads(files["versions.json"])["packages"]["pydantic"]


def test_arguments_and_queries_of_the_configuration_appear_nowhere(box: Box, serve: Callable[[Replies], None]) -> None:
    """Pins `config show` and the whole bundle over a configuration full of secrets that look like nothing."""
    hidden = ["KeySecret11", "PosSecret44", "TokSecret55", "SidSecret3", "EnvSecret66", "user77", "BareSecret88"]
    with box.config.open("a") as file:
        file.write(
            '[[workload]]\nname = "w"\ncommand = ["/usr/bin/prog", "--key", "KeySecret11", "-pPosSecret44", "-H", '
            '"Authorization: Bearer TokSecret55", "BareSecret88"]\nenv = { CAM = "EnvSecret66" }\n'
            'probe = { http = "http://h/ready?sid=SidSecret3&x=KeySecret11" }\n'
            '[[stream]]\nname = "c"\nurl = "rtsp://user77@camera/x?SidSecret3"\n'
        )
    said = {"record": "event", "kind": "proc.exit", "data": {"comm": " ".join(hidden)}}
    serve({"status": [{"result": status("ok")}], "events": [{"result": {"events": [said], "cut": False}}]})
    shown = box.agentctl("config", "show").out + box.agentctl("config", "show", "--json").out
    bundle = "".join(make(box)[0].values())
    for text in (shown, bundle):
        assert [secret for secret in hidden if secret in text] == []
        assert "/usr/bin/prog" in text
        assert "*** (6 arguments)" in text
        assert "CAM" in text


@pytest.mark.parametrize(
    "text", ['command = "prog --key KeySecret11"', 'command = ["prog", 5, "KeySecret11"]', "env = { K = 7777777 }"]
)
def test_what_is_wrong_with_a_command_does_not_show_it(box: Box, text: str) -> None:
    """Pins that neither `config check` nor the bundle repeats a wrong command or environment."""
    with box.config.open("a") as file:
        file.write(f'[[workload]]\nname = "w"\n{text}\n')
    ran = box.agentctl("config", "check")
    assert (ran.code, "KeySecret11" in ran.out, "7777777" in ran.out) == (2, False, False)
    bundle = "".join(make(box)[0].values())
    assert "KeySecret11" not in bundle


@pytest.mark.parametrize(
    "text",
    [
        f'[[stream]]\nurl = "rtsp://admin:{SECRET}@camera/x"\nmistake = 5\n',
        f'[mqtt]\npassword = "{SECRET}"\nthis is no toml, {SECRET}\n',
        "\x00",
    ],
)
def test_a_broken_gateway_still_gives_a_bundle(box: Box, text: str) -> None:
    """Pins that without agentd and with a bad configuration the rest is there, and no secret."""
    box.config.write_text(text)
    (box.path / "run" / "status.json").write_text("{")
    files, _ = make(box)
    assert SECRET not in "".join(files.values())
    assert json.loads(files["config.json"])["problems"]
    assert json.loads(files["status.json"])["state"] == "unknown"


def test_garbage_everywhere_is_named(box: Box, serve: Callable[[Replies], None]) -> None:
    """Pins that parts that fail are listed with the reason, the others collected."""
    serve({"status": [{"raw": "rubbish\n"}], "events": [{"result": 5}]})
    _, manifest = make(box)
    assert {"status.json", "events.json"} <= set(manifest["failed"])
    assert {"versions.json", "kernel.json", "config.json"} <= set(manifest["collected"])


def test_an_output_that_cannot_be_written_is_one_line(box: Box) -> None:
    """Pins exit 2, and that nothing half-written is left."""
    ran = box.agentctl("support-bundle", "-o", "/proc/nowhere/x.tar.gz")
    assert (ran.code, ran.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("kind", ["a symbolic link", "a FIFO", "a directory", "a device", "nothing"])
def test_only_a_regular_file_is_replaced(box: Box, kind: str) -> None:
    """Pins that whatever else lies at -o stays as it is: exit 2 and one line, before anything is collected; -o '' too."""
    path = box.path / "there"
    path = {"a device": Path("/dev/full"), "nothing": Path()}.get(kind, path)
    makers: dict[str, Callable[[], object]] = {
        "a symbolic link": lambda: path.symlink_to(box.path / "target"),
        "a FIFO": lambda: os.mkfifo(path),
        "a directory": path.mkdir,
    }
    if kind in makers:
        makers[kind]()
    before = path.lstat()
    ran = box.agentctl("support-bundle", "-o", "" if kind == "nothing" else str(path))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "not a regular file" in ran.err
    assert path.lstat()[:3] == before[:3]
    assert not (box.path / "target").exists()


def test_a_regular_file_is_replaced_and_a_link_in_place_of_the_draft_is_not_followed(box: Box) -> None:
    """Pins the good case, and that what lies beside it under the name of the draft loses nothing."""
    path, precious = box.path / "x.tar.gz", box.path / "precious"
    path.write_text("old")
    precious.write_text("precious")
    (box.path / ".x.tar.gz.new").symlink_to(precious)
    assert box.agentctl("support-bundle", "-o", str(path)).code == 0
    assert "manifest.json" in unpack(path)
    assert precious.read_text() == "precious"


@pytest.mark.root
def test_no_permission_names_the_file_and_is_exit_4(box: Box) -> None:
    """Pins the code of the runbook, and that the text is of the file that was asked for, not of a draft beside it."""
    for folder in (box.path, *box.path.parents[:2]):
        folder.chmod(0o755)
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-P", "-m", "agent.cli"]
    path = box.path / "x.tar.gz"
    command = [*nobody, "support-bundle", "--config", str(box.config), "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (4, f"agentctl: {path}: Permission denied\n")


def test_what_hangs_or_fails_stops_nothing() -> None:
    """Pins the isolation of collectors: their own time, their own failure."""
    release = threading.Event()

    def hangs() -> str:
        release.wait(30)
        return ""

    def fails() -> str:
        raise RuntimeError(f"no {SECRET}")

    try:
        found = _bundle.collect({"a": hangs, "b": fails, "c": lambda: "fine"}, frozenset({SECRET}), lambda _text: None, 0.1)
    finally:
        release.set()
    assert found.files == {"c": "fine"}
    assert found.failed == {"a": "no answer within 0.1 s", "b": "RuntimeError: no ***"}


def test_a_bundle_is_bounded() -> None:
    """Pins that no part can fill the ticket system, or the disk."""
    found = _bundle.collect(dict.fromkeys("ab", lambda: "x\n" * (4 << 20)), frozenset(), lambda _text: None)
    assert all(len(text) <= _bundle.PART_BYTES + 20 for text in found.files.values())
    with tarfile.open(fileobj=io.BytesIO(_bundle.pack("g", found, 1e9))) as archive:
        assert all(member.size <= _bundle.PART_BYTES for member in archive.getmembers())
    assert (len(PARTS) + 1) * _bundle.PART_BYTES <= _bundle.TOTAL_BYTES
