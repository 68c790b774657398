"""IDX files: arrays of six dtypes, the format of MNIST.

The format is described at http://yann.lecun.com/exdb/mnist/: two zero bytes, one for the dtype, one
for the number of axes, the lengths of the axes in four bytes each, and the numbers. All of it has
the highest byte first.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..backends.logs import log_debug
from ..primitives.core.errors import failure

__all__ = ["read_idx", "write_idx"]

# The dtypes by the header's third byte.
IDX_DTYPES: dict[int, np.dtype[Any]] = {
    0x08: np.dtype(">u1"), 0x09: np.dtype(">i1"), 0x0B: np.dtype(">i2"), 0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"), 0x0E: np.dtype(">f8"),
}  # fmt: skip
GZIP_MAGIC = b"\x1f\x8b"
# A byte of deflated data stands for at most so many bytes.
MOST_INFLATED = 1032
# So many bytes are read at a time, so that memory grows with what is really there.
READ_AT_ONCE = 1 << 20
MOST_IDX_AXES = 32
LONGEST_AXIS = 2**32 - 1
IDX_FIX = "fetch or write the file anew; the format is that of write_idx"


class Readable(Protocol):
    """A file of bytes."""

    def read(self, size: int, /) -> bytes: ...


def bad_file(path: Path, what: str) -> ValueError:
    """Returns the error for a file that is not what it should be."""
    return failure(ValueError, f"{path}: {what}", fix=IDX_FIX)


def read_idx(path: str | PathLike[str]) -> np.ndarray[Any, Any]:
    """Returns the array in an IDX file, which may be compressed by gzip, whatever its name.

    A header that promises more or fewer numbers than there are is an error. Memory is only taken
    for numbers that are in the file.

    Args:
        path: the file.

    Returns:
        A NumPy array of uint8, int8, int16, int32, float32 or float64, in the machine's byte order.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no whole IDX file; the message names it, and says what is wrong.

    >>> import numpy, tempfile
    >>> from functensor.datasets import read_idx, write_idx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_idx(f"{folder}/labels.gz", numpy.array([3, 1, 4], "uint8"))
    ...     read_idx(f"{folder}/labels.gz")
    array([3, 1, 4], dtype=uint8)
    """
    place = Path(path)
    with open(place, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        packed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        if not packed:
            return idx_numbers(place, file, size)
        try:
            with gzip.GzipFile(fileobj=file, mode="rb") as inflated:
                return idx_numbers(place, inflated, size * MOST_INFLATED)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise bad_file(place, f"gzip data that is cut off or damaged: {error}") from error


def idx_numbers(path: Path, file: Readable, size: int) -> np.ndarray[Any, Any]:
    """Returns the array in an open file that has no more than some bytes."""
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in IDX_DTYPES:
        raise bad_file(path, f"begins with {start!r}, and not as an IDX file")
    dtype, ndim = IDX_DTYPES[start[2]], start[3]
    if ndim > MOST_IDX_AXES:
        raise bad_file(path, f"a header of {ndim} axes; arrays have at most {MOST_IDX_AXES}")
    lengths = file.read(4 * ndim)
    if len(lengths) < 4 * ndim:
        raise bad_file(path, f"ends within its header of {ndim} axes")
    shape = struct.unpack(f">{ndim}I", lengths)
    wanted = prod(shape) * dtype.itemsize
    promised = f"a header that promises {dtype.name}{list(shape)}, which is {wanted:,} bytes"
    if wanted > size:
        raise bad_file(path, f"{promised}, in a file that cannot have more than {size:,}")
    data = bytearray()
    while len(data) < wanted:
        part = file.read(min(READ_AT_ONCE, wanted - len(data)))
        if not part:
            raise bad_file(path, f"{promised}, of which {len(data):,} are there")
        data += part
    # Reading on to the end lets gzip compare its checksum.
    if file.read(1):
        raise bad_file(path, f"{promised}, and more bytes after them")
    log_debug("files", "read %s%s from %s", dtype.name, list(shape), path)
    values = np.frombuffer(data, dtype).reshape(shape)
    native: np.ndarray[Any, Any] = values.astype(dtype.newbyteorder("="), copy=False)
    return native


def write_idx(path: str | PathLike[str], array: Any, compress: bool | None = None) -> None:
    """Writes an array into an IDX file.

    Args:
        path: the file, which is replaced if it is there.
        array: an array, or what NumPy makes one of, of uint8, int8, int16, int32, float32 or
            float64, in either byte order.
        compress: whether it is compressed by gzip; None if the name ends in ``.gz``.

    Raises:
        TypeError: the format has no such dtype.
        ValueError: the format has no such shape.

    >>> import numpy, tempfile
    >>> from pathlib import Path
    >>> from functensor.datasets import write_idx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_idx(f"{folder}/images", numpy.zeros((2, 28, 28), "uint8"))
    ...     print(Path(f"{folder}/images").read_bytes()[:16].hex(" ", 4))
    00000803 00000002 0000001c 0000001c
    """
    place, values = Path(path), np.asarray(array)
    known = {dtype.newbyteorder("="): code for code, dtype in IDX_DTYPES.items()}
    code = known.get(values.dtype.newbyteorder("="))
    if code is None:
        names = ", ".join(dtype.name for dtype in IDX_DTYPES.values())
        what = f"write_idx: IDX files have no {values.dtype}, only {names}"
        raise failure(TypeError, what, fix='write_idx(path, numpy.asarray(x, "float32"))')
    if any(length > LONGEST_AXIS for length in values.shape):
        what = f"write_idx: shape {values.shape} has an axis longer than {LONGEST_AXIS}"
        raise failure(ValueError, what, fix="several files, of a part of the array each")
    header = struct.pack(f">4B{values.ndim}I", 0, 0, code, values.ndim, *values.shape)
    data = header + values.astype(IDX_DTYPES[code], copy=False).tobytes()
    if place.suffix == ".gz" if compress is None else compress:
        # Without a time, equal arrays give equal files.
        data = gzip.compress(data, mtime=0)
    place.write_bytes(data)
