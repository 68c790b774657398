"""Files that are written whole or not at all, whenever the writer is stopped.

The bytes go to a temporary file in the same folder, which is brought to the disk and then takes
the place of the old file by one rename. A reader sees the old file or the new one. A writer that
is killed leaves a temporary file behind, which the next writer of that file removes: a lock, which
ends with its process, tells it from one that is still written.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # on Windows
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

# Windows would write line ends of its own.
BINARY_MODE: int = getattr(os, "O_BINARY", 0)
# How the name of a temporary file ends, so that no file of the user's is taken for one.
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")

__all__ = ["remove_left_over", "synchronize_folder", "write_whole"]


def write_whole(
    path: Path, write: Callable[[IO[bytes]], None], check: Callable[[Path], None]
) -> None:
    """Puts a new file in the place of an old one, or leaves the old one as it is.

    Args:
        path: where the file is to be; one that is there keeps its permissions.
        write: writes all of it to the open file that it is given, which is another one.
        check: raises if the file at a path is not as it should be.

    Raises:
        OSError: the folder does not exist, the disk is full, or a device, a pipe or a folder is
            at the path.
    """
    path = Path(os.path.realpath(path))
    permissions = _permissions(path)
    remove_left_over(path.parent, f".{glob.escape(path.name)}.*.tmp")
    temporary, number = _new_file(path)
    try:
        try:
            if permissions is not None:
                os.chmod(temporary, permissions)
            with open(number, "wb", closefd=False) as file:
                write(file)
            os.fsync(number)
            check(temporary)
            # The lock is held until the file has its name; Windows renames no open file.
            if HAS_LOCKS:
                os.replace(temporary, path)
        finally:
            os.close(number)
        if not HAS_LOCKS:
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    synchronize_folder(path.parent)


def _permissions(path: Path) -> int | None:
    """Returns the permissions of a file; None if there is none.

    Raises:
        OSError: something else is there, which a file must not take the place of.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode):
        return stat.S_IMODE(mode)
    number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(number, "a folder, a device or a pipe, and no file, is there", str(path))


def _new_file(path: Path) -> tuple[Path, int]:
    """Returns a new empty file beside another one, and its number, by which it is locked."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        number = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY_MODE, 0o666)
        if not HAS_LOCKS:
            return temporary, number
        try:
            fcntl.flock(number, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            return temporary, number
        # Before it was locked, another writer may have taken it for one that was left.
        if os.fstat(number).st_nlink:
            return temporary, number
        os.close(number)


def remove_left_over(folder: Path, pattern: str) -> None:
    """Removes temporary files whose writers have ended.

    Args:
        folder: where they are.
        pattern: how their names look, as in a shell.
    """
    if not HAS_LOCKS:
        return
    for path in folder.glob(pattern):
        if not TEMPORARY.fullmatch(path.name[-21:]):
            continue
        try:
            number = os.open(path, os.O_RDWR)
        except OSError:  # another writer has removed it, or it is another user's
            continue
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except OSError:  # its writer is at work
            continue
        finally:
            os.close(number)


def synchronize_folder(folder: Path) -> None:
    """Brings the names in a folder to the disk; Windows does so by itself."""
    if os.name == "nt":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
