"""The processor as LLVM knows it, kept on the disk: other processes need no LLVM to know it.

It is kept by what the system says of the processor, and by LLVM's library, and only where the
objects that it names are loaded without LLVM.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from importlib.util import find_spec

from .instruction_sets import InstructionSet
from .object_cache import FORMAT, MACHINE, ObjectCache
from .object_loader import can_load

__all__ = ["keep_machine", "kept_machine", "vector_bytes_in"]

PROCESSOR_FILE = "/proc/cpuinfo"
# What tells one kind of processor from others, of the lines about the first one.
TOLD = frozenset({"cpu family", "flags", "model", "model name", "stepping", "vendor_id"})
LINES_OF_PROCESSOR = 64
# What LLVM says begins with so many lines of versions. What the processor can do comes next.
LINES_OF_VERSIONS = 3


@cache
def told_machine() -> str:
    """Returns what the system says; empty where that is too little."""
    spec = find_spec("llvmlite")
    if not can_load() or spec is None:
        return ""
    facts = [str(FORMAT)]
    for folder in spec.submodule_search_locations or ():
        path = os.path.join(folder, "binding", "libllvmlite.so")
        with suppress(OSError):
            known = os.stat(path)
            facts.append(f"{path} {known.st_size} {known.st_mtime_ns}")
    told = processor_lines()
    return "\n".join([*facts, *told]) if len(facts) > 1 and len(told) == len(TOLD) else ""


def processor_lines() -> list[str]:
    """Returns the lines that tell the kind of the processor; none where the system has others."""
    found = []
    with suppress(OSError), open(PROCESSOR_FILE, encoding="utf-8", errors="replace") as file:
        for _, line in zip(range(LINES_OF_PROCESSOR), file):
            if not line.strip():
                break
            if line.partition(":")[0].strip() in TOLD:
                found.append(line)
    return found


def name_of_machine() -> str:
    """Returns what it is kept by."""
    from hashlib import sha256  # 10 ms, where OpenSSL is loaded for it

    return sha256(told_machine().encode()).hexdigest()


def kept_machine(cache: ObjectCache) -> str:
    """Returns what LLVM has said to an earlier process; empty where that is not known."""
    contents = cache.get(name_of_machine(), MACHINE) if told_machine() else None
    return "" if contents is None else contents.decode()


def keep_machine(cache: ObjectCache, said: str) -> None:
    """Keeps what LLVM says."""
    if told_machine() and kept_machine(cache) != said:
        cache.put(name_of_machine(), said.encode(), MACHINE)


def vector_bytes_in(said: str) -> int:
    """Returns the size of a vector register, by what LLVM has said."""
    return int(said.split("\n")[LINES_OF_VERSIONS + InstructionSet._fields.index("vector_bytes")])
