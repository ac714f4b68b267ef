"""Words in a BPF map, written on the CPUs that a test likes: what `race prove` looks at, without a module or a timer."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from agent.linux.bpf import Map, bpf_command, possible_cpus
from agent.linux.libbpf import Loader

PLAIN, ATOMIC, FLAGS, BALANCE, HOT, SPARE = range(6)
_PROG_TEST_RUN, _ON_CPU, _WORDS = 10, 1, 7


class Target:
    """`target.bpf.c` in the kernel."""

    def __init__(self, folder: Path) -> None:
        """Compile and load it."""
        path = folder / "target.bpf.o"
        include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
        source = Path(__file__).parent / "target.bpf.c"
        subprocess.run(
            ["clang", "-g", "-O2", "-target", "bpf", "-mcpu=v2", include, "-c", str(source), "-o", str(path)], check=True
        )
        self._loader = Loader()
        loaded = self._loader.load_detached(path)
        self._programs = loaded.programs
        self._map = Map(os.dup(loaded.maps["words"]), possible_cpus())
        self.run("locate", 1, 0)
        self._base = struct.unpack_from("=Q", self._read(), 8 * _WORDS)[0]

    def _read(self) -> bytes:
        return self._map.lookup(bytes(4)) or b""

    def value(self, word: int) -> int:
        """Give what a word says."""
        return int(struct.unpack_from("=Q", self._read(), 8 * word)[0])

    def place(self, word: int, length: int = 8) -> str:
        """Give the place of a word as agentctl takes it."""
        return f"{self._base + 8 * word:#x}:{length}"

    def run(self, program: str, times: int, cpu: int) -> None:
        """Run a program once, on that CPU."""
        arguments = ctypes.create_string_buffer(struct.pack("=Q", times), 8)
        head = (self._programs[program], *[0] * 7, 8, 0, ctypes.addressof(arguments), 0, _ON_CPU, cpu)
        bpf_command(_PROG_TEST_RUN, struct.pack("=4I2Q4I2Q2I", *head), program)

    @contextlib.contextmanager
    def writing(self, *jobs: tuple[str, int, int], gap_s: float = 0.0, in_turn: bool = False) -> Iterator[dict[str, int]]:
        """Run jobs (program, times, cpu) over and over meanwhile; gives how often each has written, complete at the end.

        `in_turn`: never two at a time, so that whatever they do is no race.
        """
        over = threading.Event()
        turn = threading.Lock() if in_turn else contextlib.nullcontext()
        written = dict.fromkeys((program for program, _, _ in jobs), 0)

        def work(program: str, times: int, cpu: int) -> None:
            os.sched_setaffinity(0, {cpu})
            while not over.is_set():
                with turn:
                    self.run(program, times, cpu)
                written[program] += times
                time.sleep(gap_s)

        threads = [threading.Thread(target=work, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        try:
            yield written
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def close(self) -> None:
        """Give it back."""
        self._map.close()
        self._loader.close()
