"""Loads object files without LLVM: on Linux on x86-64, those that LLVM has made earlier.

LLVM's library takes tens of milliseconds and of megabytes, though nothing is left to compile. An
object of kernels has a few sections, and places in them where distances are entered. What else an
object may have is left to LLVM.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from ..processor import IS_X86_64

__all__ = ["NotLoaded", "can_load", "free", "loaded_object"]

# Numbers of the ELF format for x86-64.
ELF_HEADER, SECTION = Struct("<16sHHIQQQIHHHHHH"), Struct("<IIQQQQIIQQ")
SYMBOL, RELOCATION_ENTRY = Struct("<IBBHQQ"), Struct("<QQq")
BEGINNING, RELOCATABLE, X86_64 = b"\x7fELF\x02\x01\x01", 1, 62
BITS, SYMBOL_TABLE, RELOCATIONS, EMPTY = 1, 2, 4, 8
MAY_BE_WRITTEN, ALLOCATED, UNDEFINED = 1, 2, 0
RELATIVE_32, CALL_32 = 2, 4
# A jump to the address behind it, which may be further away than a call reaches.
JUMP = b"\xff\x25\x00\x00\x00\x00"
JUMP_BYTES, DISTANCE_BYTES = 16, 4
PAGE = 4096
READ, WRITE, RUN, PRIVATE, ANONYMOUS = 1, 2, 4, 0x02, 0x20


class NotLoaded(Exception):
    """An object has what only LLVM links, or the system lets nobody run it."""


class Section(NamedTuple):
    """A section of an object file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class ProcessEnd:
    """The end of the process, which frees all code by itself: threads may still be in it."""

    ended = False


@cache
def can_load() -> bool:
    """Says whether objects are loaded here."""
    return sys.platform == "linux" and IS_X86_64 and sys.maxsize > 2**32


@cache
def memory_calls() -> Any:
    """Returns the C library, with what memory is mapped by."""
    library = ctypes.CDLL(None, use_errno=True)
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    library.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_long]
    library.mmap.restype = pointer
    library.mprotect.argtypes = [pointer, size, number]
    library.munmap.argtypes = [pointer, size]
    return library


def loaded_object(
    image: bytes, names: Sequence[str], address_of: Callable[[str], int]
) -> tuple[dict[str, int], tuple[int, int]]:
    """Returns the addresses of functions of an object file, and the memory that they lie in.

    Args:
        image: the object file.
        names: the functions that are asked for.
        address_of: returns the address of a function that the object calls, 0 if there is none.

    Returns:
        The addresses by the names; and the address and the size of memory, for `free`.

    Raises:
        NotLoaded: it is not loaded in this way.
    """
    if not can_load():
        raise NotLoaded("another system")
    try:
        object_file = ObjectFile(image)
        size = object_file.laid_out(address_of)
        contents = object_file.written(size)
        places = {name: object_file.places[name] for name in names}
    # It is no such file.
    except (ValueError, KeyError, IndexError, OverflowError, StructError) as error:
        raise NotLoaded(repr(error)) from None
    address = mapped_memory(contents)
    return {name: address + place for name, place in places.items()}, (address, size)


def mapped_memory(contents: bytes) -> int:
    """Returns the address of new memory with some contents, which may be run.

    Raises:
        NotLoaded: the system has none.
    """
    size = len(contents)
    address = memory_calls().mmap(None, size, READ | WRITE, PRIVATE | ANONYMOUS, -1, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise NotLoaded("no memory")
    ctypes.memmove(address, contents, size)
    if memory_calls().mprotect(address, size, READ | RUN):
        free(address, size)
        raise NotLoaded("memory cannot be run")
    return int(address)


def free(address: int, size: int) -> None:
    """Frees the memory of code that nobody uses any more."""
    if not ProcessEnd.ended:
        memory_calls().munmap(address, size)


def end_of_process() -> None:
    """Frees nothing any more."""
    ProcessEnd.ended = True


atexit.register(end_of_process)


class ObjectFile:
    """An object file in the ELF format.

    Attributes:
        places: where its own functions are in the memory, by their names.

    Raises:
        NotLoaded: it is another one.
    """

    def __init__(self, image: bytes) -> None:
        self.image = image
        if not image.startswith(BEGINNING) or len(image) < ELF_HEADER.size:
            raise NotLoaded("another format")
        _, kind, machine, *_, begin, _, _, _, _, _, count, _ = ELF_HEADER.unpack_from(image)
        if (kind, machine) != (RELOCATABLE, X86_64):
            raise NotLoaded("for another processor")
        if begin + count * SECTION.size > len(image):
            raise NotLoaded("a part of a file")
        places = range(begin, begin + count * SECTION.size, SECTION.size)
        self.sections = [Section(*SECTION.unpack_from(image, place)) for place in places]
        self.symbols = self._symbols()
        self.relocations = self._relocations()
        self.places: dict[str, int] = {}
        # Where sections and jumps lie in the memory.
        self._begins: dict[int, int] = {}
        self._jumps: dict[str, tuple[int, int]] = {}

    def _symbols(self) -> list[tuple[str, int, int]]:
        """Returns the name, the section and the place in it of each symbol."""
        tables = [section for section in self.sections if section.kind == SYMBOL_TABLE]
        if len(tables) != 1:
            raise NotLoaded("no symbols")
        (table,) = tables
        names = self.sections[table.link]
        found = []
        for name, _, _, section, value, _ in SYMBOL.iter_unpack(self._contents(table)):
            begin = names.offset + name
            text = self.image[begin : self.image.index(b"\0", begin)].decode()
            found.append((text, section, value))
        return found

    def _relocations(self) -> list[tuple[int, int, int, int, int]]:
        """Returns for each relocation the section, the place, the kind, the symbol and a number."""
        found = []
        for section in self.sections:
            if section.kind == RELOCATIONS and self._is_wanted(section.info):
                for place, info, add in RELOCATION_ENTRY.iter_unpack(self._contents(section)):
                    kind, symbol = info & 0xFFFFFFFF, info >> 32
                    if kind not in (RELATIVE_32, CALL_32):
                        raise NotLoaded(f"a relocation of kind {kind}")
                    found.append((section.info, place, kind, symbol, add))
        return found

    def _contents(self, section: Section) -> bytes:
        contents = self.image[section.offset : section.offset + section.size]
        if len(contents) != section.size:
            raise NotLoaded("a part of a file")
        return contents

    def _is_wanted(self, number: int) -> bool:
        """Says whether a section is code or constants; nobody unwinds the stack of kernels."""
        section = self.sections[number]
        if not section.flags & ALLOCATED or not section.size:
            return False
        if section.kind == EMPTY or (section.kind == BITS and section.flags & MAY_BE_WRITTEN):
            raise NotLoaded("variables")
        return section.kind == BITS

    def laid_out(self, address_of: Callable[[str], int]) -> int:
        """Finds places for all in one piece of memory; returns its size."""
        end = 0
        for number, section in enumerate(self.sections):
            if self._is_wanted(number):
                end = aligned(end, max(section.alignment, 1))
                self._begins[number] = end
                end += section.size
        for name, section_number, value in self.symbols:
            if section_number in self._begins:
                self.places[name] = self._begins[section_number] + value
        end = aligned(end, JUMP_BYTES)
        for _, _, kind, symbol, _ in self.relocations:
            name, section_number, _ = self.symbols[symbol]
            if section_number == UNDEFINED and name not in self._jumps:
                address = address_of(name) if kind == CALL_32 else 0
                if not address:
                    raise NotLoaded(f"no {name}")
                self._jumps[name] = end, address
                end += JUMP_BYTES
            elif section_number != UNDEFINED and section_number not in self._begins:
                raise NotLoaded("a place outside of code and constants")
        return aligned(max(end, 1), PAGE)

    def written(self, size: int) -> bytes:
        """Returns the contents of the memory; wherever it lies they are the same."""
        memory = bytearray(size)
        for number, begin in self._begins.items():
            contents = self._contents(self.sections[number])
            memory[begin : begin + len(contents)] = contents
        for place, target in self._jumps.values():
            jump = JUMP + target.to_bytes(8, "little")
            memory[place : place + len(jump)] = jump
        for number, offset, _, symbol, add in self.relocations:
            name, section_number, value = self.symbols[symbol]
            place = self._begins[number] + offset
            if section_number == UNDEFINED:
                to = self._jumps[name][0] + add
            else:
                to = self._begins[section_number] + value + add
            if place + DISTANCE_BYTES > self._begins[number] + self.sections[number].size:
                raise NotLoaded("a place behind a section")
            distance = (to - place).to_bytes(DISTANCE_BYTES, "little", signed=True)
            memory[place : place + DISTANCE_BYTES] = distance
        return bytes(memory)


def aligned(place: int, alignment: int) -> int:
    """Returns the next place of an alignment."""
    return -(-place // alignment) * alignment
