"""The memory that a large library takes beside its data: pages of its file, which are let go again.

Loading LLVM's library touches 35 MB of its code and constants, and compiling as much again. They
count as memory of the process, though the file has them: when they are wanted again, the system
maps them within a millisecond. Nothing else is let go: what the library writes to lies elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["LibraryPages"]

# The head of a file in the format ELF of 64 bits, in the order of bytes of x86-64 and arm64.
ELF_HEAD = b"\x7fELF\x02\x01"
PART_TABLE, PART = struct.Struct("<32xQ14xHH"), struct.Struct("<IIQ")
LOADED, WRITABLE = 1, 2
# Linux: these pages are not needed now.
MADV_DONTNEED = 4


class LibraryPages:
    """The pages of a loaded library that are never written to; none where they cannot be told.

    Attributes:
        ranges: the first address and the number of bytes of each part.
    """

    def __init__(self, path: Path) -> None:
        self.ranges: list[tuple[int, int]] = []
        if sys.platform == "linux":
            # A container may hide what is mapped.
            with suppress(OSError, ValueError, struct.error):
                self.ranges = mapped_parts(path, read_only_parts(path))

    def let_go(self) -> None:
        """Lets the pages go that nobody uses just now; whoever needs them gets them again."""
        if self.ranges:
            advise = ctypes.CDLL(None).madvise
            advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
            for begin, size in self.ranges:
                advise(begin, size, MADV_DONTNEED)


def read_only_parts(path: Path) -> set[int]:
    """Returns where in the file those parts begin that are mapped and never writable.

    Part of what is read-only at last was written to while the library was loaded.
    """
    with open(path, "rb") as file:
        head = file.read(PART_TABLE.size)
        if not head.startswith(ELF_HEAD):
            return set()
        place, size, count = PART_TABLE.unpack(head)
        file.seek(place)
        parts = [PART.unpack_from(file.read(size)) for _ in range(count)]
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        offset // page * page
        for kind, flags, offset in parts
        if kind == LOADED and not flags & WRITABLE
    }


def mapped_parts(path: Path, offsets: set[int]) -> list[tuple[int, int]]:
    """Returns the addresses and sizes of what is mapped of a file from some places on."""
    name, found = os.fsencode(os.path.realpath(path)), []
    with open("/proc/self/maps", "rb") as file:
        for line in file:
            fields = line.rstrip(b"\n").split(None, 5)
            if len(fields) < 6 or fields[5] != name or b"w" in fields[1]:
                continue
            if int(fields[2], 16) in offsets:
                begin, end = (int(x, 16) for x in fields[0].split(b"-"))
                found.append((begin, end - begin))
    return found
