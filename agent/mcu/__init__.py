"""The lease on the microcontroller, pure: frames (`wire`), their payloads (`messages`), the client (`client`, `ttl`).

docs/mcu.md has the protocol; `firmware_hooks/` is the other end. `agent/watchdogs/mculink.py` joins this and the serial port.
"""
