"""Hooks on kernel functions (tier A): by a kprobe where the kernel has them, else by fentry, else left out and said.

A kprobe costs some 0.1 us more, but its stack is whole: seen from a trampoline (6.1) the function's caller is missing, and who
calls is what these hooks are for.

Which of a hook's functions exists is asked of the kernel's BTF, as their names change (`del_timer` became `timer_delete`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.ports import Hook

KPROBES = Path("/sys/bus/event_source/devices/kprobe")  # there exactly with CONFIG_KPROBE_EVENTS

Programs = Mapping[str, ctypes.c_void_p]


class Functions:
    """The function hooks of one object that is being loaded."""

    def __init__(self, c: Any, hooks: Sequence[Hook], exists: Callable[[str], bool]) -> None:  # ctypes functions
        """Choose the function of each hook; `exists` asks the kernel."""
        self._c = c
        self._hooks = [hook for hook in hooks if hook.functions]
        self._chosen = {hook.tracepoint: next(filter(exists, hook.functions), "") for hook in self._hooks}
        self._kprobes = KPROBES.exists()

    def prepare(self, programs: Programs) -> set[str]:
        """Before the load: name the functions to the fentry programs; gives the programs to load."""
        wanted: set[str] = set()
        for stem, function in self._chosen.items():
            if not function:
                continue
            if self._kprobes:
                wanted.add(f"{stem}_kprobe")
            elif self._c.bpf_program__set_attach_target(programs[f"{stem}_fentry"], 0, function.encode()) == 0:
                wanted.add(f"{stem}_fentry")
        return wanted

    def give_up(self, why: str) -> dict[str, str]:
        """Do without any; gives the reason for each."""
        reasons = {stem: f"function {function or stem}: {why}" for stem, function in self._chosen.items()}
        self._chosen = {}
        return reasons

    def attach(self, programs: Programs, loaded: set[str], left_out: dict[str, str]) -> dict[str, ctypes.c_void_p]:
        """After the load: gives the links by program; what cannot be attached goes to `left_out` with the reason."""
        links: dict[str, ctypes.c_void_p] = {}
        for stem, function in self._chosen.items():
            if not function:
                left_out[stem] = f"function {stem} is missing in this kernel"
                continue
            name = f"{stem}_kprobe" if self._kprobes else f"{stem}_fentry"
            if name not in loaded:
                left_out[stem] = f"function {function} cannot be hooked"
                continue
            if self._kprobes:
                link = self._c.bpf_program__attach_kprobe(programs[name], ctypes.c_bool(False), function.encode())
            else:
                link = self._c.bpf_program__attach(programs[name])
            code = ctypes.get_errno()
            if link:
                links[name] = ctypes.c_void_p(link)
            else:
                left_out[stem] = f"function {function}: {os.strerror(code)}"
        return links
