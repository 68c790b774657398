"""Counts and costs: those that the program has, before passes make it better."""

import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functensor as ft
import functensor.numpy as np
from functensor.hooks import CountHook, use
from functensor.programs.costs import cost_of

X = np.array([0.3, -0.7, 1.1])
W = np.arange(12.0).reshape(4, 3)
IMAGES = np.ones((2, 3, 8, 8), "float32")
KERNEL = np.ones((5, 3, 3, 3), "float32")
FOUR = np.arange(4.0)
HALF = math.sqrt(0.5)


def network(x):
    with ft.scope("layer"):
        h = np.tanh(W @ x) * 0.3 + numpy.arange(4.0)
    h = np.concatenate([h, x[1:]])[::-1].reshape(2, -1)
    return np.sum(np.where(h > 0, h, h * h) / np.float32(3))


PROGRAMS = {
    "network": (network, X),
    "batch": (ft.vmap(network), np.stack([X] * 5)),
    "batch of batches": (ft.vmap(ft.vmap(network)), np.stack([np.stack([X] * 5)] * 2)),
    "shared operands": (ft.vmap(lambda x: np.sum(np.matmul(W, x) * FOUR)), W),
    "einsum": (lambda w: np.einsum("ij,kj,k->i", w, w, FOUR) / 3, W),
    "convolution": (lambda x: ft.nn.relu(ft.nn.conv(x, KERNEL)), IMAGES),
    "float32": (lambda x: np.exp(x.astype("float32")) * HALF, X),
    "complex": (lambda x: np.abs(np.exp(1j * x)) ** 2, X),
    "same operand": (lambda x: x * x + np.sin(x) * np.sin(x), X),
    "empty": (lambda x: np.sum(x[:0] * 2), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_costs_are_those_of_the_program(name):
    fun, x = PROGRAMS[name]
    hook = CountHook()
    with use(hook):
        fun(x)
    wanted = cost_of(ft.make_program(fun)(x))
    assert (hook.flops, hook.bytes) == (wanted.flops, wanted.bytes)
    # A batched operation may be several.
    if "batch" not in name and name != "shared operands":
        assert sum(hook.counts.values()) == len(wanted.equations)
    for mode in (ft.jit(fun), lambda x: ft.vjp(fun, x)):
        again = CountHook()
        with use(again):
            mode(x)
        assert (again.flops, again.bytes) == (hook.flops, hook.bytes)


def test_lowered_functions_have_the_same_cost_where_passes_change_nothing():
    def fun(x):
        return np.sum(np.exp(W @ x))

    hook = CountHook()
    with use(hook):
        fun(X)
    cost = ft.jit(fun).lower(X).cost()
    assert hook.flops == cost.flops == 2 * 12 + 4 + 4


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.integers(1, 4))
def test_products_of_all_shapes(n, k, m, batch):
    a, b = numpy.ones((batch, n, k)), numpy.ones((k, m), "float32")
    hook = CountHook()
    with use(hook):
        ft.vmap(lambda a: np.matmul(a, b))(a)
    assert hook.flops == 2 * batch * n * k * m
    assert hook.bytes == 8 * batch * n * k + 4 * k * m + 8 * batch * n * m


IDENTITIES = {
    "tag": lambda x: ft.tag(x, "hidden"),
    "stop_gradient": ft.stop_gradient,
    "barrier": lambda x: ft.primitives.identities.optimization_barrier(x, 1.0),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_what_returns_its_operand_costs_nothing(name):
    hook = CountHook()
    with use(hook):
        IDENTITIES[name](np.ones((3, 4)))
    assert list(hook.costs().values()) == [(1, 0, 0)]


@pytest.mark.parametrize(("n", "m"), [(5, 3), (3, 5), (4, 4)])
def test_convolutions_of_sequences_cost_their_products(n, m):
    convolved, matched = CountHook(), CountHook()
    with use(convolved):
        np.convolve(np.ones(n), np.ones(m))
    with use(matched):
        np.convolve(np.ones(n), np.ones(m), "valid")
    assert convolved.costs()["convolve_full", "forward"].flops == 2 * n * m
    assert matched.costs()["correlate_valid", "forward"].flops == 2 * (abs(n - m) + 1) * min(n, m)


def test_counts_by_phase():
    hook = CountHook()
    with use(hook):
        ft.grad(lambda x: np.sum(np.sin(x) * x))(X)
        ft.jvp(np.sin, (X,), (X,))
        ft.grad(ft.checkpoint(np.cos))(1.0)
    assert hook.counts == {
        ("sin", "forward"): 1, ("multiply", "forward"): 1, ("sum", "forward"): 1,
        ("sum", "backward"): 1, ("multiply", "backward"): 1, ("sin", "backward"): 1,
        ("sin", "tangent"): 1,
        ("cos", "forward"): 1, ("cos", "replay"): 1, ("cos", "backward"): 1,
    }  # fmt: skip


def test_the_way_back_has_the_costs_of_the_rules():
    hook = CountHook()
    with use(hook, match="multiply"):
        ft.grad(lambda x: np.sum(np.multiply(x, W)))(X)
    forward, backward = hook.costs()["multiply", "forward"], hook.costs()["multiply", "backward"]
    assert forward == (1, 12, 8 * (3 + 12 + 12))
    # A product for each element, and the sum over the rows that share an element of x.
    assert backward == (1, 12 + 12, 8 * (12 + 3))


def layers(weights, x):
    for w in weights:
        x = np.tanh(x @ w)
    return np.mean(x**2)


WEIGHTS = [np.ones((3, 8)), np.ones((8, 8)), np.ones((8, 2))]
EXAMPLES = np.ones((5, 3))
TRAINING = {
    "plain": lambda: ft.vjp(layers, WEIGHTS, EXAMPLES)[1](1.0),
    "some operands": lambda: ft.vjp(lambda w: layers(w, EXAMPLES), WEIGHTS)[1](1.0),
    "jit": lambda: ft.jit(ft.grad(layers))(WEIGHTS, EXAMPLES),
    "inner jit": lambda: ft.grad(ft.jit(layers))(WEIGHTS, EXAMPLES),
    "examples": lambda: ft.vmap(ft.grad(layers), (None, 0))(WEIGHTS, EXAMPLES),
    "batch": lambda: ft.grad(lambda w: np.sum(ft.vmap(layers, (None, 0))(w, EXAMPLES)))(WEIGHTS),
    "tensors": lambda: layers([ft.Tensor(w, requires_grad=True) for w in WEIGHTS], X).backward(),
}


def products(rows, parts):
    """Returns the operations of the layers' matrix products, of some factors out of three each."""
    return sum(2 * rows * w.size * part for w, part in zip(WEIGHTS, parts, strict=True))


@pytest.mark.parametrize("name", TRAINING)
def test_products_of_the_way_back(name):
    for _ in range(2):
        hook = CountHook()
        with use(hook):
            TRAINING[name]()
    rows = 1 if name == "tensors" else 5
    found = hook.costs()
    assert found["matmul", "forward"].flops == products(rows, (1, 1, 1))
    # The first layer's inputs have no gradient, but where all are asked for.
    first = 2 if name == "plain" else 1
    assert found["matmul", "backward"].flops == products(rows, (first, 2, 2))


def test_a_training_step_costs_what_its_program_does():
    def step(g, weights):
        value, pull = ft.vjp(lambda w: layers(w, EXAMPLES), weights)
        return value, pull(g)

    hook = CountHook()
    with use(hook):
        step(np.ones(()), WEIGHTS)
    assert hook.flops == cost_of(ft.make_program(step)(np.ones(()), WEIGHTS)).flops


def test_a_checkpoint_counts_its_second_run():
    plain, again, once = CountHook(), CountHook(), CountHook()
    loss = ft.checkpoint(lambda w: layers(w, EXAMPLES))
    with use(plain):
        ft.grad(lambda w: layers(w, EXAMPLES))(WEIGHTS)
    with use(again):
        ft.grad(loss)(WEIGHTS)
    with use(once, on_replay=False):
        ft.grad(loss)(WEIGHTS)
    wanted, found, rest = (hook.costs() for hook in (plain, again, once))
    assert found["matmul", "backward"] == wanted["matmul", "backward"]
    assert found["matmul", "replay"].flops == found["matmul", "forward"].flops
    # Of operations that were not shown forward, the operands are not known.
    assert ("matmul", "replay") not in rest
    assert rest["matmul", "backward"] == wanted["matmul", "backward"]._replace(flops=0)


def test_a_policy_changes_the_cost_but_not_the_count():
    saved = ft.checkpoint_policies.save_only_these_names("first")
    x, weights = np.ones((20, 30)), np.ones((30, 30))

    def two_products(w):
        return np.sum(np.sin(ft.checkpoint_name(x @ w, "first") @ w))

    whole, selective = CountHook(), CountHook()
    plain, chosen = (
        ft.value_and_grad(ft.checkpoint(two_products, policy=p)) for p in (None, saved)
    )
    with use(whole):
        plain(weights)
    with use(selective):
        chosen(weights)
    assert selective.flops == whole.flops
    assert selective.counts["matmul", "replay"] == 2
    costs = [ft.jit(f).lower(weights).cost().flops for f in (plain, chosen)]
    # The first product is not computed again; some elementwise work is instead.
    product = 2 * 20 * 30 * 30
    assert 0.95 * product < costs[0] - costs[1] <= product


def test_operations_that_are_no_more_leave_no_trace():
    hook = CountHook()
    with use(hook):
        for _ in range(50):
            ft.grad(lambda w: layers(w, EXAMPLES))(WEIGHTS)
        several = len(hook._types)
        for _ in range(500):
            ft.grad(lambda w: layers(w, EXAMPLES))(WEIGHTS)
    assert len(hook._types) < 2 * several


def test_costs_by_scope():
    hook = CountHook()
    with use(hook):
        network(X)
    found = hook.costs("scope")
    assert found["layer", "forward"].flops == 2 * 12 + 4 + 4 + 4
    assert found["", "forward"].flops == hook.flops
    assert found["", "forward"].calls == sum(hook.counts.values())


def test_loops_count_every_step():
    hook = CountHook()
    with use(hook):
        ft.scan(lambda c, x: (np.sin(c) * x, c), X[0], X)
    assert hook.counts["sin", "forward"] == hook.counts["multiply", "forward"] == 3
    assert hook.flops == 6


def test_a_function_with_several_outputs_counts_once():
    @ft.custom_vjp
    def pair(x):
        return np.sin(x), np.cos(x)

    pair.defvjp(lambda x: (pair(x), x), lambda x, gs: (gs[0] * np.cos(x),))
    hook = CountHook()
    with use(hook):
        pair(X)
        ft.grad(lambda x: np.sum(np.add(*pair(x))))(X)
    assert hook.costs()["pair", "forward"] == (2, 2 * 3, 2 * 3 * 24)
    assert hook.costs()["pair", "backward"] == (1, 3, 3 * 24)


def test_what_is_staged_is_not_counted():
    hook = CountHook()

    def staged(x):
        with use(hook):
            return np.sin(x)

    ft.make_program(staged)(X)
    assert hook.counts == {}
    assert (hook.flops, hook.bytes) == (0, 0)


def test_report():
    hook = CountHook()
    assert hook.report().startswith("<CountHook: 0 operations, 0 flops, 0 bytes>")
    with use(hook), ft.scope("layer"):
        np.matmul(numpy.ones((10, 20)), np.exp(numpy.ones((20, 30))))
    assert hook.report() == (
        "<CountHook: 2 operations, 12,600 flops, 18,400 bytes>\n\n"
        " flops  bytes  calls  phase    primitive\n"
        "12,000  8,800      1  forward  matmul\n"
        "   600  9,600      1  forward  exp\n\n"
        " flops   bytes  calls  phase    scope\n"
        "12,600  18,400      2  forward  (all)\n"
        "12,600  18,400      2  forward  layer"
    )
