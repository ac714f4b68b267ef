"""Why the machine started last: what witnesses say, what this agent itself left behind, and the ring of boots."""
