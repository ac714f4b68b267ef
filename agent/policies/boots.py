"""boots: a machine that boots again and again is left alone for a while (safe mode), so that somebody can mend it.

    3 boots in a row that lasted less than 10 min (one that an operator ordered counts not) ──► safe mode
    safe mode ── 30 min, doubled each time in a row, at most a day ──► all is tried again ── a boot of 10 min ──► forgotten

Safe mode is watchdog + telemetry + CLI: the workloads are stopped by order, and the ladder decides nothing. Power cuts count: a
supply that fails under load makes boot loops, too, and without the load the box can at least tell of it.
"""

from __future__ import annotations

from agent.looping import Life, Lives, Rule, restored
from agent.model import Data, Json
from agent.policies import _kept

IN_A_ROW, STABLE_S = 3, 600.0
RULE = Rule(IN_A_ROW + 1, 3600.0, IN_A_ROW, STABLE_S)
SAFE_S, SAFE_MOST_S, DOUBLINGS = 1800.0, 86400.0, 8
ORDERED = frozenset({"operator_reboot"})


class Boots:
    """Pure. Time is how long the machine is up, in seconds."""

    def __init__(self) -> None:
        """Remember nothing; `restore`, then `begin`."""
        self._lives = Lives(RULE)
        self._boot_id = self._version = ""
        self._up_s = 0.0
        self._loops = 0
        self._why = ""

    def begin(self, boot_id: str, cause: str, version: str, uptime_s: float) -> None:
        """Take note of this boot, and of the `cause` (of `status.last_reset`) that ended the one before it.

        agentd that was only started anew in the same boot goes on with what it knew.
        """
        if boot_id != self._boot_id:
            if self._boot_id and cause not in ORDERED:
                worked_s = max(0.0, self._up_s - self._safe_s()) if self._why else self._up_s  # safe mode proves nothing
                self._lives.ended(Life(self._boot_id, worked_s, cause, self._version))
            self._boot_id, self._version, self._why = boot_id, version, self._lives.loop()
            self._loops = min(self._loops + 1, DOUBLINGS) if self._why else self._loops
        self._up_s = uptime_s

    def tick(self, uptime_s: float) -> bool:
        """Let time pass; gives whether there is something to be written: this boot is stable now, or safe mode ended."""
        before, self._up_s = self._up_s, max(self._up_s, uptime_s)
        limit_s = self._safe_s() + STABLE_S if self._why else STABLE_S
        if self._up_s >= limit_s and (self._lives.ring or self._loops):
            self._lives.stable()
            self._loops, self._why = 0, ""
            return True
        return bool(self._why) and before < self._safe_s() <= self._up_s

    def safe(self, uptime_s: float) -> str:
        """Give why this machine is in safe mode, and for how long; empty if it is not."""
        left_s = self._safe_s() - uptime_s
        if not self._why or left_s <= 0:
            return ""
        return f"boot loop: {self._why}; the workloads are tried again in {max(1, round(left_s / 60))} min"

    def plain(self, now_ns: int) -> Data:  # noqa: ARG002 - boots are dated by how long they lasted
        """Give what is to be kept."""
        now: Data = {"boot_id": self._boot_id, "version": self._version, "uptime_s": round(self._up_s, 1), "why": self._why}
        return {"schema": 1, "boots": self._lives.plain(), "loops": self._loops, "now": now}

    def restore(self, data: Json, now_ns: int) -> None:  # noqa: ARG002
        """Take back what `plain` gave. Raises StoreError if it is not of that form."""
        kept = _kept.row(data)
        _kept.whole(kept.get("schema"), 1, 1)
        now, loops, lives = (
            _kept.row(kept.get("now")),
            _kept.whole(kept.get("loops"), 0, DOUBLINGS),
            restored(kept.get("boots")),
        )
        words = [_kept.text(now, key)[:200] for key in ("boot_id", "version", "why")]
        self._up_s = _kept.seconds(now, "uptime_s")
        self._boot_id, self._version, self._why = words
        self._lives, self._loops = Lives(RULE, lives), loops

    def _safe_s(self) -> float:
        return min(SAFE_S * (1 << max(0, self._loops - 1)), SAFE_MOST_S)
