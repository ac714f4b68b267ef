"""The only rooms that touch the machine: system calls, clocks, sockets, child processes, files of /proc and /sys."""
