"""What BCC compiles for one probe, and what its compiler says: text in, text out.

The probes' own sources are included; BCC takes its entry points from the main text alone, so those are written here, each
behind the check that the tracepoint has one of the signatures that the probe was written for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agent.ports import Hook

_PLAIN = re.compile(r"(?:void|bool|char|int|\w+_t|(?:long |short )?(?:unsigned|signed) (?:int|char)|long int|long long.*)")
_UNKNOWN = "has an unknown signature"
# The assertion's own words name what register_trace_<tracepoint>() takes first, then what we asked for.
_ASSERTED = re.compile(
    rf'error: static.assert\w* failed(?:.*?\(\*\)\(void \*, ([^()]*)\), void \*\))?.*?"?(tracepoint \w+) {_UNKNOWN}'
)
_MISSING = re.compile(r"error: use of undeclared identifier 'register_trace_(\w+)'")
_ERROR = re.compile(r"^.*?([\w.-]+:\d+):\d+: (?:fatal )?error: (.*)$", re.MULTILINE)
_WORDS = 300


def c_type(parameter: str) -> str:
    """Give the C type of one parameter of a signature, in which BTF leaves out `struct` and `enum` (`ports.Hook`)."""
    base, stars, _ = parameter.partition(" *")
    if not _PLAIN.fullmatch(base):
        base = f"{'struct' if stars else 'enum'} {base}"
    return f"{base}{parameter[len(parameter.partition(' *')[0]) :]}"


def main_text(source: str, hooks: Sequence[Hook]) -> str:
    """Give the text to compile: `source` (a file name) included, and the program `<tracepoint>_raw` of each hook."""
    return "\n".join([f'#include "{source}"', *(_program(hook) for hook in hooks), ""])


def _program(hook: Hook) -> str:
    name = hook.tracepoint
    known = " || ".join(
        f"GW_HAS_ARGUMENTS({name}, void (*)({', '.join(['void *', *map(c_type, signature.split(', '))])}))"
        for signature in hook.signatures
    )
    return (
        f'_Static_assert({known}, "tracepoint {name} {_UNKNOWN}");\n'
        f"int {name}_raw(__u64 *ctx) {{ return {name}_run(ctx, false); }}"
    )


def flags(folder: str, maps: Mapping[str, int]) -> list[str]:
    """Give the compiler's arguments: where the sources lie, and the fd of each map. Warnings of kernel headers are nobody's."""
    return ["-DGW_BCC", "-w", f"-I{folder}", *(f"-DGW_FD_{name}={fd}" for name, fd in maps.items())]


def reason(diagnostics: str) -> str:
    """Give why a compilation failed, in one line: the first error of what the compiler said; empty if it said nothing."""
    if found := _MISSING.search(diagnostics):
        return f"tracepoint {found[1]} is missing in this kernel's headers"
    if found := _ASSERTED.search(diagnostics):
        return f"{found[2]} {_UNKNOWN} ({found[1]})"[:_WORDS]
    if found := _ERROR.search(diagnostics):
        return f"{found[1]}: {found[2]}"[:_WORDS]
    return " ".join(diagnostics.split())[-_WORDS:]
