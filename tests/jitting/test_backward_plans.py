"""Backward passes over graphs that were met before run by plans, under ``config.benchmark``."""

import threading
import tracemalloc

import numpy as np
import pytest
import support.registry_cases as cases
from core.test_primitives import PRIMITIVES
from hypothesis import given
from hypothesis import strategies as st
from support.long_forms import thinned

import functensor as ft
import functensor.numpy as fnp
import functensor.torch as torch
from functensor import nn
from functensor.jitting import backward_plans
from functensor.jitting.backward_plans import MetGraph, met_graphs
from functensor.primitives.core.registry import registry

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def _from_the_start():
    met_graphs.clear()
    with ft.config.using(benchmark=True):
        yield
    met_graphs.clear()


def graphs():
    return [graph for alike in met_graphs.values() for graph in alike.graphs]


def planned():
    """Makes the plans of all graphs that were met, which all later passes take."""
    made = graphs()
    for graph in made:
        graph.make()
        graph.settled = True
    return [graph for graph in made if graph.plan is not None]


def passes_by_plan(monkeypatch):
    """Returns a list that grows by one with each pass that a plan does."""
    found = []
    by = MetGraph._by

    def noted(self, *args):
        found.append(self)
        return by(self, *args)

    monkeypatch.setattr(MetGraph, "_by", noted)
    return found


def same(found, wanted, tolerance=1e-5):
    for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        x, y = (np.asarray(v.detach().numpy() if isinstance(v, ft.Tensor) else v) for v in (x, y))
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype("f4")


def perceptron(params, x, y):
    for w, b in params[:-1]:
        x = nn.gelu(x @ w + b)
    w, b = params[-1]
    return fnp.mean((x @ w + b - y) ** 2)


LAYERS = [(normal(6, 8), normal(8)), (normal(8, 3), normal(3))]
BATCH = normal(5, 6), normal(5, 3)


def test_gradients_of_functions(monkeypatch):
    count = passes_by_plan(monkeypatch)
    step = ft.value_and_grad(perceptron)
    wanted = step(LAYERS, *BATCH)
    assert not count
    assert len(planned()) == 1
    same(step(LAYERS, *BATCH), wanted)
    others = [normal(5, 6, seed=1), normal(5, 3, seed=1)]
    found = step(LAYERS, *others)
    with ft.config.using(benchmark=False):
        same(found, step(LAYERS, *others))
    assert len(count) == 2


def test_gradients_of_tensors(monkeypatch):
    count = passes_by_plan(monkeypatch)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    x, y = map(torch.tensor, BATCH)

    def gradients():
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y.argmax(1)).backward()
        return [p.grad.clone() for p in model.parameters()]

    wanted = gradients()
    planned()
    same(gradients(), wanted)
    # Gradients that are there already are added to.
    torch.nn.functional.cross_entropy(model(x), y.argmax(1)).backward()
    same([p.grad for p in model.parameters()], [2 * g for g in wanted])
    assert len(count) == 2


def test_a_plan_comes_by_itself():
    step = ft.grad(lambda w, x: fnp.sum(fnp.tanh(x @ w) ** 2))
    w, x = normal(200, 200), normal(200, 200)
    wanted = step(w, x)
    (graph,) = graphs()
    for _ in range(10_000):
        if graph.job is not None:
            break
        step(w, x)
    assert graph.job.wait(120)
    assert graph.plan is not None
    for _ in range(2 * backward_plans.PASSES_OF_EACH_WAY):
        same(step(w, x), wanted, 1e-3)
    assert graph.settled
    walks, others = graph._times
    assert (graph.plan is not None) is (min(others) <= min(walks))


@pytest.mark.parametrize("choice", [{"benchmark": False}, {"deterministic": True}])
def test_there_is_none_without_leave(choice):
    with ft.config.using(**choice):
        ft.grad(perceptron)(LAYERS, *BATCH)
    assert not met_graphs


def test_a_second_pass_over_what_a_plan_used_up(monkeypatch):
    count = passes_by_plan(monkeypatch)
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def loss():
        return (x.exp() * x).sum()

    loss().backward()
    planned()
    again = loss()
    again.backward()
    with pytest.raises(ft.errors.BackwardError, match="a second time") as found:
        again.backward()
    assert "test_backward_plans" in str(found.value)
    kept = loss()
    kept.backward(retain_graph=True)
    kept.backward()
    same(x.grad, 4 * (x + 1) * x.exp())
    assert len(count) == 3


def test_hooks_see_what_flows_back(monkeypatch):
    count = passes_by_plan(monkeypatch)
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def gradients(watch):
        x.grad = None
        inner = x.exp()
        watch(inner)
        (inner * x).sum().backward()
        return x.grad

    seen = []
    gradients(lambda inner: None)
    planned()
    gradients(lambda inner: inner.register_hook(lambda g: seen.append(g) or 2 * g))
    same(x.grad, (1 + 2 * x) * x.exp())
    kept = []
    gradients(lambda inner: (inner.retain_grad(), kept.append(inner)))
    same(kept[0].grad, x.detach())
    assert len(seen) == 1
    assert not count
    # Hooks of leaves see what plans come to.
    x.register_hook(seen.append)
    gradients(lambda inner: None)
    assert len(seen) == 2
    assert len(count) == 1


def test_interceptors_see_the_rules(monkeypatch):
    count = passes_by_plan(monkeypatch)
    step = ft.grad(lambda x: fnp.sum(fnp.exp(x) * x))
    step(normal(3))
    planned()
    seen = []

    class Watch(ft.hooks.Hook):
        def backward(self, op, cotangents, g):
            seen.append(op.name)

    with ft.hooks.use(Watch()):
        step(normal(3))
    assert "exp" in seen
    assert not count


def test_what_tells_graphs_apart():
    x = normal(3, 4)

    def gradient(f):
        before = len(graphs())
        ft.grad(lambda x: fnp.sum(f(x)))(x)
        return len(graphs()) - before

    assert gradient(lambda x: fnp.sum(x * x, axis=0)) == 1
    assert gradient(lambda x: fnp.sum(x * x, axis=0)) == 0
    assert gradient(lambda x: fnp.sum(x * x, axis=1)) == 1
    assert gradient(lambda x: fnp.sum(x * x, axis=0, keepdims=True)) == 1
    assert gradient(lambda x: x * 0.0) == 1
    assert gradient(lambda x: x * -0.0) == 1
    assert gradient(lambda x: x * 0.0) == 0
    assert gradient(lambda x: x[1:]) == 1
    assert gradient(lambda x: x[:-1]) == 1
    # The same array twice, and two arrays of the same numbers.
    y = normal(3, 4, seed=1)
    assert gradient(lambda x: x * y * y) == 1
    assert gradient(lambda x: x * y * y.copy()) == 1


@pytest.mark.parametrize("number", [0.5, -0.0, 3.0])
def test_numbers_of_python_count(number):
    step = ft.grad(lambda x, c: fnp.sum(x * x * c))
    step(normal(3), 2.0)
    planned()
    same(step(normal(3), number), 2 * number * normal(3))


def test_changing_numbers_are_given_up():
    for i in range(3 * backward_plans.MOST_MISSED):
        ft.grad(lambda x, c=float(i): fnp.sum(x * x * c))(normal(3))
    (alike,) = met_graphs.values()
    assert len(alike.graphs) == backward_plans.MOST_ALIKE
    assert alike.missed == backward_plans.MOST_MISSED


def test_looking_rests_where_it_has_no_use(monkeypatch):
    step = ft.grad(lambda x: fnp.sum(x * x))
    step(normal(3))
    (alike,) = met_graphs.values()
    (graph,) = graphs()
    graph.settled = True
    looked = []
    monkeypatch.setattr(backward_plans, "nodes_behind", lambda roots: looked.append(roots) or [])
    monkeypatch.setattr(backward_plans.Alike, "find", lambda *args: (graph, []))
    for _ in range(backward_plans.PASSES_OF_REST):
        step(normal(3))
    assert len(looked) == backward_plans.MOST_USELESS
    assert 0 < alike.resting < backward_plans.PASSES_OF_REST


def test_results_have_memory_of_their_own():
    x, y = (torch.tensor(normal(3, 4, seed=i), requires_grad=True) for i in range(2))
    ones = torch.ones(3, 4)

    def gradients():
        x.grad = y.grad = None
        (x + y).backward(ones)

    gradients()
    assert planned()
    gradients()
    x.grad.zero_()
    x.grad.numpy()[...] = 7
    assert ones.sum() == y.grad.sum() == 12


def test_gradients_of_dropout_have_the_dtype_of_its_operand(monkeypatch):
    count = passes_by_plan(monkeypatch)
    x = torch.tensor(normal(4, 4), requires_grad=True)

    def gradients():
        torch.manual_seed(0)
        x.grad = None
        (torch.nn.functional.dropout(x.bfloat16(), 0.5) * x.abs()).backward(torch.ones(4, 4))
        return x.grad

    wanted = gradients()
    planned()
    same(gradients(), wanted, 0.02)
    assert len(count) == 1


def test_leaves_without_a_path():
    step = ft.grad(lambda p: fnp.sum(p["a"] * p["a"]) + fnp.sum(fnp.floor(p["b"])))
    params = {"a": normal(3), "b": normal(2), "c": normal(2)}
    wanted = step(params)
    planned()
    same(step(params), wanted)


def test_nothing_to_walk_over():
    same(ft.grad(lambda x: 3.0)(normal(3)), np.zeros(3, "f4"))
    same(ft.jacrev(lambda x: fnp.round(x))(normal(3)), np.zeros((3, 3), "f4"))
    assert not met_graphs


def test_other_transformations(monkeypatch):
    count = passes_by_plan(monkeypatch)

    def f(x):
        return fnp.sum(fnp.sin(x) * x)

    x = normal(4)
    wanted = (
        ft.grad(f)(x), ft.vmap(ft.grad(f))(x[:, None]), ft.hessian(f)(x),
        ft.grad(lambda x: fnp.sum(ft.grad(f)(x) ** 2))(x), ft.jit(ft.grad(f))(x),
        ft.jvp(ft.grad(f), (x,), (x,)),
    )  # fmt: skip
    planned()
    found = (
        ft.grad(f)(x), ft.vmap(ft.grad(f))(x[:, None]), ft.hessian(f)(x),
        ft.grad(lambda x: fnp.sum(ft.grad(f)(x) ** 2))(x), ft.jit(ft.grad(f))(x),
        ft.jvp(ft.grad(f), (x,), (x,)),
    )  # fmt: skip
    same(found, wanted)
    assert count


def test_rules_of_users_walk(monkeypatch):
    count = passes_by_plan(monkeypatch)
    calls = []

    @ft.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (f(x), None), lambda kept, g: (calls.append(g) or g * 5,))
    for _ in range(3):
        same(ft.grad(lambda x: fnp.sum(f(x)))(normal(3)), np.full(3, 5, "f4"))
        planned()
    assert len(calls) == 3
    assert not count


def test_threads():
    step = ft.grad(perceptron)
    wanted = step(LAYERS, *BATCH)
    planned()
    found = []

    def work():
        with ft.config.using(benchmark=True):
            found.extend([step(LAYERS, *BATCH) for _ in range(50)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 200
    for one in found:
        same(one, wanted)


def test_a_plan_that_cannot_be_made(monkeypatch):
    step = ft.grad(lambda x: fnp.sum(x * x))
    wanted = step(normal(3))

    def broken(program, orders):
        raise MemoryError("no room")

    monkeypatch.setattr(backward_plans, "plan_of_buffers", broken)
    (graph,) = graphs()
    graph.make()
    assert graph.settled
    assert graph.plan is None
    same(step(normal(3)), wanted)


def test_a_failure_that_is_told_as_an_error(monkeypatch):
    ft.grad(lambda x: fnp.sum(x * x))(normal(3))

    def broken(program, orders):
        raise ValueError("a fault")

    monkeypatch.setattr(backward_plans, "plan_of_buffers", broken)
    (graph,) = graphs()
    with pytest.raises(RuntimeWarning, match="a fault"):
        graph.make()
    assert graph.settled


def test_walks_let_go_of_what_they_used():
    params = [normal(100_000, seed=i) for i in range(10)]
    step = ft.grad(lambda params: sum(fnp.sum(fnp.exp(p * 0.5)) for p in params))
    size = params[0].nbytes

    def peak(choice):
        with ft.config.using(benchmark=choice):
            tracemalloc.start()
            step(params)
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return found

    wanted = peak(False)
    for _ in range(3):
        assert peak(True) < wanted + 4 * size


def test_very_long_graphs_walk():
    def step(count):
        def chain(x):
            for _ in range(count):
                x = -x
            return x

        ft.grad(chain)(1.0)

    step(backward_plans.MOST_PLANNED_NODES)
    assert not graphs()
    step(3)
    assert graphs()


@pytest.mark.parametrize("name", thinned(PRIMITIVES, 6))
def test_every_primitive(name):
    """What a plan comes to is what the rules come to, of every primitive with a derivative."""
    primitive = registry[name]
    for sample in primitive.samples[:3]:
        for dtype in set(primitive.dtypes) & {"f", "d", "D"}:
            if not cases.has_derivative(primitive, sample, dtype):
                continue
            operands = cases.operands_of(primitive, sample, dtype)
            call, values = cases.by_inexact(cases.applied(primitive, sample), operands)

            def loss(*values, call=call):
                out = call(*values)
                return fnp.sum(fnp.real(out * fnp.conj(out)) + fnp.real(out))

            step = ft.grad(loss, argnums=tuple(range(len(values))))
            met_graphs.clear()
            wanted = step(*values)
            planned()
            same(step(*values), wanted, 1e-3 if dtype == "f" else 1e-9)


@given(st.lists(st.sampled_from(["add", "mul", "tanh", "index", "turn", "mean"]), max_size=8))
def test_drawn_graphs(names):
    met_graphs.clear()
    parts = {
        "add": lambda x, y: (x + y, x), "mul": lambda x, y: (x * y, y),
        "tanh": lambda x, y: (fnp.tanh(x), y), "index": lambda x, y: (x.at[1:].add(y[:-1]), y),
        "turn": lambda x, y: (x.T, y.T), "mean": lambda x, y: (x - fnp.mean(x, 0), y),
    }  # fmt: skip

    def f(x, y):
        for name in names:
            x, y = parts[name](x, y)
        return fnp.sum(x * y)

    with ft.config.using(benchmark=True):
        step = ft.grad(f, argnums=(0, 1))
        x, y = normal(4, 4), normal(4, 4, seed=1)
        wanted = step(x, y)
        planned()
        same(step(x, y), wanted)
