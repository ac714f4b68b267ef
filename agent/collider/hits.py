"""One trapped write, as `bpf/tools/collider.bpf.c` records it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from agent.layout import Layout

HIT = Layout("collider_hit", "t_ns:Q ip:Q value:Q before:Q after:Q slot:I cpu:I pid:I stack:i comm:16s regs:21Q")
# struct pt_regs of x86-64 (arch/x86/include/uapi/asm/ptrace.h), in its order.
REGISTERS = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
    *("orig_rax", "rip", "cs", "eflags", "rsp", "ss"),
)
_INDEX = {name: index for index, name in enumerate(REGISTERS)}


@dataclass(frozen=True, slots=True)
class Hit:
    """A write that was done just before `ip`.

    `t_ns` is monotonic. `value` was read at a moment when between `before` and `after` writes of the window were counted; every
    other CPU may have done one more that was not counted yet.
    """

    t_ns: int
    ip: int
    value: int
    before: int
    after: int
    cpu: int
    pid: int
    stack: int
    comm: str
    regs: tuple[int, ...]

    def register(self, name: str) -> int:
        """Give a 64-bit register as the write left it."""
        return self.regs[_INDEX[name]]


def read(records: Iterable[bytes], slot: int) -> tuple[Hit, ...]:
    """Give the hits of one spot, in the order of the monotonic clock. Raises ValueError on a record that is too short."""
    rows = [row for row in map(HIT.unpack, records) if row.pop("slot") == slot]
    return tuple(sorted((Hit(**cast("dict[str, Any]", row)) for row in rows), key=lambda hit: hit.t_ns))
