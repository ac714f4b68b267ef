"""What compilers, analyzers and the fuzzer say of firmware_hooks; skipped, with the reason, where a tool is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOKS = ROOT / "firmware_hooks"
SOURCES = sorted(path for suffix in ("c", "h") for path in HOOKS.rglob(f"*.{suffix}"))
FUZZ_S = 30 if os.environ.get("CI") else 3
CORTEX_M_FLASH, CORTEX_M_RAM = 6144, 1280  # bytes; measured 4,314 and 840


def make(*words: str) -> str:
    """Run make in firmware_hooks; its output is the failure."""
    done = subprocess.run(["make", "-s", "-C", str(HOOKS), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"make {' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def links(*flags: str) -> bool:
    """Whether clang can link a program with these flags: its run-time libraries are a package of their own."""
    program = "#include <stddef.h>\nint LLVMFuzzerTestOneInput(const char *d, size_t n) { (void)d; return (int)n * 0; }\n"
    command = ["clang", *flags, "-x", "c", "-", "-o", "/dev/null"]
    return (
        bool(shutil.which("clang"))
        and subprocess.run(command, input=program.encode(), check=False, capture_output=True).returncode == 0
    )


def test_format() -> None:
    """Pins .clang-format; `clang-format -i` mends it."""
    tool = Path(sys.executable).parent / "clang-format"
    done = subprocess.run([tool, "--dry-run", "-Werror", *SOURCES], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_files_are_short() -> None:
    """Pins the size of a C hook file."""
    long = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in SOURCES if path.read_text().count("\n") > 200}
    assert not long


def test_nothing_is_allocated() -> None:
    """Pins what the hooks may use: no allocation, no C library at all, no file-scope state; the template has its marks."""
    for path in SOURCES:
        if path.parent.name in {"src", "gatewarden"}:
            text = path.read_text()
            assert not re.search(r"\b(?:malloc|calloc|realloc|free|printf|memcpy|memset|abort|assert)\s*\(", text), path
            assert set(re.findall(r"#include <(\w+)\.h>", text)) <= {"stdbool", "stddef", "stdint"}, path
            assert not re.findall(r"^static (?!const|inline)[^(\n]*;", text, re.MULTILINE), path
    assert (HOOKS / "port/template/port.c").read_text().count("PORT:") > 10


def test_the_template_does_not_compile_unfilled() -> None:
    """Pins the #error: a port that nobody filled in must not reach a board."""
    command = ["gcc", "-std=c11", "-fsyntax-only", f"-I{HOOKS}/include", str(HOOKS / "port/template/port.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "fill in the PORT: marks" in done.stderr


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_analyzer() -> None:
    """Pins that gcc finds nothing with -Wall -Wextra -Werror -Wconversion -fanalyzer, in the simulator neither."""
    make("analyze")


@pytest.mark.skipif(not links("-fsanitize=fuzzer,address,undefined"), reason="clang has no libFuzzer here: libclang-rt-14-dev")
def test_fuzzer(capfd: pytest.CaptureFixture[str]) -> None:
    """Pins a bounded run of libFuzzer over parser, answers and timer, with both sanitizers (30 s where CI is set)."""
    told = make("fuzz", f"FUZZ_S={FUZZ_S}")
    runs = re.search(r"number_of_executed_units: (\d+)", told)
    assert runs is not None
    assert int(runs[1]) > 1000
    with capfd.disabled():
        print(f"\nfirmware: {runs[1]} inputs fuzzed in {FUZZ_S} s")


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="gcc-arm-none-eabi is not installed")
def test_size_on_cortex_m(capfd: pytest.CaptureFixture[str]) -> None:
    """Pins that the hooks compile for Cortex-M without a C library, and how much flash and RAM they take there."""
    told = make("size")
    with capfd.disabled():
        print(f"\n{told}", end="")
    hooks = [int(flash) for flash in re.findall(r"^\s*(\d+).*\(TOTALS\)$", told, re.MULTILINE)]
    ports = [int(bss) for bss in re.findall(r"^\s*\d+\s+\d+\s+(\d+).*port\.o$", told, re.MULTILINE)]
    assert len(hooks) == len(ports) == 2
    assert max(hooks) <= CORTEX_M_FLASH
    assert max(ports) <= CORTEX_M_RAM
