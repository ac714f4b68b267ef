"""Every error that Gatewarden raises on purpose.

    GatewardenError
    ├── ConfigError            a file of ours that a person can mend; carries every fault found
    ├── ProbeError             one probe cannot run; carries the reason and a one-line remedy
    │   ├── Unsupported        the kernel lacks what the probe needs
    │   ├── NotPermitted       the kernel has it and refuses this process
    │   └── LoadFailed         the kernel refused the program itself
    ├── BpfError               one bpf(2) call on an existing object failed
    ├── StoreError             state_dir cannot hold what must be kept
    ├── NotRunning             nobody answers on the control socket
    ├── Busy                   somebody listens there, but has no place for this caller now
    ├── Refused                a request that this caller may not make
    ├── BadRequest             a request that is not of the protocol's form
    ├── BitstreamError         video bytes that their standard does not allow, or above a limit of ours
    └── DecoderFailed          one way of decoding did not take a packet, or is gone; carries which of both

Foreign errors (OSError, sqlite3.Error, pydantic.ValidationError, …) are translated once, where they enter, with the
cause chained. "Nothing to see" is not an error, and "unsupported" is not "healthy".
"""

from __future__ import annotations

from dataclasses import dataclass


class GatewardenError(Exception):
    """Base of all errors below; its text is fit to be shown to an operator."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in a configuration file: where it stands, what it is, what would be allowed."""

    path: str
    line: int
    key: str
    what: str
    allowed: str = ""

    def __str__(self) -> str:
        """`FILE:LINE: key: what, allowed`."""
        tail = f", allowed: {self.allowed}" if self.allowed else ""
        return f"{self.path}:{self.line}: {self.key}: {self.what}{tail}"


class ConfigError(GatewardenError):
    """A configuration that cannot be used; `problems` holds all of them, not the first."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        """Keep `problems`; the text is one line for each."""
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class ProbeError(GatewardenError):
    """One probe that cannot run: `reason` says why, `remedy` is one line that would turn it on."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        """Keep both parts; the text holds both, so that it can be passed on as it is."""
        self.reason = reason
        self.remedy = remedy
        super().__init__(f"{reason}; {remedy}" if remedy else reason)


class Unsupported(ProbeError):
    """The running kernel has no such hook, or one of a signature that we do not know."""


class NotPermitted(ProbeError):
    """The kernel supports it; this process lacks a capability, a file mode or an unlocked kernel."""


class LoadFailed(ProbeError):
    """libbpf or the verifier refused the object; the reason ends with the verifier's last words."""


class BpfError(GatewardenError):
    """A bpf(2) command failed; `errno` is the kernel's."""

    def __init__(self, what: str, errno: int) -> None:
        """Keep `errno` beside the text."""
        self.errno = errno
        super().__init__(what)


class StoreError(GatewardenError):
    """What must be durable could not be written or read back."""


class NotRunning(GatewardenError):
    """agentd (or the broker) does not answer on its socket."""


class Busy(GatewardenError):
    """agentd (or the broker) runs and cut this caller off, or did not let it in: others take all its places."""


class Refused(GatewardenError):
    """The caller is not allowed to ask for this."""


class BadRequest(GatewardenError):
    """A request with an unknown verb, a wrong type or too many bytes."""


class BitstreamError(GatewardenError):
    """Video bytes that cannot be what they should be: cut off, out of the standard's range, or larger than we decode."""


class DecoderFailed(GatewardenError):
    """A decoder refused one packet (`final` is False), or cannot go on: it is absent, hangs, or its process has ended."""

    def __init__(self, reason: str, what: str, *, final: bool) -> None:
        """Keep the reason in one word (error, absent, hang, dead) beside the text."""
        self.reason = reason
        self.final = final
        super().__init__(what)
