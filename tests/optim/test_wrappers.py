"""Wrappers of optimizers: formulas, under jit, scan and vmap over rates, and their errors."""

from functools import partial

import numpy
import pytest
from support.long_forms import only_long, sized

import functensor as ft
import functensor.numpy as np
from functensor import optim, torch

WRAPPERS = {
    "value": lambda o: optim.clipped_by_value(o, 0.5),
    "norm": lambda o: optim.clipped_by_norm(o, 0.5),
    "global_norm": lambda o: optim.clipped_by_global_norm(o, 0.5),
    "masked": lambda o: optim.masked(o, {"a": True, "b": [True, False]}),
    "frozen": lambda o: optim.frozen(o, lambda path: path == "['b'][0]"),
    "partitioned": lambda o: optim.partitioned({"x": o, "y": None}, {"a": "x", "b": "y"}),
    "accumulated": lambda o: optim.accumulated(o, 2),
    "lookahead": lambda o: optim.lookahead(o, 2),
    "with_average": lambda o: optim.with_average(o, 0.5),
    "if_finite": lambda o: optim.apply_if_finite(o, 1),
    "decay": lambda o: optim.with_weight_decay(o, 0.1),
    "maximized": optim.maximized,
}
ALGORITHMS = {
    "sgd": optim.sgd, "momentum": optim.momentum, "adam": optim.adam, "adamw": optim.adamw,
    "nadam": optim.nadam, "radam": optim.radam, "adagrad": optim.adagrad, "lion": optim.lion,
    "adadelta": optim.adadelta, "rmsprop": optim.rmsprop, "amsgrad": optim.amsgrad,
    "adamax": optim.adamax,
}  # fmt: skip


def example(dtype="float64"):
    rng = numpy.random.default_rng(2)
    draw = [rng.normal(size=shape).astype(dtype) for shape in ((2, 3), (3,), ())]
    return {"a": np.array(draw[0]), "b": [np.array(draw[1]), np.array(draw[2])]}


def loss(params):
    a, (b, c) = params["a"], params["b"]
    return np.sum((a * a - b) ** 2) + np.sum(np.sin(a) * c)


def train(make, rate, steps, dtype="float64", loop=False):
    optimizer = make(rate)
    step = optimizer.minimize(loss)
    params = example(dtype)
    carry = (params, optimizer.init(params))
    if loop:
        return ft.fori_loop(0, steps, lambda i, carry: step(*carry), carry)
    for _ in range(steps):
        carry = step(*carry)
    return carry


def close(tree, other, tolerance=1e-10):
    assert ft.tree.structure(tree) == ft.tree.structure(other)
    for x, y in zip(ft.tree.leaves(tree), ft.tree.leaves(other), strict=True):
        assert x.dtype == y.dtype
        numpy.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def check(wrapper, algorithm):
    def make(rate):
        return WRAPPERS[wrapper](ALGORITHMS[algorithm](rate))

    found = train(make, 0.01, 5)
    close(ft.jit(lambda: train(make, 0.01, 5, loop=True))(), found)
    rates = np.array([0.01, 0.02])
    both = ft.vmap(lambda rate: train(make, rate, 5)[0])(rates)
    others = [found[0], train(make, 0.02, 5)[0]]
    close(both, ft.tree.map(lambda *xs: np.stack(xs), *others))


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_under_jit_loops_and_batches_of_rates(wrapper):
    check(wrapper, "adam")


@pytest.mark.long
@only_long
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_all_wrappers_of_all_algorithms(wrapper, algorithm):
    check(wrapper, algorithm)


@pytest.mark.long
@pytest.mark.parametrize("dtype", sized(["bfloat16"], ["float16", "bfloat16", "float32"]))
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_dtypes_of_parameters_stay(wrapper, dtype):
    optimizer = WRAPPERS[wrapper](optim.adam(0.01))
    params = ft.tree.map(lambda x: x.astype(dtype), example())
    state = optimizer.init(params)
    after, later = optimizer.update(params, state, ft.tree.map(lambda x: x * 0.5, params))
    assert {x.dtype.name for x in ft.tree.leaves(after)} == {dtype}
    assert ft.tree.map(lambda x: x.dtype, later) == ft.tree.map(lambda x: x.dtype, state)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_integers_stay(wrapper):
    optimizer = WRAPPERS[wrapper](optim.sgd(0.1))
    params = {"a": np.arange(3), "b": [np.arange(2), np.ones(2)]}
    grads = {"a": np.zeros(3), "b": [np.zeros(2), np.ones(2)]}
    state = optimizer.init(params)
    for _ in range(2):
        params, state = optimizer.update(params, state, grads)
    assert (params["a"].tolist(), params["b"][0].tolist()) == ([0, 1, 2], [0, 1])
    assert params["a"].dtype == "int64"


@pytest.mark.parametrize("wrapper", ["lookahead", "with_average", "accumulated"])
def test_donated_parameters_and_states(wrapper):
    optimizer = WRAPPERS[wrapper](optim.adam(0.01))
    step = ft.jit(optimizer.minimize(loss), donate_argnums=(0, 1))
    params = ft.tree.map(lambda x: x + 0, example())
    state = optimizer.init(params)
    for _ in range(5):
        params, state = step(params, state)
    close((params, state), train(lambda rate: WRAPPERS[wrapper](optim.adam(rate)), 0.01, 5))


def test_norms_after_clipping():
    params, grads = example(), ft.tree.map(lambda x: 10 * x, example())
    for make, norms in (
        (optim.clipped_by_norm, [2.0, 2.0, 2.0]),
        (optim.clipped_by_global_norm, None),
    ):
        optimizer = make(optim.sgd(1.0), 2.0)
        after, _ = optimizer.update(params, optimizer.init(params), grads)
        moved = ft.tree.leaves(ft.tree.map(lambda p, q: p - q, params, after))
        found = [float(np.linalg.norm(x.ravel())) for x in moved]
        if norms:
            assert found == pytest.approx([2.0, 2.0, min(2.0, abs(float(grads["b"][1])))])
        else:
            assert numpy.linalg.norm(found) == pytest.approx(2.0)
    zeros = ft.tree.map(np.zeros_like, params)
    close(optimizer.update(params, optimizer.init(params), zeros)[0], params, 0)


def test_weights_of_complex_parameters_decay_towards_zero():
    x, g = np.array([1.0 + 2.0j]), np.array([0.0j])
    optimizer = optim.with_weight_decay(optim.sgd(0.1), 0.5)
    close(optimizer.update(x, optimizer.init(x), g)[0], 0.95 * x)
    parameter = torch.nn.Parameter(torch.tensor([1.0 + 2.0j]))
    parameter.grad = torch.tensor([0.5j])
    torch.optim.SGD([parameter], lr=0.1, weight_decay=0.5).step()
    # As PyTorch has it.
    assert parameter.tolist() == [pytest.approx(0.95 + 1.85j)]


def test_complex_gradients_have_no_bounds():
    optimizer = optim.clipped_by_value(optim.sgd(0.1), 0.5)
    x = np.array([1.0 + 2.0j])
    with pytest.raises(ft.errors.GradientInputError, match="complex numbers have no order"):
        optimizer.update(x, optimizer.init(x), x)


def test_lookahead_by_hand():
    optimizer = optim.lookahead(optim.sgd(0.1), 3, 0.25)
    x = np.array(1.0)
    state = optimizer.init(x)
    fast, slow = 1.0, 1.0
    for t in range(1, 10):
        x, state = optimizer.update(x, state, 2 * x)
        fast -= 0.2 * fast
        if t % 3 == 0:
            fast = slow = slow + 0.25 * (fast - slow)
        assert float(x) == pytest.approx(fast, rel=1e-14)
        assert float(state.slow) == pytest.approx(slow, rel=1e-14)


def test_too_many_infinite_gradients_in_succession_count():
    optimizer = optim.apply_if_finite(optim.sgd(1.0), max_skipped=2)
    for traced in (False, True):
        update = ft.jit(optimizer.update) if traced else optimizer.update
        x = np.array([1.0])
        state = optimizer.init(x)
        seen = []
        for g in (np.inf, 0.5, np.nan, -np.inf, np.inf):
            x, state = update(x, state, np.array([g]))
            seen.append((float(x[0]), int(state.inner.step), int(state.skipped)))
        finite = [(1.0, 0, 1), (0.5, 1, 0), (0.5, 1, 1), (0.5, 1, 2)]
        assert seen == [*finite, (-numpy.inf, 2, 3)]
        assert int(state.skipped_ever) == 4


def test_states_of_parts_hold_their_parameters_alone():
    optimizer = optim.masked(optim.adam(0.1), {"a": False, "b": [True, False]})
    state = optimizer.init(example())
    assert [x.shape for x in state.parts["updated"].mean] == [(3,)]
    leaves, treedef = ft.tree.flatten(state)
    close(treedef.unflatten(leaves), state, 0)


STATEFUL = ["value", "norm", "accumulated", "lookahead", "with_average", "if_finite", "decay"]


@pytest.mark.parametrize("wrapper", STATEFUL)
def test_wrapped_optimizers_of_tensors(wrapper):
    tensors = [ft.Tensor(numpy.array(x), requires_grad=True) for x in ([1.0, -2.0], [[3.0]])]
    arrays = [np.array(x.data) for x in tensors]
    stateful = optim.StatefulOptimizer(tensors, 0.1, lambda lr: WRAPPERS[wrapper](optim.adam(lr)))
    pure = WRAPPERS[wrapper](optim.adam(0.1))
    states = [pure.init(x) for x in arrays]
    for _ in range(4):
        stateful.zero_grad()
        sum((x * x * x).sum() for x in tensors).backward()
        stateful.step()
        for i, x in enumerate(arrays):
            arrays[i], states[i] = pure.update(x, states[i], 3 * x * x)
    for x, y in zip(tensors, arrays, strict=True):
        numpy.testing.assert_allclose(x.data, y, rtol=1e-12)
    again = optim.StatefulOptimizer(tensors, 0.1, lambda lr: WRAPPERS[wrapper](optim.adam(lr)))
    again.load_state_dict(stateful.state_dict())


def test_wrong_uses_are_explained():
    with pytest.raises(ValueError, match="limit is -1, it is not negative"):
        optim.clipped_by_norm(optim.sgd(0.1), -1)
    with pytest.raises(ValueError, match="accumulated: every is 0, it must be positive"):
        optim.accumulated(optim.sgd(0.1), 0)
    with pytest.raises(ValueError, match="max_skipped is -1, it is not negative"):
        optim.apply_if_finite(optim.sgd(0.1), -1)
    with pytest.raises(ValueError, match=r"decay is 1\.0: it must not be negative and below 1"):
        optim.with_average(optim.sgd(0.1), 1.0)
    with pytest.raises(TypeError, match="the last part is of type function, not an optimizer"):
        optim.chained(partial(optim.clipped_by_norm, limit=1.0), optim.sgd)
    partitioned = optim.partitioned({"x": optim.sgd(0.1)}, {"a": "x", "b": "z"})
    with pytest.raises(ValueError, match=r"params\['b'\]\[0\] has the label 'z'.*for 'x'"):
        partitioned.init(example())
    with pytest.raises(ValueError, match="masked: labels match the parameters"):
        optim.masked(optim.sgd(0.1), {"a": True}).init(example())
    optimizer = optim.accumulated(optim.sgd(0.1), 2)
    params = example()
    with pytest.raises(ValueError, match="gradients and state match the parameters"):
        optimizer.update(params, optimizer.init(params), {"a": params["a"]})
    with pytest.raises(TypeError, match="accumulated: the state is a SgdState, not an Acc"):
        optimizer.update(params, optim.sgd(0.1).init(params), params)
