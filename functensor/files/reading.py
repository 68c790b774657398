"""Reads safetensors files: the header is checked against the file's size before anything else.

A file has the length of its header in 8 bytes, the header in JSON, and the elements of all arrays.
The header is read by patterns that allow nothing but what it may contain, and so in little memory:
elsewhere a small text can stand for a large tree of objects.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import re
import zlib
from collections.abc import Mapping
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np

from ..backends.annotations import Buffer
from .file_errors import FileError, damaged
from .stored_dtypes import READ_DTYPES, dtype_of

__all__ = ["LONGEST_HEADER", "NOTE", "Entry", "Reader", "array_checksum", "checksum_of_text"]

# The key of the note in which our own files have their structure.
NOTE = "functensor"
# How that note begins: a checksum, and the structure.
OWN_TEXT = re.compile(r'.{8} \{"version":', re.DOTALL)
CHUNK = 2**16
# As safetensors itself has it.
LONGEST_HEADER = 100_000_000
MOST_AXES = 64
SPACE = rb"[ \t\n\r]*+"
UNESCAPED = rb'[^"\\\x00-\x1f]*+'
STRING = rb'"' + UNESCAPED + rb'(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})' + UNESCAPED + rb')*+"'
NUMBER = rb"[0-9]{1,19}+" + SPACE
LENGTHS = rb"\[" + SPACE + rb"(?:" + NUMBER + rb"(?:," + SPACE + NUMBER + rb")*+)?+\]"
# A member of the header, and of what it has for one array.
MEMBER = re.compile(SPACE + rb"(" + STRING + rb")" + SPACE + rb":" + SPACE)
TEXT = re.compile(rb"(" + STRING + rb")" + SPACE)
LIST = re.compile(rb"(" + LENGTHS + rb")" + SPACE)
OPEN = re.compile(SPACE + rb"\{" + SPACE)
COMMA_OR_END = re.compile(SPACE + rb"([,}])")
END = re.compile(SPACE + rb"\}")
REST = re.compile(SPACE)
OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive, as torch.save of PyTorch and numpy.savez write it",
    b"\x80\x02": "a pickle, as old versions of PyTorch write it",
    b"\x80\x03": "a pickle", b"\x80\x04": "a pickle", b"\x80\x05": "a pickle",
    b"\x93NUMPY": "a file of NumPy's, which ft.numpy.load reads",
    b"\x89HDF": "an HDF5 file",
}  # fmt: skip
CONVERTING = (
    "nothing is unpickled here. With PyTorch: safetensors.torch.save_file(torch.load(path), "
    '"model.safetensors")'
)
FileSource: TypeAlias = "IO[bytes] | bytes"


class Entry(NamedTuple):
    """One array of a file: its code of a dtype, its shape, and where its bytes begin and end."""

    code: str
    shape: tuple[int, ...]
    start: int
    end: int


def array_checksum(name: str, code: str, shape: tuple[int, ...], values: Any) -> int:
    """Returns a checksum of an array: of its name, dtype, shape and bytes."""
    return zlib.crc32(values, zlib.crc32(f"{name} {code} {list(shape)}".encode()))


def checksum_of_text(text: str, start: int = 0) -> int:
    """Returns a checksum of a text from a place on, without a copy of all of it."""
    found = 0
    for at in range(start, len(text), CHUNK):
        found = zlib.crc32(text[at : at + CHUNK].encode("utf-8", "surrogatepass"), found)
    return found


def strict_json(text: str, start: int) -> Any:
    """Returns what a text in JSON stands for, from a place on.

    Raises:
        ValueError: it is no JSON, has NaN, or an object has the same key twice.
        RecursionError: it is too deep.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("an object has the same key twice")
        return found

    def no_number(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    decoder = json.JSONDecoder(object_pairs_hook=once, parse_constant=no_number)
    found, end = decoder.raw_decode(text, start)
    if end != len(text):
        raise ValueError("there is more after its end")
    return found


class Reader:
    """An open file whose header was checked.

    Args:
        source: an open file, or its bytes.
        file: the name that messages show.
        mapped: whether arrays lie in the mapped file; else they are read into memory.

    Attributes:
        entries: what the header says of every array, by name.
        notes: the texts that are in the header besides.

    Raises:
        FileError: it is no such file, or it is damaged.
    """

    def __init__(self, source: FileSource, file: str, mapped: bool = False) -> None:
        self.file = file
        self.entries: dict[str, Entry] = {}
        self.notes: dict[str, str] = {}
        self._source = source
        self._map: mmap.mmap | bytes | None = None
        if isinstance(source, bytes):
            self.size, self._map = len(source), source
        else:
            self.size = os.fstat(source.fileno()).st_size
            if mapped and self.size:
                self._map = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
        self._read_header()

    def damaged(self, what: str, expected: str, fix: str = "") -> FileError:
        """Returns the error for this file."""
        return damaged(self.file, what, expected, fix)

    def _bytes(self, start: int, length: int) -> bytes:
        if self._map is not None:
            return bytes(self._map[start : start + length])
        assert not isinstance(self._source, bytes)
        self._source.seek(start)
        return self._source.read(length)

    # -- the header

    def _read_header(self) -> None:
        first = self._bytes(0, min(9, self.size))
        length = int.from_bytes(first[:8], "little")
        if length > self.size - 8 or first[8:] != b"{":
            # A length may begin with the same bytes.
            for magic, kind in OTHER_FORMATS.items():
                if first.startswith(magic):
                    fix = CONVERTING if "torch" in kind.lower() or "pickle" in kind else ""
                    raise self.damaged(f"it is {kind}", "a safetensors file", fix)
        if self.size < 8:
            raise self.damaged(f"it has {self.size} bytes", "at least 8, the length of the header")
        if length > self.size - 8:
            raise self.damaged(
                f"its header would have {length} bytes, and it has {self.size} in all",
                "a whole safetensors file",
            )
        if length > LONGEST_HEADER:
            raise self.damaged(
                f"its header has {length} bytes", f"at most {LONGEST_HEADER}"
            )
        self._begin = 8 + length
        header = self._bytes(8, length)
        self._parse(header)
        self._check_places()

    def _parse(self, header: bytes) -> None:
        """Fills in what the header has."""
        at = self._after(OPEN, header, 0, "an object in JSON")
        while True:
            if not self.entries and not self.notes and (found := END.match(header, at)):
                at = found.end()
                break
            name, at = self._member(header, at)
            if name in self.entries or (name == "__metadata__" and self.notes):
                raise self.damaged(f"its header has {name!r:.60} twice", "every name once")
            if name == "__metadata__":
                at = self._parse_notes(header, at)
            else:
                at = self._parse_entry(name, header, at)
            found = COMMA_OR_END.match(header, at)
            if found is None:
                raise self._no_header(header, at, "a comma or the end")
            at = found.end()
            if found[1] == b"}":
                break
        rest = REST.match(header, at)
        if rest is None or rest.end() != len(header):
            raise self._no_header(header, at, "nothing after the end")

    def _no_header(self, header: bytes, at: int, expected: str) -> FileError:
        found = header[at : at + 12]
        return self.damaged(f"its header has {found!r} at byte {8 + at}", expected)

    def _after(self, pattern: re.Pattern[bytes], header: bytes, at: int, expected: str) -> int:
        found = pattern.match(header, at)
        if found is None:
            raise self._no_header(header, at, expected)
        return found.end()

    def _string(self, header: bytes, start: int, end: int) -> str:
        """Returns the text that a string in JSON stands for."""
        try:
            # A view: texts may be as long as the file.
            text: str = json.loads(str(memoryview(header)[start:end], "utf-8"))
            if not text.isascii():
                text.encode()
        except ValueError:
            raise self.damaged(
                f"a name or text of its header, at byte {8 + start}, is no UTF-8", "text in UTF-8"
            ) from None
        return text

    def _member(self, header: bytes, at: int) -> tuple[str, int]:
        found = MEMBER.match(header, at)
        if found is None:
            raise self._no_header(header, at, "a name and a colon")
        return self._string(header, *found.span(1)), found.end()

    def _parse_notes(self, header: bytes, at: int) -> int:
        at = self._after(OPEN, header, at, "an object of texts")
        if found := END.match(header, at):
            return found.end()
        while True:
            name, at = self._member(header, at)
            if name in self.notes:
                raise self.damaged(f"its metadata has {name!r:.60} twice", "every name once")
            text = TEXT.match(header, at)
            if text is None:
                raise self._no_header(header, at, f"a text for {name!r:.60}")
            self.notes[name] = self._string(header, *text.span(1))
            found = COMMA_OR_END.match(header, text.end())
            if found is None:
                raise self._no_header(header, text.end(), "a comma or the end")
            at = found.end()
            if found[1] == b"}":
                return at

    def _parse_entry(self, name: str, header: bytes, at: int) -> int:
        at = self._after(OPEN, header, at, f"an object for {name!r:.60}")
        members: dict[str, bytes] = {}
        while len(members) < 3:
            key, at = self._member(header, at)
            pattern = {"dtype": TEXT, "shape": LIST, "data_offsets": LIST}.get(key)
            found = None if pattern is None else pattern.match(header, at)
            if key in members or found is None:
                raise self._no_header(
                    header, at, f"dtype, shape and data_offsets of {name!r:.60}, each once"
                )
            members[key] = found[1]
            at = self._after(END if len(members) == 3 else COMMA, header, found.end(), "a comma")
        code = self._string(members["dtype"], 0, len(members["dtype"]))
        if code not in READ_DTYPES:
            raise self.damaged(
                f"{name!r:.60} has the dtype {code!r:.20}",
                f"one of {', '.join(READ_DTYPES)}",
                "cast it to one of these where the file was made",
            )
        shape = _integers(members["shape"])
        places = _integers(members["data_offsets"])
        if len(shape) > MOST_AXES:
            raise self.damaged(f"{name!r:.60} has {len(shape)} axes", f"at most {MOST_AXES}")
        if len(places) != 2:
            raise self.damaged(f"{name!r:.60} has {len(places)} offsets", "two")
        start, end = places
        size = np.dtype(READ_DTYPES[code]).itemsize if code != "BF16" else 2
        for length in shape:
            size *= length
        if end - start != size:
            raise self.damaged(
                f"{name!r:.60} of dtype {code} and shape {shape!s:.80} has {end - start} bytes",
                f"{size!s:.40}",
            )
        if math.prod([max(length, 1) for length in shape]) > LARGEST:
            raise self.damaged(f"{name!r:.60} has the shape {shape!s:.80}", "sizes of 60 bits")
        self.entries[name] = Entry(code, shape, start, end)
        return at

    def _check_places(self) -> None:
        """Checks that arrays lie one after another, from the header to the end."""
        at, data = 0, self.size - self._begin
        for name, entry in sorted(self.entries.items(), key=lambda item: item[1][2:]):
            if entry.start != at:
                what = "overlaps another array" if entry.start < at else "leaves a gap before it"
                raise self.damaged(
                    f"{name!r:.60} begins at byte {entry.start} of the data and {what}",
                    f"byte {at}",
                )
            at = entry.end
        if at != data:
            raise self.damaged(f"it has {data} bytes of data", f"{at}, as its header says")

    # -- arrays

    def array(self, name: str, expected: int | None = None, writeable: bool = False) -> Buffer:
        """Returns the elements of an array.

        Args:
            name: its name.
            expected: its checksum; None where there is none. Mapped arrays are not compared.
            writeable: whether they are in memory of their own, to be written to.

        Raises:
            FileError: the elements have changed, or are no booleans.
        """
        code, shape, start, end = self.entries[name]
        dtype = dtype_of(code)
        count = end - start
        if not count:
            flat = np.empty(0, np.uint8)
        elif self._map is not None:
            flat = np.frombuffer(self._map, np.uint8, count, self._begin + start)
            if writeable or (self._begin + start) % dtype.alignment:
                flat = flat.copy()
        else:
            assert not isinstance(self._source, bytes)
            flat = np.empty(count, np.uint8)
            self._source.seek(self._begin + start)
            if self._source.readinto(flat.data) != count:  # type: ignore[attr-defined]
                raise self.damaged(f"{name!r:.60} is cut off", f"{count} bytes")
        if expected is not None and not isinstance(self._map, mmap.mmap):
            found = array_checksum(name, code, shape, flat)
            if found != expected:
                raise self.damaged(
                    f"{name!r:.60} has the checksum {found:08x}", f"{expected:08x}"
                )
        if code == "BOOL" and count and flat.max() > 1:
            raise self.damaged(f"{name!r:.60} has the byte {flat.max()}", "booleans, 0 or 1")
        flat.flags.writeable = writeable
        return flat.view(dtype).reshape(shape)

    def structure(self) -> Mapping[str, Any] | None:
        """Returns what one of our own files says of its tree; None of another file.

        Raises:
            FileError: it is damaged.
        """
        text = self.notes.pop(NOTE, None)
        if text is None:
            for name, other in self.notes.items():
                if OWN_TEXT.match(other):
                    raise self.damaged(f"its structure is called {name!r:.40}", repr(NOTE))
            return None
        digits = text[:9]
        found = f"{checksum_of_text(text, 9):08x} "
        if digits != found:
            raise self.damaged(
                f"its structure has the checksum {found}", f"{digits!r:.20}, as it was written"
            )
        try:
            structure = strict_json(text, 9)
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"its structure is {_shortly(error)}", "JSON") from None
        if not isinstance(structure, dict) or structure.get("version") != 1:
            raise self.damaged(
                "its structure is of another version", "version 1",
                "pip install -U functensor",
            )  # fmt: skip
        return structure


LARGEST = 2**60
COMMA = re.compile(SPACE + rb",")


def _integers(raw: bytes) -> tuple[int, ...]:
    """Returns the numbers of a list in JSON, which has no others than these."""
    return tuple([int(digits) for digits in re.findall(rb"[0-9]+", raw)])


def _shortly(error: Exception) -> str:
    """Returns what an error of JSON says, without the text that it is about."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return f"no JSON: {str(error)[:80]}"
