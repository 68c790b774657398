"""Edges of functensor.numpy, of derivatives of plain arrays, of random numbers and foreign code."""

import pickle
import threading
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import functensor as ft
import functensor.numpy as fnp
from functensor import random
from functensor.primitives.core.registry import registry as ops
from functensor.primitives.core.trace import RAW, under

X = np.linspace(0.1, 0.9, 4).reshape(2, 2)


# -- plain arrays that change after a derivative was taken


def test_vjp_does_not_see_later_changes():
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    out, pull = ft.vjp(lambda x, y: fnp.ravel(x) * y, x, y)
    same, _ = ft.vjp(fnp.ravel, x)
    x[:], y[:] = 100, 200
    assert_array_equal(out, [3, 8])
    assert_array_equal(same, [1, 2])
    by_x, by_y = pull(np.ones(2))
    assert_array_equal(by_x, [3, 4])
    assert_array_equal(by_y, [1, 2])


def test_cotangents_and_tangents_do_not_see_later_changes():
    g = np.ones(2)
    (by_x,) = ft.vjp(lambda x: x + 1, np.zeros(2))[1](g)
    _, change = ft.jvp(lambda x: x + 1, (np.zeros(2),), (g,))
    g[:] = 100
    assert_array_equal(by_x, [1, 1])
    assert_array_equal(change, [1, 1])


def test_linearize_does_not_see_later_changes():
    x, t = np.array([1.0, 2.0]), np.ones(2)
    _, linear = ft.linearize(lambda x: x * x, x)
    x[:] = 100
    assert_array_equal(linear(t), [2, 4])
    _, linear = ft.linearize(lambda x: x + 1, x)
    change = linear(t)
    t[:] = 100
    assert_array_equal(change, [1, 1])


# -- functions made of primitives, within rules


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ops.sinc(x),
        lambda x: ops.median(x),
        lambda x: ops.append(x, x),
        lambda x: ops.diagflat(x),
        lambda x: ops.polyval(x, 2.0),
        lambda x: ops.meshgrid(x)[0],
        lambda x: ops.sum([x, x]),
        lambda x: ops.nanstd(x, 1),
    ],
)
def test_composites_work_on_raw_buffers(call):
    with under(RAW):
        got = call(X)
    assert_array_equal(np.asarray(got), np.asarray(call(fnp.asarray(X))))


# -- arrays hold numbers


@pytest.mark.parametrize("dtype", [object, "U3", "M8[D]"])
def test_dtypes_that_are_no_numbers_are_refused(dtype):
    made = np.array([1, 2]).astype(dtype)
    calls = [
        lambda: fnp.zeros(2, dtype),
        lambda: fnp.ones(2, dtype),
        lambda: fnp.eye(2, dtype=dtype),
        lambda: fnp.tri(2, dtype=dtype),
        lambda: fnp.indices((2,), dtype=dtype),
        lambda: fnp.asarray(X, dtype),
        lambda: fnp.asarray(X).astype(dtype),
        lambda: fnp.zeros_like(X, dtype=dtype),
        lambda: fnp.sum(X, dtype=dtype),
        lambda: fnp.mean(X, dtype=dtype),
        lambda: fnp.cumsum(X, dtype=dtype),
        lambda: fnp.sort(made),
        lambda: fnp.sum(made),
        lambda: fnp.std(made),
        lambda: fnp.negative(made),
        lambda: fnp.add(made, 1),
        lambda: fnp.add(1, made),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="arrays hold numbers, not dtype"):
            call()


def test_complex_numbers_where_real_ones_are_meant():
    z = X + 1j
    for call in (fnp.histogram, fnp.histogram_bin_edges):
        with pytest.raises(TypeError, match=r"bins are of real numbers, not complex128\[2,2\]"):
            call(z)
    with pytest.raises(TypeError, match=r"digitize takes real numbers, not complex128\[2,2\]"):
        fnp.digitize(z, [0.0, 1.0])
    for period in (None, 2.0):
        with pytest.raises(TypeError, match="interp: coordinates are real"):
            fnp.interp(z, [0.0, 1.0], [0.0, 1.0], period=period)
    assert fnp.interp(0.5, [0.0, 1.0], [0.0, 1j]) == 0.5j


def test_bounds_stand_on_one_axis():
    with pytest.raises(ValueError, match="digitize: bounds stand on one axis, not in shape"):
        fnp.digitize(X, X)


# -- shapes and indices


@pytest.mark.parametrize("shape", [(4, 6), -1, (-1, 2), 24, (3, -1, 4)])
def test_reshape_in_the_order_of_fortran(shape):
    x = np.arange(24.0).reshape(2, 3, 4)
    wanted = x.reshape(shape, order="F")
    assert_array_equal(fnp.reshape(x, shape, order="F"), wanted)
    assert_array_equal(fnp.reshape(a=x, shape=shape, order="F"), wanted)
    assert_array_equal(fnp.asarray(x).reshape(shape, order="F"), wanted)
    assert_array_equal(np.reshape(fnp.asarray(x), shape, order="F"), wanted)
    w = np.arange(24.0).reshape(wanted.shape)
    by_x = ft.grad(lambda x: fnp.sum(fnp.reshape(x, shape, "F") * w))(x)
    assert_array_equal(by_x, w.reshape(x.shape, order="F"))
    rows = ft.vmap(lambda row: row.reshape(-1, order="F"))(x)
    assert_array_equal(rows, [row.reshape(-1, order="F") for row in x])


def test_reshape_knows_two_orders():
    with pytest.raises(ValueError, match="reshape: order is 'C' or 'F', not 'K'"):
        fnp.reshape(X, -1, order="K")
    words = r"^functensor\.numpy\.reshape\(\) lacks its argument 'shape'"
    with pytest.raises(TypeError, match=words):
        fnp.reshape(X)


def test_transpose_of_a_single_axis():
    assert fnp.transpose(np.ones(3), 0).shape == fnp.ones(3).transpose(0).shape == (3,)


def test_arrays_of_indices_need_an_axis():
    x = fnp.array(3.0)
    for index in ([0], [0, -1], np.array([0])):
        with pytest.raises(IndexError, match="too many indices"):
            x[index]
        with pytest.raises(IndexError, match="too many indices"):
            ft.jvp(lambda x, i=index: x[i], (x,), (x,))


def test_bincount_of_booleans():
    x = np.array([True, False, True, True])
    assert_array_equal(fnp.bincount(x), [1, 3])


def test_flat_indices_of_unsigned_integers_are_integers():
    row = np.array([0, 1], np.uint64)
    for mode in ("raise", "wrap", "clip"):
        got = fnp.ravel_multi_index((row, row), (2, 3), mode=mode)
        assert got.dtype == np.intp
        assert_array_equal(got, [0, 4])


def test_trim_zeros_and_from_dlpack_name_what_is_wrong():
    with pytest.raises(ValueError, match="trim_zeros: trim is"):
        fnp.trim_zeros(X, None)
    with pytest.raises(ValueError, match="eigh: UPLO is 'L' or 'U', not None"):
        fnp.linalg.eigh(X, None)
    with pytest.raises(TypeError, match="from_dlpack takes what speaks DLPack, not list"):
        fnp.from_dlpack([1.0])


# -- values


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sinc_far_out(dtype):
    x = np.array([10.5, 200.5, 1e4], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = fnp.sinc(x)
        slope = ft.grad(lambda x: fnp.sum(fnp.sinc(x)))(x)
        curve = ft.hvp(lambda x: fnp.sum(fnp.sinc(x)), (x,), (np.ones_like(x),))
    assert got.dtype == slope.dtype == dtype
    # The angle is rounded to the dtype, and divides the sine of what it is off by.
    assert_allclose(got, np.sinc(x.astype("f8")), rtol=0, atol=np.finfo(dtype).eps)
    assert np.isfinite(slope).all()
    assert np.isfinite(curve).all()


def test_sinc_of_what_is_almost_infinite():
    slope = ft.grad(fnp.sinc)(1e300)
    assert abs(slope) <= 1e-299


def test_i0_overflows_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fnp.i0(np.float32(200)) == np.inf


def test_cauchy_quantiles_near_one():
    cauchy = ft.scipy.stats.cauchy
    q = 1 - 2.0**-40
    # 1 / tan(pi (1 - q)), and 1 - q is exact.
    assert_allclose(cauchy.ppf(q), 1 / np.tan(np.pi * 2.0**-40), rtol=1e-15)
    assert_allclose(cauchy.isf(q), -1 / np.tan(np.pi * 2.0**-40), rtol=1e-15)
    assert_allclose(ft.grad(cauchy.ppf)(q), np.pi / np.sin(np.pi * 2.0**-40) ** 2, rtol=1e-12)


def test_memory_as_bytes():
    assert fnp.asarray(X).tobytes() == X.tobytes()
    assert fnp.asarray(X).tobytes("F") == X.tobytes("F")


# -- random numbers


def test_shapes_of_random_numbers():
    key = random.key(0)
    for draw in (random.normal, random.uniform, random.bits, random.split):
        with pytest.raises(TypeError, match=r"a shape is an integer or .* not 2\.5"):
            draw(key, 2.5)
        with pytest.raises(ValueError, match="a shape has lengths from 0 up, not -1"):
            draw(key, -1)


def test_student_t_without_degrees_of_freedom():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(random.t(random.key(0), -1.0))


def test_choice_names_the_axis():
    with pytest.raises(np.exceptions.AxisError):
        random.choice(random.key(0), X, axis=5)


def test_threads_share_a_stream_of_keys():
    keys, got = random.KeyStream(0), []

    def draw():
        got.extend(tuple(np.asarray(next(keys)).tolist()) for _ in range(50))

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(got)) == len(got) == 400
    assert repr(pickle.loads(pickle.dumps(keys))) == "KeyStream(key(0), position=400)"


# -- foreign code


def test_a_foreign_function_that_returns_no_array():
    ragged = ft.extend.numpy_function(lambda x: [1, [2, 3]])
    with pytest.raises(Exception, match="returned what is no array") as caught:
        ragged(X)
    assert type(caught.value).__name__ == "RuleResultError"
