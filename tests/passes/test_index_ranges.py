"""The ranges of index arrays hold every number that the arrays can have, in all dtypes."""

import operator

import numpy
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from support.pass_cases import staged

import functensor as ft
import functensor.numpy as np
from functensor.passes.index_ranges import IndexRanges, range_of_dtype

DTYPES = [numpy.dtype(char) for char in "bBhHiIlL"]
# Operations of two arrays, and of an array and two numbers.
OF_TWO = [
    *(operator.add, operator.sub, operator.mul, operator.mod, operator.and_),
    *(np.maximum, np.minimum, lambda x, y: np.where(x > y, x, y)),
]
OF_ONE = [
    lambda x, low, high: np.clip(x, low, high),
    lambda x, low, high: x % max(high, 1),
    lambda x, low, high: x & high,
    lambda x, low, high: -x,
    lambda x, low, high: np.roll(x, low),
    lambda x, low, high: x.astype("int8"),
    lambda x, low, high: x.astype("uint16"),
    lambda x, low, high: x * low - high,
]


@st.composite
def programs(draw):
    """Returns a function of arrays of whole numbers, and the arrays."""
    dtype = draw(st.sampled_from(DTYPES))
    limits = numpy.iinfo(dtype)
    numbers = st.integers(int(limits.min), int(limits.max))
    small = st.integers(max(int(limits.min), -3), 7)
    arrays = [
        numpy.array(draw(st.lists(numbers | small, min_size=3, max_size=3)), dtype)
        for _ in range(2)
    ]
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from(OF_ONE), small, st.integers(0, 7))
            | st.tuples(st.sampled_from(OF_TWO), st.booleans()),
            min_size=1,
            max_size=4,
        )
    )

    def values(x, y):
        for operation, *rest in steps:
            pair = (y, x) if rest == [True] else (x, y)
            if operation in OF_TWO:
                # uint64 beside signed integers makes floats, which have no bits.
                assume(numpy.result_type(x.dtype, y.dtype).kind in "iu")
            x = operation(x, *rest) if operation in OF_ONE else operation(*pair)
        return x

    return values, arrays


@given(programs())
def test_numbers_lie_in_their_ranges(drawn):
    values, arrays = drawn
    program = staged(values, *arrays)
    try:
        with numpy.errstate(all="ignore"):
            found = numpy.asarray(values(*map(np.asarray, arrays)))
    except OverflowError:
        reject()  # a number is out of the dtype's range, which runs find out
    low, high = IndexRanges(program.equations).of(program.outputs[0])
    assert low <= int(found.min())
    assert int(found.max()) <= high


def range_of(f, dtype):
    """Returns the range of what a function makes of an array of a dtype."""
    program = staged(f, numpy.zeros(3, dtype))
    return IndexRanges(program.equations).of(program.outputs[0])


@pytest.mark.parametrize(
    ("f", "dtype", "expected"),
    [
        (lambda i: i % 5, "i8", (0, 4)),
        (lambda i: i % -5, "i8", (-4, 0)),
        (lambda i: np.clip(i, 0, 4), "i8", (0, 4)),
        (lambda i: np.clip(i, 0, 4) + 1, "i8", (1, 5)),
        (lambda i: i & 7, "i4", (0, 7)),
        (lambda i: np.argmax(i), "f8", (0, 2)),
        (lambda i: np.argsort(np.ones((5, 4)) * i[0], axis=0), "f8", (0, 4)),
        (lambda i: np.argpartition(i, 1), "f8", (0, 2)),
        # Numbers of 8 bits wrap around.
        (lambda i: np.clip(i, 0, 100) * 2, "i1", range_of_dtype(numpy.dtype("i1"))),
        (lambda i: np.clip(i, 0, 4) - 1, "u1", range_of_dtype(numpy.dtype("u1"))),
        (lambda i: ft.stop_gradient(i), "i2", range_of_dtype(numpy.dtype("i2"))),
    ],
)
def test_ranges(f, dtype, expected):
    assert range_of(f, dtype) == expected
