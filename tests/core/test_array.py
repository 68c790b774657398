"""The array: operators, NumPy's protocols both ways, conversion, printing, updates."""

import copy
import operator
import pickle
import warnings

import numpy as np
import pytest

import functensor as ft
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.errors import (
    ImmutableArrayError,
    TracerConversionError,
    UnusedUpdateWarning,
)

X = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -2.5]])
Y = np.array([1.5, -0.5, 2.5])
N = np.array([[1, 2, 3], [4, 5, 6]])
K = np.array([2, 1, 3])


def same(got, wanted):
    assert type(got) is ft.Array
    assert (got.shape, got.dtype) == (np.shape(wanted), np.asarray(wanted).dtype)
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-12)


# -- operators


BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
BITWISE = ["and_", "or_", "xor", "lshift", "rshift"]


@pytest.mark.parametrize("name", BINARY + COMPARISONS + BITWISE + ["pow"])
def test_binary_operators_with_arrays_numpy_and_numbers_on_both_sides(name):
    op = getattr(operator, name)
    pairs = [(N, K)] if name in BITWISE else [(X, Y), (N, K), (N, Y), (X, K)]
    for a, b in pairs:
        if name == "pow":
            a = abs(a)
        wanted = op(a, b)
        for left, right in [(wrap(a), wrap(b)), (wrap(a), b), (a, wrap(b))]:
            same(op(left, right), wanted)
        scalar = b.flat[0]
        for number in (scalar, scalar.item()):
            same(op(wrap(a), number), op(a, number))
            same(op(number, wrap(abs(a))), op(number, abs(a)))


def test_weak_python_numbers_do_not_promote():
    x = wrap(abs(X.astype("float32")))
    for got in (x + 1, 1 + x, x * 2.5, 2.5 * x, x**2, x**2.5, x / 3, 3 - x, x % 2):
        assert got.dtype == np.float32
    assert (wrap(N.astype("int8")) + 1).dtype == np.int8
    assert (x + np.float64(1)).dtype == np.float64
    assert (wrap(N) + 1.5).dtype == np.float64
    assert (x + 1j).dtype == np.complex64


@pytest.mark.parametrize("a", [X, N, X[0, 0], np.zeros((0, 3))], ids=str)
def test_unary_operators(a):
    x = wrap(a)
    same(-x, -a)
    same(+x, +a)
    same(abs(x), abs(a))
    if a.dtype.kind == "i":
        same(~x, ~a)
    same(round(x, 1), np.round(a, 1))
    for got, wanted in zip(divmod(x, 2), divmod(a, 2)):
        same(got, wanted)
    for got, wanted in zip(divmod(7, x + 0.1), divmod(7, a + 0.1)):
        same(got, wanted)


def test_matmul_with_numpy_on_both_sides():
    same(wrap(X) @ Y, X @ Y)
    same(X @ wrap(Y), X @ Y)
    same(wrap(X) @ wrap(X).T, X @ X.T)
    same(Y @ wrap(Y), Y @ Y)
    same(wrap(np.stack([X, X])).mT, np.stack([X.T, X.T]))


def test_augmented_assignment_rebinds():
    x = y = wrap(X)
    x += 1
    x *= Y
    x @= np.eye(3)
    same(x, (X + 1) * Y)
    same(y, X)


def test_operators_refuse_what_is_no_number():
    for other in ("text", None, object(), {}):
        with pytest.raises(TypeError):
            wrap(X) + other
        with pytest.raises(TypeError):
            other + wrap(X)


# -- NumPy's functions on arrays and tracers


NUMPY_CALLS = {
    "sin": lambda x: np.sum(np.sin(x)),
    "absolute": lambda x: np.sum(np.abs(x) * x),
    "add": lambda x: np.sum(np.add(x, Y) * np.multiply(Y, x)),
    "power": lambda x: np.sum(np.power(x * x, 1.5)),
    "ufunc operators": lambda x: np.sum(Y * x + np.float64(2) / (x + 5)),
    "matmul": lambda x: np.sum(np.matmul(X, x) ** 2 + X @ x),
    "dot": lambda x: np.dot(Y, x) * x[0],
    "concatenate": lambda x: np.sum(np.concatenate([x, Y, x * x]) * np.arange(9.0)),
    "stack": lambda x: np.sum(np.stack([Y, x, x * x], axis=1) ** 2),
    "sum": lambda x: np.sum(np.sum(np.stack([x, x]), axis=0) * x),
    "mean": lambda x: np.mean(x * x) + np.mean(np.stack([x, Y]), axis=(0, 1)),
    "var": lambda x: np.var(x) + np.std(x * 2, ddof=1),
    "where": lambda x: np.sum(np.where(x > 0, x * x, Y)),
    "maximum": lambda x: np.sum(np.maximum(x, 0.2) * np.minimum(x, 3.0)),
    "max": lambda x: np.max(x) * np.min(x) + np.amax(x),
    "add.reduce": lambda x: np.add.reduce(x * x) + np.add.reduce(np.stack([x, x]), axis=None),
    "multiply.reduce": lambda x: np.multiply.reduce(x) + np.maximum.reduce(x),
    "add.reduce axis": lambda x: np.sum(np.add.reduce(x * X, axis=1, keepdims=True) ** 2),
    "prod": lambda x: np.prod(x),
    "cumsum": lambda x: np.sum(np.cumsum(x) * Y),
    "reshape": lambda x: np.sum(np.reshape(x, (3, 1)) * x),
    "transpose": lambda x: np.sum(np.transpose(x * X) @ X),
    "expand_dims": lambda x: np.sum(np.expand_dims(x, 1) * np.squeeze(x[None]) ** 2),
    "tensordot": lambda x: np.sum(np.tensordot(x, X, axes=([0], [1])) ** 2),
    "einsum": lambda x: np.einsum("i,ji,i->", x, X, x),
    "clip": lambda x: np.sum(np.clip(x, -0.5, 0.7) * x),
    "tril": lambda x: np.sum(np.tril(x * np.ones((3, 3))) * np.triu(np.ones((3, 3)))),
    "flip": lambda x: np.sum(np.flip(x) * Y),
    "take": lambda x: np.sum(np.take(x, [0, 2, 0]) ** 2),
    "moveaxis": lambda x: np.sum(np.moveaxis(x * X, 0, 1) @ X),
    "broadcast_to": lambda x: np.sum(np.broadcast_to(x, (2, 3)) * X),
    "split": lambda x: np.sum(np.split(x, 3)[1] ** 2),
    "logaddexp": lambda x: np.sum(np.logaddexp(x, Y)),
    "real": lambda x: np.sum(np.real(x * 1j * x * 1j)),
}
AT = np.array([0.4, -0.7, 1.3])


@pytest.mark.parametrize("fun", NUMPY_CALLS.values(), ids=NUMPY_CALLS)
def test_numpys_functions_differentiate(fun):
    eager = fun(wrap(AT))
    assert type(eager) is ft.Array
    np.testing.assert_allclose(eager, fun(AT), rtol=1e-12)
    value, gradient = ft.value_and_grad(fun)(AT)
    np.testing.assert_allclose(value, fun(AT), rtol=1e-12)
    steps = 1e-6 * np.eye(3)
    wanted = [(fun(AT + s) - fun(AT - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(gradient, wanted, atol=1e-7)
    np.testing.assert_allclose(ft.jvp(fun, (AT,), (Y,))[1], np.dot(wanted, Y), atol=1e-7)
    np.testing.assert_allclose(ft.vmap(ft.grad(fun))(np.stack([AT, AT]))[1], wanted, atol=1e-7)


QUESTIONS = [np.shape, np.ndim, np.size, np.zeros_like, np.ones_like, np.iscomplexobj, len]
QUESTIONS += [np.result_type, lambda x: np.full_like(x, 2.0), lambda x: np.size(x, 0)]


@pytest.mark.parametrize("ask", QUESTIONS)
def test_numpys_questions_about_shapes_do_not_ask_for_values(ask):
    answers = []

    def fun(x):
        answers.append(ask(x))
        return np.sum(x * x)

    ft.grad(fun)(AT)
    ft.vmap(fun)(AT[None])
    ft.make_program(fun)(AT)
    for answer in [*answers, ask(wrap(AT))]:
        np.testing.assert_array_equal(np.asarray(answer), np.asarray(ask(AT)))


def test_numpys_functions_without_a_counterpart_work_on_plain_arrays_only():
    windows = np.lib.stride_tricks.sliding_window_view
    np.testing.assert_array_equal(windows(wrap(Y), 2), windows(Y, 2))
    twice = np.frompyfunc(lambda x: 2 * x, 1, 1)
    np.testing.assert_array_equal(twice(wrap(Y)), 2 * Y)
    with pytest.raises(TracerConversionError, match=r"sliding_window_view asked for a plain NumPy"):
        ft.grad(lambda x: np.sum(windows(x, 2)))(Y)
    with pytest.raises(TracerConversionError, match=r"<lambda> \(vectorized\) asked"):
        ft.grad(lambda x: twice(x)[0])(Y)


def test_message_1_names_the_call_the_value_and_the_transformation():
    def loss(x):
        return np.sum(np.asarray(x * 2))

    with pytest.raises(TracerConversionError) as caught:
        ft.grad(loss)(Y)
    text = str(caught.value)
    words = ["asked for a plain NumPy array", "float64[3]", "under grad(loss (", "ft.value(x)"]
    words += ["ft.stop_gradient", "ft.extend.numpy_function"]
    for part in [*words, "test_array.py:", "functensor.errors 1"]:
        assert part in text


def test_message_2_writing_into_a_numpy_buffer():
    def by_item(x):
        buffer = np.zeros(3)
        buffer[0] = x[0]
        return buffer.sum()

    def by_slice(x):
        buffer = np.zeros((2, 3))
        buffer[0] = x
        return buffer.sum()

    def by_out(x):
        return np.add(x, 1.0, out=np.zeros(3))

    def in_place(x):
        buffer = np.zeros(3)
        buffer += x
        return buffer

    for fun in (by_item, by_slice, by_out, in_place):
        with pytest.raises(ImmutableArrayError) as caught:
            ft.grad(fun)(Y)
        for part in ("plain ndarray", "functensor.numpy.zeros", ".at[i].set(x)", "errors 2"):
            assert part in str(caught.value)


def test_a_plain_array_may_be_written_into_a_numpy_buffer():
    buffer = np.zeros((2, 3))
    buffer[0] = wrap(Y)
    buffer[1, 1] = wrap(np.float64(7.0))
    buffer += wrap(np.ones(3))
    np.testing.assert_array_equal(buffer, [Y + 1, [1, 8, 1]])
    np.testing.assert_array_equal(np.add(wrap(Y), 1, out=np.zeros(3)), Y + 1)
    with pytest.raises(ImmutableArrayError, match=r"numpy\.add would write into float64\[3\]"):
        np.add(Y, 1, out=wrap(Y.copy()))


# -- conversion


@pytest.mark.parametrize(
    "a", [X, N, X[0, 0], np.zeros((0, 3)), X > 0, X * 1j, X.astype("f")], ids=str
)
def test_copies_and_pickles(a):
    x = wrap(a)
    for again in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy({"x": x})["x"]):
        same(again, a)
    assert x.tolist() == a.tolist()


def test_tracers_do_not_pickle():
    with pytest.raises(TypeError):
        ft.vmap(lambda x: pickle.dumps(x))(Y)


def test_arrays_and_tracers_are_not_hashable():
    for use in (hash, lambda x: {x}, lambda x: {x: 1}):
        with pytest.raises(TypeError, match="unhashable"):
            use(wrap(Y))
        with pytest.raises(TypeError, match="asked for the hash of float64"):
            ft.grad(use)(1.0)


def test_python_numbers_of_scalars():
    x, n = wrap(np.float64(2.5)), wrap(np.int64(2))
    assert (float(x), int(x), complex(x), bool(x), x.item(), round(x)) == (
        2.5,
        2,
        2.5,
        True,
        2.5,
        2,
    )
    assert type(x.item()) is float
    assert (operator.index(n), [1, 2, 3][n], list(range(n)), "ab"[n - 1]) == (2, 3, [0, 1], "b")
    assert float(wrap(np.array([[2.5]])).item()) == 2.5
    for bad in (x, wrap(np.array(2.5)), wrap(Y)):
        with pytest.raises(TypeError, match=r"index|integer"):
            operator.index(bad)
    for convert in (float, int):
        with pytest.raises(TypeError):
            convert(wrap(Y))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(wrap(Y))
    with pytest.raises(ValueError, match=r"size 1|one element"):
        wrap(Y).item()


def test_containers():
    x = wrap(X)
    assert len(x) == 2
    for row, wanted in zip(x, X, strict=True):
        same(row, wanted)
    assert 2.0 in x
    assert 9.0 not in x
    a, b, c = wrap(Y)
    assert [float(v) for v in (a, b, c)] == Y.tolist()
    assert float(ft.grad(lambda x: sum(x))(Y)[1]) == 1.0
    for ask in (len, iter, list):
        with pytest.raises(TypeError, match=r"len\(\)|iteration|0-d"):
            ask(wrap(np.float64(1)))
    assert float(max(wrap(Y))) == 2.5


def test_what_it_is():
    x = wrap(X.astype("f"))
    assert (x.shape, x.ndim, x.size, x.dtype, x.device) == ((2, 3), 2, 6, np.float32, "cpu")
    assert (x.nbytes, x.itemsize) == (24, 4)
    same(x.T, X.astype("f").T)
    same(wrap(X * 1j).imag, X)
    same(wrap(X * 1j).real, X * 0)
    for name in ("shape", "dtype", "T", "anything"):
        with pytest.raises(AttributeError):
            setattr(x, name, 1)
    assert x.__array_namespace__() is ft.numpy


METHODS = {
    "astype": lambda x: x.astype("float32").astype(int),
    "reshape": lambda x: x.reshape(3, 2).reshape((6,)).reshape(-1, 1).reshape(-1),
    "transpose": lambda x: x.transpose() @ x.transpose(0, 1) @ x.transpose((1, 0)),
    "sum": lambda x: x.sum() + x.sum(0) + x.sum(axis=1, keepdims=True) + x.sum((0, 1)),
    "sum dtype": lambda x: x.sum(0, "float32"),
    "prod": lambda x: x.prod() + x.prod(axis=0),
    "mean": lambda x: x.mean() + x.mean(1, keepdims=True),
    "var": lambda x: x.var() + x.std(axis=1, ddof=1, keepdims=True),
    "max": lambda x: x.max() + x.min(axis=0) + x.max(1, keepdims=True),
    "any": lambda x: (x > 1).any(axis=0) & (x > -9).all(),
    "argmax": lambda x: x.argmax() + x.argmin(axis=1),
    "cumsum": lambda x: x.cumsum() + x.cumsum(axis=1).sum(),
    "squeeze": lambda x: x[None].squeeze() + x[:, None].squeeze(1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "ravel": lambda x: x.ravel() + x.flatten(),
    "dot": lambda x: x.dot(x.T),
    "clip": lambda x: x.clip(-1, 1) + x.clip(min=0) + x.clip(max=0.5),
    "conj": lambda x: (x * 1j).conj(),
    "round": lambda x: x.round(1) + x.round(),
    "take": lambda x: x.take([0, 2], axis=1) + x.take(np.array([1])),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_methods_are_numpys(method):
    got = method(wrap(X))
    assert type(got) is ft.Array
    assert got.dtype == method(X).dtype
    np.testing.assert_allclose(got, method(X), rtol=1e-6)


# -- printing


PRINTED = [
    (np.array([1.0, 2.0]), "Array([1., 2.], dtype=float64, device='cpu')", "[1. 2.]"),
    (np.float32(2.5), "Array(2.5, dtype=float32, device='cpu')", "2.5"),
    (np.array(3), "Array(3, dtype=int64, device='cpu')", "3"),
    (np.zeros((0, 3)), "Array([], shape=(0, 3), dtype=float64, device='cpu')", "[]"),
    (np.array([True]), "Array([ True], dtype=bool, device='cpu')", "[ True]"),
]


@pytest.mark.parametrize(("a", "shown", "printed"), PRINTED, ids=[p[2] for p in PRINTED])
def test_arrays_print_like_numpy(a, shown, printed):
    assert repr(wrap(a)) == shown
    assert str(wrap(a)) == printed
    assert f"{wrap(a)}" == printed


def test_large_arrays_are_summarised():
    text = repr(wrap(np.arange(10**6)))
    assert "..." in text
    assert len(text) < 200
    assert f"{wrap(np.float64(3.14159)):.2f}" == "3.14"
    assert f"{wrap(np.array(42)):>5d}" == "   42"
    with pytest.raises(TypeError):
        format(wrap(Y), ".2f")


def test_tracers_show_shape_dtype_and_transformation():
    shown = []

    def loss(x):
        shown.append((repr(x), str(x), f"{x}", f"{x.sum()!r}"))
        return np.sum(x * x)

    ft.grad(loss)(Y)
    ft.vmap(ft.grad(loss))(X)
    ft.make_program(loss)(Y)
    for texts, words in zip(shown, ["grad(loss", "of grad(loss", "make_program(loss"], strict=True):
        assert all("float64[" in text and words in text for text in texts)
        assert "float64[3]" in texts[0]
    formatted = []
    ft.grad(lambda x: formatted.append(f"{x:.1f}") or x)(2.0)
    assert formatted == ["2.0"]


# -- updates


UPDATES = {
    "set": lambda a, i, v: a.__setitem__(i, v),
    "add": lambda a, i, v: np.add.at(a, i, v),
    "multiply": lambda a, i, v: np.multiply.at(a, i, v),
    "min": lambda a, i, v: np.minimum.at(a, i, v),
    "max": lambda a, i, v: np.maximum.at(a, i, v),
}
KEYS = [
    0,
    -1,
    (1, 2),
    slice(None),
    (slice(None), 1),
    (Ellipsis, [0, 2]),
    ([0, 1, 0], 2),
    X > 0,
    (0, None),
]


@pytest.mark.parametrize("kind", UPDATES)
@pytest.mark.parametrize("key", KEYS, ids=[str(i) for i in range(len(KEYS))])
def test_updates_are_numpys_on_a_copy(kind, key):
    wanted = X.copy()
    UPDATES[kind](wanted, key, 0.75)
    x = wrap(X)
    same(getattr(x.at[key], kind)(0.75), wanted)
    same(x, X)
    same(x.at[key].get(), X[key])
    x32 = wrap(X.astype("f"))
    assert getattr(x32.at[key], kind)(0.75).dtype == np.float32
    assert getattr(x32.at[key], kind)(np.float64(0.75)).dtype == np.float32


def test_updates_differentiate():
    def fun(x, v):
        return np.sum(x.at[0].set(v).at[1, 2].multiply(v[0]).at[[1, 1], 0].add(v[:2]) * X)

    by_x, by_v = ft.grad(fun, (0, 1))(X, Y)
    same(by_x, np.array([[0, 0, 0], [X[1, 0], X[1, 1], X[1, 2] * Y[0]]]))
    same(by_v, X[0] + [X[1, 0] + X[1, 2] ** 2, X[1, 0], 0])


def test_message_3_assignment_and_dropped_results():
    x = wrap(Y)
    with pytest.raises(ImmutableArrayError) as caught:
        x[0] = 1.0
    for part in ("float64[3]", "immutable", "x = x.at[i].set(value)", "test_array.py:", "errors 3"):
        assert part in str(caught.value)
    with pytest.raises(ImmutableArrayError):
        x[0] += 1.0
    with pytest.raises(TypeError):
        del x[0]
    with pytest.raises(ImmutableArrayError):
        ft.grad(lambda y: y.__setitem__(0, 1.0))(Y)
    with pytest.warns(
        UnusedUpdateWarning, match=r"x\.at\[\.\.\.\]\.add\(\.\.\.\) is thrown away[\s\S]*errors 3"
    ) as seen:
        x.at[0].add(1.0)
    assert seen[0].filename == __file__
    with pytest.warns(UnusedUpdateWarning):
        ft.grad(drops)(Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = x.at[0].set(1.0)
        [x.at[i].set(0.0) for i in range(2)]
        assert x.at[0].set(1.0)[0] == 1.0
        (lambda: x.at[0].set(1.0))()


def drops(y):
    y.at[0].set(1.0)
    return np.sum(y)
