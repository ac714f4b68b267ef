"""The planted modules of `tests/vm/modules`, compiled for one kernel and kept by the hash of what they were made from."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import subprocess
from pathlib import Path

from tests.vm.kernels import ROOT, Kernel

SOURCES = Path(__file__).parent / "modules"
BUILT = ROOT / ".lab" / "vm" / "modules"


def make(kernel: Kernel, folder: Path) -> None:
    """Compile the Kbuild folder against a kernel. Raises SystemExit with the compiler's own words."""
    command = ["make", "-s", "-j2", "-C", str(kernel.build), f"M={folder}", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def built(kernel: Kernel) -> Path:
    """Give the folder with every planted module for `kernel`."""
    files = sorted(path for path in SOURCES.iterdir() if path.suffix in {".c", ".h"} or path.name == "Kbuild")
    content = hashlib.sha256(b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in files))
    folder = BUILT / f"{kernel.abi}-{content.hexdigest()[:12]}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in files:
            shutil.copy(path, folder)
        make(kernel, folder)
        (folder / "done").touch()
    return folder


def unknown(kernel: Kernel) -> Path:
    """Compile `unknown.c.in` under a name that is drawn now: a module of which neither tests nor agent know a symbol."""
    name = "m" + secrets.token_hex(4)
    folder = BUILT / f"{kernel.abi}-unknown"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(SOURCES / "planted.h", folder)
    (folder / f"{name}.c").write_text((SOURCES / "unknown.c.in").read_text().replace("UNKNOWN", name))
    (folder / "Kbuild").write_text(f"obj-m := {name}.o\n")
    make(kernel, folder)
    return folder / f"{name}.ko"
