"""A table of all pure optimizers: a parabola, Rosenbrock's valley, dtypes, jit, rates, states."""

import pickle

import numpy
import pytest
from support.long_forms import sized

import functensor as ft
import functensor.numpy as np
from functensor import optim


def matrices_by_muon(lr):
    """Returns Muon for the matrix, and gradient descent for the others."""
    parts = {"matrix": optim.muon(lr, weight_decay=0.0), "other": optim.sgd(lr)}
    return optim.partitioned(parts, lambda path: "matrix" if path == "['w']" else "other")


# Makes an optimizer of a rate; the rate and the steps that bring a parabola near its minimum; the
# rate for the valley.
TABLE = {
    "sgd": (optim.sgd, 0.1, 100, 1e-3),
    "momentum": (optim.momentum, 0.02, 200, 1e-3),
    "nesterov": (lambda lr: optim.momentum(lr, nesterov=True), 0.02, 200, 1e-3),
    "dampened": (lambda lr: optim.momentum(lr, dampening=0.5), 0.02, 300, 1e-3),
    "adam": (optim.adam, 0.1, 300, 0.02),
    "adamw": (lambda lr: optim.adamw(lr, weight_decay=1e-4), 0.1, 300, 0.02),
    "amsgrad": (optim.amsgrad, 0.1, 300, 0.02),
    "adamax": (optim.adamax, 0.1, 300, 0.02),
    "nadam": (optim.nadam, 0.1, 300, 0.02),
    "radam": (optim.radam, 0.1, 400, 1e-3),
    "adagrad": (optim.adagrad, 0.5, 300, 0.3),
    "adadelta": (lambda lr: optim.adadelta(lr, eps=1e-4), 1.0, 400, 0.2),
    "rmsprop": (optim.rmsprop, 0.01, 500, 0.01),
    "lion": (optim.lion, 0.01, 400, 0.002),
    "lamb": (optim.lamb, 0.02, 400, 0.01),
    "adafactor": (lambda lr: optim.adafactor(lr, min_size_to_factor=2), 0.01, 500, 0.01),
    "bounded_adafactor": (optim.bounded_adafactor, 0.02, 800, 0.01),
    "rprop": (optim.rprop, 0.1, 100, 0.001),
    "asgd": (optim.asgd, 0.1, 200, 1e-3),
    "muon": (lambda lr: matrices_by_muon(lr), 0.02, 300, 1e-3),
    "lbfgs": (optim.lbfgs, 1.0, 10, 1.0),
    "clipped": (lambda lr: optim.clipped_by_global_norm(optim.sgd(lr), 2.0), 0.1, 200, 1e-2),
    "accumulated": (lambda lr: optim.accumulated(optim.adam(lr), 2), 0.1, 400, 0.02),
    "lookahead": (lambda lr: optim.lookahead(optim.adam(lr)), 0.1, 400, 0.02),
}
each = pytest.mark.parametrize("name", TABLE)
# In the short form those that have no other test of where they come to.
some = pytest.mark.parametrize(
    "name", sized(["adam", "lamb", "adafactor", "lbfgs", "accumulated"], list(TABLE))
)


def start(dtype="float64"):
    matrix = np.array([[2.0, -1.0, 0.5], [1.5, 1.0, -0.5]])
    return {"w": matrix.astype(dtype), "b": [np.array(2.5).astype(dtype)]}


def parabola(params):
    target = np.array([[1.0, -2.0, 3.0], [0.5, 0.5, 1.0]]).astype(params["w"].dtype)
    return np.sum((params["w"] - target) ** 2) + np.sum((params["b"][0] - 1) ** 2)


def valley(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def train(optimizer, loss, params, steps, state=None):
    """Returns parameters and state after some steps, which are one loop of a program."""
    step = optimizer.minimize(loss)
    state = optimizer.init(params) if state is None else state
    return ft.fori_loop(0, steps, lambda i, carry: step(*carry), (params, state))


def eagerly(optimizer, loss, params, steps, state=None):
    step = optimizer.minimize(loss)
    state = optimizer.init(params) if state is None else state
    for _ in range(steps):
        params, state = step(params, state)
    return params, state


def close(tree, other, rtol=1e-9):
    assert ft.tree.structure(tree) == ft.tree.structure(other)
    for x, y in zip(ft.tree.leaves(tree), ft.tree.leaves(other), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        numpy.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


@pytest.mark.long
@some
@pytest.mark.parametrize("dtype", sized(["float64"], ["float64", "float32", "bfloat16"]))
def test_a_parabola(name, dtype):
    make, rate, steps, _ = TABLE[name]
    params, state = ft.jit(lambda x: train(make(rate), parabola, x, steps))(start(dtype))
    # Steps in bfloat16 are rounded to its spacing, which is 0.016 from 2 up.
    bound = 0.02 if dtype != "bfloat16" else 0.3
    assert float(parabola(params)) < bound
    assert int(state.step) == steps
    assert {x.dtype.name for x in ft.tree.leaves(params)} == {dtype}


@pytest.mark.long
@some
def test_rosenbrocks_valley(name):
    make, _, _, rate = TABLE[name]
    steps = sized(300, 5000) if name != "lbfgs" else 40
    begin = np.array([-1.2, 1.0])
    params, state = ft.jit(lambda x: train(make(rate), valley, x, steps))(begin)
    # From 24.2 down to the floor of the valley, and in full along it.
    assert float(valley(params)) < (1e-10 if name == "lbfgs" else sized(4.5, 1.0))
    assert state.loss.dtype == "float64"


@pytest.mark.long
@some
def test_jit_a_batch_of_rates_and_a_stored_state(name):
    make, rate, _, _ = TABLE[name]
    params, state = eagerly(make(rate), parabola, start(), 5)
    close(ft.jit(lambda: train(make(rate), parabola, start(), 5))(), (params, state))
    rates = np.array([rate, rate / 2])
    both = ft.vmap(lambda lr: eagerly(make(lr), parabola, start(), 5)[0])(rates)
    halved = eagerly(make(rate / 2), parabola, start(), 5)[0]
    close(both, ft.tree.map(lambda *xs: np.stack(xs), params, halved))
    leaves, treedef = ft.tree.flatten(state)
    for again in (treedef.unflatten(leaves), pickle.loads(pickle.dumps(state))):
        close(
            eagerly(make(rate), parabola, params, 3, again),
            eagerly(make(rate), parabola, start(), 8),
            1e-15,
        )


@pytest.mark.long
@pytest.mark.parametrize("dtype", sized(["bfloat16"], ["float32", "bfloat16"]))
@each
def test_dtypes(name, dtype):
    make, rate, _, _ = TABLE[name]
    params, state = eagerly(make(rate), parabola, start(dtype), 3)
    exact, _ = eagerly(make(rate), parabola, start(), 3)
    assert {x.dtype.name for x in ft.tree.leaves(params)} == {dtype}
    assert state.loss.dtype == "float32"
    close(
        ft.tree.map(lambda x: x.astype("float64"), params), exact,
        1e-5 if dtype == "float32" else 0.05,
    )  # fmt: skip


def test_all_are_in_the_table():
    wrappers = {
        "apply_if_finite", "chained", "clipped_by_norm", "clipped_by_value", "frozen", "masked",
        "clipped_by_global_norm", "maximized", "partitioned", "with_average", "with_weight_decay",
    }  # fmt: skip
    functions = {x for x in optim.__all__ if not isinstance(getattr(optim, x), type)}
    assert functions - wrappers - set(optim.schedules.__all__) <= set(TABLE)


def test_a_line_search_on_a_hundred_numbers():
    scales = np.array(numpy.logspace(0, 3, 100))

    def bowl(x):
        return np.sum(scales * x * x) + np.sum(np.cos(x))

    begin = np.ones(100)
    for x, state in (
        eagerly(optim.lbfgs(), bowl, begin, 120),
        ft.jit(lambda x: train(optim.lbfgs(), bowl, x, 120))(begin),
    ):
        # SciPy's L-BFGS-B comes to 0.149 in as many steps.
        assert float(np.max(np.abs(ft.grad(bowl)(x)))) < 0.2
        assert int(state.evaluations) < 300


def test_a_line_search_with_extras_and_a_batch():
    step = optim.lbfgs().minimize(lambda p, t: (np.sum((p["x"] - t) ** 2), t), has_aux=True)
    params = {"x": np.zeros(3, "float32")}
    state = optim.lbfgs().init(params)
    for _ in range(3):
        params, state, aux = step(params, state, np.float32(2.0))
    numpy.testing.assert_allclose(params["x"], 2.0, rtol=1e-6)
    assert float(aux) == 2.0


def test_a_line_search_says_what_it_needs():
    x = np.ones(2)
    optimizer = optim.lbfgs()
    with pytest.raises(TypeError, match=r"(?s)a line search needs the loss.*opt\.minimize\(loss"):
        optimizer.update(x, optimizer.init(x), x)
    with pytest.raises(TypeError, match="the state is a SgdState, not a LbfgsState"):
        optimizer.minimize(valley)(x, optim.sgd(0.1).init(x))
    with pytest.raises(TypeError, match="it needs parameters of real floats"):
        optimizer.init(np.ones(2, complex))
    with pytest.raises(ValueError, match="lbfgs: memory is 0, it must be positive"):
        optim.lbfgs(memory=0)
