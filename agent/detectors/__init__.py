"""Detectors: events in, findings out. An open set: one file each, its stem the name in `[detectors]`.

A file has `Options` (its section of agent.toml), `KINDS` (the event kinds that it looks at; it passes over all others) and
`make(options) -> Detector`.
"""
