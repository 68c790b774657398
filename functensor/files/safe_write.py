"""Files that are written whole or not at all, whenever the writer is stopped.

The bytes go to a temporary file in the same folder, which is brought to the disk and then takes
the place of the old file by one rename. A reader sees the old file or the new one. A writer that
is killed leaves a temporary file behind, which the next writer of that file removes: a lock, which
ends with its process, tells it from one that is still written.
"""

from __future__ import annotations

import glob
import os
import secrets
from collections.abc import Callable
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

__all__ = ["remove_left_over", "synchronize_folder", "write_whole"]


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Puts a new file in the place of an old one, or leaves the old one as it is.

    Args:
        path: where the file is to be.
        write: writes all of it to the path that it is given, which is another one.

    Raises:
        OSError: the folder does not exist, or the disk is full; what ``write`` raises, too.
    """
    path = Path(os.path.realpath(path))
    remove_left_over(path.parent, f".{glob.escape(path.name)}.*.tmp")
    temporary, number = _new_file(path)
    try:
        write(temporary)
        _synchronize(temporary, os.O_RDWR)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if number is not None:
            os.close(number)
    synchronize_folder(path.parent)


def _new_file(path: Path) -> tuple[Path, int | None]:
    """Returns a new empty file beside another one, and its number, by which it is locked."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        number = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        if not HAS_LOCKS:
            # An open file cannot be renamed on Windows.
            os.close(number)
            return temporary, None
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
    if os.name != "nt":
        _synchronize(folder, os.O_RDONLY)


def _synchronize(path: Path, mode: int) -> None:
    """Brings a file or a folder to the disk."""
    number = os.open(path, mode)
    try:
        os.fsync(number)
    finally:
        os.close(number)
