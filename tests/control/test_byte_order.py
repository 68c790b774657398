"""Values in the other byte order go through loops and branches, and come out in the processor's."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp

X = np.array([1.5, 2.5]).astype(np.dtype("float32").newbyteorder())
KNOWN = X.astype("float32")
LOOPS = {
    "scan from an element": lambda x: ft.scan(lambda c, v: (c + v, c * v), x[0], x),
    "scan": lambda x: ft.scan(lambda c, v: (c + v, c * v), x, x),
    "scan that returns what it closes over": lambda x: ft.scan(lambda c, v: (X, X), x, x),
    "while_loop": lambda x: ft.while_loop(lambda c: c[0] < 9, lambda c: c + 1, x),
    "fori_loop": lambda x: ft.fori_loop(0, 3, lambda i, c: c * x + i, x),
    "cond": lambda x: ft.cond(fnp.sum(x) > 0, lambda c: c + 1, lambda c: c, x),
    "cond, the other branch": lambda x: ft.cond(fnp.sum(x) < 0, lambda c: c + 1, lambda c: c, x),
    "a branch that closes over": lambda x: ft.cond(x[0] < 0, lambda c: c + 1, lambda c: X, x),
    "switch": lambda x: ft.switch(x[0].astype(int), [lambda c: c, lambda c: c * c], x),
    "associative_scan": lambda x: ft.associative_scan(lambda c, v: c + v, x),
}
MODES = {
    "eager": lambda f: f,
    "jit": ft.jit,
    "vmap": lambda f: lambda x: ft.tree.map(lambda r: r[0], ft.vmap(f)(np.stack([x, x]))),
    "jit of vmap": lambda f: MODES["vmap"](ft.jit(f)),
    "value of grad": lambda f: lambda x: ft.vjp(f, x)[0],
    "jit of grad": lambda f: ft.jit(lambda x: ft.vjp(f, x)[0]),
}


def total(out):
    return sum(fnp.sum(leaf) for leaf in ft.tree.leaves(out))


# The number of steps of a while_loop is not known, which reverse mode needs.
REVERSED = [loop for loop in LOOPS if loop != "while_loop"]


@pytest.mark.parametrize(
    ("loop", "mode"), [(x, m) for x in LOOPS for m in MODES if x in REVERSED or "grad" not in m]
)
def test_the_other_byte_order_is_no_other_type(loop, mode):
    wanted = ft.tree.leaves(LOOPS[loop](KNOWN))
    found = ft.tree.leaves(MODES[mode](LOOPS[loop])(X))
    assert len(wanted) == len(found)
    for got, known in zip(found, wanted):
        assert got.dtype == known.dtype == "float32"
        np.testing.assert_array_equal(got, known)


@pytest.mark.parametrize("loop", REVERSED)
def test_derivatives_are_those_of_the_processors_order(loop):
    gradient = ft.grad(lambda x: total(LOOPS[loop](x)))
    for got in (gradient(X), ft.jit(gradient)(X)):
        np.testing.assert_allclose(got, gradient(KNOWN), rtol=1e-6)
