"""agentd's children as real processes: they import what is installed, whatever lies in the current directory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PLANTED = "tomllib", "json", "argparse"
START = {
    "configuration": "from agent.linux import child; child.validated(Path(sys.argv[1]))",
    "loader": "from agent.linux import child; list(child.loaded_probes(Path(sys.argv[1])))",
}


@pytest.mark.parametrize("name", START)
def test_a_module_planted_in_the_current_directory_is_not_imported(
    name: str, tmp_path: Path, lab_config: Callable[..., Path]
) -> None:
    """Pins -P: `sudo agentd` in a folder that others may write runs none of their code as root."""
    config, trap = lab_config("[probes]\nenabled = []\n"), tmp_path / "trap"
    trap.mkdir()
    for module in PLANTED:
        (trap / f"{module}.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\nraise SystemExit(9)\n")
    code = f"import sys\nfrom pathlib import Path\n{START[name]}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(config)], cwd=trap, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "sprung").exists()
