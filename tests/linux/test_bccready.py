"""What BCC needs on a machine, by fixture trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import Unsupported
from agent.linux import bcc, bccready

RELEASE = "5.15.148-tegra"
MODULE = f"{bccready.PACKAGES}/bcc/__init__.py"
HEADERS = f"lib/modules/{RELEASE}/build/include/linux/sched.h"


def machine(root: Path, *files: str) -> Path:
    """Give a machine with these files, empty."""
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


@pytest.mark.parametrize(
    ("files", "install"),
    [
        ((), "apt install python3-bpfcc nvidia-l4t-kernel-headers"),
        ((HEADERS,), "apt install python3-bpfcc"),
        ((MODULE,), "apt install nvidia-l4t-kernel-headers"),
    ],
)
def test_what_is_missing_is_named_with_the_line_that_installs_it(tmp_path: Path, files: tuple[str, ...], install: str) -> None:
    """Pins one remedy for all that is missing, by the names of the distribution that built the kernel."""
    found = bccready.lacking(RELEASE, machine(tmp_path, *files))
    assert found is not None
    assert found[1] == install
    assert ("python3-bpfcc" in found[0]) == (MODULE not in files)
    assert (RELEASE in found[0]) == (HEADERS not in files)


@pytest.mark.parametrize("headers", [HEADERS, "sys/kernel/kheaders.tar.xz"])
def test_headers_of_a_package_or_of_the_kernel_itself_do(tmp_path: Path, headers: str) -> None:
    """Pins both places where BCC looks (the second with CONFIG_IKHEADERS)."""
    assert bccready.lacking(RELEASE, machine(tmp_path, MODULE, headers)) is None


@pytest.mark.parametrize(
    ("release", "package"),
    [
        ("6.1.0-50-amd64", "linux-headers-6.1.0-50-amd64"),
        ("6.12.25+rpt-rpi-v8", "linux-headers-6.12.25+rpt-rpi-v8"),
        ("5.15.61-v8+", "raspberrypi-kernel-headers"),
        ("5.10.104-tegra", "nvidia-l4t-kernel-headers"),
    ],
)
def test_headers_come_in_packages_of_several_names(release: str, package: str) -> None:
    """Pins Debian's naming, which Raspberry Pi OS took over with bookworm, and the two that differ."""
    assert bccready.headers_package(release) == package


def test_without_bcc_the_loader_says_what_to_install(tmp_path: Path) -> None:
    """Pins the error of tier D: why BCC is asked for at all, what it lacks, and the line to run."""
    with pytest.raises(Unsupported, match=r"the kernel has no BTF, and BCC \(python3-bpfcc\).*; apt install python3-bpfcc "):
        bcc.Loader(tmp_path)


def test_a_symbol_is_found_by_its_whole_name(tmp_path: Path) -> None:
    """Pins how the helper for names is asked for, and that a machine without kallsyms has none."""
    assert not bcc.has_symbol("bpf_snprintf", tmp_path)
    machine(tmp_path, "proc/kallsyms")
    (tmp_path / "proc/kallsyms").write_text("0000000000000000 T bpf_snprintf_btf\n0000000000000000 t odd\n\nx\n")
    assert not bcc.has_symbol("bpf_snprintf", tmp_path)
    assert bcc.has_symbol("odd", tmp_path)
