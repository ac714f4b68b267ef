"""What a loader hands on; apart from `libbpf.py` so that agentd never maps libbpf."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass(slots=True)
class Loaded:
    """An attached object: fds by map name and by program name, and what could not be attached."""

    maps: dict[str, int]
    programs: dict[str, int]
    links: dict[str, int]
    attach: str  # "tp_btf" or "raw_tp"
    left_out: dict[str, str] = field(default_factory=dict)

    def duplicated(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Give `(maps, programs, links)` with fds of the caller's own: libbpf closes its own when the object goes."""
        groups = (self.maps, self.programs, self.links)
        maps, programs, links = ({name: os.dup(fd) for name, fd in group.items()} for group in groups)
        return maps, programs, links
