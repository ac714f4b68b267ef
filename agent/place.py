"""Where this gateway's agent keeps its things, read from the configuration without pydantic and without `agent.config`.

For `agentctl`, which must be quick, and the broker, which must be small. Only `[gateway]` and `[paths]` are looked at;
`agentctl config check` judges the whole file.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from agent import regular
from agent.errors import ConfigError, Problem

DEFAULT_CONFIG = Path("/etc/gatewarden/agent.toml")
_LIMIT = 256 * 1024
_LINE_LIMIT = 4096
_AT_LINE = re.compile(r"line (\d+)")


@dataclass(frozen=True, slots=True)
class Place:
    """The names and folders that agentctl needs to find agentd; the defaults are those of `agent.config`."""

    site: str = "lab"
    name: str = "gw-1"
    state_dir: Path = Path("/var/lib/gatewarden")
    runtime_dir: Path = Path("/run/gatewarden")
    bpffs_dir: Path = Path("/run/gatewarden-bpf")
    btf_path: Path | None = None

    @property
    def control(self) -> Path:
        """The socket on which agentd answers."""
        return self.runtime_dir / "control.sock"

    @property
    def broker(self) -> Path:
        """The socket on which the broker answers."""
        return self.runtime_dir / "broker.sock"

    @property
    def last_status(self) -> Path:
        """Where agentd leaves its status for those who come when it is gone."""
        return self.runtime_dir / "status.json"


def find(config: Path) -> Place:
    """Read `config`; without the default file the defaults hold. Raises ConfigError."""
    return parse(read(config), config)


def read(config: Path) -> bytes:
    """Give the text of `config`, none if it is the default file and absent. Raises ConfigError."""
    try:
        raw = regular.read(config, _LIMIT + 1)
    except FileNotFoundError as error:
        if config == DEFAULT_CONFIG:
            return b""
        raise _fault(config, 0, "file", "does not exist") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise _fault(config, 0, "file", f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(raw) > _LIMIT:
        raise _fault(config, 0, "file", f"is larger than {_LIMIT} bytes")
    return raw


def exposed(config: Path) -> tuple[str, str] | None:
    """Say who else than root may change what `config` says, and the line that ends it; None if nobody may.

    Looked at are the file and every folder above it, before and behind symbolic links. In a sticky folder (/tmp) nobody can
    replace what is root's.
    """
    target = config.resolve()
    for place in dict.fromkeys((config.absolute(), *config.absolute().parents, target, *target.parents)):
        try:
            found = place.lstat()
        except OSError:
            continue
        if found.st_uid != 0:
            return f"{place} belongs to uid {found.st_uid}", f"chown -h root {place}"
        sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        if found.st_mode & 0o022 and not sticky and not stat.S_ISLNK(found.st_mode):
            return f"{place} can be written by others than root (mode {stat.S_IMODE(found.st_mode):04o})", f"chmod go-w {place}"
    return None


def require_trust(config: Path) -> None:
    """As root, refuse a configuration that others may change: its paths say where root mounts, pins and listens.

    Raises ConfigError. An ordinary user follows whichever it likes.
    """
    if os.geteuid() == 0 and (found := exposed(config)):
        raise _fault(config, 0, "file", f"{found[0]}, and root would follow its paths; as root: {found[1]}")


def document(raw: bytes, config: Path) -> dict[str, object]:
    """Read the text of a configuration as a TOML tree of any content. Raises ConfigError."""
    import tomllib  # noqa: PLC0415 - the keeper needs `require_trust` alone, and every MiB of it lasts

    # The time of tomllib grows with the square of a line made of dots.
    if any(len(line) > _LINE_LIMIT for line in raw.split(b"\n")):
        raise _fault(config, 0, "syntax", f"a line has more than {_LINE_LIMIT} bytes")
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        raise _fault(config, int(found[1]) if found else 0, "syntax", str(error)) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise _fault(config, 0, "syntax", "not a TOML document in UTF-8") from error


def parse(raw: bytes, config: Path) -> Place:
    """Read where things are kept from the text of a configuration. Raises ConfigError."""
    tree = document(raw, config)
    blank = Place()
    btf = _text(tree, "bpf", "btf_path", "", config)
    state, runtime, bpffs = (
        Path(_text(tree, "paths", key, str(getattr(blank, key)), config)) for key in ("state_dir", "runtime_dir", "bpffs_dir")
    )
    return Place(
        _text(tree, "gateway", "site", blank.site, config),
        _text(tree, "gateway", "name", blank.name, config),
        state,
        runtime,
        bpffs,
        Path(btf) if btf else None,
    )


def _text(document: dict[str, object], table: str, key: str, default: str, config: Path) -> str:
    section = document.get(table, {})
    value = section.get(key, default) if isinstance(section, dict) else None
    if not isinstance(value, str) or "\0" in value:
        raise _fault(config, 0, f"{table}.{key}", "must be a text (see `agentctl config check`)")
    return value


def _fault(config: Path, line: int, key: str, what: str) -> ConfigError:
    return ConfigError((Problem(str(config), line, key, what),))
