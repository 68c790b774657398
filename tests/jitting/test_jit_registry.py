"""Every primitive and public function does the same jitted as eagerly, in values and derivatives.

Eager results are checked elsewhere, against NumPy and differences. Here a jitted call is compared
with one that is not. ``FUNCTENSOR_LONG_TESTS=1`` puts them through those checks too, with every
call jitted: not the checks of values, which are compared here, and of a function each third case.
"""

import weakref
import zlib

import numpy as np
import pytest
import support.registry_cases as cases
from core.test_primitives import PRIMITIVES
from public_functions import all_cases
from public_functions.harness import CHECKS, check_derivatives, inexact_leaves, leaves_of
from support.long_forms import only_long, thinned, with_slow
from support.run_on_device import calls_jitted

import functensor as ft
from functensor.backends.cpu.plan import CpuPlan
from functensor.primitives.core.registry import registry
from functensor.testing import assert_allclose

pytestmark = [
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
    # Second derivatives of some special functions are formulas of over 5,000 operations.
    pytest.mark.filterwarnings("ignore::functensor.programs.staging_warnings.StagingWarning"),
]


@pytest.fixture(autouse=True)
def memory_of_their_own(monkeypatch):
    """Sees to it that plans write into no argument, and into no result that they gave before."""
    given = weakref.WeakKeyDictionary()
    run = CpuPlan.__call__

    def same(arrays, copies):
        return all(map(lambda a, b: np.array_equal(a, b, equal_nan=True), arrays, copies))

    def copied(arrays):
        return [np.array(x) for x in arrays]

    def watched(plan, buffers):
        before = copied(buffers)
        outs = run(plan, buffers)
        assert same(buffers, before), f"an argument was written into by\n{plan.source}"
        assert same(*given.get(plan, ((), ()))), f"a result was written into by\n{plan.source}"
        given[plan] = outs, copied(outs)
        return outs

    monkeypatch.setattr(CpuPlan, "__call__", watched)


def waves(xs, pace):
    """Returns arrays like some, as directions or cotangents: no two elements alike."""
    found = []
    for i, x in enumerate(xs):
        wave = np.cos(pace * np.arange(float(x.size)) + i)
        found.append(wave.reshape(x.shape).astype(x.dtype))
    return found


def both_modes(call, values, outs):
    """Returns tangents along a direction, and the cotangents of given ones."""
    tangents = ft.jvp(call, tuple(values), tuple(waves(values, 1.3)))[1]
    return list(tangents), list(ft.vjp(call, *values)[1](waves(outs, 0.7)))


def check_call(call, values, order):
    """Compares a function of inexact arrays, jitted, with itself.

    Args:
        call: returns a list of inexact arrays.
        values: its arguments.
        order: of derivatives: the first of the jitted call, and the second of the first, jitted.
    """
    outs = call(*values)
    jitted = ft.jit(call)
    assert_allclose(jitted(*values), outs)
    if order:
        wanted = both_modes(call, values, outs)
        assert_allclose(both_modes(jitted, values, outs), wanted)

    def derived(*values):
        tangents, cotangents = both_modes(call, values, outs)
        return [*tangents, *cotangents]

    if order == 2:
        check_call(derived, values, 1)
    elif order:
        assert_allclose(ft.jit(derived)(*values), [*wanted[0], *wanted[1]])


def check_batches(call, batch):
    """Compares a function of a batch of everything, jitted within and without."""
    wanted = ft.vmap(call)(*batch)
    assert_allclose(ft.vmap(ft.jit(call))(*batch), wanted)
    assert_allclose(ft.jit(ft.vmap(call))(*batch), wanted)


def check_layouts(jitted, operands, wanted):
    """Gives a jitted function operands that lie otherwise, and that cannot be written into."""
    strided = [x if x.ndim == 0 else np.repeat(x, 2, -1).copy("F")[..., ::2] for x in operands]
    for x in strided:
        x.flags.writeable = False
    assert_allclose(jitted(*strided), wanted)


def check_weak(call, operands):
    """Gives a jitted function Python's numbers in place of one operand after the other."""
    for i, x in enumerate(operands):
        if x.size:
            weak = [*operands[:i], x.flat[0].item(), *operands[i + 1 :]]
            assert_allclose(ft.jit(call)(*weak), call(*weak))


# Their series and fractions are long programs.
SLOW = {
    "attention_grad", "beta_density", "betaincinv", "betainc_grad", "betainccinv", "binom",
    "gamma_density", "gamma_moment", "gammainc_grad", "i0e", "ive", "kve", "poch", "riemann_zeta",
}  # fmt: skip


@pytest.mark.parametrize("name", thinned(with_slow(PRIMITIVES, SLOW), every=2))
def test_primitive(name):
    primitive = registry[name]
    double = "d" if "d" in primitive.dtypes else primitive.dtypes[0]
    for i, sample in enumerate(cases.few_samples(primitive)):
        call = cases.applied(primitive, sample)
        jitted = ft.jit(call)
        # Plans are compared in all dtypes, for all samples, by `test_plan.py`.
        for dtype in double if i else primitive.dtypes:
            operands = cases.operands_of(primitive, sample, dtype)
            wanted = call(*operands)
            assert_allclose(jitted(*operands), wanted)
            check_layouts(jitted, operands, wanted)
        if primitive.family == "elementwise":
            check_weak(call, cases.operands_of(primitive, sample, "f"))
        operands = cases.operands_of(primitive, sample, double)
        if operands:
            lengths = ((3,),) * len(operands)
            check_batches(call, cases.operands_of(primitive, sample, double, lengths))
        if cases.has_derivative(primitive, sample, double):
            inner, values = cases.by_inexact(call, operands)
            order = 2 if zlib.crc32(f"{name}{i}".encode()) % 3 == 0 else 1
            check_call(lambda *xs, inner=inner: [inner(*xs)], values, order)


@pytest.mark.parametrize("case", thinned(all_cases(), every=4), ids=repr)
def test_public_function(case):
    if case.static:
        return
    operands = case.values(case.dtypes[-1])
    jitted = ft.jit(lambda *xs: leaves_of(case.ours(*xs)))
    assert_allclose(jitted(*operands), leaves_of(case.ours(*operands)))
    # Of a function's further cases a third is differentiated here.
    if case.smooth and case.index % 3 == 0:
        call, values = cases.by_inexact(lambda *xs: inexact_leaves(case.ours(*xs)), operands)
        check_call(call, values, 1)


@only_long
@pytest.mark.long
@pytest.mark.parametrize("name", PRIMITIVES)
def test_checks_of_a_primitive(name):
    with calls_jitted():
        for check in cases.SAMPLE_CHECKS.keys() - {"forward", "weak"}:
            if zlib.crc32(f"{name} {check}".encode()) % 2:  # half of all
                cases.run_check(cases.SAMPLE_CHECKS[check], registry[name], cases.few_samples)


@only_long
@pytest.mark.long
@pytest.mark.parametrize("case", [c for c in all_cases() if c.index % 3 == 0], ids=repr)
def test_all_checks_of_a_public_function(case):
    if case.static:
        return
    with calls_jitted():
        check_derivatives(case, most_orders=1)
        for check in CHECKS.keys() - {"value", "derivatives"}:
            CHECKS[check](case)
