"""`python -m agent.config FILE`: check a configuration in a process of its own.

Prints the checked configuration as one line of JSON and exits 0, or all problems on stderr and exits 2.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agent.config import check, to_plain
from agent.errors import ConfigError

USAGE = 2


def main(arguments: list[str]) -> int:
    """Run the check of the one file named in `arguments`; gives the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m agent.config FILE\n")
        return USAGE
    try:
        config = check(Path(arguments[0]))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return USAGE
    sys.stdout.write(json.dumps(to_plain(config)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
