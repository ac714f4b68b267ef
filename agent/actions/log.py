"""`log`: one line in the journal for a finding."""

from __future__ import annotations

from collections.abc import Mapping

from agent.actions._tools import Tools
from agent.model import Data, Decision, Severity, State

_SEVERITIES: Mapping[State, Severity] = {"ok": "info", "unknown": "warning", "degraded": "warning", "critical": "critical"}


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Write it. Raises OSError if nobody takes the line."""
    finding = decision.finding
    fields: Data = {
        "detector": finding.detector,
        "subject": finding.subject,
        "state": finding.state,
        "reason": decision.reason,
        "evidence": ",".join(map(str, finding.evidence)) or "none",
    }
    tools.journal.line(_SEVERITIES[finding.state], finding.summary, fields)
    return "written to the journal", {}
