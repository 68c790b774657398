"""`check_finite` leaves the last bits of jitted functions as they are, those of loops too."""

import numpy
import pytest
from support.hooked_programs import program
from support.long_forms import sized

import functensor as ft
import functensor.numpy as np
from functensor.hooks import check_finite

X = numpy.array([0.3, -0.7, 1.1])


def scanned(x, w):
    return ft.scan(lambda c, row: (np.einsum("ij,j->i", w, c) / 3 + row, None), x, w)[0]


def whiled(x, w):
    return ft.while_loop(
        lambda c: c[0] < 4, lambda c: (c[0] + 1, np.sin(w @ c[1]) / 3 + x), (0, x), max_steps=5
    )[1]


FUNCTIONS = {
    "scan": scanned,
    "scan of a loop": lambda x, w: ft.fori_loop(0, 3, lambda i, c: scanned(c, w), x),
    "while_loop": whiled,
    "map": lambda x, w: ft.control.map(lambda row: np.tanh(w @ row) * x, w),
    "vmap of a scan": lambda x, w: ft.vmap(scanned, (0, None))(w + x, w),
}


def calls_are_alike(f, args):
    """Says whether results are the same to the last bit, without the check and in three calls."""
    plain = ft.jit(f)
    wanted = [numpy.asarray(leaf).tobytes() for leaf in ft.tree.leaves(plain(*args))]
    same = []
    for jitted in (plain, ft.jit(f)):
        for _ in range(3):
            with check_finite():
                found = ft.tree.leaves(jitted(*args))
            same.append([numpy.asarray(leaf).tobytes() for leaf in found] == wanted)
    return all(same)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_loops(name):
    f = FUNCTIONS[name]
    total = ft.grad(lambda x, w: np.sum(f(x, w) ** 2), (0, 1))
    for seed in range(4):
        w = numpy.random.RandomState(seed).randn(3, 3)
        assert calls_are_alike(f, (X, w))
        assert calls_are_alike(total, (X, w))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jitted_functions_within_other_transformations(name):
    jitted = ft.jit(FUNCTIONS[name])
    forms = {
        "grad": ft.grad(lambda x, w: np.sum(jitted(x, w) ** 2), (0, 1)),
        "vmap": lambda x, w: ft.vmap(jitted, (0, None))(w + x, w),
        "jvp": lambda x, w: ft.jvp(jitted, (x, w), (w[0], w)),
    }
    for seed in range(3):
        w = np.asarray(numpy.random.RandomState(seed).randn(3, 3))
        for form in forms.values():
            wanted = [numpy.asarray(leaf).tobytes() for leaf in ft.tree.leaves(form(X, w))]
            with check_finite():
                found = [numpy.asarray(leaf).tobytes() for leaf in ft.tree.leaves(form(X, w))]
            assert found == wanted


@pytest.mark.long
@pytest.mark.parametrize("seed", range(sized(6, 100)))
def test_random_programs(seed):
    f = program(seed)
    w = numpy.random.RandomState(seed).randn(3, 3)
    assert calls_are_alike(ft.grad(lambda x, w: np.sum(f(x, w) ** 2), (0, 1)), (X, w)), f.__name__


def test_what_a_loop_makes_is_still_found():
    def f(x):
        return ft.scan(lambda c, y: (c + np.where(y > 0, 1 / y, 0.0), c), 0.0, x)

    jitted = ft.jit(f)
    for _ in range(3):
        with check_finite():
            jitted(X + 2)
    with check_finite(), pytest.raises(ft.errors.NonFiniteError, match="divide made infinity"):
        jitted(X - X)
