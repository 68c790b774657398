"""Optimizers that are jitted compute in the dtypes of their parameters, and do the same."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import optim

# An optimizer's functions are staged anew for each optimizer.
pytestmark = pytest.mark.filterwarnings("ignore::functensor.errors.RetraceWarning")

RATES = {"number": 1e-2, "schedule": lambda step: 1e-2 / (1 + step)}
MAKERS = {
    "sgd": optim.sgd,
    "momentum": optim.momentum,
    "nesterov": lambda lr: optim.momentum(lr, nesterov=True),
    "adam": optim.adam,
    "adamw": optim.adamw,
    "lion": optim.lion,
    "adagrad": optim.adagrad,
}
TOLERANCES = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-14, "complex64": 1e-6}


def drawn(dtype, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3, 4))
    return (x + 1j * rng.normal(size=x.shape) if dtype == "complex64" else x).astype(dtype)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", MAKERS)
def test_staged_updates_compute_in_the_dtypes_of_parameters(name, rate):
    opt = MAKERS[name](RATES[rate])
    for dtype, tolerance in TOLERANCES.items():
        params, grads = [drawn(dtype, 1)], [drawn(dtype, 2) * 1e-2]
        state = opt.init(params)
        wide = "float64" if dtype == "float64" else "float32"
        for equation in ft.make_program(opt.update)(params, state, grads).equations:
            for out in equation.outputs:
                known = out.type
                assert not known.shape or known.dtype in (dtype, wide), (equation, known)
        eager, jitted = (params, state), (params, state)
        update = ft.jit(opt.update)
        for _ in range(4):
            eager, jitted = opt.update(*eager, grads), update(*jitted, grads)
        for a, b in zip(ft.tree.leaves(eager), ft.tree.leaves(jitted), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance)


def test_small_gradients_of_half_precision_survive_their_squares():
    opt = optim.adam(0.1)
    params = [fnp.ones(3, "float16")]
    grads = [fnp.full(3, 1e-4, "float16")]
    wanted, _ = opt.update(params, opt.init(params), grads)
    got, _ = ft.jit(opt.update)(params, opt.init(params), grads)
    np.testing.assert_array_equal(got[0], wanted[0])
    np.testing.assert_allclose(got[0], 0.9, rtol=np.finfo("f2").eps)


def test_traced_learning_rates_decide_no_dtype_and_have_a_derivative():
    def after(rate, params):
        opt = optim.momentum(rate)
        return opt.update(params, opt.init(params), params)[0]

    params = [np.ones(3, "float32")]
    assert ft.jit(after)(np.float64(0.1), params)[0].dtype == np.float32
    np.testing.assert_allclose(ft.jit(after)(np.float64(0.1), params)[0], 0.9, rtol=1e-6)
    slope = ft.jit(ft.grad(lambda rate: fnp.sum(after(rate, params)[0])))(0.1)
    np.testing.assert_allclose(slope, -3, rtol=1e-6)
