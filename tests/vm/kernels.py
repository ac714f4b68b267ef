"""Debian's kernels for the virtual machines: image, headers and build tools, unpacked under `.lab/kernels`, never installed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORE = ROOT / ".lab" / "kernels"
# Package names of a series' images; the newest counts. Debian signs only what it builds for itself: backports are unsigned.
SERIES = {
    "6.1": r"linux-image-6\.1\.0-\d+-amd64",
    "6.12": r"linux-image-6\.12\.\d+\+deb12-amd64-unsigned",
    "6.1-rt": r"linux-image-6\.1\.0-\d+-rt-amd64",
    "6.12-rt": r"linux-image-6\.12\.\d+\+deb12-rt-amd64-unsigned",
}


DOWNLOAD_S = 120


class Unavailable(Exception):
    """No virtual machine can run here: what it takes cannot be got, or it does not boot. Says which, and what apt said."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One unpacked kernel: `image` to boot, its `modules`, `build` and `source` to compile others against."""

    package: str
    abi: str
    image: Path
    modules: Path
    build: Path
    source: Path


def _apt(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=DOWNLOAD_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {(done.stderr.strip() or 'said nothing').splitlines()[-1]}")
    return done.stdout


@cache
def _names(prefix: str) -> tuple[str, ...]:
    return tuple(_apt("apt-cache", "pkgnames", prefix).split())


def newest_of(series: str, names: Iterable[str]) -> str:
    """Give the newest image package of a series among `names`. Raises Unavailable if there is none."""
    matching = [name for name in names if re.fullmatch(SERIES[series], name)]
    if not matching:
        raise Unavailable(f"apt knows no package {SERIES[series]} (of Debian 12, main and security)")
    return max(matching, key=lambda name: [int(part) for part in re.findall(r"\d+", name)])


def unpacked(package: str, into: Path, sign: str) -> None:
    """Download `package` and unpack it into a folder, unless the glob `sign` is there already. Raises Unavailable."""
    if any(into.glob(sign)):
        return
    into.mkdir(parents=True, exist_ok=True)
    _apt("apt-get", "download", "-q", package, cwd=into)
    for deb in into.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(deb), str(into)], check=True)
        deb.unlink()


def _headers(abi: str, into: Path) -> tuple[Path, Path]:
    """Unpack what compiles modules for a kernel, and point its absolute paths into `into`; give build and source folder."""
    version, flavour = abi.removesuffix("-amd64").removesuffix("-rt"), "-rt" if abi.endswith("-rt-amd64") else ""
    common = f"{version}-common{flavour}"
    # One package for a whole series up to 6.1, one for each version after it.
    whole = f"linux-kbuild-{version}"
    kbuild = whole if whole in _names("linux-kbuild-") else f"linux-kbuild-{version[:3]}"
    for package, sign in (
        (f"linux-headers-{abi}", f"usr/src/linux-headers-{abi}/.config"),
        (f"linux-headers-{common}", f"usr/src/linux-headers-{common}/Makefile"),
        (kbuild, "usr/lib/linux-kbuild-*/scripts"),
    ):
        unpacked(package, into, sign)
    build = into / "usr/src" / f"linux-headers-{abi}"
    makefile = build / "Makefile"
    makefile.write_text(re.sub(r"include \S*/usr/src/", f"include {into}/usr/src/", makefile.read_text()))
    return build, build.with_name(f"linux-headers-{common}")


def kernel(series: str) -> Kernel:
    """Give a series' newest kernel, downloading it once. Raises Unavailable."""
    try:
        return _kernel(series)
    except Unavailable:
        if os.geteuid() != 0:
            raise
    _apt("apt-get", "-q", "update")  # the lists are missing, or older than what the mirror still has
    _names.cache_clear()
    return _kernel(series)


def _kernel(series: str) -> Kernel:
    package = newest_of(series, _names("linux-image-6."))
    abi = package.removeprefix("linux-image-").removesuffix("-unsigned")
    unpacked(package, STORE / package, "boot/vmlinuz-*")
    modules = STORE / package / "lib/modules" / abi
    image = next((STORE / package).glob("boot/vmlinuz-*"))
    return Kernel(package, abi, image, modules, *_headers(abi, STORE / f"headers-{abi}"))
