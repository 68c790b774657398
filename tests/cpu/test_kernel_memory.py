"""Functions of primitives return their operands' memory only if plans expect them to."""

import warnings

import numpy as np
import pytest
from support.registry_cases import operands_of

import functensor as ft
import functensor.numpy as fnp
import functensor.scipy.special  # its primitives are in the registry then
from functensor import nn
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.codegen.called import is_ufunc
from functensor.backends.cpu.plan.liveness import is_fresh
from functensor.backends.fresh_results import (
    FRESH_ON_CPUS,
    FRESH_PRIMITIVES,
    FRESH_REDUCTIONS,
)
from functensor.extend import elementwise, reduction
from functensor.primitives.core.registry import registry
from functensor.primitives.core.shape_dtype import shape_dtype
from functensor.programs import Equation, Variable

# Those of which nothing is declared are taken to return what they are given, whatever they do.
BY_PARAMETERS = frozenset({"astype", "broadcast_to", "index"})
PRIMITIVES = [
    p
    for p in sorted(registry, key=lambda primitive: primitive.name)
    if p.name in FRESH_ON_CPUS | BY_PARAMETERS
    or p.name in FRESH_REDUCTIONS
    or is_ufunc(p.compute)
    or not (p.samples and p.samples[0].operands)
]
NUMBERS = (0, 1, 2, -1, 0.0, 1.0, 0.5, True)
# More than below which kernels have a short way.
MANY = 2048


def fresh(primitive, operands, params, out):
    """Says whether plans take a result for memory of its own: those of no operands too."""
    if not operands:
        return True
    known = [Variable(shape_dtype(x)) if isinstance(x, np.ndarray) else x for x in operands]
    return is_fresh(Equation(primitive, known, params, [Variable(shape_dtype(out))]))


def trivial(value):
    """Returns a parameter, and those of its kind with which there is least to do."""
    if type(value) is bool:
        return [value, not value]
    if type(value) in (int, float):
        return [value, *{type(value)(n) for n in (0, 1)} - {value}]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [value, *(type(value)(*(trivial(x)[i % len(trivial(x))] for x in value))
                         for i in (-1, -2))]  # fmt: skip
    if isinstance(value, tuple) and value and all(type(n) is int for n in value):
        return [value, (0,) * len(value), (1,) * len(value)]
    if isinstance(value, tuple) and value and all(isinstance(n, tuple) for n in value):
        return [value, tuple((0,) * len(n) for n in value)]
    return [value]


def arranged(operands):
    """Yields operands in several layouts, with axes of length 1, and without elements."""
    arrays = [np.asarray(x) for x in operands]
    yield arrays
    yield [x.copy("F") for x in arrays]
    yield [np.repeat(x, 2, -1)[..., ::2] if x.ndim else x for x in arrays]
    yield [x[tuple(slice(0, 1) for _ in x.shape)] for x in arrays]
    for axis in range(max([x.ndim for x in arrays], default=0)):
        ahead = (slice(None),) * axis
        yield [x[(*ahead, slice(0, 1))] if axis < x.ndim else x for x in arrays]
    yield [x[..., :0] if x.ndim else x for x in arrays]


def calls(primitive):
    """Yields operands and parameters; not all of them are such that the primitive takes them."""
    for sample in primitive.samples:
        choices = [dict(sample.params)]
        for key, value in sample.params.items():
            choices += [{**sample.params, key: other} for other in trivial(value)[1:]]
        if sample.params:
            choices.append({key: trivial(value)[-1] for key, value in sample.params.items()})
        drawn = operands_of(primitive, sample, primitive.dtypes[0])
        for params in choices:
            for operands in arranged(drawn):
                yield operands, params
                for dtype in "?ile" if params is choices[0] else "":
                    yield [x.astype(dtype) if x.dtype.kind == "f" else x for x in operands], params
    if primitive.family == "elementwise" and primitive.samples:
        sample = primitive.samples[0]
        drawn = operands_of(primitive, sample, primitive.dtypes[0])
        long = [np.broadcast_to(np.ravel(x)[:1], (MANY,)).copy() for x in drawn]
        yield long, sample.params
        for i in range(len(long)):
            for number in NUMBERS:
                yield [*long[:i], number, *long[i + 1 :]], sample.params


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=[p.name for p in PRIMITIVES])
def test_results_that_are_declared_to_be_fresh_are(primitive):
    counted = 0
    for operands, params in calls(primitive):
        before = [np.copy(x) for x in operands]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                outs = [primitive.impl(*operands, **params) for _ in range(2)]
        except Exception:
            continue  # such operands or parameters it does not take
        counted += 1
        for x, copy in zip(operands, before, strict=True):
            np.testing.assert_array_equal(x, copy)
        if not isinstance(outs[0], np.ndarray) or not fresh(primitive, operands, params, outs[0]):
            continue
        shown = [getattr(x, "shape", x) for x in operands], params
        assert not any(np.may_share_memory(outs[0], x) for x in operands), shown
        assert not outs[0].size or not np.shares_memory(*outs), shown
        assert outs[0].flags.writeable, shown
    assert counted or not primitive.samples


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(FRESH_PRIMITIVES))
def test_results_on_a_gpu_are_fresh_too(name):
    backend, primitive = get_backend("cupy"), registry[name]
    # Kernels trust what was prepared: they get only what is declared.
    for sample in primitive.samples:
        drawn = operands_of(primitive, sample, primitive.dtypes[0])
        moved = [backend.asarray(x) for x in drawn]
        out = primitive.impl(*moved, **sample.params)
        assert isinstance(out, backend.buffer_type)
        assert not any(backend.xp.may_share_memory(out, x) for x in moved)


def test_names_that_are_declared_are_those_of_primitives():
    assert {name for name in FRESH_ON_CPUS | FRESH_REDUCTIONS if name not in registry} == set()
    assert get_backend("numpy").fresh is FRESH_ON_CPUS


def test_what_returns_its_operand_is_found_out():
    primitive = registry["max_pool"]
    windows = primitive.samples[0].params["windows"]
    x = np.ones((2, 3, *(4,) * len(windows.window)))
    out = primitive.impl(x, windows=type(windows)(*[(1,) * len(windows.window)] * 2,
                                                  ((0, 0),) * len(windows.window)))  # fmt: skip
    assert fresh(primitive, [x], {"windows": windows}, out)
    assert not np.may_share_memory(out, x)
    assert not fresh(registry["reshape"], [x], {"shape": x.shape}, x)


@pytest.mark.parametrize("stride", [1, 2])
def test_pooling_of_single_elements_is_not_overwritten(stride):
    x = np.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)

    def fun(x):
        y = x + 1.0
        pooled = nn.max_pool(y, 1, stride)
        return fnp.sin(pooled), fnp.sum(y)

    for got, wanted in zip(ft.jit(fun)(x), fun(x), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_function_of_a_users_own_may_return_its_operand():
    """One that is known by the name of a function of NumPy's is not taken for a ufunc."""
    same = elementwise("real_or_not", lambda g, x: g, compute="real_if_close", dtypes="fd")
    try:
        def fun(x):
            y = x + 1.0
            z = same(y)
            return fnp.sin(y) * 2.0, z

        for n in (64, 300000):
            x = np.linspace(0, 1, n)
            for got, wanted in zip(ft.jit(fun)(x), fun(x), strict=True):
                np.testing.assert_array_equal(got, wanted)
    finally:
        registry.remove("real_or_not")


def test_a_reduction_of_a_users_own_may_return_a_part():
    first = reduction(
        "first_of_rows",
        lambda g, x_shape, *, axis: None,
        compute=lambda xp, x, *, axis, keepdims: x[..., 0],
        jvp=(lambda t, *, axis, keepdims: t[..., 0],),
        reference=lambda x, axis, keepdims: x[..., 0],
    )
    try:
        def fun(x):
            y = x + 1.0
            z = first(y, axis=1)
            return z, fnp.sum(fnp.sin(y)), fnp.cos(z)

        x, jitted = np.linspace(0, 1, 12).reshape(4, 3), ft.jit(fun)
        found = jitted(x), jitted(x + 1)
        for results, given in zip(found, (x, x + 1), strict=True):
            for got, wanted in zip(results, fun(given), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-14)
    finally:
        registry.remove("first_of_rows")
