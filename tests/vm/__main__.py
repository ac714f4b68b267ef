"""Boot Debian kernels in QEMU by virtme-ng and run the live tests of `tests/kernel` in each.

    python -m tests.vm                 every kernel of KERNELS
    python -m tests.vm --rotate N      number N modulo their count (CI passes the commit count)
    python -m tests.vm --kernel 6.1    that one

The kernel packages come from Debian (`apt-get download`), are unpacked under `.lab/kernels`, and never installed. The
guest's root is this machine's, read-only, over 9p. Exit code 0 if every kernel passed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORE = ROOT / ".lab" / "kernels"
# Meta packages that follow Debian's newest kernel of a series; the image behind each is looked up.
KERNELS = {"6.1": r"linux-image-6\.1\.0-\d+-amd64", "6.12": r"linux-image-6\.12\.\d+\+deb12-amd64-unsigned"}
BOOT_S = 900
GUEST = (
    "mount -t bpf bpf /sys/fs/bpf; mount -t tracefs tracefs /sys/kernel/tracing; cd {root} && "
    "GATEWARDEN_GUEST=1 {python} -m pytest -q -rs -p no:cacheprovider -m kernel -o timeout=300 tests/kernel {more}; "
    "echo gatewarden-rc=$?"
)


def newest(pattern: str) -> str:
    """Give the newest package whose name matches. Raises SystemExit if Debian has none."""
    found = subprocess.run(["apt-cache", "pkgnames", "linux-image-6."], capture_output=True, text=True, check=True)
    names = [name for name in found.stdout.split() if re.fullmatch(pattern, name)]
    if not names:
        raise SystemExit(f"no kernel package matches {pattern}: apt-get update")
    return max(names, key=lambda name: [int(part) for part in re.findall(r"\d+", name)])


def image(package: str) -> Path:
    """Give the unpacked kernel image of `package`, downloading it once."""
    folder = STORE / package
    if not any(folder.glob("boot/vmlinuz-*")):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True)
        for deb in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(deb), str(folder)], check=True)
            deb.unlink()
    return next(folder.glob("boot/vmlinuz-*"))


def boot(kernel: Path, more: str) -> bool:
    """Run the live tests in a guest on `kernel`; its output goes to ours. Gives whether they passed."""
    vng = Path(sys.executable).with_name("vng")
    python = ROOT / ".venv/bin/python"
    command = [str(vng), "--verbose", "--disable-kvm", "--force-9p", "--run", str(kernel), "--cpus", "2", "--memory", "1G"]
    script = GUEST.format(root=ROOT, python=python, more=more)
    environment = {**os.environ, "PATH": f"{vng.parent}:{os.environ['PATH']}"}
    # --verbose: without a terminal, virtme-ng passes the guest's output on only with its console.
    result = subprocess.run(
        [*command, "--", script],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=BOOT_S,
        check=False,
    )
    passed = "gatewarden-rc=0" in result.stdout
    lines = [line for line in result.stdout.splitlines() if passed is False or not line.startswith("[ ")]
    print("\n".join(lines[-200:]), flush=True)
    return passed


def main() -> int:
    """Run what the arguments ask for, a line for each kernel at the end."""
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description="Live tests on Debian kernels in QEMU.")
    parser.add_argument("--rotate", type=int, metavar="N", help="only kernel number N modulo the count")
    parser.add_argument("--kernel", default="", help="only this series")
    parser.add_argument("--pytest", default="", help="more arguments for pytest, in one string")
    arguments = parser.parse_args()
    series = [name for name in KERNELS if arguments.kernel in {"", name}]
    if arguments.rotate is not None:
        series = [series[arguments.rotate % len(series)]]
    results = {}
    for name in series:
        package = newest(KERNELS[name])
        began = time.monotonic()
        print(f"== {package}", flush=True)
        results[package] = boot(image(package), arguments.pytest), time.monotonic() - began
    for package, (passed, seconds) in results.items():
        print(f"{'passed' if passed else 'FAILED'}  {package}  {seconds:.0f} s")
    return 0 if all(passed for passed, _seconds in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
