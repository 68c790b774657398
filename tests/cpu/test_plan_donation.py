"""Results that lie where donated inputs lay: which ones, and that no input is lost too early."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as fnp

ADAM = ft.optim.adam(0.01)


def addresses(tree):
    return [x.__array_interface__["data"][0] for x in map(np.asarray, ft.tree.leaves(tree))]


def fresh(*arrays):
    return [fnp.asarray(np.array(x)) for x in arrays]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_small_vectors_that_are_updated_together_stay_where_they_are():
    def loss(params, x):
        for i in range(6):
            x = fnp.tanh(x * params[f"scale{i}"] + params[f"bias{i}"])
        return fnp.mean(fnp.square(x))

    def step(params, state, x):
        value, slopes = ft.value_and_grad(loss)(params, x)
        return *ADAM.update(params, state, slopes), value

    names = [f"{name}{i}" for name in ("scale", "bias") for i in range(6)]
    made = {name: normal(40, seed=i) for i, name in enumerate(names)}
    x = normal(8, 40)
    wanted = {name: fnp.asarray(a.copy()) for name, a in made.items()}
    params = {name: fnp.asarray(a.copy()) for name, a in made.items()}
    wanted_state, state = ADAM.init(wanted), ADAM.init(params)
    jitted = ft.jit(step, donate_argnums=(0, 1))
    assert "concatenate" in jitted.lower(params, state, x).source
    for _ in range(3):
        before = addresses(params), addresses(state)
        params, state, value = jitted(params, state, x)
        assert (addresses(params), addresses(state)[1:]) == (before[0], before[1][1:])
        wanted, wanted_state, wanted_value = step(wanted, wanted_state, x)
        np.testing.assert_allclose(float(value), float(wanted_value), rtol=1e-12)
        for name in names:
            np.testing.assert_allclose(params[name], wanted[name], rtol=1e-9, atol=1e-12)


def test_each_result_lies_where_the_input_of_its_number_lay():
    jitted = ft.jit(lambda x, y: (fnp.sin(y) @ y, fnp.cos(x) @ x), donate_argnums=(0, 1))
    x, y = normal(50, 50), normal(50, 50, seed=1)
    arrays = fresh(x, y)
    before = addresses(arrays)
    first, second = jitted(*arrays)
    # The first product is made while x is still needed.
    assert addresses([second]) == before[1:]
    np.testing.assert_allclose(first, np.sin(y) @ y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(second, np.cos(x) @ x, rtol=1e-12, atol=1e-12)


def test_results_of_other_numbers_take_what_is_left():
    jitted = ft.jit(lambda x, y: (fnp.sum(x), fnp.cos(y) @ y), donate_argnums=0)
    x, y = normal(30, 30), normal(30, 30, seed=1)
    arrays = fresh(x, y)
    before = addresses(arrays)
    total, product = jitted(*arrays)
    assert addresses([product]) == before[:1]
    np.testing.assert_allclose(float(total), x.sum(), rtol=1e-12)
    np.testing.assert_allclose(product, np.cos(y) @ y, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(arrays[1], y)


def test_a_part_of_a_larger_result_keeps_none_of_the_rest():
    jitted = ft.jit(lambda x: fnp.cumsum(fnp.concatenate([x, x]))[:1000], donate_argnums=0)
    (x,) = fresh(normal(1000))
    before = addresses([x])
    out = jitted(x)
    assert addresses([out]) == before
    assert np.asarray(out).base is None or np.asarray(out).base.nbytes == 8000
    np.testing.assert_allclose(out, np.cumsum(normal(1000)), rtol=1e-12)


def test_rows_that_are_stacked_lie_in_donated_memory():
    def stacked(p, a, b):
        return fnp.stack([fnp.sin(a), fnp.cos(b)])

    p, a, b = normal(2, 5), normal(5), normal(5, seed=1)
    donated, *rest = fresh(p, a, b)
    before = addresses(donated)
    got = ft.jit(stacked, donate_argnums=0)(donated, *rest)
    assert addresses(got) == before
    np.testing.assert_allclose(got, np.stack([np.sin(a), np.cos(b)]), rtol=1e-15)


def test_a_stack_of_products_beside_other_work_lies_in_donated_memory(monkeypatch):
    monkeypatch.setattr("functensor.backends.cpu.plan.threads.pool.threads.number", 2)

    def beside(p, x, y, z):
        return x @ y, fnp.sum(fnp.tanh(z) * fnp.exp(z))

    p, x, y, z = normal(4, 300, 300), normal(4, 300, 300), normal(300, 300), normal(1500, 1500)
    donated, *rest = fresh(p, x, y, z)
    before = addresses(donated)
    jitted = ft.jit(beside, donate_argnums=0)
    assert "run_side_by_side" in jitted.lower(donated, *rest).source
    product, total = jitted(donated, *rest)
    assert addresses(product) == before
    np.testing.assert_allclose(product, x @ y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(total, np.sum(np.tanh(z) * np.exp(z)), rtol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("view", [slice(None), slice(None, None, 2), slice(None, None, -1)])
def test_donated_memory_may_lie_askew(order, view):
    x = np.array(normal(60, 6), order=order)[view]
    wanted = np.stack([np.tanh(x) @ x.T @ x, np.sin(x) * 2])
    jitted = ft.jit(lambda x: (fnp.tanh(x) @ x.T @ x, fnp.sin(x) * 2), donate_argnums=0)
    np.testing.assert_allclose(np.stack(jitted(fnp.asarray(x))), wanted, rtol=1e-12, atol=1e-12)


def test_an_array_that_is_donated_and_returned_too():
    step = ft.jit(lambda p, target: (p * 0.9, target), donate_argnums=0)
    for _ in range(3):
        w = fnp.asarray(normal(4))
        moved, target = step(w, w)
        np.testing.assert_array_equal(target, normal(4))
        np.testing.assert_array_equal(moved, normal(4) * 0.9)


def test_one_array_donated_several_times_becomes_several():
    jitted = ft.jit(lambda a, b, c: (a * 2, b, c), donate_argnums=(0, 1, 2))
    for _ in range(3):
        x = fnp.asarray(normal(4))
        results = jitted(x, x, x)
        assert len(set(addresses(results))) == 3
        np.testing.assert_array_equal(np.stack(results), np.outer([2, 1, 1], normal(4)))
        with pytest.raises(RuntimeError, match="donated"):
            x + 0


ONE = {
    "sin": fnp.sin,
    "flip": fnp.flip,
    "transpose": lambda x: x.T,
    "rows": lambda x: fnp.concatenate([x[2:], x[:2]]),
    "reshape": lambda x: x.reshape(-1)[::-1].reshape(5, 5),
    "row": lambda x: x[1] + fnp.zeros((5, 5)),
    "cumsum": lambda x: fnp.cumsum(x, 0) / 5,
}
TWO = {
    "add": fnp.add,
    "matmul": lambda x, y: x @ y / 5,
    "take": lambda x, y: fnp.stack([x[0], y[1], x[2], y[3], x[4]]),
    "first": lambda x, y: fnp.concatenate([x, y])[:5],
}
PLACES = st.integers(0, 30)


@given(
    steps=st.lists(st.tuples(st.sampled_from([*ONE, *TWO]), PLACES, PLACES), max_size=12),
    results=st.lists(PLACES, min_size=1, max_size=5),
    donated=st.sets(st.integers(0, 2), min_size=1),
)
@settings(deadline=None)
def test_donation_changes_no_result(steps, results, donated):
    def fun(*xs):
        xs = list(xs)
        for name, i, j in steps:
            x, y = xs[i % len(xs)], xs[j % len(xs)]
            xs.append(ONE[name](x) if name in ONE else TWO[name](x, y))
        return [xs[i % len(xs)] for i in results]

    arrays = [normal(5, 5, seed=i) for i in range(3)]
    wanted = ft.jit(fun)(*fresh(*arrays))
    taken = fresh(*arrays)
    got = ft.jit(fun, donate_argnums=sorted(donated))(*taken)
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(x, y)
    for i in {0, 1, 2} - donated:
        np.testing.assert_array_equal(taken[i], arrays[i])
