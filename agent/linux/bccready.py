"""Whether BCC could compile for this kernel, found out without importing it (it brings LLVM)."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path("/")
# Where Debian, Ubuntu and their like put it; a virtual environment hides it, and on PyPI another package has the name.
PACKAGES = "usr/lib/python3/dist-packages"
# Who ships headers under another name than linux-headers-<release>.
_HEADERS = ((re.compile(r"-tegra$"), "nvidia-l4t-kernel-headers"), (re.compile(r"-v[78]l?\+$"), "raspberrypi-kernel-headers"))


def lacking(release: str, root: Path = ROOT) -> tuple[str, str] | None:
    """Say what BCC misses here, and the line that installs it; None if it can compile for kernel `release`."""
    missing, install = [], []
    if not (root / PACKAGES / "bcc/__init__.py").is_file():
        missing.append("BCC (python3-bpfcc) is not installed")
        install.append("python3-bpfcc")
    if not any((root / place).exists() for place in (f"lib/modules/{release}/build/include", "sys/kernel/kheaders.tar.xz")):
        missing.append(f"the headers of {release or 'this kernel'} are not installed")
        install.append(headers_package(release))
    return (", and ".join(missing), f"apt install {' '.join(install)}") if missing else None


def headers_package(release: str) -> str:
    """Give the package with the headers of kernel `release`."""
    return next((package for pattern, package in _HEADERS if pattern.search(release)), f"linux-headers-{release}")
