"""The whole, checked configuration, for the verbs that need it (pydantic comes in here: some 100 ms)."""

from __future__ import annotations

from collections.abc import Sequence

from agent import config
from agent.commands._call import Call
from agent.config import Config
from agent.model import Data
from agent.place import DEFAULT_CONFIG


def of(call: Call, probes: Sequence[str] = ()) -> Config:
    """Check `--config`; without the default file its defaults hold. `probes` replace what it enables. Raises ConfigError."""
    missing = call.config == DEFAULT_CONFIG and not call.config.exists()
    settings = config.from_plain({}) if missing else config.check(call.config)
    if not probes:
        return settings
    plain = config.to_plain(settings)
    section = plain["probes"]
    chosen: Data = (section if isinstance(section, dict) else {}) | {"enabled": list(probes)}
    return config.from_plain(plain | {"probes": chosen})
