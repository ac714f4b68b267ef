"""Where the threads of a process stand: state, what each waits for, its system call, its kernel stack; as far as this user may.

Read are the files of /proc/PID/task/TID that answer without waiting whatever the process is doing; `cmdline`, `maps` and
`environ` are not among them: they wait for the address space's lock, which a process that hangs may hold. Formats: proc(5).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agent.linux import procfs
from agent.model import Data, Json

PROCESSES, THREADS = 32, 64  # of one capture: of a workload, of a process
TASKS = 256  # whose waits are added up
_FILES = ("wchan", "syscall", "stack")
_FIELDS = ("State", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")


def read(pid: int, root: Path = procfs.ROOT) -> Json:
    """Give the process `pid` and its descendants, each with its threads; what was not allowed says so in its place."""
    return [_process(one, root) for one in family(pid, root)]


def family(pid: int, root: Path = procfs.ROOT) -> list[int]:
    """Give `pid` and its descendants, nearest first, at most `PROCESSES`."""
    children: dict[int, list[int]] = {}
    for folder in (root / "proc").iterdir():
        # the fields behind the comm, which may hold anything but ends at the last `)`: state, parent …
        fields = (procfs.read(folder / "stat") or "").rpartition(")")[2].split() if folder.name.isdecimal() else []
        if len(fields) > 1 and fields[1].isdecimal():
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found = [pid]
    for one in found:  # grows meanwhile
        found += [child for child in sorted(children.get(one, [])) if child not in found]
        if len(found) >= PROCESSES:
            break
    return found[:PROCESSES]


def waits(pid: int, root: Path = procfs.ROOT) -> tuple[float, float] | None:
    """Give (waited for a CPU, had one) in µs, of `pid` and its descendants; None if it is gone or the kernel does not say.

    The threads of all count, at most `TASKS`: what works may stand behind a shell.
    """
    tasks = (root / f"proc/{one}/task/{tid}/schedstat" for one in _tree(pid, root) for tid in _tids(one, root))
    times = [found for path in islice(tasks, TASKS) if (found := _schedstat(path))]
    return (sum(wait for _run, wait in times) / 1e3, sum(run for run, _wait in times) / 1e3) if times else None


def _tree(pid: int, root: Path) -> list[int]:
    """Give `pid` and its descendants as `family` does; where the kernel lists children, no other process is looked at."""
    if not (root / f"proc/{pid}/task/{pid}/children").exists():  # CONFIG_PROC_CHILDREN is off
        return family(pid, root)
    found = [pid]
    for one in found:  # grows meanwhile
        lists = (
            (procfs.read(root / f"proc/{one}/task/{tid}/children") or "").split() for tid in islice(_tids(one, root), TASKS)
        )
        found += [int(child) for listed in lists for child in listed if child.isdecimal() and int(child) not in found]
        if len(found) >= PROCESSES:
            break
    return found[:PROCESSES]


def _schedstat(path: Path) -> tuple[int, int] | None:
    fields = (procfs.read(path) or "").split()
    return (int(fields[0]), int(fields[1])) if len(fields) == 3 and all(map(str.isdecimal, fields)) else None


def _process(pid: int, root: Path) -> Data:
    tids = list(_tids(pid, root))
    threads: list[Json] = [_thread(root / f"proc/{pid}/task/{tid}", tid) for tid in tids[:THREADS]]
    return {"pid": pid, "threads": threads, "threads_left_out": max(0, len(tids) - THREADS)}


def _thread(folder: Path, tid: int) -> Data:
    status = dict(line.split(":\t", 1) for line in (procfs.read(folder / "status") or "").splitlines() if ":\t" in line)
    found: Data = {"tid": tid, "comm": (procfs.read(folder / "comm") or "").rstrip("\n")}
    found |= {field: status[field].strip() for field in _FIELDS if field in status}
    return found | {name: _text(folder / name) for name in _FILES}


def _text(path: Path) -> Json:
    """Give a file's text, a stack as its lines; a refusal in words."""
    try:
        text = path.read_text(errors="backslashreplace").strip()
    except OSError as error:
        return f"{'not allowed' if isinstance(error, PermissionError) else 'not readable'}: {error.strerror}"
    return list[Json](text.splitlines()) if path.name == "stack" else text


def _tids(pid: int, root: Path) -> Iterator[int]:
    try:
        yield from sorted(int(path.name) for path in (root / f"proc/{pid}/task").iterdir() if path.name.isdecimal())
    except OSError:
        return
