"""IDX files: what is written is read, and no file can make the reader take more than it has."""

import gzip
import struct
import tracemalloc

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import functensor as ft
from functensor.datasets import read_idx, write_idx

DTYPES = ["uint8", "int8", "int16", "int32", "float32", "float64"]
CODES = [8, 9, 11, 12, 13, 14]


def header(code, *shape):
    """Returns the header of a file."""
    return struct.pack(f">4B{len(shape)}I", 0, 0, code, len(shape), *shape)


@given(st.data(), st.sampled_from(DTYPES), st.sampled_from("<>"), st.booleans())
def test_what_is_written_is_read(tmp_path_factory, data, name, order, compress):
    shape = data.draw(array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    dtype = numpy.dtype(name).newbyteorder(order)
    array = data.draw(arrays(dtype, shape))
    path = tmp_path_factory.mktemp("idx") / "array"
    write_idx(path, array, compress)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == compress
    found = read_idx(path)
    assert found.dtype == numpy.dtype(name)
    assert found.dtype.isnative
    assert found.shape == shape
    assert found.flags.writeable
    numpy.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(("code", "name"), [*zip(CODES, DTYPES, strict=True)])
def test_bytes_are_those_of_the_format(tmp_path, code, name):
    values = numpy.array([[1, 2, 3]], name)
    write_idx(tmp_path / "a", values)
    expected = header(code, 1, 3) + values.astype(values.dtype.newbyteorder(">")).tobytes()
    assert (tmp_path / "a").read_bytes() == expected


def test_names_choose_compression(tmp_path):
    write_idx(tmp_path / "a.gz", numpy.ones(3, "uint8"))
    first = (tmp_path / "a.gz").read_bytes()
    write_idx(str(tmp_path / "a.gz"), ft.numpy.ones(3, "uint8"))
    # No time of day is in it.
    assert (tmp_path / "a.gz").read_bytes() == first
    assert gzip.decompress(first) == header(8, 3) + b"\1\1\1"


HOSTILE = {
    "nothing": (b"", "begins with b''"),
    "another format": (b"\x93NUMPY", "not as an IDX file"),
    "an unknown dtype": (header(10, 1) + b"\0", "not as an IDX file"),
    "a header that is cut off": (header(8, 2, 3)[:-1], "ends within its header of 2 axes"),
    "too many axes": (header(8, *[1] * 33) + b"\0", "33 axes; arrays have at most 32"),
    "a number too few": (header(12, 2) + b"\0" * 7, r"int32\[2\], which is 8 bytes"),
    "a number too many": (header(8, 2) + b"\0" * 3, "and more bytes after them"),
    "more than memory": (header(14, *[2**32 - 1] * 4), "that cannot have more than"),
}


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(("content", "words"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files(tmp_path, content, words, compress):
    path = tmp_path / "hostile"
    path.write_bytes(gzip.compress(content) if compress else content)
    with pytest.raises(ValueError, match=words) as info:
        read_idx(path)
    assert str(path) in str(info.value)
    assert "\n  fix: " in str(info.value)


def test_damaged_compression(tmp_path):
    path = tmp_path / "damaged"
    whole = gzip.compress(header(8, 1000) + bytes(range(250)) * 4)
    for part in (whole[:20], whole[:-9], whole[:-5] + b"\0" + whole[-4:], b"\x1f\x8b" + b"\0" * 20):
        path.write_bytes(part)
        with pytest.raises(ValueError, match="cut off or damaged"):
            read_idx(path)


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_give_an_array_or_an_error_of_ours(tmp_path_factory, content, compress):
    path = tmp_path_factory.mktemp("idx") / "any"
    path.write_bytes(gzip.compress(content) if compress else b"\0\0" + content)
    told = ""
    try:
        size = read_idx(path).nbytes
    except ValueError as error:
        size, told = 0, str(error)
    assert size <= len(content)
    assert not told or str(path) in told


def test_memory_is_taken_only_for_what_is_there(tmp_path):
    promises = header(8, 60_000_000)
    bomb = gzip.compress(header(8, 3) + b"\0" * 50_000_000)
    # As much is promised as this file could have, and little is there.
    short = gzip.compress(promises) + b"\0" * 60_000
    for content in (promises + b"\0" * 100, bomb, short):
        path = tmp_path / "file"
        path.write_bytes(content)
        tracemalloc.start()
        with pytest.raises(ValueError, match="a header that promises uint8"):
            read_idx(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4_000_000


def test_arrays_that_the_format_does_not_have(tmp_path):
    for dtype in ("int64", "bool", "complex64", "uint16", "U3"):
        with pytest.raises(TypeError, match="IDX files have no"):
            write_idx(tmp_path / "a", numpy.zeros(2, dtype))
    assert not (tmp_path / "a").exists()
    with pytest.raises(FileNotFoundError):
        read_idx(tmp_path / "a")
