"""The order of an update's arguments, which is not Optax's: noticed where arrays tell."""

import copy
import pickle
import re
import weakref

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import optim

# An optimizer's functions are staged anew for each optimizer.
pytestmark = pytest.mark.filterwarnings("ignore::functensor.errors.RetraceWarning")


def params_of(make):
    return {"w": make([1.0, 2.0]), "b": [make([0.5])]}


def loss_of(p):
    return np.sum(p["w"] ** 2) + np.sum(p["b"][0] ** 3)


@pytest.mark.parametrize("make", [np.asarray, numpy.asarray])
def test_the_order_of_optax_is_an_error(make):
    opt = optim.adam(0.1)
    params = params_of(make)
    state, grads = opt.init(params), ft.grad(loss_of)(params)
    with pytest.raises(ValueError, match="which is Optax's order") as caught:
        opt.update(grads, state, params)
    text = re.sub(r"\S+\.py:\d+", "LINE", str(caught.value))
    assert text == (
        "adam: update was given gradients in the place of parameters and parameters in that of "
        "gradients, which is Optax's order\n"
        "  at LINE\n"
        "  fix: params, state = opt.update(params, state, grads), which returns the new "
        "parameters: nothing is to be applied"
    )
    _, after = opt.update(params, state, grads)
    assert int(after.step) == 1

    def step(params, state):
        return opt.update(ft.grad(loss_of)(params), state, params)

    for staged in (ft.jit(step), ft.make_program(step)):
        with pytest.raises(ValueError, match="which is Optax's order"):
            staged(params, after)


OPTIMIZERS = [
    name
    for name in optim.__all__
    if not isinstance(getattr(optim, name), type)
    and name not in (*optim.schedules.__all__, "lbfgs", "muon")  # parameters are vectors here
]
WRAPPERS = {
    "accumulated": lambda o: optim.accumulated(o, 2),
    "apply_if_finite": optim.apply_if_finite,
    "chained": optim.chained,
    "clipped_by_global_norm": lambda o: optim.clipped_by_global_norm(o, 1.0),
    "clipped_by_norm": lambda o: optim.clipped_by_norm(o, 1.0),
    "clipped_by_value": lambda o: optim.clipped_by_value(o, 1.0),
    "frozen": lambda o: optim.frozen(o, {"w": False, "b": True}),
    "lookahead": optim.lookahead,
    "masked": lambda o: optim.masked(o, True),
    "maximized": optim.maximized,
    "partitioned": lambda o: optim.partitioned({"x": o, "y": None}, {"w": "x", "b": "y"}),
    "with_average": optim.with_average,
    "with_weight_decay": lambda o: optim.with_weight_decay(o, 0.1),
}


def made(name):
    if name in WRAPPERS:
        return WRAPPERS[name](optim.adam(0.1))
    return getattr(optim, name)(0.1)


def begun_by_another(opt, params):
    return opt.init(ft.tree.map(np.zeros_like, params))


def restored(opt, params):
    state = opt.init(params)
    for _ in range(2):
        params, state = opt.update(params, state, ft.grad(loss_of)(params))
    return pickle.loads(pickle.dumps(state))


def jitted(opt, params):
    return ft.jit(opt.init)(params)


def second(f):
    return lambda p: f(p)[1]


GRADIENTS = {
    "grad": lambda: ft.grad(loss_of),
    "value_and_grad": lambda: second(ft.value_and_grad(loss_of)),
    "jit of grad": lambda: ft.jit(ft.grad(loss_of)),
    "jit of value_and_grad": lambda: second(ft.jit(ft.value_and_grad(loss_of))),
    "jit of several": lambda: lambda p: several(p["w"], p)[1][0],
}


@ft.jit
def several(scale, p):
    return scale, (ft.grad(loss_of)(p), ft.grad(lambda w: np.sum(w * w))(scale))


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_gradients_are_known_however_they_were_taken(gradient):
    opt, grad = optim.sgd(0.1), GRADIENTS[gradient]()
    for _ in range(4):  # from the third call on, a guard answers
        params = params_of(np.asarray)
        state, grads = begun_by_another(opt, params), grad(params)
        with pytest.raises(ValueError, match="which is Optax's order"):
            opt.update(grads, state, params)
        opt.update(params, state, grads)


@pytest.mark.parametrize("begin", [begun_by_another, restored, jitted])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_order_of_optax_is_an_error_whatever_is_known_of_the_state(name, begin):
    opt = made(name)
    for make in (np.asarray, numpy.asarray):
        params = params_of(make)
        state = begin(opt, params)
        _, grads = ft.value_and_grad(loss_of)(params)
        with pytest.raises(ValueError, match="which is Optax's order"):
            opt.update(grads, state, params)
        with pytest.raises(ValueError, match="which is Optax's order"):
            opt.update(params=grads, state=state, grads=params)
        opt.update(params, state, grads)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_order_of_optax_is_an_error_where_a_program_is_staged_of_arguments(name):
    opt = made(name)
    for make in (np.asarray, numpy.asarray):
        params = params_of(make)
        state, grads = opt.init(params), ft.grad(loss_of)(params)
        step = ft.jit(opt.update)
        for _ in range(2):
            with pytest.raises(ValueError, match="which is Optax's order"):
                step(grads, state, params)
        with pytest.raises(ValueError, match="which is Optax's order"):
            ft.jit(lambda p, g, s=state, opt=opt: opt.update(g, s, p))(params, grads)
        for _ in range(3):
            step(params, state, grads)
        # An array that is a gradient, and is what is optimized.
        for update in (opt.update, ft.jit(opt.update)):
            update(grads, opt.init(grads), params)


def test_a_program_says_nothing_of_arguments_of_other_calls():
    opt, passing = optim.sgd(0.1), ft.jit(lambda p, g: (p, g))
    params = params_of(np.asarray)
    state = opt.init(ft.tree.map(np.zeros_like, params))
    passing(params, ft.grad(loss_of)(params))
    other, halves = passing(params_of(np.asarray), ft.tree.map(lambda x: x / 2, params))
    opt.update(halves, state, other)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_that_an_update_returned_are_no_gradients(name):
    opt = made(name)
    params = params_of(np.asarray)
    state = opt.init(params)
    for _ in range(3):
        params, state = opt.update(params, state, ft.grad(loss_of)(params))
        clipped = ft.tree.map(lambda g: np.clip(g, -1, 1), ft.grad(loss_of)(params))
        with pytest.raises(ValueError, match="which is Optax's order"):
            opt.update(clipped, state, params)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_right_order_is_never_refused_in_loops(name):
    opt = made(name)
    params, other = params_of(np.asarray), params_of(numpy.asarray)
    grad = ft.grad(loss_of)
    # The same arrays in both places, and a state that was begun with gradients.
    state = opt.init(grad(params))
    params, state = opt.update(params, state, grad(params))
    opt.update(params, state, params)
    opt.update(grad(params), state, grad(params))
    # Two models, their gradients taken before either is updated.
    states = [opt.init(params), opt.init(other)]
    for _ in range(3):
        grads = [grad(params), grad(other)]
        params, states[0] = opt.update(params, states[0], grads[0])
        other, states[1] = opt.update(other, states[1], grads[1])
    # Slow weights, of which the fast ones begin anew.
    slow, state = params, opt.init(params)
    for i in range(4):
        params, state = opt.update(params, state, grad(params))
        if i % 2:
            slow = params = ft.tree.map(lambda a, b: (a + b) / 2, slow, params)
    slow, _ = opt.update(slow, opt.init(slow), ft.tree.map(np.subtract, slow, params))
    # Copies, pickles, and parameters that are gradients of something else.
    params, state = pickle.loads(pickle.dumps((params, copy.deepcopy(state))))
    params, state = opt.update(params, state, grad(params))
    dual = grad(params)
    dual, state = opt.update(dual, state, grad(dual))
    dual, state = opt.update(dual, state, ft.tree.map(np.sin, dual))
    # Under transformations.
    batch = ft.tree.map(lambda x: np.stack([x, x]), params)
    ft.vmap(opt.update, (0, None, 0))(batch, state, batch)
    loss = lambda p, g: np.sum(opt.update(p, state, g)[0]["w"])  # noqa: E731
    ft.grad(loss, (0, 1))(params, grad(params))
    ft.grad(loss)(grad(params), params)
    step = ft.jit(lambda p, s: opt.update(p, s, grad(p)))
    for _ in range(2):
        params, state = step(params, state)
        params, state = opt.update(params, state, grad(params))


def test_no_parameter_is_kept_alive():
    opt = optim.sgd(0.1)
    w = np.ones(3)
    state = opt.init(w)
    after, state = opt.update(w, state, ft.grad(lambda w: np.sum(w * w))(w))
    gone = [weakref.ref(w), weakref.ref(after)]
    del w, after
    assert [x() for x in gone] == [None, None]


def test_the_right_order_is_never_refused():
    opt = optim.sgd(0.1)
    params = params_of(np.asarray)
    state, grads = opt.init(params), ft.grad(loss_of)(params)
    twice = ft.tree.map(lambda p: p * 2, params)
    for given, by in (
        (params, grads),
        (params, params),
        (twice, grads),
        (twice, {**params, "b": grads["b"]}),
        ({**twice, "w": params["w"]}, params),
    ):
        opt.update(given, state, by)
        ft.jit(opt.update)(given, state, by)

    @ft.jit
    def step(params, state, old):
        once, state = opt.update(params, state, old)
        grads = ft.tree.map(lambda g: np.clip(g, -1, 1), ft.grad(loss_of)(once))
        once, state = opt.update(once, state, grads)
        return opt.update(ft.grad(loss_of)(once), state, ft.grad(loss_of)(params))

    step(params, state, grads)
    opt.update({}, opt.init({}), {})
    opt.update(1.0, opt.init(1.0), 2.0)
