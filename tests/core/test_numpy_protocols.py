"""NumPy's own functions on arrays and tracers: they differentiate, or refuse in clear words."""

import numpy as np
import pytest
import scipy.special

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.errors import (
    ConcretizationError,
    ImmutableArrayError,
    TracerConversionError,
)
from functensor.testing import check_grads

X = np.array([0.4, 0.7, 1.3])
W = np.array([0.5, 1.0, 2.0])
A = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, 0.4], [0.3, 0.1, 1.8]])

# -- what differentiates

CALLS = {
    "linalg.solve": lambda x: np.linalg.solve(A, x),
    "linalg.inv": lambda x: np.linalg.inv(A * x),
    "linalg.norm": lambda x: np.linalg.norm(x),
    "linalg.det": lambda x: np.linalg.det(A * x),
    "fft.fft": lambda x: np.abs(np.fft.fft(x)) ** 2,
    "fft.irfft": lambda x: np.fft.irfft(np.fft.rfft(x, 4)),
    "divmod": lambda x: np.divmod(x, W)[1],
    "add.reduce where": lambda x: np.add.reduce(x * x, where=W > 0.7),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x),
    "add.reduceat": lambda x: np.add.reduceat(A * x, [0, 2, 1], axis=1),
    "maximum.reduceat": lambda x: np.maximum.reduceat(x, [0, 2, 1]),
    "add.accumulate": lambda x: np.add.accumulate(A * x, axis=1),
    "multiply.accumulate": lambda x: np.multiply.accumulate(x),
    "maximum.accumulate": lambda x: np.maximum.accumulate(A * x, 0),
    "minimum.accumulate": lambda x: np.minimum.accumulate(x),
    "logaddexp.accumulate": lambda x: np.logaddexp.accumulate(x),
    "multiply.outer": lambda x: np.multiply.outer(x, W),
    "subtract.outer": lambda x: np.subtract.outer(A, x),
    "power.outer list": lambda x: np.power.outer([1.5, 2.5], x),
    "special.gammaln": lambda x: scipy.special.gammaln(x),
    "special.expit": lambda x: scipy.special.expit(x * W),
    "ndarray @": lambda x: A @ x,
    "float64 *": lambda x: np.float64(2.0) * x + np.float32(1),
    "object buffer": lambda x: np.sum(as_items(x) * W),
    "object array": lambda x: np.sum(np.array([x[0], 2.0, x[1] * x[2]], dtype=object) ** 2),
    "asarray of objects": lambda x: np.prod(np.asarray(x, dtype=object)),
    "full_like": lambda x: np.full_like(fnp.asarray(x), 2.0) * x,
    "resize to a vector": lambda x: np.resize(x, np.array([2, 2])) ** 2,
    "moveaxis by vectors": lambda x: np.moveaxis(A[None] * x, np.array([0, 1]), fnp.array([2, 0])),
    "moveaxis by numbers": lambda x: np.moveaxis(A[None] * x, fnp.array(0), np.array(2)),
}


def as_items(x):
    items = np.empty(3, dtype=object)
    for i in range(3):
        items[i] = x[i]
    return items


@pytest.mark.parametrize("fun", CALLS.values(), ids=CALLS)
def test_numpys_and_scipys_functions_differentiate(fun):
    plain = fun(X)
    got = fun(wrap(X))
    np.testing.assert_allclose(got, plain, rtol=1e-12)
    check_grads(fun, (wrap(X),), order=2)
    np.testing.assert_allclose(ft.vmap(fun)(np.stack([X, W]))[0], plain, rtol=1e-12)


@pytest.mark.parametrize(
    "ufunc", [np.add, np.multiply, np.maximum, np.fmin, np.logaddexp], ids=lambda u: u.__name__
)
@pytest.mark.parametrize("shape", [(1,), (5, 2), (0, 2), (8, 3)], ids=str)
def test_accumulation_is_numpys(ufunc, shape):
    x = np.random.default_rng(0).normal(size=shape)
    for axis in range(len(shape)):
        got = ufunc.accumulate(wrap(x), axis)
        assert isinstance(got, ft.Array)
        np.testing.assert_allclose(got, ufunc.accumulate(x, axis), rtol=1e-12)
    assert ufunc.accumulate(wrap(x), dtype="float32").dtype == np.float32


def test_ufuncs_take_a_dtype():
    got = np.add(wrap(X), W, dtype="float32")
    assert (type(got), got.dtype) == (ft.Array, np.float32)
    with pytest.raises(TypeError, match="dtype=int32"):
        np.add(wrap(X), 1.0, dtype="int32")


def test_functions_of_others_by_numpys_names_are_left_alone():
    sin = np.frompyfunc(lambda x: -x, 1, 1)
    assert np.asarray(sin(wrap(X)), float).tolist() == (-X).tolist()
    with pytest.raises(TracerConversionError, match="vectorized"):
        ft.grad(lambda x: sin(x)[0])(X)


def test_what_is_no_number_stays_numpys():
    assert np.where(wrap(X) > 0.5, wrap(X), "a").tolist() == ["a", "0.7", "1.3"]
    first, second = np.broadcast_arrays(wrap(X), None)
    assert (first.tolist(), second.tolist()) == (X.tolist(), [None] * 3)
    with pytest.raises(TracerConversionError):
        ft.grad(lambda x: np.where(x > 0.5, x, "a").size * x[0])(X)


def test_libraries_get_numpys_results_of_plain_arrays():
    def atleast(library, x):
        scope = {"np": np, "x": x, "__name__": library}
        exec("made = np.atleast_1d(x), np.sin(x)", scope)
        return scope["made"]

    for made in atleast("scipy.optimize._made_up", wrap(X)):
        assert type(made) is np.ndarray
    for made in (*atleast("made_up", wrap(X)), *atleast("scipyish", wrap(X))):
        assert type(made) is ft.Array
    traced = ft.grad(lambda x: sum(m.sum() for m in atleast("scipy.made_up", x)))(X)
    np.testing.assert_allclose(traced, 1 + np.cos(X))
    t = ft.Tensor(X, requires_grad=True)
    sum(m.sum() for m in atleast("scipy.made_up", t)).backward()
    np.testing.assert_allclose(t.grad, 1 + np.cos(X))
    with pytest.raises(ImmutableArrayError, match="plain ndarray"):
        np.add(W, t, out=np.zeros(3))


def test_the_namespace_is_asked_for_by_edition():
    assert wrap(X).__array_namespace__(api_version="2024.12") is fnp
    with pytest.raises(ValueError, match=r"no edition '1999\.01'"):
        wrap(X).__array_namespace__(api_version="1999.01")


# -- what is written into


def item(x):
    buffer = np.zeros(3)
    buffer[0] = x[0]
    return buffer.sum()


def rows(x):
    buffer = np.zeros((2, 3))
    buffer[:] = x
    return buffer.sum()


def augmented_item(x):
    buffer = np.zeros(3)
    buffer[0] += x[0]
    return buffer.sum()


def augmented(x):
    buffer = np.zeros(3)
    buffer -= 2 * x
    return buffer.sum()


WRITES = {
    "item": item,
    "rows": rows,
    "augmented item": augmented_item,
    "augmented": augmented,
    "out": lambda x: np.add(W, x, out=np.zeros(3)),
    "out, where": lambda x: np.divide(W, x, out=np.zeros(3), where=W > 0),
    "multiply.at": lambda x: np.multiply.at(np.ones(3), [0], x[0]),
    "copyto": lambda x: np.copyto(np.zeros(3), x),
    "fill_diagonal": lambda x: np.fill_diagonal(np.zeros((3, 3)), x),
    "put": lambda x: np.put(np.zeros(3), [0], x[:1]),
    "putmask": lambda x: np.putmask(np.zeros(3), W > 0, x),
    "place": lambda x: np.place(np.zeros(3), W > 0, x),
    "put_along_axis": lambda x: np.put_along_axis(np.zeros(3), np.array([0]), x[:1], 0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_tracer_is_never_written_into_a_numpy_buffer(write):
    modes = [ft.grad(write), lambda x: ft.jvp(write, (x,), (x,))]
    modes += [lambda x: ft.vmap(write)(x[None]), ft.make_program(write)]
    for mode in modes:
        with pytest.raises(ImmutableArrayError, match="plain ndarray") as e:
            mode(X)
        assert "functensor.errors 2" in str(e.value)


def test_plain_arrays_are_written_into_numpy_buffers():
    w = X.copy()
    w -= 0.5 * wrap(W)
    w[0] = wrap(W)[1]
    w[1:] *= fnp.array([2.0, 3.0])
    w[fnp.array([1])] = fnp.array([7.0])
    np.testing.assert_allclose(w, [1.0, 7.0, 3 * (X[2] - 1.0)])
    np.add.at(w, fnp.array([0, 0]), wrap(W)[:2])
    np.copyto(w[1:], wrap(W)[1:])
    np.testing.assert_allclose(w, [2.5, 1.0, 2.0])
    np.put_along_axis(w, np.array([0]), wrap(W)[:1], 0)
    assert w[0] == 0.5
    np.testing.assert_allclose(
        np.divide(W, wrap(X), out=np.zeros(3), where=W > 0.7), [0, 1 / 0.7, 2 / 1.3]
    )


REFUSED = {
    "out": (lambda x: np.add(x, 1.0, out=x), r"y = np\.add"),
    "out, where": (
        lambda x: np.divide(1.0, x, out=np.zeros_like(x), where=x > 0.5),
        r"np\.where\(mask, np\.divide",
    ),
    "add.at": (lambda x: np.add.at(x, [0], 1.0), r"x = x\.at\[i\]\.add\(values\)"),
    "fill_diagonal": (lambda x: np.fill_diagonal(x, 1.0), r"functensor\.numpy\.fill_diagonal"),
    "put_along_axis": (
        lambda x: np.put_along_axis(x, np.array([0]), 1.0, 0),
        r"functensor\.numpy\.put_along_axis",
    ),
    "copyto": (lambda x: np.copyto(x, 1.0), r"x = np\.where"),
}


@pytest.mark.parametrize(("write", "fix"), REFUSED.values(), ids=REFUSED)
def test_arrays_are_not_written_into(write, fix):
    for call in (lambda: write(wrap(X)), lambda: ft.grad(write)(X)):
        words = rf"would write into float64\[3\](?s:.)*{fix}"
        with pytest.raises(ImmutableArrayError, match=words) as e:
            call()
        assert "functensor.errors 3" in str(e.value)


# -- what would drop a derivative

DROPS = {
    "asarray": lambda x: np.asarray(x),
    "array": lambda x: np.array([x[0], 1.0]),
    "sum of a list": lambda x: np.sum([x[0], x[1]]),
    "ndarray.dot": lambda x: W.dot(x),
    "full": lambda x: np.full(3, x[0]),
    "random": lambda x: np.random.default_rng(0).normal(x),
    "vectorize": lambda x: np.vectorize(lambda v: v * 2)(x),
    "math": lambda x: np.float64(x[0]),
}


@pytest.mark.parametrize("drop", DROPS.values(), ids=DROPS)
def test_no_derivative_is_dropped_in_silence(drop):
    def fun(x):
        return drop(x).sum()

    for mode in (ft.grad(fun), lambda x: ft.jvp(fun, (x,), (x,))):
        with pytest.raises(TracerConversionError, match=r"functensor\.errors 1"):
            mode(X)


def test_numpy_buffers_are_not_indexed_by_tracers():
    with pytest.raises(TracerConversionError, match=r"functensor\.numpy\.asarray\(buf\)\[i\]"):
        ft.vmap(lambda i: W[i])(np.arange(3))
    np.testing.assert_array_equal(ft.vmap(lambda i: fnp.asarray(W)[i])(np.arange(3)), W)
    assert ft.grad(lambda i: W[i] * 1.0, allow_int=True)(1) == 0
    np.testing.assert_array_equal(W[fnp.array([True, False, True])], [0.5, 2.0])


# -- numbers that NumPy wants to know

AXES = {
    "np.moveaxis(A, n, 0)": lambda n: np.moveaxis(A, n, 0),
    "np.moveaxis(A, 0, n)": lambda n: np.moveaxis(A, 0, n),
    "np.moveaxis(A, [n], [0])": lambda n: np.moveaxis(A, [n], [0]),
    "np.resize(A, n)": lambda n: np.resize(A, n),
    "np.resize(wrap(A), n)": lambda n: np.resize(wrap(A), n),
    "np.resize(wrap(A), (n, 2))": lambda n: np.resize(wrap(A), (n, 2)),
    "np.flip(A, n)": lambda n: np.flip(A, n),
    "np.median(A, n)": lambda n: np.median(A, n),
    "np.fft.fftshift(A, n)": lambda n: np.fft.fftshift(A, n),
}


@pytest.mark.parametrize("form", [ft.jit, ft.make_program, lambda f: lambda n: ft.vmap(f)(n[None])])
@pytest.mark.parametrize("code", AXES)
def test_numbers_that_numpy_wants_and_that_are_not_known(form, code):
    fun = AXES[code]
    with pytest.raises(ConcretizationError) as caught:
        form(fun)(np.array(1))
    lines = str(caught.value).splitlines()
    asked = f"{code} asked for the value of int64[], which depends on argument 0"
    assert lines[0].startswith(asked)
    assert lines[1] == f"  at {__file__}:{fun.__code__.co_firstlineno}"
    assert lines[-1] == "  see python -m functensor.errors 5"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("form", "under"), [(lambda f: f, ""), (ft.jit, "jit"), (ft.vmap, "vmap"), (ft.grad, "grad")]
)
@pytest.mark.parametrize(
    ("code", "fun"),
    [
        ("np.resize(A, x)", lambda x: np.resize(A, x)),
        ("np.moveaxis(A, x, 0)", lambda x: np.moveaxis(A, x, 0)),
        ("list(x)", lambda x: list(x)),
        ("max(*x)", lambda x: max(*x)),
    ],
)
def test_what_has_no_axes_is_not_gone_over(form, under, code, fun):
    x = fnp.asarray(X if form is ft.vmap else 2.0)
    with pytest.raises(TypeError) as caught:
        form(fun)(x)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{code}: iteration over an array without axes, float64[]"
    assert lines[1] == f"  at {__file__}:{fun.__code__.co_firstlineno}"
    assert lines[2:-1] == ([f"  under {under}(<lambda> ({lines[1][5:]}))"] if under else [])
    assert lines[-1] == "  fix: int(x) for a number, np.atleast_1d(x) for an array with an axis"


def test_what_has_no_axes_has_no_length():
    x = wrap(X)[0]
    with pytest.raises(TypeError, match=r"^len\(x\): len\(\) of an array without axes, float64"):
        len(x)


def test_a_shape_that_is_wrong_is_no_context_of_another_error():
    with pytest.raises(TypeError, match="'float' object cannot be interpreted") as caught:
        fnp.reshape(wrap(X), 2.5)
    assert caught.value.__context__ is None


# -- tensors


class Foreign:
    """Knows how to be added to everything."""

    def __radd__(self, other):
        return "foreign"


def test_foreign_operands_of_tensors_in_place():
    t = ft.Tensor([1.0, 2.0])
    t += Foreign()
    assert t == "foreign"
    t = ft.Tensor([1.0, 2.0])
    with pytest.raises(TypeError, match=r"unsupported operand .* 'Tensor' and 'str'"):
        t *= "a"
    with pytest.raises(TypeError, match="expected an array or a number, got str"):
        t.mul_("a")
    assert t.tolist() == [1.0, 2.0]


def test_tensors_repeat_as_in_pytorch():
    t = ft.Tensor([1.0, 0.0])
    assert t.repeat(2).tolist() == [1.0, 0.0, 1.0, 0.0]
    assert t.repeat(2, 1).shape == (2, 2)
    assert t.repeat(2, axis=0).tolist() == [1.0, 1.0, 0.0, 0.0]
    assert t.nonzero().tolist() == [[0]]
    assert [i.tolist() for i in t.nonzero(as_tuple=True)] == [[0]]
