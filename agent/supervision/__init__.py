"""Workloads in agentd: what their parents tell, what the ladder does about it, what is kept of that over restarts."""
