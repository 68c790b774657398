"""Elements taken, replaced and combined at keys with index arrays, on a GPU, against NumPy."""

import numpy as np
import pytest
from support.cuda_keys import ARRAY, BFLOAT16, DTYPES, FULL, KEYS, case, resolution, values

from functensor.backends.protocol import DeviceError
from functensor.primitives.core.index_key import IndexKey as Key

cupy = pytest.importorskip("cupy")
gather = pytest.importorskip("functensor.backends.cuda.kernels.gather")
scatter = pytest.importorskip("functensor.backends.cuda.kernels.scatter")

pytestmark = pytest.mark.gpu

COMBINING = {"index_multiply": np.multiply, "index_min": np.minimum, "index_max": np.maximum}


def on_gpu(arrays):
    return [cupy.asarray(array) for array in arrays]


# -- x[key]


@pytest.mark.parametrize("dtype", ["f", "D", "b", "e"])
@pytest.mark.parametrize("name", KEYS)
def test_elements_at_every_kind_of_key(name, dtype):
    key, indices, shape = case(name)
    x = values(shape, dtype)
    got = gather.index(cupy.asarray(x), *on_gpu(indices), key=key)
    expected = x[key.fill(indices)]
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.get(), expected)


@pytest.mark.parametrize("name", ["rows", "columns of rows", "apart", "apart with more axes"])
def test_elements_of_an_array_of_any_strides(name):
    key, indices, shape = case(name)
    spread = values([2 * n for n in shape[::-1]], "f")
    x = spread[tuple(slice(None, None, 2) for _ in shape)].T
    given = cupy.asarray(spread)[tuple(slice(None, None, 2) for _ in shape)].T
    got = gather.index(given, *on_gpu(indices), key=key)
    np.testing.assert_array_equal(got.get(), x[key.fill(indices)])
    broadcast = np.broadcast_to(values(shape[-1:], "f"), shape)
    got = gather.index(cupy.broadcast_to(cupy.asarray(broadcast[(0,) * (len(shape) - 1)]), shape),
                       *on_gpu(indices), key=key)
    np.testing.assert_array_equal(got.get(), broadcast[key.fill(indices)])


@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize("width", [1, 4, 6, 9, 16])
def test_rows_that_start_anywhere(width, start):
    # Rows are read by the widest words on whose boundaries all of them lie.
    memory = values(start + 7 * width, "e")
    x = memory[start:].reshape(7, width)
    index = np.array([3, -1, 0, 3])
    got = gather.index(
        cupy.asarray(memory)[start:].reshape(7, width), cupy.asarray(index), key=Key((ARRAY,), 1)
    )
    np.testing.assert_array_equal(got.get(), x[index])


def test_one_very_long_row():
    x = values((2, 300_001), "f")
    got = gather.index(cupy.asarray(x), cupy.asarray([1]), key=Key((ARRAY,), 1))
    np.testing.assert_array_equal(got.get(), x[[1]])


def test_a_key_without_arrays_is_a_view():
    x = cupy.arange(6.0).reshape(2, 3)
    got = gather.index(x, key=Key((1, slice(None, None, -1))))
    np.testing.assert_array_equal(got.get(), [5, 4, 3])
    x[1, 2] = 7
    assert float(got[0]) == 7


def test_indices_out_of_bounds_stay_inside():
    x = cupy.arange(5.0)
    index = np.array([5, -6, 1 << 40, -(1 << 62)])
    got = gather.index(x, cupy.asarray(index), key=Key((ARRAY,), 1))
    np.testing.assert_array_equal(got.get(), np.mod(index, 5))
    got = scatter.index_set(cupy.zeros(3), 1.0, cupy.asarray([4, -5]), key=Key((ARRAY,), 1))
    np.testing.assert_array_equal(got.get(), [0, 1, 0])


def test_indices_on_the_host_are_checked_and_brought():
    key = Key((None, FULL, ARRAY), 1)
    x = cupy.arange(6.0).reshape(2, 3)
    got = gather.index(x, np.array([2, -3]), key=key)
    np.testing.assert_array_equal(got.get(), [[[2, 0], [5, 3]]])
    for function in (gather.index, lambda x, i, key: scatter.index_add(x, 1.0, i, key=key)):
        for wrong in (3, -4):
            text = f"index {wrong} is out of bounds for axis 1 with size 3"
            with pytest.raises(IndexError, match=text):
                function(x, np.array([0, wrong]), key=key)


def test_values_on_the_host_are_refused():
    with pytest.raises(DeviceError, match=r"float64\[2\] on cpu"):
        scatter.index_add(cupy.zeros(3), np.ones(2), np.array([0, 1]), key=Key((ARRAY,), 1))


def test_an_axis_without_elements_has_none_to_take():
    index = cupy.zeros(2, "int64")
    for function in (gather.index, lambda *a, **k: scatter.index_set(a[0], 1.0, *a[1:], **k)):
        with pytest.raises(IndexError, match="out of bounds for an axis with size 0"):
            function(cupy.zeros((0, 3)), index, key=Key((ARRAY,), 1))


def test_arrays_that_do_not_broadcast_raise():
    with pytest.raises(IndexError, match=r"shape mismatch: .* shapes \(2,\) \(3,\)"):
        gather.index(
            cupy.zeros((4, 4)), cupy.zeros(2, int), cupy.zeros(3, int), key=Key((ARRAY, ARRAY), 2)
        )


# -- x.at[key].set(v)


@pytest.mark.parametrize("dtype", ["f", "D", "b"])
@pytest.mark.parametrize("name", KEYS)
def test_the_last_of_equal_places_is_set(name, dtype):
    key, indices, shape = case(name)
    x = values(shape, dtype)
    v = values(x[key.fill(indices)].shape, dtype, 2)
    got = scatter.index_set(cupy.asarray(x), cupy.asarray(v), *on_gpu(indices), key=key)
    x[key.fill(indices)] = v
    np.testing.assert_array_equal(got.get(), x)


@pytest.mark.parametrize("shape", [(), (1,), (12,), (40, 1), (1, 12)])
def test_values_that_are_set_broadcast(shape):
    key, indices, whole = case("rows")
    x, v = values(whole, "f"), values(shape, "f", 2)
    got = scatter.index_set(cupy.asarray(x), cupy.asarray(v), *on_gpu(indices), key=key)
    x[key.fill(indices)] = v
    np.testing.assert_array_equal(got.get(), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_are_set_in_any_dtype(dtype):
    key, indices, shape = case("pairs")
    x = values(shape, dtype)
    got = scatter.index_set(cupy.asarray(x), 1, *on_gpu(indices), key=key)
    x[key.fill(indices)] = 1
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got.get(), x)


def test_a_set_changes_nothing_that_there_was():
    x = cupy.zeros((2, 3))
    scatter.index_set(x, 1.0, cupy.asarray([0]), key=Key((ARRAY,), 1))
    scatter.index_set(x, 1.0, key=Key((0,)))
    scatter.index_multiply(x + 1, 3.0, key=Key((FULL, 1)))
    np.testing.assert_array_equal(x.get(), np.zeros((2, 3)))


# -- the others


@pytest.mark.parametrize("function", COMBINING)
@pytest.mark.parametrize("name", KEYS)
def test_combining_at_every_kind_of_key(name, function):
    key, indices, shape = case(name)
    x = values(shape, "d")
    v = 1 + values(x[key.fill(indices)].shape, "d", 2) / 100
    got = getattr(scatter, function)(cupy.asarray(x), cupy.asarray(v), *on_gpu(indices), key=key)
    COMBINING[function].at(x, key.fill(indices), v)
    np.testing.assert_allclose(got.get(), x, rtol=1e-13)


@pytest.mark.parametrize("function", COMBINING)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_combining_of_every_dtype(dtype, function):
    key, indices, shape = case("rows")
    x = values(shape, dtype)
    v = values((40, 12), dtype, 2)
    if dtype.kind in "fcV" and function == "index_multiply":
        # Products of forty keep their size.
        v = (1 + v / np.asarray(16, dtype)).astype(dtype)
    wide = dtype if dtype.kind in "biu" else np.dtype(complex if dtype.kind == "c" else float)
    expected = x.astype(wide)
    COMBINING[function].at(expected, key.fill(indices), v.astype(wide))
    got = getattr(scatter, function)(cupy.asarray(x), cupy.asarray(v), *on_gpu(indices), key=key)
    assert got.dtype == dtype
    rounding = max(resolution(dtype), 40 * resolution("f") if dtype.itemsize == 2 else 0)
    np.testing.assert_allclose(
        got.get().astype(wide), expected, rtol=50 * resolution(dtype)
        if dtype.itemsize > 2 else 2 * rounding
    )


@pytest.mark.parametrize("function", ["index_min", "index_max"])
@pytest.mark.parametrize("dtype", ["f", "e", BFLOAT16], ids=str)
def test_nan_is_the_extremum_where_it_is(dtype, function):
    x = np.array([1, np.nan, 3, 4], dtype)
    v = np.array([np.nan, 2, np.inf, -np.inf, 2], dtype)
    index = np.array([0, 1, 2, 2, 3])
    expected = x.astype(float)
    with np.errstate(invalid="ignore"):
        COMBINING[function].at(expected, index, v.astype(float))
    got = getattr(scatter, function)(
        cupy.asarray(x), cupy.asarray(v), cupy.asarray(index), key=Key((ARRAY,), 1)
    )
    np.testing.assert_array_equal(got.get().astype(float), expected)


@pytest.mark.parametrize("function", ["index_add", *COMBINING])
def test_keys_without_arrays(function):
    x = values((4, 5), "f")
    v = values((2, 1), "f", 2)
    ufunc = COMBINING.get(function, np.add)
    key = Key((slice(None, None, 2), slice(1, 4)))
    got = getattr(scatter, function)(cupy.asarray(x), cupy.asarray(v), key=key)
    x[key.native] = ufunc(x[key.native], v)
    np.testing.assert_array_equal(got.get(), x)
    got = getattr(scatter, function)(cupy.asarray(x), 2.5, key=Key((0, 0)))
    x[0, 0] = ufunc(x[0, 0], np.float32(2.5))
    np.testing.assert_array_equal(got.get(), x)
