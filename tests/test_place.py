"""Whom root's processes trust with the configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.place import exposed, require_trust
from tests.agents import BIN, NOBODY, open_to_all

pytestmark = pytest.mark.root

Make = Callable[..., Path]


def hand_over(path: Path) -> None:
    """Give it to nobody."""
    os.chown(path, 65534, -1)


def open_up(path: Path) -> None:
    """Let the group write."""
    path.chmod(path.stat().st_mode | 0o020)


def test_what_only_root_may_change_is_trusted(lab_config: Make) -> None:
    """Pins that root's file in root's folders passes, although /tmp is everybody's (it is sticky)."""
    assert exposed(lab_config()) is None
    require_trust(lab_config())


@pytest.mark.parametrize("change", [hand_over, open_up])
@pytest.mark.parametrize("what", ["agent.toml", "."])
def test_what_others_may_change_is_refused_with_the_line_that_ends_it(
    lab_config: Make, what: str, change: Callable[[Path], None]
) -> None:
    """Pins file and folder, owner and mode; the remedy, run as it is, makes it trusted."""
    config = lab_config()
    change(config.parent / what)
    with pytest.raises(ConfigError, match="root would follow its paths; as root: ch"):
        require_trust(config)
    found = exposed(config)
    assert found is not None
    subprocess.run(found[1].split(), check=True)
    assert exposed(config) is None


def test_a_link_is_judged_with_what_it_leads_to(lab_config: Make, tmp_path: Path) -> None:
    """Pins that neither another user's link to root's file nor root's link into another user's folder passes."""
    config, theirs = lab_config(), tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "agent.toml").write_text("")
    ours, link = tmp_path / "ours.toml", tmp_path / "link.toml"
    ours.symlink_to(theirs / "agent.toml")
    link.symlink_to(config)
    assert exposed(ours) is None
    hand_over(theirs)
    os.chown(link, 65534, -1, follow_symlinks=False)
    assert f"{theirs} belongs" in str(exposed(ours))
    assert f"{link} belongs" in str(exposed(link))


@pytest.mark.parametrize(
    "command",
    [
        (str(BIN / "agentd"), "--config", "{}"),
        (str(BIN / "agentctl"), "--config", "{}", "probes", "load"),
        (str(BIN / "agentctl"), "--config", "{}", "probes", "unload"),
        (sys.executable, "-P", "-m", "agent.loader", "--config", "{}", "--give", "0"),
        (sys.executable, "-P", "-m", "agent.broker", "--config", "{}"),
    ],
    ids=["agentd", "load", "unload", "loader", "broker"],
)
def test_every_process_of_roots_refuses(lab_config: Make, command: tuple[str, ...]) -> None:
    """Pins exit 2 and the line, before anything is created, mounted or listened on."""
    config = lab_config()
    hand_over(config)
    done = subprocess.run([part.format(config) for part in command], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert "as root: chown -h root /" in done.stderr  # the journal of the broker cuts a path as long as this one
    assert list((config.parent / "run").iterdir()) == []


def test_an_ordinary_user_follows_whichever_it_likes(lab_config: Make, tmp_path: Path) -> None:
    """Pins that nothing is asked of a configuration of one's own."""
    config = lab_config()
    open_to_all(tmp_path)
    config.chmod(0o644)
    hand_over(config)
    done = subprocess.run([*NOBODY, BIN / "agentd", "--config", config, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
