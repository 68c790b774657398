"""``checkpoint``: the same values and derivatives in every composition, and less memory."""

import functools
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.counted import peak_of
from support.trees import close

import functensor as ft
import functensor.numpy as fnp
from functensor.testing import check_grads

X = np.array([0.3, -1.2, 2.0])
W = np.arange(9.0).reshape(3, 3) / 10 - 0.4
Pair = namedtuple("Pair", "a b")


def layer(w, x):
    return fnp.tanh(w @ x) * fnp.sin(x)


def plain(w, x):
    return fnp.sum(layer(w, layer(w, x)) ** 2)


def by_arguments(w, x):
    f = ft.checkpoint(layer)
    return fnp.sum(f(w, f(w, x)) ** 2)


def by_closure(w, x):
    f = ft.checkpoint(lambda x: layer(w, x))
    return fnp.sum(f(f(x)) ** 2)


def by_closure_alone(w, x):
    return fnp.sum(ft.checkpoint(lambda: layer(w, layer(w, x)))() ** 2)


def nested(w, x):
    @ft.checkpoint
    def outer(x):
        return ft.checkpoint(lambda y: layer(w, y))(layer(w, x))

    return fnp.sum(outer(x) ** 2)


def within_a_loop(w, x):
    for row in range(2):
        scale = w[row] * 0 + 1
        x = ft.checkpoint(lambda x: layer(w, x) * scale)(x)  # noqa: B023 - what is tested
    return fnp.sum(x**2)


FORMS = {f.__name__: f for f in (by_arguments, by_closure, by_closure_alone, nested, within_a_loop)}

TRANSFORMED = {
    "value": lambda f: lambda: f(W, X),
    "grad": lambda f: lambda: ft.grad(f, (0, 1))(W, X),
    "grad by one": lambda f: lambda: ft.grad(f, 1)(W, X),
    "grad by the closed-over": lambda f: lambda: ft.grad(f, 0)(W, X),
    "value_and_grad": lambda f: lambda: ft.value_and_grad(f)(W, X),
    "jvp": lambda f: lambda: ft.jvp(f, (W, X), (W + 1, X * 2)),
    "jvp by one": lambda f: lambda: ft.jvp(lambda w: f(w, X), (W,), (W + 1,)),
    "linearize": lambda f: lambda: ft.linearize(f, W, X)[1](W + 1, X * 2),
    "vmap": lambda f: lambda: ft.vmap(f, (None, 0))(W, np.stack([X, X + 1])),
    "vmap of grad": lambda f: lambda: ft.vmap(ft.grad(f, (0, 1)), (None, 0))(W, np.stack([X, -X])),
    "grad of vmap": lambda f: (
        lambda: ft.grad(lambda w, xs: fnp.sum(ft.vmap(f, (None, 0))(w, xs)), (0, 1))(
            W, np.stack([X, -X])
        )
    ),
    "vmap of the weights": lambda f: lambda: ft.vmap(f, (2, None))(np.stack([W, -W], 2), X),
    "hessian": lambda f: lambda: ft.hessian(f, (0, 1))(W, X),
    "hessian by reverse mode": lambda f: lambda: ft.hessian(f, (0, 1), mode="rev-rev")(W, X),
    "hessian by forward mode": lambda f: lambda: ft.hessian(f, 1, mode="fwd-fwd")(W, X),
    "hessian by reverse over forward": lambda f: lambda: ft.hessian(f, 1, mode="rev-fwd")(W, X),
    "jacrev": lambda f: lambda: ft.jacrev(lambda x: layer(W, x) * f(W, x))(X),
    "hvp": lambda f: lambda: ft.hvp(f, (W, X), (W, X)),
    "third": lambda f: (
        lambda: ft.grad(lambda x: ft.grad(lambda x: ft.grad(f, 1)(W, x)[0])(x)[1])(X)
    ),
    "staged": lambda f: lambda: ft.make_program(f)(W, X)(W, X),
    "grad of staged": lambda f: lambda: ft.grad(ft.make_program(f)(W, X), (0, 1))(W, X),
    "staged grad": lambda f: lambda: ft.make_program(ft.grad(f, (0, 1)))(W, X)(W, X),
    "vmap of staged": lambda f: (
        lambda: ft.vmap(ft.make_program(f)(W, X), (None, 0))(W, np.stack([X, -X]))
    ),
    "one of two nested grads": lambda f: (
        lambda: ft.grad(lambda a: ft.grad(lambda x: f(W * a, x))(X * a)[0])(1.5)
    ),
    "vjp pulled later": lambda f: lambda: ft.vmap(ft.vjp(f, W, X)[1])(np.array([1.0, 2.0])),
    "vjp within vmap within grad": lambda f: (
        lambda: ft.grad(
            lambda w: fnp.sum(
                ft.vmap(lambda x: fnp.sum(ft.vjp(lambda y: f(w, y), x)[1](1.0)[0] ** 2))(
                    np.stack([X, -X])
                )
            )
        )(W)
    ),
}


@pytest.mark.parametrize("transformed", TRANSFORMED)
@pytest.mark.parametrize("form", FORMS)
def test_every_composition_gives_what_it_gives_without(form, transformed):
    close(TRANSFORMED[transformed](FORMS[form])(), TRANSFORMED[transformed](plain)(), 1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_derivatives_are_those_of_differences(form):
    check_grads(FORMS[form], (W, X), order=2)


def test_it_is_run_again_in_the_backward_pass_only():
    runs = []

    @ft.checkpoint
    def f(x):
        runs.append(1)
        return fnp.sin(x)

    f(1.0)
    assert len(runs) == 1
    ft.jvp(f, (1.0,), (1.0,))
    ft.vmap(f)(X)
    assert len(runs) == 3
    _, pull = ft.vjp(f, 1.0)
    assert len(runs) == 4
    pull(1.0)
    assert len(runs) == 5
    ft.grad(lambda x: x * 2.0 + ft.stop_gradient(f(2.0)))(1.0)  # no input depends on x
    assert len(runs) == 6


def chain(x):
    for _ in range(8):
        x = fnp.sin(x) * x
    return x


@pytest.mark.parametrize(
    ("transform", "share"),
    [
        (lambda f: ft.grad(lambda x: fnp.sum(f(x))), 0.35),
        (lambda f: ft.grad(lambda x: fnp.sum(ft.grad(lambda x: fnp.sum(f(x)))(x) ** 2)), 0.5),
        (lambda f: ft.grad(lambda x: fnp.sum(ft.jvp(f, (x,), (x,))[1])), 0.4),
        (lambda f: ft.grad(lambda x: fnp.sum(ft.vmap(f)(fnp.stack([x, x])))), 0.35),
    ],
    ids=["grad", "grad of grad", "grad of jvp", "grad of vmap"],
)
def test_memory_falls(transform, share):
    x = np.linspace(0.1, 1, 20_000)

    def checkpointed(x):
        for _ in range(8):
            x = ft.checkpoint(chain)(x)
        return x

    def whole(x):
        for _ in range(8):
            x = chain(x)
        return x

    close(transform(checkpointed)(x), transform(whole)(x), 1e-8)
    most = peak_of(lambda: transform(whole)(x))
    assert peak_of(lambda: transform(checkpointed)(x)) < share * most


def test_trees_other_leaves_keywords_and_methods():
    @ft.checkpoint
    def f(p, mode, *, power=2, flag=None):
        assert mode == "square"
        assert flag is None
        assert type(power) is int
        return {"out": Pair(p["a"] ** power * p["b"], "text"), "n": power, "none": None}

    p = {"a": X, "b": np.float64(2.0)}
    out = f({"a": fnp.asarray(X), "b": 2.0}, "square", power=3)
    assert out["out"].b == "text"
    close(out["out"].a, X**3 * 2)
    got = ft.grad(lambda p: fnp.sum(f(p, "square", power=3)["out"].a))(p)
    close(got, {"a": 6 * X**2, "b": np.sum(X**3)})

    class Net:
        def __init__(self, w):
            self.w = w

        @ft.checkpoint
        def apply(self, x):
            return layer(self.w, x)

    wanted = ft.grad(lambda w: fnp.sum(layer(w, X)))(W)
    close(ft.grad(lambda w: fnp.sum(Net(w).apply(X)))(W), wanted)
    close(ft.grad(lambda w: fnp.sum(ft.checkpoint(functools.partial(layer, w))(X)))(W), wanted)
    close(ft.remat(layer)(W, X), layer(W, X))


def test_static_arguments_are_not_traced():
    seen = []

    @functools.partial(ft.checkpoint, static_argnums=(1,))
    def f(x, table):
        seen.append(type(table))
        return x * table[0]

    table = np.array([3.0, 4.0])
    close(ft.grad(lambda x: fnp.sum(f(x, table)))(X), np.full(3, 3.0))
    close(ft.make_program(lambda x: f(x, table))(X)(X), 3 * X)
    assert set(seen) == {np.ndarray}


def test_metadata_dtypes_and_integers():
    assert ft.checkpoint(layer).__name__ == "layer"
    x = X.astype("float32")
    got = ft.grad(lambda x, n: fnp.sum(ft.checkpoint(lambda x, n: x * n * 2.0)(x, n)))(
        x, np.arange(3)
    )
    close(got, np.float32([0, 2, 4]))
    out, pull = ft.vjp(ft.checkpoint(lambda x: (x * 2, fnp.argmax(x), x > 0)), X)
    close(out, (2 * X, np.argmax(X), X > 0))
    zeros = np.zeros((), int), np.zeros(3, bool)
    close(pull((X, *zeros)), (2 * X,))
    z = X + 1j
    close(
        ft.grad(lambda z: fnp.sum(fnp.abs(ft.checkpoint(lambda z: z * z)(z)) ** 2))(z),
        ft.grad(lambda z: fnp.sum(fnp.abs(z * z) ** 2))(z),
    )


def test_python_control_flow_and_values_inside():
    @ft.checkpoint
    def f(x, w):
        if x > 0 and w > 0:
            return x * w * float(ft.value(x))
        return x

    close(ft.grad(f, (0, 1))(2.0, 3.0), (6.0, 4.0))
    close(ft.grad(lambda w: ft.checkpoint(lambda x: x * w if w > 1 else x)(2.0))(3.0), 2.0)


def test_functions_with_rules_and_transformations_inside():
    @ft.custom_vjp
    def tenfold(x):
        return fnp.sin(x)

    tenfold.defvjp(lambda x: (fnp.sin(x), x), lambda x, g: (10 * g * fnp.cos(x),))

    def inside(x):
        slope = ft.grad(lambda y: fnp.sum(fnp.sin(y) * x))(x)
        rows = ft.vmap(lambda a: a * fnp.sum(x))(x)
        return tenfold(slope) + rows + ft.jvp(fnp.exp, (x,), (x,))[1]

    for transform in (
        lambda f: ft.grad(lambda x: fnp.sum(f(x) ** 2)),
        lambda f: ft.jacfwd(f),
        lambda f: ft.hessian(lambda x: fnp.sum(f(x) ** 2)),
        lambda f: ft.vmap(lambda a: fnp.sum(ft.grad(lambda x: fnp.sum(f(x)))(X * a))),
    ):
        close(transform(ft.checkpoint(inside))(X), transform(inside)(X), 1e-10)


def transformed_inside(w, x):
    """Applies transformations to what is closed over where it is checkpointed."""

    def inside(y):
        rows = ft.vmap(lambda row: fnp.tanh(row @ y))(w)
        slope = ft.grad(lambda w: fnp.sum(fnp.sin(w) @ y))(w) @ x
        push = ft.jvp(fnp.exp, (x,), (y,))[1] + ft.linearize(fnp.sin, y)[1](x)
        (pull,) = ft.vjp(fnp.cos, y)[1](x)
        return rows + slope + push + pull + ft.hessian(lambda x: fnp.sum(x**3))(x) @ y

    return inside


@pytest.mark.parametrize("transformed", TRANSFORMED)
def test_what_is_closed_over_may_be_transformed_inside(transformed):
    def plain(w, x):
        return fnp.sum(transformed_inside(w, x)(x * 2.0) ** 2)

    def checkpointed(w, x):
        return fnp.sum(ft.checkpoint(transformed_inside(w, x))(x * 2.0) ** 2)

    close(TRANSFORMED[transformed](checkpointed)(), TRANSFORMED[transformed](plain)(), 1e-9)


def test_a_captured_value_may_be_returned():
    close(ft.grad(lambda w: fnp.sum(ft.checkpoint(lambda: w)() * w))(X), 2 * X)
    close(ft.vmap(ft.grad(lambda w: ft.checkpoint(lambda: {"w": w})()["w"] * w))(X), 2 * X)


def test_solvers_inside():
    from functensor.scipy.integrate import odeint

    times = np.linspace(0, 1, 4)

    def decay(rate, start):
        return fnp.sum(odeint(lambda y, t: -rate * y, start, times))

    wanted = np.sum(-times * np.exp(-0.7 * times)) * 2
    got = ft.grad(lambda rate: ft.checkpoint(lambda y: decay(rate, y))(np.ones(2)))(0.7)
    np.testing.assert_allclose(float(got), wanted, rtol=1e-5)


def test_named_axes_inside():
    def normalised(x):
        return x / ft.psum(x * x, "i")

    wanted = ft.vmap(ft.grad(lambda x: normalised(x) ** 2), axis_name="i")(X)
    checkpointed = ft.checkpoint(normalised)
    close(ft.vmap(ft.grad(lambda x: checkpointed(x) ** 2), axis_name="i")(X), wanted)
    whole = ft.grad(lambda x: fnp.sum(ft.vmap(checkpointed, axis_name="i")(x) ** 2))(X)
    close(whole, wanted)


class Names(ft.hooks.Hook):
    def __init__(self):
        self.forwards, self.backwards = [], []

    def forward(self, op, inputs, output):
        fnp.sum(fnp.asarray(inputs[0]))  # it may compute with what it sees
        self.forwards.append(op.name)

    def backward(self, op, grad_inputs, grad_output):
        self.backwards.append(op.name)


@pytest.mark.parametrize("form", [by_arguments, by_closure])
def test_hooks_see_what_happens_inside(form):
    wanted, hook = Names(), Names()
    gradient = ft.grad(form, (0, 1))(W, X)
    with ft.hooks.use(wanted):
        ft.grad(plain, (0, 1))(W, X)
    with ft.hooks.use(hook):
        close(ft.grad(form, (0, 1))(W, X), gradient)
    inside = wanted.forwards[:8]
    assert inside == ["matmul", "tanh", "sin", "multiply"] * 2
    # What the backward pass runs again, the last call first, it sees if it was asked to.
    assert hook.forwards == wanted.forwards
    assert sorted(hook.backwards) == sorted(wanted.backwards)
    again = Names()
    with ft.hooks.use(again, on_replay=True):
        close(ft.grad(form, (0, 1))(W, X), gradient)
    assert again.forwards == wanted.forwards + inside

    class Doubled(ft.hooks.Hook):
        def forward(self, op, inputs, output):
            return output * 2.0

    with ft.hooks.use(Doubled(), match="tanh"):
        close(ft.grad(form, (0, 1))(W, X), ft.grad(plain, (0, 1))(W, X))


def test_random_numbers_of_a_key_are_the_same_again():
    def noisy(x, key):
        return fnp.sum(fnp.sin(x * ft.random.normal(key, (3,))))

    key = ft.random.key(0)
    wanted = ft.grad(noisy)(X, key)
    with ft.random.check_reuse():  # a replay is no reuse
        close(ft.grad(ft.checkpoint(noisy))(X, key), wanted)
    keys = ft.random.split(key, 2)
    each = ft.vmap(ft.grad(ft.checkpoint(noisy)), (None, 0))(X, keys)
    close(each, ft.vmap(ft.grad(noisy), (None, 0))(X, keys))


def test_threads_have_their_own():
    def work(scale):
        f = ft.checkpoint(lambda x: layer(W * scale, x))
        return [np.asarray(ft.grad(lambda x: fnp.sum(f(f(x))))(X)) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(work, [1.0, 2.0, 3.0, 4.0]))
    for scale, got in zip([1.0, 2.0, 3.0, 4.0], together, strict=True):
        np.testing.assert_array_equal(got, work(scale))
