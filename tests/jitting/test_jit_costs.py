"""Costs of programs: loops by their steps, branches by the most expensive one, regions as one."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp

X = np.linspace(-1.0, 2.0, 8)
W = np.eye(8)
# A product of a matrix and a vector of eight, and a sine of it; bytes of both equations.
FLOPS = 2 * 8 * 8 + 8
BYTES = (64 + 8 + 8) * 8 + (8 + 8) * 8


def step(x, w):
    return fnp.sin(w @ x)


def cost(f, *args):
    return ft.jit(f).lower(*args).cost()


def test_the_body_alone():
    found = cost(step, X, W)
    assert (found.flops, found.bytes) == (FLOPS, BYTES)


@pytest.mark.parametrize("length", [0, 1, 7])
def test_scans_count_their_bodies_by_length(length):
    found = cost(lambda x, w: ft.scan(lambda c, _: (step(c, w), None), x, length=length)[0], X, W)
    assert (found.flops, found.bytes) == (length * FLOPS, length * BYTES)


@pytest.mark.parametrize("length", [0, 1, 7])
def test_fori_loops_count_their_bodies_by_length(length):
    found = cost(lambda x, w: ft.fori_loop(0, length, lambda i, c: step(c, w), x), X, W)
    # The number of the step is counted on as well.
    assert length * FLOPS <= found.flops <= length * (FLOPS + 1)


def test_loops_within_loops_multiply():
    def inner(c, w):
        return ft.scan(lambda c, _: (step(c, w), None), c, length=3)[0]

    found = cost(lambda x, w: ft.scan(lambda c, _: (inner(c, w), None), x, length=5)[0], X, W)
    assert found.flops == 15 * FLOPS


def test_the_derivative_of_a_scan_counts_both_ways():
    def loss(length):
        def summed(x, w):
            return fnp.sum(ft.scan(lambda c, _: (step(c, w), None), x, length=length)[0])

        return cost(ft.grad(summed, argnums=(0, 1)), X, W)

    # Back: a cosine times the cotangent, a product with the matrix transposed, and one of a column
    # and a row.
    back = 8 + 8 + 2 * 8 * 8 + 2 * 8 * 8
    assert loss(6).flops == 6 * (FLOPS + back)
    assert loss(0).flops == 0


def test_bounded_while_loops_count_all_steps_and_others_one():
    def loop(x, w, **limit):
        return ft.while_loop(lambda c: fnp.sum(c) < 5.0, lambda c: step(c, w), x, **limit)

    # The condition is a sum of eight and a comparison.
    one = FLOPS + 8 + 1
    assert cost(loop, X, W).flops == one
    bounded = cost(lambda x, w: loop(x, w, max_steps=9), X, W)
    assert bounded.flops == 9 * one
    assert cost(lambda x, w: loop(x, w, max_steps=0), X, W).flops == 0


def test_a_branch_costs_as_much_as_the_most_expensive_one():
    def branch(p, x, w):
        return ft.cond(p, lambda: step(step(x, w), w), lambda: step(x, w))

    found = cost(branch, True, X, W)
    assert (found.flops, found.bytes) == (2 * FLOPS, 2 * BYTES)


def test_regions_move_what_goes_in_and_out_alone():
    x = np.ones((300, 300))
    found = cost(lambda x: fnp.exp(fnp.sin(x) * 2.0), x)
    assert "fused" in str(found)
    assert (found.flops, found.bytes) == (3 * x.size, 2 * x.nbytes)


def test_the_memory_of_a_body_is_counted_once():
    scanned = cost(lambda x: ft.scan(lambda c, _: (fnp.outer(c, c) @ c, None), X, length=9)[0], X)
    longer = cost(lambda x: ft.scan(lambda c, _: (fnp.outer(c, c) @ c, None), x, length=9)[0], X)
    shorter = cost(lambda x: ft.scan(lambda c, _: (fnp.outer(c, c) @ c, None), x, length=1)[0], X)
    assert scanned.flops == 0
    assert longer.peak == shorter.peak > 8 * X.nbytes
