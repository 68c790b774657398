"""Optimizers: against formulas in NumPy, on trees, inside transformations, and on tensors."""

import pickle
import re

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor import optim
from functensor.primitives.core.errors import GradientInputError, MissingGradientError, ShapeError


# Every algorithm as its paper has it, in float64: p, g and what is remembered -> the same.
def reference_sgd(p, g, memory, t):
    return p - 0.1 * g, memory


def reference_momentum(p, g, memory, t):
    v = 0.8 * memory.get("v", 0) + g
    return p - 0.1 * v, {"v": v}


def reference_nesterov(p, g, memory, t):
    v = 0.8 * memory.get("v", 0) + g
    return p - 0.1 * (g + 0.8 * v), {"v": v}


def reference_adam(p, g, memory, t):
    m = 0.7 * memory.get("m", 0) + 0.3 * g
    v = 0.9 * memory.get("v", 0) + 0.1 * g**2
    ratio = (m / (1 - 0.7**t)) / (numpy.sqrt(v / (1 - 0.9**t)) + 1e-3)
    return p - 0.1 * ratio, {"m": m, "v": v}


def reference_adamw(p, g, memory, t):
    return reference_adam((1 - 0.1 * 0.2) * p, g, memory, t)


def reference_lion(p, g, memory, t):
    m = memory.get("m", 0)
    after = p - 0.1 * (numpy.sign(0.7 * m + 0.3 * g) + 0.2 * p)
    return after, {"m": 0.9 * m + 0.1 * g}


def reference_adagrad(p, g, memory, t):
    a = memory.get("a", 0.5) + g**2
    return p - 0.1 * g / (numpy.sqrt(a) + 1e-3), {"a": a}


ALGORITHMS = {
    "sgd": (lambda lr: optim.sgd(lr), reference_sgd),
    "momentum": (lambda lr: optim.momentum(lr, 0.8), reference_momentum),
    "nesterov": (lambda lr: optim.momentum(lr, 0.8, nesterov=True), reference_nesterov),
    "adam": (lambda lr: optim.adam(lr, 0.7, 0.9, 1e-3), reference_adam),
    "adamw": (lambda lr: optim.adamw(lr, 0.7, 0.9, 1e-3, 0.2), reference_adamw),
    "lion": (lambda lr: optim.lion(lr, 0.7, 0.9, 0.2), reference_lion),
    "adagrad": (lambda lr: optim.adagrad(lr, 0.5, 1e-3), reference_adagrad),
}
each = pytest.mark.parametrize("name", ALGORITHMS)
TOLERANCE = {"float32": 2e-6, "float64": 1e-14}


def example(dtype, seed=0):
    """Returns a tree of parameters and a function that draws gradients for them."""
    rng = numpy.random.default_rng(seed)

    def draw():
        return {
            "layers": [rng.normal(size=(3, 4)).astype(dtype), rng.normal(size=5).astype(dtype)],
            "scale": numpy.asarray(rng.normal(), dtype),
            "none": None,
        }

    return draw(), draw


def close(tree, other, tolerance):
    for (path, x), y in zip(ft.tree.leaves_with_path(tree), ft.tree.leaves(other), strict=True):
        error = ft.tree.keystr(path)
        numpy.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=error)


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("traced", [False, True])
def test_formula(name, dtype, traced):
    make, reference = ALGORITHMS[name]
    opt = make(0.1)
    params, draw = example(dtype)
    expected = [p.astype("float64") for p in ft.tree.leaves(params)]
    memory = [{} for _ in expected]
    state = opt.init(params)
    for t in range(1, 6):
        grads = draw()
        before = ft.tree.map(numpy.array, (params, state, grads))
        if traced:
            # A hook is a trace: what it sees is computed by primitives.
            with ft.hooks.use(ft.hooks.Hook()):
                after = opt.update(params, state, grads)
        else:
            after = opt.update(params, state, grads)
        close(before, (params, state, grads), 0)
        params, state = after
        for i, g in enumerate(ft.tree.leaves(grads)):
            expected[i], memory[i] = reference(expected[i], g.astype("float64"), memory[i], t)
        close(params, expected, TOLERANCE[dtype])
        assert int(state.step) == t
    assert {x.dtype.name for x in ft.tree.leaves((params, state[2:]))} == {dtype}
    assert {type(x) for x in ft.tree.leaves((params, state))} == {ft.Array}
    assert ft.tree.structure(state) == ft.tree.structure(opt.init(params))


@each
def test_kept_dtypes_whatever_the_numbers(name):
    opt = ALGORITHMS[name][0](lambda step: numpy.float64(0.1) / (1 + step))
    params = {"a": np.ones(3, "float32"), "b": np.ones((), "float16"), "c": np.ones(2)}
    grads = {"a": np.ones(3), "b": np.ones((), "float32"), "c": np.ones(2, "float32")}
    after, state = opt.update(params, opt.init(params), grads)
    assert [x.dtype.name for x in ft.tree.leaves(after)] == ["float32", "float16", "float64"]
    for kept in state[2:]:
        assert [x.dtype.name for x in ft.tree.leaves(kept)] == ["float32", "float16", "float64"]


@each
def test_transposed_and_broadcast_gradients(name):
    opt = ALGORITHMS[name][0](0.1)
    p = np.ones((3, 4)).T
    g = np.broadcast_to(np.arange(3.0), (4, 3))
    once, _ = opt.update(p, opt.init(p), g)
    again, _ = opt.update(np.ones((4, 3)), opt.init(p), numpy.ascontiguousarray(g))
    close(once, again, 0)


@each
def test_integers_stay_and_numbers_become_arrays(name):
    opt = ALGORITHMS[name][0](0.1)
    params = [np.arange(3), 2.0]
    after, state = opt.update(params, opt.init(params), [np.zeros(3), 1.0])
    assert after[0] is params[0]
    assert after[1].dtype == "float64"
    assert float(after[1]) < 2.0
    assert int(state.step) == 1


@each
def test_complex_parameters_descend(name):
    opt = ALGORITHMS[name][0](0.1)
    target = np.array([1.0 - 2.0j, 0.5j])
    step = opt.minimize(lambda z: np.sum(np.abs(z - target) ** 2))
    z = np.array([0.3 + 0.1j, -0.7 + 0.2j])
    state = opt.init(z)
    z, state = step(z, state)
    first = float(state.loss)
    for _ in range(60):
        z, state = step(z, state)
    assert z.dtype == "complex128"
    assert float(state.loss) < 0.25 * first


@each
def test_vmap_equals_the_loop(name):
    opt = ALGORITHMS[name][0](0.1)
    rng = numpy.random.default_rng(1)
    params, grads = rng.normal(size=(2, 4, 3)).astype("float32")
    states = ft.vmap(opt.init)(params)
    batched, states = ft.vmap(opt.update)(params, states, grads)
    batched, states = ft.vmap(opt.update)(batched, states, grads)
    assert batched.dtype == "float32"
    for i in range(4):
        p, state = params[i], opt.init(params[i])
        for _ in range(2):
            p, state = opt.update(p, state, grads[i])
        close(batched[i], p, 1e-6)
        close(ft.tree.map(lambda x, i=i: x[i], states[2:]), state[2:], 1e-6)


@each
def test_gradient_with_respect_to_the_learning_rate(name):
    make = ALGORITHMS[name][0]
    target = np.array([1.0, -2.0], dtype="float32")

    def trained(lr):
        step = make(lr).minimize(lambda p: np.sum((p - target) ** 2))
        p = np.zeros(2, dtype="float32").astype("float64")
        state = make(lr).init(p)
        for _ in range(3):
            p, state = step(p, state)
        return np.sum((p - target) ** 2)

    slope = ft.grad(trained)(0.05)
    h = 1e-5
    expected = (float(trained(0.05 + h)) - float(trained(0.05 - h))) / (2 * h)
    assert float(slope) == pytest.approx(expected, rel=1e-6)
    single = ft.grad(lambda lr: np.sum(make(lr).update(target, make(lr).init(target), target)[0]))
    assert float(single(0.05)) != 0


@each
def test_gradient_through_an_update(name):
    opt = ALGORITHMS[name][0](0.1)

    def after(p):
        g = ft.grad(lambda q: np.sum(np.sin(q)))(p)
        return np.sum(opt.update(p, opt.init(p), g)[0] ** 2)

    p = np.array([0.3, -0.8])
    h = 1e-6
    for i, found in enumerate(ft.grad(after)(p)):
        up, down = after(p.at[i].add(h)), after(p.at[i].add(-h))
        assert float(found) == pytest.approx(float(up - down) / (2 * h), rel=1e-6)


def test_minimize():
    def loss(params, x, y, scale=1.0):
        error = x @ params["w"] - y
        return scale * np.mean(error**2), error

    rng = numpy.random.default_rng(2)
    x, w = rng.normal(size=(50, 3)), numpy.array([1.0, -2.0, 0.5])
    opt = optim.adam(0.1)
    step = opt.minimize(loss, has_aux=True)
    params = {"w": np.zeros(3)}
    state = opt.init(params)
    assert numpy.isnan(float(state.loss))
    start, after, error = step(params, state, x, x @ w, scale=2.0)
    assert float(after.loss) == pytest.approx(2.0 * numpy.mean((x @ w) ** 2))
    assert error.shape == (50,)
    assert start["w"].tolist() != params["w"].tolist()
    for _ in range(300):
        params, state, _ = step(params, state, x, x @ w)
    close(params["w"], w, 1e-3)
    assert int(state.step) == 300
    plain = opt.minimize(lambda params: loss(params, x, x @ w)[0])
    once, twice = plain(params, state), plain(params, state)
    close(once, twice, 0)
    assert once[1].loss.dtype == state.loss.dtype == "float64"


def test_loss_keeps_the_dtype_of_the_state():
    opt = optim.sgd(0.1)
    p = np.ones(2, dtype="float32")
    step = opt.minimize(lambda p: np.sum(p.astype("float64")))
    _, state = step(p, opt.init(p))
    assert state.loss.dtype == opt.init(p).loss.dtype == "float32"


def test_schedule_counts_from_zero():
    seen = []

    def schedule(step):
        seen.append(step)
        return np.where(step < 2, 0.5, 0.0)

    opt = optim.sgd(schedule)
    p = np.zeros(1, dtype="float32")
    state = opt.init(p)
    for _ in range(4):
        p, state = opt.update(p, state, np.ones(1, dtype="float32"))
    assert seen == [0, 1, 2, 3]
    assert p.tolist() == [-1.0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: optim.sgd(-1.0), "sgd: lr is -1.0: it must not be negative"),
        (lambda: optim.momentum(1.0, 1.0), "momentum: momentum is 1.0: .* below 1"),
        (lambda: optim.adam(1.0, b1=1.5), "adam: b1 is 1.5"),
        (lambda: optim.adam(1.0, eps=-1e-8), "adam: eps is -1e-08"),
        (lambda: optim.adamw(1.0, weight_decay=-0.1), "adamw: weight_decay is -0.1"),
        (lambda: optim.lion(1.0, 0.9, 1.0), "lion: b2 is 1.0: .* below 1"),
        (lambda: optim.adagrad(1.0, -0.1), "adagrad: initial_accumulator_value is -0.1"),
        (lambda: optim.adagrad(float("nan")), "adagrad: lr is nan"),
        (lambda: optim.muon(dtype="int32"), "muon: dtype is int32: .* real floats"),
        (lambda: optim.muon(dtype="complex64"), "muon: dtype is complex64: .* real floats"),
        (lambda: optim.muon(eps=-1.0), "muon: eps is -1.0"),
        (lambda: optim.muon(rounds=2.5), "muon: rounds is 2.5: .* integer from 0 to 99"),
        (lambda: optim.muon(polynomial=1.5), "muon: polynomial is 1.5: .* 3 numbers"),
    ],
)
def test_numbers_out_of_range(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_trees_that_do_not_match():
    opt = optim.adam(0.1)
    params = {"w": np.zeros((2, 3)), "b": np.zeros(3)}
    state = opt.init(params)
    with pytest.raises(ValueError, match=r"adam: gradients and state match the parameters: .*"):
        opt.update(params, state, {"w": np.zeros((2, 3))})
    with pytest.raises(ShapeError) as caught:
        opt.update(params, state, {"w": np.zeros((3,)), "b": np.zeros(3)})
    assert str(caught.value).splitlines()[0] == (
        "adam: params['w'] is float64[2, 3], but its gradient is float64[3]"
    )
    with pytest.raises(GradientInputError, match=r"adam: params\['f'\] is a str, not an array"):
        opt.init({"f": "relu"})
    empty = opt.update({}, opt.init({}), {})
    assert empty[0] == {}
    assert int(empty[1].step) == 1


# The stateful ones


STATEFUL = {
    "sgd": lambda params: optim.SGD(params, 0.1),
    "momentum": lambda params: optim.MomentumSGD(params, 0.1, 0.8),
    "nesterov": lambda params: optim.MomentumSGD(params, 0.1, 0.8, nesterov=True),
    "adam": lambda params: optim.Adam(params, 0.1, 0.7, 0.9, 1e-3),
    "adamw": lambda params: optim.AdamW(params, 0.1, 0.7, 0.9, 1e-3, 0.2),
    "lion": lambda params: optim.Lion(params, 0.1, 0.7, 0.9, 0.2),
    "adagrad": lambda params: optim.Adagrad(params, 0.1, 0.5, 1e-3),
}


def tensors():
    return [
        ft.Tensor(numpy.linspace(-1, 1, 6, dtype="float32").reshape(2, 3), requires_grad=True),
        ft.Tensor(numpy.linspace(0, 1, 3, dtype="float32"), requires_grad=True),
    ]


def tensor_loss(w, b):
    return ((w * w).sum(dim=0) * b + b.sin()).sum()


@each
def test_stateful_equals_pure(name):
    params = tensors()
    opt = STATEFUL[name](iter(params))
    pure = ALGORITHMS[name][0](0.1)
    values = [ft.value(p) for p in params]
    state = pure.init(values)
    step = pure.minimize(lambda v: np.sum(np.sum(v[0] * v[0], axis=0) * v[1] + np.sin(v[1])))
    for _ in range(4):
        opt.zero_grad()
        tensor_loss(*params).backward()
        opt.step()
        values, state = step(values, state)
        close([p.data for p in params], values, 1e-6)
    assert all(p.dtype == "float32" and p.requires_grad and p.is_leaf for p in params)


@pytest.mark.parametrize("name", STATEFUL)
def test_a_pickled_stateful_optimizer_goes_on(name):
    params = tensors()
    opt = STATEFUL[name](params)
    tensor_loss(*params).backward()
    opt.step()
    copied, others = pickle.loads(pickle.dumps((opt, params)))
    assert copied.params == others
    for some, optimizer in ((params, opt), (others, copied)):
        optimizer.zero_grad()
        tensor_loss(*some).backward()
        optimizer.step()
    close([p.data for p in others], [p.data for p in params], 0)


def test_parameter_without_gradient_is_left_out():
    w, b = tensors()
    opt = optim.Adam([w, b])
    before = b.tolist()
    (w * w).sum().backward()
    opt.step()
    assert b.tolist() == before
    assert [int(s.step) for s in opt.state_dict()["states"]] == [1, 0]


def test_step_without_any_gradient_says_why():
    w, b = tensors()
    opt = optim.SGD([w, b], 0.1)
    (w * w).sum().backward()
    opt.zero_grad()
    b.requires_grad = False
    with pytest.raises(MissingGradientError) as caught:
        opt.step()
    lines = str(caught.value).splitlines()
    assert lines[0] == "SGD.step(): no parameter has a gradient"
    assert lines[1] == (
        f"    tensor {w.id} (float32[2,3]): no backward() has reached it since its gradient was "
        "last cleared: there is no path to it from the loss, or backward() was not called"
    )
    assert lines[2] == f"    tensor {b.id} (float32[3]): its requires_grad is False"
    assert re.fullmatch(r"  at .*test_optim\.py:\d+", lines[3])
    assert lines[4] == "  fix: loss.backward() before step(), and zero_grad() after it"
    assert lines[5] == "  see python -m functensor.errors 13"


def test_learning_rate_may_be_set():
    (w, _) = tensors()
    opt = optim.SGD([w], 1.0)
    opt.lr = 0.0
    before = w.tolist()
    w.sum().backward()
    opt.step()
    assert w.tolist() == before
    rates = iter([0.5, 0.25])
    opt = optim.SGD(w, lambda step: next(rates))
    opt.step()
    opt.step()
    numpy.testing.assert_allclose(w.detach(), numpy.array(before) - 0.75)


def test_state_goes_on_where_it_was():
    def run(steps, params, opt):
        for _ in range(steps):
            opt.zero_grad()
            tensor_loss(*params).backward()
            opt.step()

    params = tensors()
    opt = optim.Adam(params, 0.1)
    run(2, params, opt)
    resumed = [ft.Tensor(p.data, requires_grad=True) for p in params]
    other = optim.Adam(resumed, 0.5)
    other.load_state_dict(opt.state_dict())
    run(2, params, opt)
    run(2, resumed, other)
    close([p.data for p in resumed], [p.data for p in params], 0)
    with pytest.raises(ValueError, match="the state is one of 2 parameters, not of 1"):
        optim.Adam(params[:1]).load_state_dict(opt.state_dict())
    with pytest.raises(ValueError, match=r"the state of parameter 0 .* does not fit"):
        optim.Adam(params[::-1]).load_state_dict(opt.state_dict())
    with pytest.raises(ValueError, match=r"the state of parameter 0 .* does not fit"):
        optim.SGD(params, 0.1).load_state_dict(opt.state_dict())


def test_parameters_that_cannot_be_updated():
    w, _ = tensors()
    with pytest.raises(GradientInputError, match="SGD was given no parameters"):
        optim.SGD(iter([]), 0.1)
    with pytest.raises(ValueError, match="SGD was given a parameter twice"):
        optim.SGD([w, w], 0.1)
    with pytest.raises(GradientInputError, match=r"parameter 1 of SGD is tensor \d+ \(float32\["):
        optim.SGD([w, w * 2], 0.1)
    with pytest.raises(GradientInputError, match="parameter 0 of Adam is of type Array"):
        optim.Adam([np.zeros(2)])
    with pytest.raises(ValueError, match="adam: lr is -1"):
        optim.Adam([w], -1)
