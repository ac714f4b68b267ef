"""Maps, programs and links by plain bpf(2), held against what libbpf makes of the same object."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import loader, probes
from agent.errors import BpfError, LoadFailed
from agent.linux import backend, kernelload
from agent.linux.bpf import Map, map_info
from agent.linux.kernelload import MapSpec
from agent.linux.libbpf import map_specs

pytestmark = [pytest.mark.kernel, pytest.mark.root]

RETURNS = struct.pack("=BBhi", 0xB7, 0, 0, 0) + struct.pack("=BBhi", 0x95, 0, 0, 0)  # r0 = 0; exit
DERAILS = struct.pack("=BBhi", 0x95, 0, 0, 0)  # exit, r0 never set


@contextlib.contextmanager
def closing(fd: int) -> Iterator[int]:
    """Give an fd for the length of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.mark.parametrize("name", ["timers", "run_queue", "process_exit"])
def test_maps_are_those_that_libbpf_makes(name: str) -> None:
    """Pins that tier D has the same maps as every other tier: from the object's description, without loading it."""
    found = backend.choose()
    with contextlib.closing(found):
        theirs = {key: map_info(fd) for key, fd in loader.load_object(found, probes.load(name)).maps.items()}
    specs = map_specs(probes.object_path(name))
    assert specs.keys() == theirs.keys()
    for key, spec in specs.items():
        with closing(kernelload.create_map(key, spec)) as fd:
            ours = map_info(fd)
            assert (ours.type, *ours[2:]) == (theirs[key].type, *theirs[key][2:])


def test_a_text_is_constant() -> None:
    """Pins that nobody can change it, which is what the verifier asks of a format."""
    held = Map(kernelload.create_text("format", b"%ps\0"), 1)
    with contextlib.closing(held):
        assert held.lookup(bytes(4)) == b"%ps\0"
        with pytest.raises(BpfError):
            held.update(bytes(4), b"%d\0\0")


def test_a_program_is_attached_for_as_long_as_its_link() -> None:
    """Pins load and attach; that the link can be pinned is pinned by the loader's own tests."""
    with (
        closing(kernelload.load_raw_tracepoint("sched_process_exit_raw", RETURNS)) as program,
        closing(kernelload.attach_raw_tracepoint("sched_process_exit", program)) as link,
    ):
        assert "link_type:\traw_tracepoint" in Path(f"/proc/self/fdinfo/{link}").read_text()


def test_what_the_kernel_refuses_is_told() -> None:
    """Pins the errors: the verifier's last words, a tracepoint that is not there, a map that cannot be."""
    with pytest.raises(LoadFailed, match=r"odd: Permission denied: .*R0 !read_ok"):
        kernelload.load_raw_tracepoint("odd", DERAILS)
    with (
        closing(kernelload.load_raw_tracepoint("odd", RETURNS)) as program,
        pytest.raises(LoadFailed, match="no_such is missing"),
    ):
        kernelload.attach_raw_tracepoint("no_such", program)
    with pytest.raises(LoadFailed, match="map odd: Invalid argument"):
        kernelload.create_map("odd", MapSpec(2, 3, 8, 1, 0))


def test_who_may_not_is_told_what_it_takes() -> None:
    """Pins NotPermitted, with its remedy, for a process without capabilities."""
    code = "from agent.linux import kernelload as k; k.create_map('odd', k.MapSpec(2, 4, 8, 1, 0))"
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "NotPermitted: the kernel refuses bpf(2): map odd: Operation not permitted; run as root or with" in done.stderr
