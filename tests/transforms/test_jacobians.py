"""Jacobians and Hessians by every mode and in chunks, and products that need neither."""

import numpy as np
import pytest
from support.counted import peak_of
from support.trees import close

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import (
    GradientInputError,
    NonScalarOutputError,
    RuleResultError,
)
from functensor.transforms.jacobian import _known_function

X = np.array([0.3, -1.2, 2.0])
M = np.arange(6.0).reshape(2, 3) / 7


def fun(p, y):
    return {"s": fnp.sin(p["m"] @ p["x"]) * y, "t": (fnp.sum(p["x"] ** 2), p["x"] * y)}


P = {"m": M, "x": X}
JACOBIANS = {
    "jacfwd": ft.jacfwd,
    "jacrev": ft.jacrev,
    "auto": ft.jacobian,
    "fwd": lambda *a, **k: ft.jacobian(*a, mode="fwd", **k),
    "rev": lambda *a, **k: ft.jacobian(*a, mode="rev", **k),
}
MODES = ["fwd-rev", "rev-rev", "fwd-fwd", "rev-fwd"]


# -- chunks


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 9, 100, None])
@pytest.mark.parametrize("name", JACOBIANS)
def test_chunks_give_the_same(name, chunk_size):
    wanted = ft.jacfwd(fun, (0, 1))(P, 2.0)
    got = JACOBIANS[name](fun, (0, 1), chunk_size=chunk_size)(P, 2.0)
    close(got, wanted)
    with_aux, aux = JACOBIANS[name](
        lambda p, y: (fun(p, y), {"y": y, "text": "t"}), chunk_size=chunk_size, has_aux=True
    )(P, 2.0)
    close(with_aux, ft.jacfwd(fun)(P, 2.0))
    assert aux["text"] == "t"
    assert float(aux["y"]) == 2.0
    batch = ft.vmap(JACOBIANS[name](lambda x: fnp.sin(M @ x), chunk_size=chunk_size))(M)
    close(batch, np.stack([np.asarray(ft.jacrev(lambda x: fnp.sin(M @ x))(x)) for x in M]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chunk_size", [None, 1, 2])
def test_hessians_of_every_mode_and_chunk(mode, chunk_size):
    def loss(p):
        return fnp.sum(fnp.exp(p["x"]) * p["x"][::-1]) * p["s"] ** 2

    p = {"x": X, "s": 1.5}
    wanted = ft.hessian(loss)(p)
    got, aux = ft.hessian(
        lambda p: (loss(p), "aux"), mode=mode, chunk_size=chunk_size, has_aux=True
    )(p)
    close(got, wanted, 1e-11)
    assert aux == "aux"
    vector = ft.hessian(lambda x: x**3, mode=mode, chunk_size=chunk_size)(X)
    wanted = np.zeros((3, 3, 3))
    wanted[[0, 1, 2], [0, 1, 2], [0, 1, 2]] = 6 * X
    close(vector, wanted)
    cubes = ft.hessian(lambda z: fnp.sum(z**3), mode=mode, holomorphic=True)
    close(cubes(X + 1j), np.diag(6 * X + 6j))


@pytest.mark.parametrize("name", JACOBIANS)
def test_nothing_to_differentiate(name):
    jacobian = JACOBIANS[name]
    for chunk_size in (None, 2):
        empty = jacobian(lambda x: x, chunk_size=chunk_size)(np.zeros((0, 2)))
        close(empty, np.zeros((0, 2, 0, 2)))
        close(jacobian(lambda x: x[:0], chunk_size=chunk_size)(X), np.zeros((0, 3)))
        close(jacobian(lambda t: 2.0, chunk_size=chunk_size)({"a": None}), {"a": None})
    assert jacobian(lambda x: {"none": None})(X) == {"none": None}


@pytest.mark.parametrize("jacobian", [ft.jacfwd, ft.jacrev])
def test_chunks_bound_the_memory(jacobian):
    frequencies = np.arange(2000.0).reshape(50, 40) / 100

    def fun(x):
        return fnp.sum(fnp.reshape(fnp.sin(frequencies[:, :, None] * x), (-1, 40, 40)), (0, 2))

    def call(chunk_size):
        return lambda: jacobian(fun, chunk_size=chunk_size)(np.ones(40))

    close(call(3)(), call(None)(), 1e-9)
    assert peak_of(call(3)) < 0.4 * peak_of(call(None))


@pytest.mark.parametrize("size", [0, -1])
def test_chunk_sizes_are_positive(size):
    for name in ("jacfwd", "jacrev", "jacobian", "hessian"):
        with pytest.raises(ValueError, match=f"{name}: chunk_size={size} is not positive"):
            getattr(ft, name)(fun, chunk_size=size)
    with pytest.raises(TypeError):
        ft.jacfwd(fun, chunk_size=1.5)


# -- which mode


@pytest.mark.parametrize(
    ("fun", "x", "calls"),
    [
        (lambda x: fnp.sum(x * x), X, "rev"),
        (lambda x: x[0] * fnp.ones(5), X, "fwd"),
        (lambda x: x * x, X, "fwd"),
        (lambda x: x * x, 2.0, "fwd"),
        (lambda x: fnp.sum(x * x) if x[0] > 0 else fnp.sum(x), X, "rev"),
        (lambda x: fnp.sum(x) * 1j, X, "fwd"),
        (lambda x: fnp.sum(x) * 1j if x[0] > 0 else x, X, "fwd"),
        (ft.grad(lambda x: fnp.sum(x**3)), X, "rev"),
        (lambda x: 2 * ft.grad(lambda x: fnp.sum(x**3))(x), X, "rev"),
        (lambda x: ft.grad(lambda x: fnp.sum(x**3) + x[0] * x[1])(x)[:2], X, "rev"),
        (lambda x: fnp.tile(ft.grad(lambda x: fnp.sum(x**3))(x), 2), X, "fwd"),
    ],
)
def test_auto_takes_the_cheaper_mode(fun, x, calls):
    @ft.custom_vjp
    def told(x):
        return x

    seen = []
    told.defvjp(lambda x: (x, None), lambda _, g: (seen.append("rev") or g,))
    def of_told(x):
        return fun(told(x))

    close(ft.jacobian(of_told)(x), ft.jacfwd(fun)(x))
    known, key = _known_function(of_told, [x], False)
    assert known[key] == calls
    if calls == "rev":
        assert seen[-1:] == ["rev"]


@pytest.mark.parametrize("made", [lambda f: f, ft.grad, lambda f: ft.jacrev(ft.grad(f))])
def test_auto_looks_once_which_mode_is_cheaper(made):
    looked = []

    def cubes(x):
        inner = x
        while not hasattr(inner, "tangent") and hasattr(inner, "value"):
            inner = inner.value
        looked.append(hasattr(getattr(inner, "tangent", None), "variable"))
        return fnp.sum(x**3)

    for at in (X, X, X + 1, np.ones(5), X, np.ones(5)):
        ft.jacobian(made(cubes))(at)
    assert looked == [True, False, False, True, False, False]


@pytest.mark.parametrize("outputs", [1, 3, 20])
@pytest.mark.parametrize("has_aux", [False, True])
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_a_function_that_branches_on_values_runs_once(outputs, has_aux, chunk_size):
    values = []

    def branching(x):
        # Staging ends at the condition.
        kind = 1.0 if x[0] > 0 else 2.0
        values.append(kind)
        out = fnp.tile(fnp.sin(x) * fnp.sum(x), 7)[:outputs] * kind
        return (out, "extras") if has_aux else out

    jacobian = ft.jacobian(branching, has_aux=has_aux, chunk_size=chunk_size)
    found = jacobian(X)
    assert values == [1.0]
    wanted = ft.jacrev(branching, has_aux=has_aux)(X)
    values.clear()
    for got in (found, jacobian(X)):
        assert not has_aux or got[1] == "extras"
        close(got[0] if has_aux else got, wanted[0] if has_aux else wanted)
    # A chunk of columns takes a run, and rows take one altogether.
    assert len(values) == (2 if chunk_size and outputs > 1 else 1)
    close(jacobian(-X)[0] if has_aux else jacobian(-X), (wanted[0] if has_aux else wanted) * -2)


@pytest.mark.parametrize("mode", ["fwd", "auto"])
def test_a_single_input_takes_one_pass_without_a_batch(mode):
    seen = []

    @ft.custom_jvp
    def told(x):
        return x

    told.defjvp(lambda primals, ts: (seen.append(fnp.shape(ts[0])) or primals[0], ts[0]))
    for x in (2.0, np.full((1,), 2.0), np.full((1, 1), 2.0)):
        seen.clear()
        got = ft.jacobian(lambda x: fnp.ones(3) * told(x) ** 2, mode=mode)(x)
        assert got.shape == (*fnp.broadcast_shapes((3,), np.shape(x)), *np.shape(x))
        close(got, np.full(got.shape, 4.0))
        assert seen == [np.shape(x)]


def test_auto_asks_again_of_another_function_of_the_same_derivative():
    def fun(x):
        return fnp.sum(x) * fnp.ones(3)

    for f in (fun, ft.elementwise_grad(fun), lambda x: fun(x)[:1]):
        close(ft.jacobian(f)(X), ft.jacfwd(f)(X))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_single_output_takes_one_pass_without_a_batch(shape):
    @ft.custom_vjp
    def told(x):
        return x

    seen = []
    told.defvjp(lambda x: (x, None), lambda _, g: (seen.append(fnp.shape(g)) or g,))

    def fun(x):
        return fnp.reshape(fnp.sum(told(x) ** 2), shape)

    got = ft.jacrev(fun)(X)
    assert got.shape == (*shape, *X.shape)
    close(got, np.reshape(2 * X, got.shape))
    assert seen == [X.shape]


def test_the_hessian_goes_over_the_gradient_once():
    calls = []

    def fun(x):
        calls.append(type(x).__name__)
        return fnp.sum(x**3)

    close(ft.hessian(fun)(X), np.diag(6 * np.ravel(X)).reshape(X.shape * 2))
    assert calls == ["ReverseTracer"]


def test_modes_that_there_are_not():
    with pytest.raises(ValueError, match="mode='forward' is none of 'auto', 'fwd', 'rev'"):
        ft.jacobian(fun, mode="forward")
    with pytest.raises(ValueError, match="hessian: mode='fwd' is none of 'fwd-rev', 'rev-rev'"):
        ft.hessian(fun, mode="fwd")


@pytest.mark.parametrize("name", JACOBIANS)
def test_every_mode_gives_the_dtype_of_the_argument(name):
    single, double = X.astype("float32"), X
    got = JACOBIANS[name](lambda a, b: a * b, (0, 1))(single, double)
    assert [g.dtype for g in got] == [np.float32, np.float64]
    close(got, (np.diag(double).astype("float32"), np.diag(single).astype("float64")), 1e-6)
    assert JACOBIANS[name](lambda x: x.astype("float32"))(double).dtype == np.float64
    z = (X + 1j).astype("complex64")
    assert JACOBIANS[name](lambda z: z * z, holomorphic=True)(z).dtype == np.complex64


def test_complex_outputs_of_real_inputs():
    for jacobian in (ft.jacfwd, ft.jacobian):
        close(jacobian(lambda x: x * (1 + 2j))(X), np.eye(3) * (1 + 2j))
        got = jacobian(lambda x: fnp.sum(x * (1 + 2j)))(X.astype("float32"))
        close(got, np.full(3, 1 + 2j, "complex64"))
    with pytest.raises(TypeError, match=r"jacrev of .*holomorphic=True, or split"):
        ft.jacrev(lambda x: x * (1 + 2j))(X)


def test_errors_speak_as_the_function_that_was_called():
    for name in ("jacfwd", "jacrev", "jacobian", "hessian"):
        with pytest.raises(TypeError, match=f"{name} of sin: complex values have one Jacobian"):
            getattr(ft, name)(fnp.sin)(X + 1j)
        with pytest.raises(GradientInputError, match="argument 0 is int64"):
            getattr(ft, name)(fnp.sin)(3)
        with pytest.raises(TypeError, match=r"has_aux=True is for .* but sin returned one value"):
            getattr(ft, name)(fnp.sin, has_aux=True)(X)

        def branches(x):
            return ft.vmap(lambda y: y if y > 0 else -y)(x)

        # The outputs' size of the automatic mode is found before it is known to be a Jacobian.
        transformation = "vmap" if name == "jacobian" else name
        with pytest.raises(TypeError, match=rf"(under|of) {transformation}\("):
            getattr(ft, name)(branches)(X)


# -- products


def test_hvp_and_its_errors():
    def loss(x, s=1.0):
        return fnp.sum(x**3) * s, {"x": x}

    product, aux = ft.hvp(loss, (X,), (X + 1,), has_aux=True)
    close(product, 6 * X * (X + 1))
    close(aux["x"], X)
    first = lambda x: loss(x)[0]  # noqa: E731
    close(ft.vmap(lambda v: ft.hvp(first, (X,), (v,)))(np.eye(3)), np.diag(6 * X))
    told = r"(?s)hvp takes a tuple or list .*ft.hvp\(f, .*hvp\(<lambda>"
    with pytest.raises(TypeError, match=told):
        ft.hvp(first, X, X)
    with pytest.raises(RuleResultError, match="hvp of <lambda>: the tangents have the structure"):
        ft.hvp(first, (X,), (X, X))
    with pytest.raises(RuleResultError, match=r"tangent of shape \(2, 3\)"):
        ft.hvp(first, (X,), (M,))
    with pytest.raises(NonScalarOutputError, match=r"hvp of sin: the output has shape \(3,\)"):
        ft.hvp(fnp.sin, (X,), (X,))
    with pytest.raises(GradientInputError, match="argument 0 is int64"):
        ft.hvp(first, (3,), (1,))


def test_linearize_with_aux_integers_and_trees():
    def fun(t, n):
        return {"a": fnp.exp(t[0]) * n, "n": n + 1}, {"text": "t", "x": t[0]}

    out, linear, aux = ft.linearize(fun, [X], 3, has_aux=True)
    close(out, {"a": 3 * np.exp(X), "n": 4})
    assert aux["text"] == "t"
    close(aux["x"], X)
    close(linear([X], 0), {"a": 3 * np.exp(X) * X, "n": 0})
    close(ft.vjp(lambda t: linear([t], 0)["a"], X)[1](X)[0], 3 * np.exp(X) * X)
    with pytest.raises(RuleResultError, match="linearize of fun: the tangents have the structure"):
        linear(X, 0)
    second = ft.grad(lambda x: fnp.sum(ft.linearize(lambda y: y**3, x)[1](X)))(X)
    close(second, 6 * X * X)


LINEAR = {
    "half precision": (lambda x: fnp.sum(x * fnp.asarray([1.5, 2, 3, 4], "f2")) * 2, "float16"),
    "a chain of it": (lambda x: fnp.cumsum(fnp.cumsum(x)) @ fnp.ones((4, 3), "f2"), "float16"),
    "narrowed within": (lambda x: fnp.cumsum(x.astype("f2")).astype("f8") * 3, "float64"),
    "narrowed": (lambda x: x.astype("f4"), "float64"),
    "bfloat16": (lambda x: x.astype("bfloat16") * 2, "float64"),
    "to complex": (lambda x: x.astype("c16") * 1j, "float64"),
    "to real": (lambda x: x.real - x.imag, "complex128"),
    "there and back": (lambda x: fnp.fft.ifft(fnp.fft.fft(x)).real - x, "float64"),
    "of large parts": (lambda x: 1e8 * fnp.fft.ifft(fnp.fft.fft(x)).real - 1e8 * x, "float64"),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_functions_that_round(name):
    fun, dtype = LINEAR[name]
    x = np.array([1.0, -2.0, 3.0, 0.5], dtype)
    out = fun(fnp.asarray(x))
    (got,) = ft.linear_transpose(fun, x)(fnp.ones(out.shape, out.dtype))
    (wanted,) = ft.vjp(fun, x)[1](fnp.ones(out.shape, out.dtype))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x * x, abs, lambda x: fnp.maximum(x, 0), fnp.median, fnp.sort, fnp.sin,
        fnp.round, lambda x: fnp.abs(x) * x, ft.stop_gradient, lambda x: x[0] * x[1],
    ],
)  # fmt: skip
def test_functions_that_are_not_linear_are_refused(fun, dtype):
    with pytest.raises(ValueError, match="not linear"):
        ft.linear_transpose(fun, np.ones(5, dtype))


def test_linear_transpose():
    def fun(p, y):
        return {"s": M @ p["x"] + y, "t": 2 * fnp.cumsum(p["x"])}

    transposed = ft.linear_transpose(fun, {"x": X}, ft.ShapeDtype((2,), "float32"))
    s, t = np.array([1.0, 2.0]), X + 1
    got = transposed({"s": s, "t": t})
    close(got, ({"x": M.T @ s + 2 * np.cumsum(t[::-1])[::-1]}, s.astype("float32")))
    again = ft.linear_transpose(lambda c: transposed(c)[0], {"s": s, "t": t})
    close(again({"x": X})[0]["s"], M @ X)
    close(ft.linear_transpose(lambda z: (2 + 1j) * z, 1j)(1.0 + 0j), (2 + 1j,))
    close(ft.vmap(ft.linear_transpose(lambda x: M @ x, X))(np.eye(2)), (M,))
    got = ft.grad(lambda w: fnp.sum(ft.linear_transpose(lambda x: w @ x, X)(s)[0]))(M)
    close(got, np.tile(s[:, None], (1, 3)))
    with pytest.raises(ValueError, match="it is not linear, since it does not take zeros to zeros"):
        ft.linear_transpose(lambda x: x + 1, X)


@pytest.mark.parametrize(
    "fun",
    [
        fnp.square, fnp.sin, fnp.abs, fnp.sign, fnp.sinh, lambda x: fnp.clip(x, -10, 10),
        lambda x: x[0] * x[1], lambda x: {"s": x, "t": fnp.maximum(x, 0)}, fnp.sort,
        lambda x: 3 * x + 1e-3 * x**2,
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_not_linear_is_not_transposed(fun, dtype):
    with pytest.raises(ValueError, match="it is not linear, since it is not its derivative") as e:
        ft.linear_transpose(fun, ft.ShapeDtype((3,), dtype))
    assert "ft.vjp(fun, *primals) transposes its derivative at a point" in str(e.value)


@pytest.mark.parametrize(
    "fun",
    [
        fnp.cumsum, fnp.fft.fft, fnp.conj, fnp.real, lambda x: x[::-1] * 1e6 - 1e-9 * x,
        lambda x: fnp.where(fnp.arange(500) % 2 == 0, x, 2 * x), lambda x: fnp.diff(x) * 1e-30,
        lambda x: fnp.convolve(x, x.real * 0 + 1), lambda x: x[:0], lambda x: x * 0,
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_what_is_linear_but_for_rounding_is_transposed(fun, dtype):
    x = ft.ShapeDtype((500,), dtype)
    out = ft.eval_shape(fun, x)
    (got,) = ft.linear_transpose(fun, x)(fnp.ones(out.shape, out.dtype))
    assert (got.shape, got.dtype) == ((500,), dtype)


# -- elementwise


def test_elementwise_grad_of_every_order():
    derivative = fnp.tanh
    t = np.tanh(X)
    wanted = [t, 1 - t**2, -2 * t * (1 - t**2), (6 * t**2 - 2) * (1 - t**2)]
    for w in wanted:
        close(derivative(fnp.asarray(X)), w, 1e-11)
        derivative = ft.elementwise_grad(derivative)
    close(ft.elementwise_grad(fnp.sin)(M), np.cos(M))
    close(ft.elementwise_grad(fnp.sin)(0.5), np.cos(0.5))
    close(ft.vmap(ft.elementwise_grad(fnp.sin))(M), np.cos(M))
    close(ft.elementwise_grad(fnp.sin)(X.astype("float32")), np.cos(X.astype("float32")), 1e-6)


def test_elementwise_grad_selects_and_takes_what_grad_takes():
    def fun(x, y, n=2):
        return x**n * y

    close(ft.elementwise_grad(fun, 1)(X, X), X**2)
    close(ft.elementwise_grad(fun, (0, 1))(X, X), (2 * X * X, X**2))
    close(ft.elementwise_grad(fun)(X, 3.0), 6 * X)
    close(ft.elementwise_grad(fun, argnames="y")(X, y=3.0), np.sum(X**2))  # it is added up
    derivative, aux = ft.elementwise_grad(lambda x: (x * x, x), has_aux=True)(X)
    close((derivative, aux), (2 * X, X))
    close(ft.elementwise_grad(fun, (0, 2), allow_int=True)(X, 1.0, 2), (2 * X, 0))
    z = X + 1j
    close(ft.elementwise_grad(lambda z: z**3, holomorphic=True)(z), 3 * z**2)
    close(ft.elementwise_grad(lambda z: fnp.abs(z) ** 2)(z), 2 * np.conj(z))
    with pytest.raises(NonScalarOutputError, match=r"elementwise_grad of .* is complex128"):
        ft.elementwise_grad(lambda z: z**3)(z)
    with pytest.raises(TypeError, match="holomorphic=True is for complex inputs, not float64"):
        ft.elementwise_grad(lambda z: z**3, holomorphic=True)(X)
    with pytest.raises(NonScalarOutputError, match="the output is bool, not real"):
        ft.elementwise_grad(lambda x: x > 0)(X)
    with pytest.raises(GradientInputError, match="argument 0 is int64"):
        ft.elementwise_grad(lambda x: x * 1.0)(np.arange(3))


def test_the_rest_of_grads_options_agree_between_transformations():
    """``allow_int``, ``holomorphic`` and ``has_aux`` mean the same everywhere."""
    z = 0.3 + 0.8j
    cube = lambda z: z**3  # noqa: E731
    wanted = 3 * z**2
    for derivative in (ft.grad, ft.jacfwd, ft.jacrev, ft.jacobian, ft.elementwise_grad):
        close(derivative(cube, holomorphic=True)(z), wanted)
        close(derivative(lambda z: (cube(z), 1), holomorphic=True, has_aux=True)(z)[0], wanted)
    for derivative in (ft.grad, ft.elementwise_grad):
        close(derivative(lambda n: n * 2.0, allow_int=True)(3), 0)


def test_vjp_of_several_outputs_with_aux():
    out, pull, aux = ft.vjp(lambda x, y: ((x * y, {"s": fnp.sum(x)}), [y]), X, 2.0, has_aux=True)
    close(out, (2 * X, {"s": X.sum()}))
    close(aux, [2.0])
    close(pull((X, {"s": 1.0})), (2 * X + 1, np.sum(X * X)))


def test_the_hessians_automatic_mode_is_its_default():
    x = np.array([1.0, 2.0])
    cubes = ft.hessian(lambda x: fnp.sum(x**3) * x[0], mode="auto")(x)
    np.testing.assert_array_equal(cubes, ft.hessian(lambda x: fnp.sum(x**3) * x[0])(x))
