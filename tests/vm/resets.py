"""Resets in a virtual machine: a guest that ends in every way there is, and what the next boot says of it.

    python -m tests.vm --kernel 6.1 --steps resets

QEMU has an i6300esb, an IPMI controller with its watchdog, and ACPI ERST for pstore; a reset is a real one, and a power cut is
QEMU killed. The guest runs `tests.vm.guest.resets` at each boot.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.vm import modules
from tests.vm.guest.resets import STAGES
from tests.vm.kernels import ROOT, Kernel

DRIVERS = Path(__file__).parent / "drivers"
BOOT_S = 420  # one boot, with its stage; some 60 on an idle host
DISK = 64 << 20
# A guest that boots nine times compiles nothing: what the host's Python has compiled serves.
HOSTS_CACHE = "unset PYTHONPYCACHEPREFIX; export PYTHONDONTWRITEBYTECODE=1"
OWN = f"export PYTHONPATH={ROOT}"  # agentd from this checkout, wherever the environment was made
HARDWARE = (
    "-action reboot=reset -action watchdog=reset -device i6300esb "
    "-device ipmi-bmc-sim,id=bmc0 -device isa-ipmi-kcs,bmc=bmc0 "
    "-object memory-backend-file,id=erst,mem-path={folder}/erst,size=0x10000,share=on -device acpi-erst,memdev=erst "
    "-drive file={folder}/disk,if=virtio,format=raw"
)


def prepared(folder: Path) -> None:
    """Begin with an empty disk and an empty store."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, size in (("disk", DISK), ("erst", 0x10000)):
        with (folder / name).open("wb") as file:
            file.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", str(folder / "disk")], check=True)


def powered(chosen: Kernel, folder: Path, options: str) -> None:
    """Switch the machine on, and off when it asks for that, is through, or makes no progress for `BOOT_S`."""
    vng = Path(sys.executable).with_name("vng")
    machine = ["--disable-kvm", "--disable-microvm", "--force-9p", "--run", str(chosen.image), "--cpus", "2", "--memory", "1G"]
    with (
        (folder / "console.log").open("ab") as output,
        subprocess.Popen(
            [
                str(vng),
                "--verbose",
                *machine,
                "--cwd",
                "/",
                f"--rwdir=/mnt={folder}",
                f"--qemu-opts={options}",
                "--",
                "sh /mnt/run.sh",
            ],
            env={**os.environ, "PATH": f"{vng.parent}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            _watch(process, folder)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # QEMU is a grandchild


def _watch(process: subprocess.Popen[bytes], folder: Path) -> None:
    seen, since = "", time.monotonic()
    while process.poll() is None and not (folder / "done").exists() and not (folder / "cut").exists():
        stage = (folder / "stage").read_text() if (folder / "stage").exists() else ""
        if stage != seen:
            seen, since = stage, time.monotonic()
        if time.monotonic() - since > BOOT_S:
            return
        time.sleep(0.5)


def rows(chosen: Kernel, folder: Path, command: str, share: str) -> list[dict[str, Any]]:
    """Run all stages; a stage that was not reached is a failed row."""
    prepared(folder)
    shutil.copytree(DRIVERS, folder / "drivers")
    modules.make(chosen, folder / "drivers")
    shutil.copy(folder / "drivers/pretimeout_dog.ko", folder)
    (folder / "run.sh").write_text(command)
    options = f"{share} {HARDWARE.format(folder=folder)}"
    powered(chosen, folder, options)
    if (folder / "cut").exists():
        (folder / "cut").unlink()
        powered(chosen, folder, options)
    kept = folder / "resets.json"
    found: list[dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else []
    told = {row["what"] for row in found}
    missing = [stage for stage in STAGES if stage.name not in told]
    return found + [
        {"what": stage.name, "expected": stage.cause, "found": f"not reached: {folder}/console.log", "passed": False}
        for stage in missing
    ]


def step(chosen: Kernel, folder: Path, prelude: str, share: str) -> dict[str, Any]:
    """Give the step `resets` of the matrix; `prelude` makes the guest's files quick, `share` is QEMU's part of that."""
    began = time.monotonic()
    python = ROOT / ".venv/bin/python"
    command = f"{prelude}\n{HOSTS_CACHE}\n{OWN}\ncd {ROOT} && {python} -m tests.vm.guest.resets --out /mnt; sync"
    found = rows(chosen, folder, command, share)
    return {"step": "resets", "seconds": round(time.monotonic() - began, 1), "rows": found}
