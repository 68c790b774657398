"""Object files on the disk, which later processes take in place of compiling anew, and plans.

Beside them are notes about the machine, and about which plans were quicker than others.

A file is named by a hash of all that its contents follow from, and begins with a checksum. A file
that is damaged or another user's counts as absent, and so does everything where the disk is full or
read-only: the cache only saves time. Files appear under their names when they are complete, so that
any number of processes share a folder.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["CHOSEN_PLANS", "FORMAT", "MACHINE", "PLAN", "ObjectCache", "user_cache"]

# Raised when the same text would be compiled to other code: other passes, another convention.
FORMAT = 2
HEADER = f"functensor object {FORMAT}\n".encode()
DIGEST = 32
OBJECT, PLAN, MACHINE, CHOSEN_PLANS = ".o", ".plan", ".machine", ".chosen"
UNFINISHED = ".part"
LIMIT = 256 * 2**20
# What is left of the limit, once it was exceeded.
KEPT = 0.75
# The number of files that are written between two looks at the folder's size.
WRITES_BETWEEN_LOOKS = 64
# Seconds: after the first of them a use makes a file young again, after the second an unfinished
# file belongs to nobody.
A_DAY, AN_HOUR = 86400.0, 3600.0


class ObjectCache:
    """A folder of object files.

    Args:
        folder: the folder, which is made with the first file; None for a cache that keeps nothing.
        limit: how many bytes its files may have in all. The oldest are dropped.
    """

    def __init__(self, folder: Path | None, limit: int = LIMIT) -> None:
        self.folder = folder
        self.limit = limit
        self._written = 0

    def get(self, key: str, kind: str = OBJECT) -> bytes | None:
        """Returns the object of a key; None if there is none that is whole.

        Args:
            key: what it is kept by.
            kind: the end of the file's name.
        """
        if self.folder is None:
            return None
        path = self.folder / f"{key}{kind}"
        try:
            with open(path, "rb") as file:
                facts = os.fstat(file.fileno())
                if not is_trusted(facts):
                    return None
                contents = file.read()
        except OSError:
            return None
        image = contents[len(HEADER) + DIGEST :]
        if contents[: len(HEADER) + DIGEST] != HEADER + seal_of(key, image):
            return None
        if is_older(facts, A_DAY):
            with suppress(OSError):
                os.utime(path)
        return image

    def put(self, key: str, image: bytes, kind: str = OBJECT) -> None:
        """Keeps an object under a key, if the disk takes it."""
        if self.folder is None:
            return
        # A name that is not there after all, a disk without room, a folder of others.
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._written % WRITES_BETWEEN_LOOKS == 0:
                self.drop_oldest()
            self._written += 1
            self._write(self.folder / f"{key}{kind}", HEADER + seal_of(key, image) + image)

    def _write(self, path: Path, contents: bytes) -> None:
        unfinished = path.with_suffix(f".{os.urandom(8).hex()}{UNFINISHED}")
        try:
            with open(unfinished, "xb", opener=private) as file:
                file.write(contents)
            os.replace(unfinished, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise

    def drop_oldest(self) -> None:
        """Drops the oldest files where all together exceed the limit, and unfinished ones."""
        files = sorted(self._files())
        size = sum(bytes for _, bytes, _ in files)
        if size <= self.limit:
            return
        for _, bytes, path in files:
            if size <= KEPT * self.limit:
                break
            with suppress(OSError):
                os.unlink(path)
                size -= bytes

    def _files(self) -> Iterator[tuple[float, int, str]]:
        """Yields the time, the size and the path of each object."""
        if self.folder is None:
            return
        with suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                # Others may drop it meanwhile.
                with suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    if entry.name.endswith((OBJECT, PLAN, MACHINE, CHOSEN_PLANS)):
                        yield facts.st_mtime, facts.st_size, entry.path
                    elif entry.name.endswith(UNFINISHED) and is_older(facts, AN_HOUR):
                        os.unlink(entry.path)


def seal_of(key: str, image: bytes) -> bytes:
    """Returns what a file under a key begins with: it fits no other key, and no damaged object."""
    from hashlib import sha256  # 10 ms, where OpenSSL is loaded for it

    return sha256(HEADER + key.encode() + image).digest()


def is_trusted(facts: os.stat_result) -> bool:
    """Says whether a file is the user's own or the system's: machine code of others is not run."""
    return not hasattr(os, "geteuid") or facts.st_uid in (os.geteuid(), 0)


def private(path: str, flags: int) -> int:
    """Opens a file that nobody else may read or write."""
    return os.open(path, flags, 0o600)


def is_older(facts: os.stat_result, seconds: float) -> bool:
    """Says whether a file was written longer ago than so many seconds."""
    return time.time() - facts.st_mtime > seconds


def user_cache() -> ObjectCache:
    """Returns the cache in ``FUNCTENSOR_CACHE_DIR``, or in the user's folder of caches.

    An empty variable turns the cache off.
    """
    chosen = os.environ.get("FUNCTENSOR_CACHE_DIR")
    folder = user_folder() if chosen is None else Path(chosen) if chosen.strip() else None
    known = _caches.get(folder)
    return _caches.setdefault(folder, ObjectCache(folder)) if known is None else known


_caches: dict[Path | None, ObjectCache] = {}


def user_folder() -> Path | None:
    """Returns the folder for objects among the user's caches; None for a user without a home."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    # A folder below the one in which a process runs is nobody's cache.
    return base / "functensor" / "objects" if base.is_absolute() else None
