"""`python -m tests.media [NAME ...]`: make the streams of these names, or all, in build/media."""

from __future__ import annotations

import sys

from tests.media import making
from tests.media.recipes import RECIPES

for name in sys.argv[1:] or RECIPES:
    made = making.path(name)
    print(f"{made.relative_to(making.BUILD.parents[1])}  {made.stat().st_size:,} bytes")
