"""PyAV, which is FFmpeg's libraries: an extra, imported only when video is read."""

from __future__ import annotations

import importlib
from typing import Any

from agent.errors import Unsupported


def library() -> Any:
    """Give the module. Raises Unsupported where it is not installed."""
    try:
        return importlib.import_module("av")
    except ImportError as error:
        raise Unsupported("video cannot be read: PyAV is missing", "pip install 'gatewarden[video]'") from error
