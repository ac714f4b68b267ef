"""Telling: what happened is kept in the outbox, sent over MQTT 5, and shown as OpenMetrics text.

    main loop ── Spool (thread "spool", owns the Outbox) ── Publisher (thread "mqtt", owns the connection)

A slow disk delays commits, a slow broker grows the backlog; neither holds up the main loop, nor each other.
"""
