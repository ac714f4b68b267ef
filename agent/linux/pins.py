"""The bpffs that holds the probes between `agentctl probes load` and `probes unload`.

Layout: `<bpffs_dir>/<probe>-<hash>/{<map>, link_<program>, prog_<program>}`, where `<hash>` is that of the compiled object:
the same object finds its folder and is left alone; another one is loaded beside it before the old is removed. Modes: folders
0750, maps 0640, those that agentd writes 0660, programs 0640 (their fdinfo counts misses), links 0600; all root:gatewarden.
Programs attached as raw_tp are 0600: BPF_PROG_TEST_RUN would run them, for whoever can open them, on arguments of his choice.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import grp
import hashlib
import os
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.errors import BpfError, NotPermitted
from agent.linux import programs
from agent.linux.attached import RING
from agent.linux.bpf import bpf_command
from agent.linux.loaded import Loaded

_OBJ_PIN = 6
_BPF_FS_MAGIC = 0xCAFE4A11  # include/uapi/linux/magic.h
_HASH_DIGITS = 12
_GROUP = "gatewarden"
_libc = ctypes.CDLL(None, use_errno=True)


def object_hash(path: Path) -> str:
    """Give the name part that stands for the content of a compiled object."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:_HASH_DIGITS]


def folder_of(bpffs: Path, probe: str, path: Path) -> Path:
    """Give where the object `path` of `probe` is pinned, whether it is there or not."""
    return bpffs / f"{probe}-{object_hash(path)}"


def is_bpffs(path: Path) -> bool:
    """Whether a bpffs is mounted at (or around) `path`."""
    block = ctypes.create_string_buffer(256)  # struct statfs begins with __fsword_t f_type
    if _libc.statfs(str(path).encode(), block) != 0:
        return False
    return int(struct.unpack_from("=l", block.raw)[0]) & 0xFFFFFFFF == _BPF_FS_MAGIC


def group_id() -> int:
    """Give the gid of group gatewarden. Raises NotPermitted without it: pins of group root would be of use to nobody."""
    try:
        return grp.getgrnam(_GROUP).gr_gid
    except KeyError as error:
        remedy = f"make the users first, as root: {programs.add_users([_GROUP])}"
        raise NotPermitted(f"group {_GROUP} does not exist, which shall read what is pinned", remedy) from error


def prepare(bpffs: Path) -> bool:
    """Make sure that a bpffs is at `bpffs`, root:gatewarden 0750; True if it was mounted here.

    Raises NotPermitted, naming the line to run, where this process may not mount.
    """
    mounted, gid = False, group_id()
    try:
        bpffs.mkdir(mode=0o750, parents=True, exist_ok=True)
        if not is_bpffs(bpffs):
            if any(bpffs.iterdir()):
                raise NotPermitted(
                    f"{bpffs} holds files, which a mount would hide", "give [paths] bpffs_dir a folder of its own"
                )
            _mount(bpffs)
            mounted = True
        os.chown(bpffs, 0, gid)
        bpffs.chmod(0o750)
    except OSError as error:
        remedy = f"mount -t bpf bpf {bpffs} && chown root:{_GROUP} {bpffs} && chmod 0750 {bpffs}"
        raise NotPermitted(f"no bpffs at {bpffs}: {error.strerror}", remedy) from error
    return mounted


def _mount(bpffs: Path) -> None:
    if _libc.mount(b"bpf", str(bpffs).encode(), b"bpf", 0, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def unmount(bpffs: Path) -> None:
    """Unmount the bpffs at `bpffs`; one that is busy stays."""
    _libc.umount2(str(bpffs).encode(), 0)


def _pin(fd: int, path: Path, mode: int, gid: int) -> None:
    name = ctypes.create_string_buffer(str(path).encode())
    bpf_command(_OBJ_PIN, struct.pack("=QII", ctypes.addressof(name), fd, 0), f"pin {path}")
    os.chown(path, 0, gid)
    path.chmod(mode)


def pin(folder: Path, loaded: Loaded, steered: Collection[str]) -> None:
    """Pin everything of `loaded` in `folder`, whole or not at all. `steered` are the maps, besides ctl, that agentd writes.

    The folder gets its final name last, so that a loader killed half-way leaves nothing that looks loaded.
    """
    gid = group_id()
    draft = folder.with_name(f"{folder.name}_draft{os.getpid()}")
    remove(draft)
    draft.mkdir(mode=0o750)
    try:
        for name, fd in loaded.maps.items():
            _pin(fd, draft / name, 0o660 if name in {"ctl", RING, *steered} else 0o640, gid)
        for name, fd in loaded.programs.items():
            _pin(fd, draft / f"prog_{name}", 0o640 if loaded.attach == "tp_btf" else 0o600, gid)
        for name, fd in loaded.links.items():
            _pin(fd, draft / f"link_{name}", 0o600, gid)
        os.chown(draft, 0, gid)
        draft.rename(folder)
    except (OSError, BpfError):
        remove(draft)
        raise


def remove(folder: Path) -> None:
    """Unpin everything in `folder`; links go first, so that no program runs on maps that are half gone."""
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(folder.iterdir(), key=lambda path: not path.name.startswith("link_")):
            path.unlink()
        folder.rmdir()


def loaded_folders(bpffs: Path) -> list[Path]:
    """Give the folders of all pinned objects, drafts included. Raises NotPermitted if they cannot be listed."""
    try:
        return sorted(path for path in bpffs.iterdir() if path.is_dir()) if is_bpffs(bpffs) else []
    except OSError as error:
        if error.errno == errno.ENOENT:
            return []
        raise NotPermitted(f"{bpffs}: {error.strerror}", "run as root or as a member of group gatewarden") from error


def place_of(folder: Path) -> tuple[Path, int]:
    """Give `folder` and its inode, 0 if it is gone: another inode under the same name is another load."""
    try:
        return folder, folder.stat().st_ino
    except OSError:
        return folder, 0


@contextmanager
def loading(bpffs: Path) -> Iterator[None]:
    """Be the only loader at work on `bpffs` for the length of the block; another one waits. Raises NotPermitted."""
    path = bpffs.with_name(f"{bpffs.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NotPermitted(f"{path}: {error.strerror}", "run as root") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


class Lock:
    """Held by the one agentd that reads the rings in a bpffs: two would take each other's records."""

    def __init__(self, bpffs: Path) -> None:
        """Take the lock (flock(2) on the folder itself). Raises NotPermitted if another agentd has it."""
        try:
            self._fd = os.open(bpffs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise NotPermitted(f"{bpffs}: {error.strerror}", "run as root or as a member of group gatewarden") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            remedy = "give each agent a bpffs_dir of its own"
            raise NotPermitted(f"another agentd reads the probes in {bpffs}", remedy) from error

    def close(self) -> None:
        """Give it up."""
        os.close(self._fd)
