"""Fixtures of the live tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel import live


@pytest.fixture(scope="session")
def delay_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the compiled fault injector."""
    return live.compiled_object(tmp_path_factory.mktemp("delay"), "delay")


@pytest.fixture
def last_cpu() -> Iterator[int]:
    """Give the last CPU that we may use; whatever the test pins itself to is undone."""
    allowed = os.sched_getaffinity(0)
    yield max(allowed)
    os.sched_setaffinity(0, allowed)
