"""Plans of machine code: what they compute, from arrays of every kind."""

import numpy as np
import pytest
import support.registry_cases as cases
from core.test_primitives import PRIMITIVES
from support.long_forms import only_long, thinned
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.native import segment_code
from functensor.backends.cpu.plan.native.segments import Segment, segmented
from functensor.jitting.tiers import native_program
from functensor.primitives.core.registry import registry
from functensor.testing import assert_allclose

TOLERANCES = {np.float32: {"rtol": 1e-4, "atol": 1e-5}, np.float64: {}}
pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::functensor.programs.staging_warnings.StagingWarning"),
]


def compiled(call, *args, **options):
    """Returns a jitted function whose machine code for some arguments is there."""
    with ft.config.using(check_programs=True):
        jitted = ft.jit(call, **options).compile(*args)
    assert "failed" not in jitted.explain(), jitted.explain()
    return jitted


def samples_of(primitive, dtype):
    """Returns calls of a primitive's samples, and their operands in one list."""
    calls, operands = [], []
    for sample in primitive.samples:
        given = cases.operands_of(primitive, sample, dtype)
        calls.append((cases.applied(primitive, sample), len(operands), len(given)))
        operands += given

    def every(*xs):
        return [call(*xs[begin : begin + count]) for call, begin, count in calls]

    return every, operands


def check_primitive(primitive, dtype):
    every, operands = samples_of(primitive, dtype)
    jitted = compiled(every, *operands)
    wanted = every(*operands)
    assert_allclose(jitted(*operands), wanted)
    strided = [x if x.ndim == 0 else np.repeat(x, 2, -1).copy("F")[..., ::2] for x in operands]
    assert_allclose(jitted(*strided), wanted)


@pytest.mark.parametrize("name", thinned(PRIMITIVES, every=4))
def test_primitive(name):
    primitive = registry[name]
    check_primitive(primitive, "f" if "f" in primitive.dtypes else primitive.dtypes[0])


@only_long
@pytest.mark.long
@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitive_in_all_dtypes(name):
    for dtype in registry[name].dtypes:
        check_primitive(registry[name], dtype)


@only_long
@pytest.mark.long
@pytest.mark.parametrize("name", PRIMITIVES)
def test_derivatives_and_batches_of_a_primitive(name):
    primitive = registry[name]
    dtype = "d" if "d" in primitive.dtypes else primitive.dtypes[0]
    for sample in primitive.samples:
        call = cases.applied(primitive, sample)
        operands = cases.operands_of(primitive, sample, dtype)
        if operands:
            batch = cases.operands_of(primitive, sample, dtype, ((3,),) * len(operands))
            mapped = ft.vmap(call)
            assert_allclose(compiled(mapped, *batch)(*batch), mapped(*batch))
        if not cases.has_derivative(primitive, sample, dtype):
            continue
        inner, values = cases.by_inexact(call, operands)

        def both(*xs, inner=inner):
            out, pull = ft.vjp(inner, *xs)
            tangents = ft.jvp(inner, xs, tuple(fnp.cos(x.real) for x in xs))[1]
            return [tangents, *pull(out)]

        assert_allclose(compiled(both, *values)(*values), both(*values))


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, -1e30, 0.5]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_special_values_are_those_of_eager_mode(dtype):
    with np.errstate(all="ignore"):
        x, y = (np.ravel(v).astype(dtype) for v in np.meshgrid(SPECIAL, SPECIAL))

    def every(x, y):
        return [
            *(f(x, y) for f in (fnp.add, fnp.maximum, fnp.minimum, fnp.copysign, fnp.power)),
            *(f(x, y) for f in (fnp.less, fnp.equal, fnp.fmax, fnp.logical_xor, fnp.divide)),
            *(f(x) for f in (fnp.exp, fnp.log, fnp.tanh, fnp.sign, fnp.sqrt, fnp.isnan)),
            *(f(x) for f in (ft.nn.relu, ft.nn.sigmoid, ft.nn.silu, ft.nn.softplus, ft.nn.gelu)),
            *(fnp.where(x > y, x, y), fnp.clip(x, -0.5, 0.5), abs(x), -x, x**2, x**-3.0),
        ]

    with np.errstate(all="ignore"):
        eager = every(x, y)
    for got, wanted in zip(compiled(every, x, y)(x, y), eager, strict=True):
        got, wanted = np.asarray(got), np.asarray(wanted)
        assert got.dtype == wanted.dtype
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, wanted, rtol=3e-3 if dtype == "float16" else 1e-6)
            either = np.isnan(got) | (got == 0)
            assert np.array_equal(np.signbit(got)[~either], np.signbit(wanted)[~either])
        else:
            assert np.array_equal(got, wanted)


def test_numbers_beside_float16_are_rounded_to_it():
    x = np.array([0, 1e-4, 1, 3, -7, 60_000], "float16")

    def every(x):
        return [
            *(x * 1e9, x * 0.1, x / 3e-8, 0.1 - x, x * 3.0005, x**0.1),
            *((x * 0.1).astype("float32"), x * 0 + fnp.float16(0.1) == 0.1, x < 59_999),
        ]

    with np.errstate(all="ignore"):
        jitted = ft.jit(every).compile(x)
        for found, wanted in zip(jitted(x), every(fnp.asarray(x)), strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert "machine code" in jitted.explain()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_signs_of_zeros_are_those_of_eager_mode(dtype):
    x = np.array([0.0, -0.0, 0.0, -0.0], dtype)
    y = np.array([0.0, 0.0, -0.0, -0.0], dtype)

    def every(x, y):
        return [
            x[:, None] @ y[None],
            x + y,
            x * y,
            fnp.maximum(x, y),
            fnp.minimum(x, y),
            ft.nn.relu(x),
            -x,
            x - y,
        ]

    for got, wanted in zip(compiled(every, x, y)(x, y), every(x, y), strict=True):
        assert np.array_equal(np.signbit(got), np.signbit(wanted))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_sums_of_negative_zeros_are_those_of_eager_mode(dtype):
    x = np.full((40, 5, 3), -0.0, dtype)
    x = np.conj(x) if x.dtype.kind == "c" else x

    def every(x):
        sums = [fnp.sum(x, axis=axis) for axis in (0, 1, 2, (0, 2), (1, 2), None)]
        return [*sums, fnp.mean(x, axis=1), x[:, :, 0] @ fnp.ones(5, dtype)]

    for got, wanted in zip(compiled(every, x)(x), every(fnp.asarray(x)), strict=True):
        for part in (np.real, np.imag):
            assert np.array_equal(np.signbit(part(got)), np.signbit(part(wanted)))


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i4", ">f2"])
def test_bytes_in_the_other_order(dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)

    def f(x):
        return x * 2 + 1, fnp.sum(x, axis=0), x @ x.T

    assert_allclose(compiled(f, x)(x), f(fnp.asarray(x)))


def test_what_is_rolled_keeps_the_order_of_its_bytes():
    x = np.arange(6.0).reshape(2, 3).astype(np.dtype(float).newbyteorder())
    for roll in (fnp.roll, ft.jit(lambda x, n, axis: fnp.roll(x, n, axis), static_argnums=(1, 2))):
        found = np.asarray(roll(x, 1, 1))
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, np.roll(x, 1, 1))


def test_a_wrong_label_is_an_error_and_loses_nothing():
    logits = np.linspace(-1, 1, 12).reshape(4, 3).astype(np.float32)

    def mean_loss(logits, labels):
        return fnp.mean(ft.nn.softmax_cross_entropy(logits, labels))

    labels = np.array([0, 2, 1, 1])
    jitted = compiled(ft.value_and_grad(mean_loss), logits, labels)
    wanted = ft.value_and_grad(mean_loss)(logits, labels)
    for wrong in (3, -1):
        with pytest.raises(IndexError, match=f"label {wrong} is none of the 3 classes") as error:
            jitted(logits, np.array([0, 2, wrong, 1]))
        assert "test_native_code.py" in "".join(error.value.__notes__)
    assert_allclose(jitted(logits, labels), wanted)


@pytest.mark.parametrize("rows", [4, 200_000])
def test_a_wrong_label_is_told_with_the_line_that_reads_it(rows):
    def mean_loss(weights, inputs, labels):
        logits = fnp.tanh(inputs @ weights) * 2
        return fnp.mean(ft.nn.softmax_cross_entropy(logits, labels))

    line = mean_loss.__code__.co_firstlineno + 2
    weights, inputs = np.ones((3, 5), np.float32), np.ones((rows, 3), np.float32)
    labels = np.zeros(rows, np.int64)
    jitted = compiled(ft.value_and_grad(mean_loss), weights, inputs, labels)
    jitted(weights, inputs, labels)
    labels[2] = 7
    with pytest.raises(IndexError, match="label 7 is none of the 5 classes") as error:
        jitted(weights, inputs, labels)
    (note,) = [n for n in error.value.__notes__ if "mean_loss, at" in n]
    assert note.startswith("in cross_entropy of mean_loss, at")
    assert note.endswith(f"test_native_code.py:{line}")


@pytest.mark.parametrize("signed", ["int8", "int16", "int32", "int64"])
def test_integers_with_and_without_a_sign_compare_as_whole_numbers(signed):
    x = np.array([0, 1, 2**63, 2**64 - 1] * 3, np.uint64)
    y = np.array([-1, 1, 7, -5] * 3, signed)

    def every(x, y):
        compare = (fnp.less, fnp.less_equal, fnp.greater, fnp.greater_equal)
        pairs = [(x, y), (y, x), (x, -1), (-1, x), (y, 300), (x, 2**64 - 1)]
        return [f(*pair) for f in (*compare, fnp.equal, fnp.not_equal) for pair in pairs]

    for got, wanted in zip(compiled(every, x, y)(x, y), every(x, y), strict=True):
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_infinite_rows_are_those_of_eager_mode(dtype):
    inf = np.inf
    x = np.array([[inf, 1, 2], [inf, inf, 0], [-inf, -inf, -inf], [-inf, 3, 4], [0, np.nan, 1]])
    x, labels = x.astype(dtype), np.array([0, 2, 1, 0, 1])

    def every(x):
        return [
            ft.nn.softmax(x, axis=-1),
            ft.nn.log_softmax(x, axis=-1),
            ft.nn.softmax_cross_entropy(x, labels),
            ft.nn.logsumexp(x, axis=-1),
        ]

    with np.errstate(all="ignore"):
        for got, wanted in zip(compiled(every, x)(x), every(x), strict=True):
            assert_allclose(got, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_two_zeros_clip_takes_that_of_eager_mode(dtype):
    x = np.array([0.0, -0.0, 0.0, -0.0, np.nan, 3.0], dtype)
    limit = np.array([0.0, 0.0, -0.0, -0.0, 1.0, np.nan], dtype)

    def every(x, limit):
        return [fnp.clip(x, limit, limit), fnp.clip(x, 0.0, 0.0), fnp.clip(x, limit[:1], 1.0)]

    for got, wanted in zip(compiled(every, x, limit)(x, limit), every(x, limit), strict=True):
        assert_allclose(got, wanted)
        assert np.array_equal(np.signbit(got), np.signbit(wanted))


@pytest.mark.parametrize("length", [0, 1, 7, 64, 1000])
def test_lengths_that_fill_no_lanes(length):
    x = np.linspace(-1, 2, length)

    def f(x):
        return fnp.sum(fnp.sin(x) * x), x * 2 > 1, fnp.exp(x)

    assert_allclose(compiled(f, x)(x), f(x))


def test_operands_that_lie_otherwise():
    x = np.arange(24.0).reshape(4, 6)

    def f(x, y):
        z = x @ y.T
        return fnp.tanh(z).T @ x, fnp.sum(z, axis=0), (z * 2)[1:, ::2]

    jitted = compiled(f, x, x)
    wanted = f(x, x)
    for y in (np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x[::-1][::-1]):
        assert_allclose(jitted(x, y), wanted)
    wide = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float64).reshape(4, 6)
    assert not wide.flags.aligned
    assert_allclose(jitted(x, wide), wanted)


def test_a_segment_that_refuses_arrays_says_why(monkeypatch):
    made, init = [], Segment.__init__

    def recorded(segment, *args):
        made.append(segment)
        init(segment, *args)

    monkeypatch.setattr(Segment, "__init__", recorded)
    x = np.arange(12.0).reshape(3, 4)
    compiled(lambda x: (fnp.tanh(x) @ x.T) * 2, x)
    segment = next(segment for segment in made if hasattr(segment, "call"))
    results = [np.empty(out.type.shape) for out in segment.outputs]
    memory = np.empty(segment.memory, np.uint8) if segment.memory else None
    segment.again(x, *results, memory)
    np.testing.assert_allclose(results[0], np.tanh(x) @ x.T * 2)
    segment.call = lambda *arrays: True
    with pytest.raises(RuntimeError, match=r"not aligned, or .* no class: float64\[3, 4\]$"):
        segment.again(x, *results, memory)


def test_a_segment_of_many_arrays_tests_them_in_a_loop():
    """LLVM needs minutes for hundreds of tests, and of addresses that are kept behind them."""
    xs = [np.ones((2, n)) for n in range(1, 60)]
    program = ft.make_program(lambda xs: [fnp.sin(x) + x for x in xs])(xs)
    text = segmented(native_program(program)).text
    assert text.count("ret i64 1\n") == 1


def test_what_a_full_segment_does_not_take_is_another_segment(monkeypatch):
    monkeypatch.setattr(segment_code, "MOST_SEGMENT_EQUATIONS", 8)
    xs = [np.ones((2, n)) for n in range(1, 30)]
    program = ft.make_program(lambda xs: [fnp.sin(x) + x for x in xs])(xs)
    equations = segmented(native_program(program)).equations
    assert [equation.primitive.name for equation in equations] == ["native"] * 4


def test_views_of_arrays_are_read_where_they_lie(monkeypatch):
    def refused(segment, *arrays):
        raise AssertionError("an array is brought in order")

    monkeypatch.setattr(Segment, "again", refused)
    x = np.linspace(-2, 2, 4 * 6 * 5).reshape(4, 6, 5)

    def f(x):
        y = fnp.sort(x, axis=1)  # NumPy's
        turned = y.transpose((2, 0, 1))
        part = turned[1:, :, ::2]
        mixed = fnp.tanh(part) * x[:, 1:4, :4].transpose((2, 0, 1))
        rows = ft.nn.softmax(y.transpose((0, 2, 1)), axis=-1)
        tail = fnp.sort(mixed, axis=0)  # NumPy's, and a view of it in another segment
        return mixed, rows, fnp.sum(part, axis=1) + 1, tail[..., 1] - part[..., 0], turned

    wanted = f(x)
    for dtype in (np.float32, np.float64):
        given = x.astype(dtype)
        jitted = compiled(f, given)
        got = jitted(given)
        assert_allclose(got, tuple(w.astype(dtype) for w in wanted), **TOLERANCES[dtype])
        assert "segment_1(" in jitted._last.compiled.run.source


def test_a_result_does_not_take_the_memory_of_a_view_that_is_read():
    def f(x):
        y = fnp.cumsum(x, axis=0)
        z = y.T * 2 + y
        return fnp.cumsum(z, axis=0) + z[::-1], y[1:] - y[:-1]

    x = np.linspace(0, 1, 49).reshape(7, 7)
    assert_allclose(compiled(f, x)(x), f(x))


def test_a_result_in_the_memory_of_a_strided_operand():
    x = np.arange(12.0).reshape(3, 4) / 7

    def f(x):
        y = fnp.cumprod(x[:, ::-1], axis=1)[:, ::-1]
        return fnp.cumsum(y * x + 1.0, axis=0)

    assert_allclose(compiled(f, x)(x), f(x))


def test_donated_memory_holds_the_results():
    def step(params, grads):
        return [p - 0.1 * g for p, g in zip(params, grads, strict=True)]

    params = [fnp.ones((5, 3)), fnp.ones(7)]
    grads = [fnp.full((5, 3), 2.0), fnp.full(7, 3.0)]
    jitted = compiled(step, params, grads, donate_argnums=0)
    places = [np.asarray(p).ctypes.data for p in params]
    new = jitted([p + 0 for p in params], grads)
    assert_allclose(new, step(params, grads))
    taken = [fnp.asarray(np.ones((5, 3))), fnp.asarray(np.ones(7))]
    places = [np.asarray(p).ctypes.data for p in taken]
    assert [np.asarray(p).ctypes.data for p in jitted(taken, grads)] == places


def test_a_chain_of_thousands_of_operations():
    def f(x):
        for i in range(3000):
            x = x * 0.999 + (i % 3)
        return x

    x = np.ones(5)
    jitted = compiled(f, x)
    assert_allclose(jitted(x), f(x))


def test_numbers_and_arrays_without_axes():
    def f(x, s):
        total = fnp.sum(x * s)
        return total, x / total, s * 2

    x = np.arange(1.0, 6.0)
    for s in (2.0, np.float64(3.0), np.asarray(4.0)):
        assert_allclose(compiled(f, x, s)(x, s), f(x, s))


def test_sums_are_as_exact_as_those_of_pairs():
    rng = np.random.default_rng(0)
    x = rng.random(1 << 18, np.float32)
    jitted = compiled(lambda x: fnp.sum(x * x), x)
    wanted = np.sum((x * x).astype(np.float64))
    assert abs(float(jitted(x)) - wanted) < 1e-6 * wanted
