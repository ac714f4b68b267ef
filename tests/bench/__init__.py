"""The budgets of the design, measured on this machine: `make bench`, or `python -m tests.bench --help`.

A family is one module with `TITLE`, `NEEDS` (markers of tests/conftest.py), `ROWS` (names of its rows) and `seconds(quick)` and
`measure(plan)`. A benchmark passes no judgement on the build: the table says what was measured, and beside what.
"""
