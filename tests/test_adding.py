"""docs/adding.md: the probe and the detector that it builds are real, and need no edit of any file."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILE_BLOCK = re.compile(r"^`([\w/.]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LOAD = """
import subprocess
from agent import config, loader
settings = config.from_plain({"probes": {"enabled": ["forks"], "forks": {"per_window": 10}}})
with loader.measuring(settings, ["forks"]) as source:
    before = source.snapshot("forks")["forks"]
    for _ in range(20):
        subprocess.run(["true"], check=True)
    print(source.snapshot("forks")["forks"] - before)
"""


def example_files() -> dict[str, str]:
    """Give the files of docs/adding.md by their path."""
    return dict(FILE_BLOCK.findall((ROOT / "docs/adding.md").read_text()))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of the checkout with the files of docs/adding.md in it, compiled."""
    copy = tmp_path_factory.mktemp("house")
    for name in ("agent", "bpf", "tests", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", ".clang-format"):
        shutil.copy(ROOT / name, copy / name)
    for name, content in example_files().items():
        assert not (copy / name).exists(), f"docs/adding.md edits {name}"
        (copy / name).write_text(content)
    subprocess.run(["make", "-s", "-C", str(copy / "bpf"), "../agent/bpf/forks.bpf.o"], check=True)
    return copy


def _run(house: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", *command], cwd=house, env=_env(house), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _env(house: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(house), "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}


def test_the_examples_pass_the_tests_of_the_house(house: Path) -> None:
    """Pins that the probe and the detector of adding.md need no edit: tests, layouts, names and configuration keys hold."""
    own = [name for name in example_files() if name.startswith("tests/")]
    shared = ["tests/test_layouts.py", "tests/detectors/test_detector_contract.py", "tests/test_house.py"]
    chosen = "fork or stem or name_through or rows or signatures"
    _run(house, "-m", "pytest", "-q", "-p", "no:cacheprovider", *own, *shared, "-k", chosen)
    python = [name for name in example_files() if name.endswith(".py")]
    _run(house, "-m", "ruff", "check", "-q", "--no-cache", *python)
    _run(house, "-m", "ruff", "format", "-q", "--no-cache", "--check", *python)
    style = [str(Path(sys.executable).with_name("clang-format")), "--dry-run", "-Werror"]
    subprocess.run([*style, *(name for name in example_files() if name.endswith(".c"))], cwd=house, check=True)


@pytest.mark.kernel
def test_the_example_probe_runs(house: Path) -> None:
    """Pins that the probe of adding.md loads into the running kernel and counts what it says it counts."""
    assert int(_run(house, "-c", LOAD)) >= 20
