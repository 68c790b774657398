"""Gathers and rolls as machine code: what they take, in every form of a key, and their errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn_operands import laid_out, values_of
from support.long_forms import sized
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends.cpu.plan.native import native_run, region_graph, segment_code
from functensor.backends.cpu.plan.threads import pool
from functensor.backends.native import statement_printer
from functensor.backends.native.places import run_of_lanes
from functensor.backends.processor import IS_ARM64
from functensor.jitting.tiers import native_program
from functensor.passes import region_gathers

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
]

DTYPES = ["f2", "f4", "f8", "c8", "c16", "i1", "i4", "i8", "u2", "u8", "?"]
INDEX_DTYPES = ["i1", "i2", "i4", "i8", "u1", "u4", "u8"]


def compiled(call, *args, **options):
    """Returns a jitted function whose machine code for some arguments is there."""
    with ft.config.using(check_programs=True):
        jitted = ft.jit(call, **options).compile(*args)
    assert "as machine code" in jitted.explain(), jitted.explain()
    return jitted


def gathers_left(jitted, *args):
    """Returns the names of gathers and rolls that are no part of a kernel."""
    equations = native_program(jitted.lower(*args).program).equations
    names = {"roll"}
    return [
        e.primitive.name
        for e in equations
        if e.primitive.name in names or (e.primitive.name == "index" and e.params["key"].arrays)
    ]


def check(call, *args, exact=True):
    """Asserts that machine code gathers what eager mode does, of arrays of every layout too."""
    jitted = compiled(call, *args)
    assert not gathers_left(jitted, *args)
    wanted = ft.tree.leaves(call(*map(fnp.asarray, args)))
    lying = [x[..., ::1] if x.ndim == 0 else np.repeat(x, 2, -1)[..., ::2] for x in args]
    turned = [np.asfortranarray(x) for x in args]
    for arrays in (args, lying, turned):
        for got, right in zip(ft.tree.leaves(jitted(*arrays)), wanted, strict=True):
            assert got.dtype == right.dtype
            assert got.shape == right.shape
            if exact:
                np.testing.assert_array_equal(np.asarray(got), np.asarray(right))
            else:
                np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)
    return jitted


@pytest.fixture
def counted(monkeypatch):
    """Returns the numbers of gathers that graphs of kernels have had."""
    counts = []
    plain = region_graph.RegionGraph.__init__

    def counting(self, *args, **options):
        plain(self, *args, **options)
        counts.append(sum(node.operation == "gather" for node in self.graph.nodes))

    monkeypatch.setattr(region_graph.RegionGraph, "__init__", counting)
    return counts


X = np.random.default_rng(0).normal(size=(5, 6, 7))
INDICES = np.array([4, -5, 0, 2])
TABLE = np.array([[-6, 5, 0, 3], [1, 1, 1, 1], [2, -1, 0, 4]])
KEYS = {
    "the first axis": lambda x, i, j: x[i],
    "the second axis": lambda x, i, j: x[:, j],
    "the last axis": lambda x, i, j: x[..., i],
    "two axes": lambda x, i, j: x[i, j],
    "two axes apart": lambda x, i, j: x[i, :, i],
    "an ellipsis without axes between": lambda x, i, j: x[:, i, ..., i],
    "an ellipsis before an integer": lambda x, i, j: x[::-1, j, ..., -1],
    "a new axis between": lambda x, i, j: x[i, None, j],
    "slices with steps": lambda x, i, j: x[::2, j, ::-1],
    "a new axis in front": lambda x, i, j: x[None, :, j],
    "an integer beside": lambda x, i, j: x[1, j],
    "an integer behind": lambda x, i, j: x[i, 2, ::3],
    "an integer apart": lambda x, i, j: x[i, :, 3],
    "all axes": lambda x, i, j: x[i, j, i],
    "a number": lambda x, i, j: x[:, i[0]],
    "a slice of one": lambda x, i, j: x[1:2, j, 3:4],
    "indices of a length-1 axis": lambda x, i, j: x[i[:, None], j[:1], 2],
}


@pytest.mark.parametrize("call", KEYS.values(), ids=KEYS)
def test_keys(call, counted):
    check(call, X, INDICES, TABLE)
    assert any(counted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    x = values_of((5, 9), dtype if dtype[0] != "c" else f"f{int(dtype[1:]) // 2}", True, 3)
    x = x.astype(dtype)

    def call(x, i):
        return x[i], x[:, i], fnp.roll(x, 2, 1), fnp.roll(x, -3)

    check(call, x, np.array([1, -1, 4, 0, 0, 3, -5]))


@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_dtypes_of_indices(dtype):
    indices = np.array([1, 0, 4, -1, 3, -5] if dtype[0] == "i" else [1, 0, 4, 4, 3, 0], dtype)
    check(lambda x, i: (x[i] * 2, x[:, i[:2]]), X, indices)


def test_numbers_of_64_bits_without_a_sign_wrap_as_in_numpy():
    indices = np.array([1, 2**64 - 1, 2**64 - 5, 4], "u8")
    check(lambda x, i: x[i], X, indices)


ROLLS = {
    "one axis": lambda x: fnp.roll(x, 1, 0),
    "backwards": lambda x: fnp.roll(x, -2, 2),
    "two axes": lambda x: fnp.roll(x, (1, -2), (0, 2)) + x,
    "one axis twice": lambda x: fnp.roll(x, (1, 4), (1, 1)),
    "all elements": lambda x: fnp.roll(x, 11),
    "by all of its length": lambda x: fnp.roll(x, 5, 0) * 2,
    "far": lambda x: fnp.roll(x, -701, 1),
    "a transposed array": lambda x: fnp.roll(x.T, 3, 1),
    "all of a transposed array": lambda x: fnp.roll(x.T, 3) * 2,
    "an axis of length 1": lambda x: fnp.roll(x[:, :1], (1, 1), (0, 1)) + x[:, :1],
}


@pytest.mark.parametrize("call", ROLLS.values(), ids=ROLLS)
def test_rolls(call, counted):
    check(call, X)
    assert any(counted)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c16", "i1", "i8", "?"])
def test_rolls_of_long_axes_load_neighbours(dtype, monkeypatch):
    runs = []

    def noting(*args):
        runs.append(run_of_lanes(*args))
        return runs[-1]

    monkeypatch.setattr(statement_printer, "run_of_lanes", noting)
    x = values_of((3, 263), "f8" if dtype[0] == "c" else dtype, True, 7).astype(dtype)

    def call(x):
        along = [fnp.roll(x, step, 1) for step in (1, -1, 131, -7, 262)]
        return [*along, fnp.roll(x[:, :65], 8, 1), fnp.roll(x[0], 5)]

    check(call, x)
    assert dtype[0] == "c" or any(runs)


def test_a_stencil_is_one_kernel(counted):
    def around(x):
        along = [fnp.roll(x, step, axis) for axis in (0, 1) for step in (1, -1)]
        return (along[0] + along[1] + along[2] + along[3] - 4 * x) * 0.25

    jitted = check(around, X[0], exact=False)
    assert 4 in counted
    assert len(native_program(jitted.lower(X[0]).program).equations) == 1


def test_work_around_a_gather_is_in_its_kernel(counted):
    """Indices of rows have fewer axes than the rows, and a kernel of their own."""

    def call(w, x, i):
        return fnp.sum(fnp.tanh(w) * x[(i + 1) & 3] + x[fnp.minimum(abs(i), 2)])

    x, w = X[:, 0], np.cos(np.arange(70.0)).reshape(10, 7)
    jitted = check(call, w, x, np.arange(-5, 5), exact=False)
    assert 2 in counted
    equations = native_program(jitted.lower(w, x, np.arange(10)).program).equations
    assert [e.primitive.name for e in equations] == ["fused", "fused"]
    column = check(lambda x, i: x[(i + 1) & 3] * 2, x[:, 0], np.arange(-5, 5))
    assert len(native_program(column.lower(x[:, 0], np.arange(10)).program).equations) == 1


def test_indices_that_are_computed_are_tested_before():
    """An own segment computes them: the test of what is known to be in bounds is left out."""

    def call(x, i):
        return x[i * 2 + 1] * 3

    jitted = check(call, X, np.array([0, 1, -1, -3]))
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 5"):
        jitted(X, np.array([0, 3, -1, -3]))


@pytest.mark.parametrize(
    "call",
    [
        lambda i: fnp.arange(12.0)[i % 12] * 2,
        lambda i: fnp.arange(12.0).reshape(4, 3)[fnp.clip(i, 0, 3), np.arange(3)] * 2,
    ],
)
def test_constants_are_gathered_from_by_indices_of_the_same_kernel(call):
    check(call, np.array([-20, 3, 50]))


def test_indices_that_need_a_test_stay_outside_of_the_kernel(counted):
    """What computes them alone could go into the kernel that needs them, but for the test."""

    def call(x, i):
        return x[i * 2] * 1.5, i + 1

    numbers = np.array([0, 1, -1, 2, 1, 0])
    jitted = check(call, X[:, 0, 0], numbers)
    assert 1 in counted
    with pytest.raises(IndexError, match="index 8 is out of bounds for axis 0 with size 5"):
        jitted(X[:, 0, 0], numbers * 2 + 4)


def test_other_indices_out_of_bounds_are_errors_of_the_user_s_line():
    def call(x, i, j):
        return fnp.sum(x[i, :, j] * 2, axis=0)

    good = np.array([0, 4, 2]), np.array([1, -7, 6])
    jitted = check(call, X, *good, exact=False)
    for number, wrong in ((0, [0, 5, 2]), (0, [0, -6, 1]), (1, [7, 0, 0]), (1, [1, 1, -8])):
        given = list(good)
        given[number] = np.array(wrong)
        with pytest.raises(IndexError) as eager:
            call(fnp.asarray(X), *given)
        with pytest.raises(IndexError) as native:
            jitted(X, *given)
        assert str(native.value) == str(eager.value)
        (note,) = native.value.__notes__
        assert note.startswith("in index of call, at ")
        assert "test_native_gathers.py" in note
    np.testing.assert_allclose(jitted(X, *good), call(fnp.asarray(X), *good))


def test_a_donated_array_is_whole_after_an_error():
    def call(x, i):
        return x * 2 + x[i], x

    x = np.arange(6.0)
    jitted = compiled(call, x, np.arange(6), donate_argnums=0)
    given = fnp.array(x)
    with pytest.raises(IndexError):
        jitted(given, np.full(6, 6))
    doubled, _ = jitted(fnp.array(x), np.arange(6)[::-1].copy())
    np.testing.assert_array_equal(doubled, 2 * x + x[::-1])


def test_what_is_gathered_is_not_overwritten():
    """The result cannot have the memory of the array that it takes elements of."""

    def call(x, i):
        y = x + 1
        return fnp.roll(y, 1) * 2, y[i] - y

    check(call, X[0, 0], np.array([6, 5, 4, 3, 2, 1, 0]))
    jitted = compiled(lambda x: fnp.roll(x, 1) * 2, X[0, 0], donate_argnums=0)
    np.testing.assert_array_equal(jitted(fnp.array(X[0, 0])), np.roll(X[0, 0], 1) * 2)


@pytest.mark.parametrize("blocks", [1, 7])
def test_blocks_and_threads(blocks, monkeypatch):
    if blocks > 1:
        for module in (native_run, segment_code):
            monkeypatch.setattr(module, "SMALLEST_EFFORT_TO_SHARE", 50)
    x = np.arange(300.0).reshape(60, 5)
    i = np.random.default_rng(1).integers(-60, 60, 90)
    check(lambda x, i: (fnp.roll(x, 7, 0) + x, x[i] * 2, fnp.max(x[i], axis=1)), x, i)


def test_many_single_elements_alone_stay_with_numpy_on_one_thread(monkeypatch):
    x, i = np.arange(50.0), np.arange(-50, 50)
    assert not gathers_left(ft.jit(lambda x, i: x[i]), x, i)
    monkeypatch.setattr(region_gathers, "MOST_SINGLE_ELEMENTS", 99)
    monkeypatch.setattr(pool.threads, "number", 2)
    assert not gathers_left(ft.jit(lambda x, i: x[i]), x, i)
    monkeypatch.setattr(pool.threads, "number", 1)
    assert gathers_left(ft.jit(lambda x, i: x[i]), x, i) == ["index"]
    assert not gathers_left(ft.jit(lambda x, i: x[i] * 2), x, i)
    assert not gathers_left(ft.jit(lambda x, i: x[:, None][i]), x, i[:99])


def test_places_of_more_than_32_bits_stay_with_numpy():
    long = ft.ShapeDtype((2, 1 << 29), "i1"), ft.ShapeDtype((1, 1, 1 << 30, 1), "i1")

    def call(x, y):
        return fnp.roll(x, 1), fnp.roll(x, 1, 1), nn.max_pool(y, (2, 1))

    equations = native_program(ft.jit(call).lower(*long).program).equations
    assert [e.primitive.name for e in equations] == ["roll", "fused", "max_pool"]


def test_batches():
    def call(x, i):
        return x[i] * 2, fnp.roll(x, 1)

    x, i = np.arange(12.0).reshape(3, 4), np.array([[0, -1], [2, 3], [-4, 1]])
    for axes in ((0, 0), (0, None), (None, 0)):
        given = [v if axis == 0 else v[0] for v, axis in zip((x, i), axes)]
        check(ft.vmap(call, in_axes=axes), *given)


def test_derivatives():
    def loss(x, w, i, j):
        return fnp.sum(fnp.sin(x[i, :, j]) * w[j] + fnp.roll(x[0, :, 0], 1))

    i, j = np.array([0, 3, 3]), np.array([1, -7, 6])
    w = np.arange(21.0).reshape(7, 3)[:, :1] + np.zeros((7, 6))
    given = X, w, i, j
    gradient = ft.grad(loss, argnums=(0, 1))
    for got, right in zip(compiled(gradient, *given)(*given), gradient(*given), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-12, atol=1e-14)

    def tangent(x, w, i, j):
        return ft.jvp(lambda x, w: loss(x, w, i, j), (x, w), (x * 2, w + 1))

    check(tangent, *given, exact=False)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "u8"])
def test_whole_numbers_within_limits(dtype):
    x = values_of((70,), dtype, True, 5)

    def call(x):
        rest = [x % n for n in (1, 2, 3, 7, 16, 100)]
        return [*rest, fnp.clip(x, 1, 5), fnp.clip(x, 3, 2), fnp.clip(x, x // 2, 3)]

    jitted = compiled(call, x)
    names = [e.primitive.name for e in native_program(jitted.lower(x).program).equations]
    assert not {"remainder", "clip"} & set(names)
    for got, right in zip(jitted(x), call(fnp.asarray(x)), strict=True):
        assert got.dtype == right.dtype
        np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("dtype", ["f4", pytest.param("f8", marks=pytest.mark.skipif(
    IS_ARM64, reason="NumPy's numbers depend on the places of elements"
))])  # fmt: skip
def test_floats_become_whole_numbers(dtype):
    ends = [2.0**31, 2.0**31 - 1, -(2.0**31), -(2.0**31) - 0.5, -(2.0**31) - 1, 2.0**63, -(2.0**63)]
    x = np.array([0.9, -0.9, 3.5, -7.2, np.nan, np.inf, -np.inf, 1e300, *ends] * 5, "f8")
    with np.errstate(all="ignore"):
        x = x.astype(dtype)

        def call(x):
            return x.astype("i4"), x.astype("i8"), (x * 1).astype("i8") % 7

        jitted = compiled(call, x)
        assert len(native_program(jitted.lower(x).program).equations) == 1
        for got, right in zip(jitted(x), call(fnp.asarray(x)), strict=True):
            np.testing.assert_array_equal(got, right)


def test_take_along_an_axis():
    indices = np.argsort(X, axis=1)[:, ::2]
    check(lambda x, i: fnp.take_along_axis(x, i, axis=1), X, indices)


def test_bilinear_interpolation():
    def carried(field, u, v):
        rows, columns = fnp.arange(8.0)[:, None] - u, fnp.arange(8.0) - v
        above, left = fnp.floor(rows), fnp.floor(columns)
        down, right = rows - above, columns - left
        above, left = above.astype(int) % 8, left.astype(int) % 8
        below, beside = (above + 1) % 8, (left + 1) % 8
        upper = (1 - right) * field[above, left] + right * field[above, beside]
        lower = (1 - right) * field[below, left] + right * field[below, beside]
        return (1 - down) * upper + down * lower

    rng = np.random.default_rng(0)
    field, u, v = rng.normal(size=(3, 8, 8))
    check(carried, field, u, v, exact=False)


def test_empty_arrays():
    empty = np.zeros((0, 3))
    i = np.zeros(0, int)
    jitted = ft.jit(lambda x, i, e: (x[i] * 2, fnp.roll(e, 1, 0), e[:, [0, 1]])).compile(
        X, i, empty
    )
    first, second, third = jitted(X, i, empty)
    assert (first.shape, second.shape, third.shape) == ((0, 6, 7), (0, 3), (0, 2))
    jitted = ft.jit(lambda e, i: e[i] * 2).compile(empty, np.array([], int))
    with pytest.raises(IndexError, match="cannot do a non-empty take from an empty axes"):
        ft.jit(lambda e, i: e[i] * 2).compile(empty, np.array([0]))(empty, np.array([0]))


def test_a_label_of_a_loss_is_gathered_by_hand():
    def loss(x, labels):
        return -fnp.mean(nn.log_softmax(x)[fnp.arange(6), labels])

    check(loss, X[0], np.array([0, 6, 3, 2, -1, 1]), exact=False)


# -- drawn


@st.composite
def drawn(draw):
    """Draws an array, a key and index arrays."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 5, 8, 17]), min_size=1, max_size=3))
    dtype = draw(st.sampled_from(["f4", "f8", "i4", "?", "f2", "u1"]))
    x = values_of(shape, dtype, True, draw(st.integers(0, 99)))
    advanced = draw(st.lists(st.sampled_from([1, 2, 4, 9, 33]), max_size=2))
    key, indices = [], []
    for length in shape:
        kind = draw(st.sampled_from(["array", "array", "slice", "int", "whole"]))
        if draw(st.integers(0, 5)) == 5:
            key.append(None)
        if Ellipsis not in key and draw(st.integers(0, 5)) == 5:
            key.append(Ellipsis)
        if kind == "array":
            own = [1 if draw(st.booleans()) else n for n in advanced]
            own = own[draw(st.integers(0, len(own))) :]
            rng = np.random.default_rng(draw(st.integers(0, 99)))
            numbers = rng.integers(-length, length, own)
            indices.append(numbers.astype(draw(st.sampled_from(["i1", "i4", "i8"]))))
            key.append("array")
        elif kind == "slice":
            step = draw(st.sampled_from([1, 2, -1, -2]))
            key.append(slice(None, None, step))
        elif kind == "int":
            key.append(draw(st.integers(-length, length - 1)))
        else:
            key.append(slice(None))
    return (
        laid_out(x, draw(st.sampled_from(["plain", "fortran", "strided", "reversed"]))),
        key,
        indices,
    )


@settings(max_examples=sized(40, 200))
@given(drawn())
def test_drawn_keys(given):
    x, key, indices = given

    def call(x, *indices):
        arrays = iter(indices)
        found = x[tuple([next(arrays) if type(k) is str else k for k in key])]
        return found, fnp.where(found != 0, found, 1)

    jitted = ft.jit(call).compile(x, *indices)
    assert "failed" not in jitted.explain(), jitted.explain()
    for got, right in zip(jitted(x, *indices), call(fnp.asarray(x), *indices), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(right))


@pytest.mark.parametrize("part", [slice(0, 2), slice(1, 3), slice(2, 3)])
def test_indices_that_are_not_read_are_not_tested(part):
    """Arrays that a segment refuses are brought in order behind a test of the indices."""
    jitted = ft.jit(lambda x, i: (fnp.take(x, i[part]) * 2, fnp.cos(x @ x)))
    x, i = np.arange(6.0)[::-2], np.array([0, 2, 99])
    jitted.compile(x, i)
    if 99 in i[part]:
        with pytest.raises(IndexError, match="99"):
            jitted(x, i)
    else:
        np.testing.assert_array_equal(jitted(x, i)[0], 2 * x[i[part]])
