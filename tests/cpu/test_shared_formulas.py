"""Formulas that kernels and blocks of NumPy's functions share: blocks keep eager mode's bits."""

import inspect

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.shared_formulas import SHARED_FORMULAS
from functensor.primitives.core.registry import registry

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, -900.0, 900.0, 12.0, -12.0, 88.0]
EXACT = {"gelu", "gelu_grad", "gelu_unit_grad"}


def operands(count, dtype):
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(count, 300, 400)).astype(dtype) * 3
    rows = np.array(SPECIAL, dtype)
    xs[0, 0, : len(rows)] = rows
    xs[-1, 1, : len(rows)] = rows
    return list(xs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SHARED_FORMULAS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_blocks_have_the_bits_of_eager_mode(name, dtype):
    primitive = registry[name]
    params = {"approximate": True} if name in EXACT else {}
    xs = operands(len(inspect.signature(SHARED_FORMULAS[name]).parameters) - len(params), dtype)

    def f(*xs):
        return primitive(*xs, **params), fnp.negative(xs[0])

    with ft.config.using(deterministic=True):
        jitted = ft.jit(f)
        found = jitted(*xs)
        source = jitted._last.compiled.run.source
    assert "blocks_0" in source
    wanted = f(*map(fnp.asarray, xs))
    for got, right in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, right)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(right))
