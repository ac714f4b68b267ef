"""Gatewarden: the agent that keeps an edge video gateway alive.

Package map: `docs/architecture.md`. Import rows are held by `tests/test_house.py`.
"""

__version__ = "0.1.0"
