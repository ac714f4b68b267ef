"""What is refused before it is tried, on fixture trees with a BTF of our own; and what this kernel's BTF says."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.checks import kernel
from agent.errors import NotPermitted, Unsupported
from agent.linux import facts, refusal
from agent.linux.btf import KERNEL, member_type
from tests.btf import STRUCT, TYPEDEF

RUNNING = Path("/sys/kernel/btf/vmlinux")
INT = 1


def blob(lock: str) -> bytes:
    """Give BTF of `typedef int <lock>; struct other { int spinlock; }; struct bpf_ringbuf { int mask; <lock> spinlock; }`."""
    strings = b"\0int\0" + lock.encode() + b"\0other\0bpf_ringbuf\0mask\0spinlock\0"

    def at(name: str) -> int:
        return strings.index(b"\0" + name.encode() + b"\0") + 1

    types = b"".join(
        (
            struct.pack("=IIII", at("int"), INT << 24, 4, 32),
            struct.pack("=III", at(lock), TYPEDEF << 24, 1),
            struct.pack("=III III", at("other"), STRUCT << 24 | 1, 4, at("spinlock"), 1, 0),
            struct.pack("=III III III", at("bpf_ringbuf"), STRUCT << 24 | 2, 8, at("mask"), 1, 0, at("spinlock"), 2, 32),
        )
    )
    return struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings)) + types + strings


def machine(root: Path, files: dict[str, str], lock: str = "") -> Path:
    """Lay out a fixture tree, with a BTF if `lock` is told."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    if lock:
        (root / KERNEL).parent.mkdir(parents=True, exist_ok=True)
        (root / KERNEL).write_bytes(blob(lock))
    return root


REALTIME = {"sys/kernel/realtime": "1\n"}
MAINLINE_RT = {"proc/version": "Linux version 6.12.117-rt (x) (gcc) #1 SMP PREEMPT_RT Debian 6.12.117-1\n"}
ORDINARY = {"proc/version": "Linux version 6.1.0 (x) (gcc) #1 SMP PREEMPT_DYNAMIC Debian\n", "sys/kernel/realtime": "0\n"}


@pytest.mark.parametrize("files", [REALTIME, MAINLINE_RT])
def test_a_ring_that_could_sleep_in_an_interrupt_is_refused(tmp_path: Path, files: dict[str, str]) -> None:
    """PREEMPT_RT with a spinlock_t, or with no BTF to ask: Unsupported, and the remedy names the repair."""
    with pytest.raises(Unsupported, match="CVE-2024-50138") as caught:
        refusal.check(machine(tmp_path / "old", files, "spinlock_t"))
    assert "raw_spinlock_t" in caught.value.remedy
    with pytest.raises(Unsupported):
        refusal.check(machine(tmp_path / "dumb", files))


@pytest.mark.parametrize("lock", ["raw_spinlock_t", "rqspinlock_t"])
def test_a_repaired_real_time_kernel_is_accepted(tmp_path: Path, lock: str) -> None:
    """The lock's own type decides, not the version: stable series were repaired too, and the lock changed again."""
    refusal.check(machine(tmp_path / "own", REALTIME, lock))
    (tmp_path / "kernel.btf").write_bytes(blob(lock))
    refusal.check(machine(tmp_path / "external", REALTIME), tmp_path / "kernel.btf")


@pytest.mark.parametrize(
    ("files", "lock", "state"),
    [(REALTIME, "spinlock_t", "degraded"), (REALTIME, "raw_spinlock_t", "ok"), ({}, "spinlock_t", None)],
)
def test_doctor_has_a_row_for_real_time_kernels(tmp_path: Path, files: dict[str, str], lock: str, state: str | None) -> None:
    """Degraded, and tier E, where rings sleep; ok where they do not; no row on a kernel that is no real-time one."""
    found = facts.read(root=machine(tmp_path, files, lock))
    row = next((check for check in kernel.checks(found) if check.name == "real-time"), None)
    assert (row.state if row else None) == state
    if state == "degraded":
        assert kernel.tier(replace(found, bpf=True)).reason.startswith("this real-time kernel")


def test_an_ordinary_kernel_is_not_asked(tmp_path: Path) -> None:
    """Without PREEMPT_RT a spinlock_t does not sleep; a file with a 0, as some vendors' kernels have, is no real-time."""
    refusal.check(machine(tmp_path, ORDINARY, "spinlock_t"))


@pytest.mark.parametrize(
    "files",
    [
        {"sys/kernel/security/lockdown": "none integrity [confidentiality]\n"},
        {"proc/cmdline": "quiet lockdown=confidentiality\n"},
    ],
)
def test_lockdown_is_named_before_anything_is_loaded(tmp_path: Path, files: dict[str, str]) -> None:
    """Confidentiality is NotPermitted with what to boot with, not the verifier's last words."""
    with pytest.raises(NotPermitted, match="confidentiality") as caught:
        refusal.check(machine(tmp_path, files))
    assert caught.value.remedy == "boot with lockdown=integrity"


def test_integrity_is_no_obstacle(tmp_path: Path) -> None:
    """It forbids writing to user memory from BPF, which no probe does."""
    refusal.check(machine(tmp_path, {"sys/kernel/security/lockdown": "none [integrity] confidentiality\n"}))


def test_members_are_found_in_their_own_struct() -> None:
    """Another struct's member of the same name does not count; what is not there is None."""
    found = blob("raw_spinlock_t")
    assert member_type(found, "bpf_ringbuf", "spinlock") == "raw_spinlock_t"
    assert member_type(found, "other", "spinlock") == "int"
    assert member_type(found, "bpf_ringbuf", "other") is None
    assert member_type(found, "nothing", "spinlock") is None


@given(st.data(), st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_none(data: st.DataObject, noise: bytes) -> None:
    """A damaged BTF is a name or None, never an error: cut, overwritten, or made of noise."""
    whole = blob("raw_spinlock_t")
    at = data.draw(st.integers(0, len(whole)))
    for damaged in (noise, whole[:at], whole[:at] + noise + whole[at + len(noise) :], whole[:24] + noise):
        assert isinstance(member_type(damaged, "bpf_ringbuf", "spinlock"), str | None)


@pytest.mark.skipif(not RUNNING.exists(), reason="the running kernel has no BTF")
def test_the_running_kernel_answers() -> None:
    """Its ring buffers have one of the locks that there have been, and the check comes to an end either way."""
    assert member_type(RUNNING.read_bytes(), "bpf_ringbuf", "spinlock") in {"spinlock_t", "raw_spinlock_t", "rqspinlock_t"}
