"""Sums at places that repeat, on a GPU: both ways to add them, against sums in float64."""

import numpy as np
import pytest
from support.cuda_keys import ARRAY, BFLOAT16, DTYPES, FULL, KEYS, case, resolution, values

from functensor.backends.config import config
from functensor.primitives.core.index_key import IndexKey as Key

cupy = pytest.importorskip("cupy")
scatter = pytest.importorskip("functensor.backends.cuda.kernels.scatter")
ranking = pytest.importorskip("functensor.backends.cuda.kernels.sorting_places")
segments = pytest.importorskip("functensor.backends.cuda.kernels.scatter_ordered")

pytestmark = pytest.mark.gpu


def wide(dtype):
    """Returns the dtype in which sums have no errors worth the name."""
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        return dtype
    return np.dtype(complex if dtype.kind == "c" else float)


def summed(x, v, key, indices):
    """Returns what is to come out in float64, and the sum of all sizes."""
    out = x.astype(wide(x.dtype))
    native = key.fill(indices)
    v = np.broadcast_to(v, out[native].shape)
    np.add.at(out, native, v.astype(out.dtype))
    if x.dtype.kind in "biu":
        return out, 0.0
    total = np.abs(x).astype(float)
    np.add.at(total, native, np.abs(v).astype(float))
    return out, total


def check(got, expected, total, dtype):
    assert got.dtype == dtype
    assert got.shape == expected.shape
    got = got.get()
    if np.dtype(dtype).kind in "biu":
        np.testing.assert_array_equal(got, expected)
        return
    eps = resolution(dtype)
    # Rounded once where sums are in float32, and otherwise as often as there are values.
    halves = np.dtype(dtype).itemsize == 2
    each = 400 * resolution("f") if halves else 400 * eps
    error = np.abs(got.astype(expected.dtype) - expected)
    assert (error <= eps * np.abs(expected) + each * total).all()


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", KEYS)
def test_index_add_at_every_kind_of_key(name, deterministic):
    key, indices, shape = case(name)
    x = values(shape, "f")
    v = values(x[key.fill(indices)].shape, "f", 2)
    with config.using(deterministic=deterministic):
        got = scatter.index_add(
            cupy.asarray(x), cupy.asarray(v), *map(cupy.asarray, indices), key=key
        )
    check(got, *summed(x, v, key, indices), "f")


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["rows", "elements", "broadcast pairs", "apart with more axes"])
def test_index_add_of_every_dtype(name, dtype, deterministic):
    key, indices, shape = case(name)
    x = values(shape, dtype)
    v = values(x[key.fill(indices)].shape, dtype, 2)
    with config.using(deterministic=deterministic):
        got = scatter.index_add(
            cupy.asarray(x), cupy.asarray(v), *map(cupy.asarray, indices), key=key
        )
    check(got, *summed(x, v, key, indices), dtype)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", ["f", "e", "F"])
@pytest.mark.parametrize("shape", [(), (1,), (12,), (40, 1), (1, 12)])
def test_values_broadcast(shape, dtype, deterministic):
    key, indices, whole = case("rows")
    x, v = values(whole, dtype), values(shape, dtype, 2)
    with config.using(deterministic=deterministic):
        got = scatter.index_add(cupy.asarray(x), cupy.asarray(v), cupy.asarray(indices[0]), key=key)
    check(got, *summed(x, v, key, indices), dtype)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", ["f", "D", "e"])
def test_values_of_any_strides(dtype, deterministic):
    key, indices, shape = case("columns of rows")
    v = values((8, 2, 9, 4), dtype, 2)
    turned = cupy.asarray(v).transpose(1, 2, 3, 0)[::-1]
    x = values(shape[::-1], dtype).T
    with config.using(deterministic=deterministic):
        got = scatter.index_add(cupy.asarray(x), turned, cupy.asarray(indices[0]), key=key)
    check(got, *summed(x, v.transpose(1, 2, 3, 0)[::-1], key, indices), dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64"])
def test_indices_of_any_dtype_and_strides(dtype):
    key, (index,), shape = case("rows", dtype=dtype)
    x = values(shape, "f")
    v = values((40, 12), "f", 2)
    spread = cupy.asarray(np.repeat(index, 3))[::3]
    got = scatter.index_add(cupy.asarray(x), cupy.asarray(v), spread, key=key)
    check(got, *summed(x, v, key, [index]), "f")


def test_numbers_are_operands_too():
    x = cupy.zeros((3, 2), "f")
    got = scatter.index_add(x, 1.5, np.int64(-1), cupy.asarray([1, 1]), key=Key((ARRAY, ARRAY), 2))
    np.testing.assert_array_equal(got.get(), [[0, 0], [0, 0], [0, 3]])


def test_a_number_out_of_bounds_raises():
    x, index = cupy.zeros((3, 2)), cupy.asarray([0])
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        scatter.index_add(x, 1.0, np.int64(3), index, key=Key((ARRAY, ARRAY), 2))


# -- many keys


@pytest.mark.parametrize("dtype", ["f", "e", BFLOAT16, "F"], ids=str)
def test_scatter_add_of_several_keys(dtype):
    keys = (Key((slice(1, None, 2),)), Key((ARRAY,), 1), Key((0, 1)), Key((FULL, ARRAY), 1))
    shape = (5, 6)
    vs = [values(s, dtype, i) for i, s in enumerate([(2, 6), (9, 6), (), (5, 3)])]
    indices = [case("rows")[1][0][:9], np.array([5, 5, -1])]
    expected = np.zeros(shape, wide(dtype))
    total = np.zeros(shape)
    for key, v, own in zip(keys, vs, [[], indices[:1], [], indices[1:]], strict=True):
        np.add.at(expected, key.fill(own), v.astype(expected.dtype))
        np.add.at(total, key.fill(own), np.abs(v).astype(float))
    got = scatter.scatter_add(*map(cupy.asarray, [*vs, *indices]), shape=shape, keys=keys)
    check(got, expected, total, dtype)


def test_values_at_all_elements_need_no_zeros():
    v = values((4, 3), "f")
    got = scatter.scatter_add(cupy.asarray(v), shape=(4, 3), keys=(Key((Ellipsis,)),))
    np.testing.assert_array_equal(got.get(), v)


@pytest.mark.parametrize("name", ["rows", "no places", "no columns", "number", "pairs"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_scatter_add_of_one_key(name, deterministic):
    key, indices, shape = case(name)
    v = values(np.empty(shape)[key.fill(indices)].shape, "f")
    with config.using(deterministic=deterministic):
        got = scatter.scatter_add(*map(cupy.asarray, [v, *indices]), shape=shape, keys=(key,))
    check(got, *summed(np.zeros(shape, "f"), v, key, indices), "f")


# -- long sums


@pytest.mark.parametrize("few", [1 << 20, 0], ids=["counted", "by digits"])
@pytest.mark.parametrize("span", [16, 512])
@pytest.mark.parametrize("width", [1, 7, 64])
def test_segments_of_every_length(width, span, few, monkeypatch):
    # Spans of few numbers are cut often; with no arrays called few, digits are sorted.
    monkeypatch.setattr(ranking, "MOST_RANKED_PLACES", few)
    monkeypatch.setattr(segments, "SPAN", span)
    monkeypatch.setattr(ranking, "FEWEST_SPAN_PLACES", 300)
    generator = np.random.default_rng(0)
    lengths = [1, 1, 3, 16, 17, 40, 0, 200, 15, 333]
    index = np.repeat(np.arange(len(lengths)) * 301, lengths)
    generator.shuffle(index)
    v = values((len(index), width), "f")
    key = Key((ARRAY,), 1)
    with config.using(deterministic=True):
        got = scatter.scatter_add(
            cupy.asarray(v), cupy.asarray(index), shape=(3000, width), keys=(key,)
        )
    check(got, *summed(np.zeros((3000, width), "f"), v, key, [index]), "f")


def test_float16_adds_in_float32():
    # In float16 the sum would stay at 2048, from where on adding one changes nothing.
    index = cupy.zeros(3000, "int64")
    for width in (1, 40):
        v = cupy.ones((3000, width), "e")
        for deterministic in (False, True):
            with config.using(deterministic=deterministic):
                got = scatter.scatter_add(v, index, shape=(2, width), keys=(Key((ARRAY,), 1),))
            np.testing.assert_array_equal(got.get(), [[3000] * width, [0] * width])


def test_deterministic_sums_are_the_same_bits_every_time():
    key, (index,), shape = case("elements")
    v = cupy.asarray(values(300, "f") * 10.0 ** np.arange(300 % 7 - 300, 300 % 7) % 7).astype("f")
    with config.using(deterministic=True):
        runs = [
            scatter.scatter_add(v, cupy.asarray(index), shape=shape, keys=(key,)).get().tobytes()
            for _ in range(3)
        ]
    assert len(set(runs)) == 1


def test_infinity_and_nan_reach_their_place_alone():
    v = np.array([[np.inf, 1], [np.nan, 1], [2, -np.inf]], "f")
    index = np.array([0, 1, 0])
    for deterministic in (False, True):
        with config.using(deterministic=deterministic):
            got = scatter.scatter_add(
                cupy.asarray(v), cupy.asarray(index), shape=(3, 2), keys=(Key((ARRAY,), 1),)
            )
        np.testing.assert_array_equal(got.get(), [[np.inf, -np.inf], [np.nan, 1], [0, 0]])


def test_values_that_lie_where_they_go_to_are_not_copied():
    whole = cupy.empty((2, 12))
    whole[...] = cupy.arange(24.0).reshape(2, 12)
    keys = [Key((Ellipsis, slice(i, i + 4))) for i in (0, 4, 8)]
    parts = [whole[:, i : i + 4] for i in (0, 4, 8)]
    out = scatter.scatter_add(*parts, shape=(2, 12), keys=keys)
    assert out.base is whole
    assert out.data.ptr == whole.data.ptr
    turned = [parts[1], parts[0], parts[2]]
    for given in (turned, [x.copy() for x in parts], [*parts[:2], parts[2][:, ::-1]]):
        out = scatter.scatter_add(*given, shape=(2, 12), keys=keys)
        assert out.base is None
        np.testing.assert_array_equal(out.get(), np.hstack([x.get() for x in given]))
    out = scatter.scatter_add(*parts[:2], shape=(2, 12), keys=keys[:2])
    np.testing.assert_array_equal(out.get(), np.hstack([whole.get()[:, :8], np.zeros((2, 4))]))
