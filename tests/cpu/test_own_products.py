"""Products of matrices by machine code of our own have the bits of NumPy's, or stay with it."""

import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.long_forms import sized

import functensor as ft
import functensor.numpy as fnp
from functensor.backends import blas_calls
from functensor.backends.cpu import eager_code
from functensor.backends.cpu.plan.native import eager_matrices
from functensor.backends.cpu.plan.threads import pool
from functensor.backends.native import machine, matrix_products
from functensor.backends.native.array_objects import is_known
from functensor.backends.native.c_library_flags import c_library_tells
from functensor.backends.native.entry import objects_call
from functensor.backends.native.matrix_products import MatrixProduct
from functensor.backends.native.team import Team, server

pytestmark = [
    pytest.mark.skipif(not machine.compiles_here(), reason=machine.why_not()),
    pytest.mark.skipif(
        not (is_known() and c_library_tells()), reason="no machine code takes arrays"
    ),
]

LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]


@pytest.fixture(autouse=True)
def begins_anew(monkeypatch):
    """Has machine code made of small products too, after the first call."""
    monkeypatch.setattr(eager_code, "kinds", {})
    monkeypatch.setattr(eager_code, "SECONDS_OVER_NUMPY", 0.0)
    monkeypatch.setattr(eager_code, "CALLS_OVER_NUMPY", 1)
    monkeypatch.setattr(eager_code, "CALLS_OF_EACH_WAY", 10**9)
    monkeypatch.setattr(blas_calls, "WORK_BY_CODE", range(1 << 30))
    monkeypatch.setattr(pool.threads, "number", 2)


def decided():
    """Returns the kinds that were called, which machine code computes from now on if it may."""
    found = [*eager_code.kinds.values()]
    for kind in found:
        assert kind.job is None or kind.job.wait(60)
        assert kind.job is None or kind.job.error is None, kind.job.error
        kind.settled = True
    return found


def factors(sizes, dtype, turned, seed=0):
    """Returns two matrices that lie in memory as they are told to."""
    rows, columns, terms = sizes
    draw = np.random.default_rng(seed).standard_normal
    x = draw((terms, rows)).astype(dtype).T if turned[0] else draw((rows, terms)).astype(dtype)
    y = (
        draw((columns, terms)).astype(dtype).T
        if turned[1]
        else draw((terms, columns)).astype(dtype)
    )
    return x, y


def in_blocks(x, y, sums):
    """Returns a product as a BLAS adds it up that rounds once behind each term."""
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    out, begin = np.zeros((len(x), y.shape[1]), x.dtype), 0
    for terms in sums:
        total = np.zeros_like(out)
        for k in range(begin, begin + terms):
            exact = total.astype(wide) + x[:, k : k + 1].astype(wide) * y[k].astype(wide)
            total = exact.astype(x.dtype)
        out, begin = out + total, begin + terms
    return out


def by_kernel(product, x, y, *bias):
    """Returns a product by its kernel, of the matrices as they lie in C order, and what it told."""
    server()
    code = machine.machine_code(
        matrix_products.own_product_text(product), [matrix_products.PRODUCT_FUNCTION]
    )
    run = objects_call(code, matrix_products.PRODUCT_FUNCTION, len(product.objects))
    out = np.full(product.sizes[:2], np.nan, x.dtype)
    room = np.full(matrix_products.room_words(product) + 1, -1, np.int64)
    team = Team.taken(helped=False)
    given = [v.T if turned else v for v, turned in zip((x, y), product.turned, strict=True)]
    run(*given, out, room, *bias, team.memory)
    team.give_back()
    assert room[-1] == -1
    return out, room[0]


@settings(max_examples=sized(25, 300))
@given(
    st.tuples(st.integers(4, 70), st.integers(4, 90), st.integers(4, 90)),
    st.sampled_from(LAYOUTS),
    st.sampled_from([16, 32, None]),
    st.sampled_from(["f4", "f8"]),
    st.data(),
)
def test_kernels_add_up_in_blocks(sizes, turned, vector_bytes, dtype, data):
    vector_bytes = min(vector_bytes or 64, machine.vector_bytes())
    x, y = factors(sizes, dtype, turned)
    cut = data.draw(st.integers(0, sizes[2] - 1))
    sums = (cut, sizes[2] - cut) if cut else (sizes[2],)
    threads = data.draw(st.integers(1, 3))
    product = MatrixProduct(x.itemsize, sizes, turned, sums, True, vector_bytes, threads)
    out, told = by_kernel(product, x, y)
    assert told == 0
    if dtype == "f4":
        np.testing.assert_array_equal(out, in_blocks(x, y, sums))
    else:  # a wide number rounds twice
        np.testing.assert_allclose(out, in_blocks(x, y, sums), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("sizes", [(13, 35, 20), (60, 300, 50)], ids=str)
@pytest.mark.parametrize("cut", [0, 8])
def test_kernels_add_a_row_to_each_row(sizes, cut):
    x, y = factors(sizes, "f4", (False, True))
    sums = (cut, sizes[2] - cut) if cut else (sizes[2],)
    bias = np.random.default_rng(1).standard_normal(sizes[1]).astype("f4")
    product = MatrixProduct(4, sizes, (False, True), sums, True, machine.vector_bytes(), 2, True)
    out, told = by_kernel(product, x, y, bias)
    assert told == 0
    np.testing.assert_array_equal(out, in_blocks(x, y, sums) + bias)


def test_panels_that_lie_far_apart_are_laid_side_by_side():
    sizes = (60, 300, 50)
    x, y = factors(sizes, "f4", (False, False))
    product = MatrixProduct(4, sizes, (False, False), (50,), True, machine.vector_bytes(), 2)
    assert product.lays_panels
    np.testing.assert_array_equal(by_kernel(product, x, y)[0], in_blocks(x, y, (50,)))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("sums", [(7,), (40, 24), (16, 16, 16), (48, 32, 33)], ids=str)
@pytest.mark.parametrize("turned", LAYOUTS, ids=str)
def test_the_blocks_of_a_blas_are_found(monkeypatch, dtype, sums, turned):
    monkeypatch.setattr(eager_matrices, "by_blas", lambda x, y: in_blocks(x, y, sums))
    x, y = factors((5, 6, sum(sums)), dtype, turned)
    shapes = x.T.shape if turned[0] else x.shape, y.T.shape if turned[1] else y.shape
    assert eager_matrices.blocks_of_sums(shapes, x.dtype, turned) == (sums, True)


def test_sums_of_very_many_blocks_are_left_to_blas(monkeypatch):
    seen = []

    def blas(x, y):
        seen.append(x.shape)
        return in_blocks(x, y, (32,) * 100)

    monkeypatch.setattr(eager_matrices, "by_blas", blas)
    x, y = factors((4, 5, 3200), "f4", (False, False))
    types = [(x.shape, x.dtype), (y.shape, y.dtype), ((4, 5), x.dtype)]
    assert eager_matrices.own_product("matrix_product", types, {"turned": (False, False)}) is None
    assert len(seen) <= eager_matrices.MOST_SUM_BLOCKS + 2


def test_a_blas_that_adds_up_in_pairs_is_left_to_itself(monkeypatch):
    def in_pairs(x, y):
        return x[:, ::2] @ y[::2] + x[:, 1::2] @ y[1::2]

    monkeypatch.setattr(eager_matrices, "by_blas", in_pairs)
    x, y = factors((40, 40, 64), "f4", (False, False))
    types = [(x.shape, x.dtype), (y.shape, y.dtype), ((40, 40), x.dtype)]
    made = eager_matrices.own_product("matrix_product", types, {"turned": (False, False)})
    assert made is None or not np.array_equal(made((x, y)), in_pairs(x, y))


@settings(max_examples=sized(12, 200), deadline=None)
@given(
    st.tuples(st.integers(1, 80), st.integers(1, 80), st.integers(1, 500)),
    st.sampled_from(LAYOUTS),
    st.sampled_from(["f4", "f8"]),
)
def test_eager_products_have_the_bits_of_blas(sizes, turned, dtype):
    eager_code.kinds.clear()
    x, y = factors(sizes, dtype, turned)
    wanted = blas_calls.by_blas(x, y)
    given_ = fnp.asarray(x), fnp.asarray(y)
    for _ in range(4):
        np.testing.assert_array_equal(np.asarray(fnp.matmul(*given_)), wanted)
        decided()


@settings(max_examples=sized(8, 100), deadline=None)
@given(
    st.tuples(st.integers(1, 80), st.integers(1, 80), st.integers(1, 500)),
    st.sampled_from(LAYOUTS),
    st.sampled_from(["f4", "f8"]),
)
def test_biased_products_have_the_bits_of_blas_and_numpy(sizes, turned, dtype):
    eager_code.kinds.clear()
    x, y = factors(sizes, dtype, turned)
    bias = np.random.default_rng(1).standard_normal(sizes[1]).astype(dtype)
    wanted = blas_calls.by_blas(x, y) + bias
    for _ in range(4):
        np.testing.assert_array_equal(blas_calls.biased_product(x, y, bias), wanted)
        decided()


def test_an_overflow_with_a_row_is_told_of_as_numpy_does():
    x, y = factors((64, 64, 64), "f4", (False, True))
    bias = np.zeros(64, "f4")
    blas_calls.biased_product(x, y, bias)
    decided()
    x[9], y[:, 5], bias[5] = 3e38 / 64, 1, 3e38
    with pytest.warns(RuntimeWarning, match="overflow"):
        out = blas_calls.biased_product(x, y, bias)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, blas_calls.by_blas(x, y) + bias)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        blas_calls.biased_product(x, y, bias)


def test_large_products_run_as_machine_code_where_bits_allow():
    x, y = factors((64, 128, 100), "f4", (False, True))
    wanted = blas_calls.by_blas(x, y)
    blas_calls.product(x, y)
    (kind,) = decided()
    if kind.code is None:
        pytest.skip("this BLAS adds up in another order")
    outs = [blas_calls.product(x, y) for _ in range(6)]
    for out in outs:
        np.testing.assert_array_equal(out, wanted)
        assert out.flags.c_contiguous
    assert len({out.ctypes.data for out in outs}) == len(outs)


@pytest.mark.parametrize("turned", LAYOUTS, ids=str)
def test_nan_and_infinity_are_told_of_as_numpy_does(turned):
    x, y = factors((64, 64, 64), "f4", turned)
    blas_calls.product(x, y)
    decided()
    x[3, 5], y[7, 2], x[9, 9] = np.inf, np.nan, 3e38
    y[9] = 3e38
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = blas_calls.product(x, y)
    with warnings.catch_warnings(record=True) as known:
        warnings.simplefilter("always")
        wanted = blas_calls.by_blas(x, y)
    assert {str(w.message) for w in caught} == {str(w.message) for w in known}
    np.testing.assert_array_equal(out, wanted)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(blas_calls.product(x, y), wanted)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        blas_calls.product(x, y)


def test_a_matrix_times_itself_transposed_is_as_symmetric_as_numpys():
    x, _ = factors((64, 8, 64), "f4", (False, False))
    other = x.T.copy().T
    blas_calls.product(x, other)
    decided()
    wanted = blas_calls.by_blas(x, x.T)
    for _ in range(3):
        np.testing.assert_array_equal(blas_calls.product(x, x.T), wanted)


def test_with_config_deterministic_blas_multiplies():
    x, y = factors((64, 64, 64), "f4", (False, False))
    with ft.config.using(deterministic=True):
        np.testing.assert_array_equal(blas_calls.product(x, y), blas_calls.by_blas(x, y))
    assert not eager_code.kinds


def test_operands_that_are_no_plain_matrices_stay_with_numpy():
    x, y = factors((64, 64, 64), "f4", (False, False))
    swapped = y.astype(">f4")
    unaligned = np.frombuffer(b"0" + y.tobytes(), np.uint8)[1:].view("f4").reshape(64, 64)
    for left, right in (
        (x[:, ::2], y[::2]),
        (x[::2], y),
        (x, y[:, ::-1]),
        (x.astype("c8"), y.astype("c8")),
        (x.astype("f2"), y.astype("f2")),
        (x.astype("i4"), y.astype("i4")),
        (x, swapped),
        (x, unaligned),
        (x, y.astype("f8")),
        (x[0], y),
        (x, y[0]),
        (x[:0], y),
        (x, y[:, :0]),
        (x[:, :0], y[:0]),
        (np.stack([x, x]), np.stack([y, y])),
    ):
        for _ in range(2):
            found = blas_calls.product(left, right)
            decided()
            np.testing.assert_array_equal(found, np.matmul(left, right))
    assert all(kind.code is None for kind in eager_code.kinds.values())


def test_threads_multiply_at_once():
    pairs = [factors((64, 96, 80), "f4", (False, True), seed) for seed in range(4)]
    wanted = [blas_calls.by_blas(x, y) for x, y in pairs]
    blas_calls.product(*pairs[0])
    decided()
    faults = []

    def work(number):
        outs = [blas_calls.product(*pairs[number]) for _ in range(30)]
        faults.extend(number for out in outs if not np.array_equal(out, wanted[number]))

    running = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not faults
