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


def test_the_way_back_has_bytes_and_no_arithmetic():
    hook = CountHook()
    with use(hook, match="multiply"):
        ft.grad(lambda x: np.sum(np.multiply(x, W)))(X)
    forward, backward = hook.costs()["multiply", "forward"], hook.costs()["multiply", "backward"]
    assert forward == (1, 12, 8 * (3 + 12 + 12))
    assert backward == (1, 0, 8 * (12 + 3))


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
    assert hook.costs()["pair", "forward"] == (1, 3, 3 * 24)


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
