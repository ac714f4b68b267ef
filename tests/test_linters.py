"""One command checks all: the linters are tests, so that `make test` fails where a reviewer would."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = Path(sys.executable).parent
C_FILES = sorted(str(path) for suffix in ("c", "h") for path in (ROOT / "bpf").rglob(f"*.{suffix}"))
SHELL = [".ci/run", "deploy/lab/install", "deploy/lab/run"]
UNITS = sorted(str(path) for path in (ROOT / "deploy/systemd").glob("*.*"))


def check(*command: str) -> None:
    """Run one linter at the top of the checkout; its own report is the failure."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def test_ruff() -> None:
    """Pins that every rule of pyproject.toml holds (the banned calls of agent/ among them)."""
    check(str(TOOLS / "ruff"), "check", "--output-format", "concise", ".")


def test_python_format() -> None:
    """Pins `ruff format`; `make format` mends it."""
    check(str(TOOLS / "ruff"), "format", "--check", ".")


def test_mypy() -> None:
    """Pins strict typing of agent/ and tests/."""
    check(str(TOOLS / "mypy"))


def test_c_format() -> None:
    """Pins .clang-format; `make format` mends it."""
    check(str(TOOLS / "clang-format"), "--dry-run", "-Werror", *C_FILES)


def test_shell_parses() -> None:
    """Pins that the scripts are at least bash."""
    for script in SHELL:
        check("bash", "-n", script)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_units_are_valid(tmp_path: Path) -> None:
    """Pins that systemd understands every line of the units (their programs are not installed here)."""
    for unit in UNITS:
        text = Path(unit).read_text().replace("/opt/gatewarden/bin/", "/bin/true ")
        (tmp_path / Path(unit).name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(str(path) for path in tmp_path.iterdir())],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "gatewarden" in line]
    assert not ours, "\n".join(ours)
