"""Tells what objects of three formats ask of the process that links them."""

import struct
from typing import NamedTuple

__all__ = ["Needs", "needs_of"]

ELF_SYMBOLS, ELF_RELOCATIONS = 2, 4
MACH_SEGMENT, MACH_SYMBOLS = 0x19, 2
# In Mach-O a symbol has a type that says where it lies, if it is no entry for a debugger.
MACH_TYPE, MACH_DEBUG, MACH_ANYWHERE = 0x0E, 0xE0, 0
COFF_EXTERNAL = 2


class Needs(NamedTuple):
    """What an object needs.

    Attributes:
        undefined: the names of its undefined symbols, as C has them.
        placed: those of which code or data hold an address.
        kinds: the numbers of the kinds of such places, also of symbols of the object itself.
    """

    undefined: frozenset
    placed: frozenset
    kinds: frozenset


def needs_of(image):
    """Returns what an object of ELF, Mach-O or COFF needs, little-endian and of 64 bits."""
    if image[:4] == b"\x7fELF":
        return elf_needs(image)
    if image[:4] == b"\xcf\xfa\xed\xfe":
        return mach_needs(image)
    return coff_needs(image)


def word_at(image, place):
    """Returns the text that ends with the next zero byte."""
    return image[place : image.index(b"\0", place)].decode()


def gathered(symbols, relocations):
    """Returns the needs of an object.

    Args:
        symbols: for each its name, None where it is defined.
        relocations: for each the number of its symbol, None where it has none, and its kind.
    """
    undefined = frozenset(filter(None, symbols))
    placed = frozenset([symbols[number] for number, _ in relocations if number is not None])
    return Needs(undefined, placed & undefined, frozenset([kind for _, kind in relocations]))


def elf_needs(image):
    (begin,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    heads = [struct.unpack_from("<IIQQQQIIQQ", image, begin + i * size) for i in range(count)]
    symbols, relocations = [], []
    for _, kind, _, _, offset, length, link, _, _, each in heads:
        if kind == ELF_SYMBOLS:
            names = heads[link][4]
            for place in range(offset, offset + length, each):
                name, _, _, section = struct.unpack_from("<IBBH", image, place)
                symbols.append(None if section or not name else word_at(image, names + name))
        elif kind == ELF_RELOCATIONS:
            for place in range(offset, offset + length, each):
                _, info, _ = struct.unpack_from("<QQq", image, place)
                relocations.append((info >> 32, info & 0xFFFFFFFF))
    return gathered(symbols, relocations)


def mach_needs(image):
    (commands,) = struct.unpack_from("<I", image, 16)
    place, symbols, relocations = 32, [], []
    for _ in range(commands):
        command, size = struct.unpack_from("<II", image, place)
        if command == MACH_SEGMENT:
            (sections,) = struct.unpack_from("<I", image, place + 64)
            for i in range(sections):
                offset, count = struct.unpack_from("<II", image, place + 72 + 80 * i + 56)
                for j in range(count):
                    _, info = struct.unpack_from("<iI", image, offset + 8 * j)
                    external = info >> 27 & 1
                    relocations.append((info & 0xFFFFFF if external else None, info >> 28))
        elif command == MACH_SYMBOLS:
            offset, count, names, _ = struct.unpack_from("<IIII", image, place + 8)
            for i in range(count):
                name, kind = struct.unpack_from("<IB", image, offset + 16 * i)
                there = kind & MACH_DEBUG or kind & MACH_TYPE != MACH_ANYWHERE
                # C's names have an underscore in front.
                symbols.append(None if there else word_at(image, names + name)[1:])
        place += size
    return gathered(symbols, relocations)


def coff_needs(image):
    _, sections, _, begin, count, optional, _ = struct.unpack_from("<HHIIIHH", image)
    names = begin + 18 * count
    symbols = []
    while len(symbols) < count:
        place = begin + 18 * len(symbols)
        short, _, section, _, storage, more = struct.unpack_from("<8sIhHBB", image, place)
        if short[:4] == bytes(4):
            name = word_at(image, names + struct.unpack("<I", short[4:])[0])
        else:
            name = short.rstrip(b"\0").decode()
        there = section != 0 or storage != COFF_EXTERNAL
        symbols += [None if there else name, *[None] * more]
    relocations = []
    for i in range(sections):
        head = struct.unpack_from("<8sIIIIIIHHI", image, 20 + optional + 40 * i)
        for j in range(head[7]):
            _, number, kind = struct.unpack_from("<IIH", image, head[5] + 10 * j)
            relocations.append((number, kind))
    return gathered(symbols, relocations)
