"""The ready hooks on every primitive, in all dtypes, in batches and in both passes."""

import io
from functools import partial

import numpy as np
import pytest
import support.registry_cases as cases
from core.test_primitives import PRIMITIVES
from support.long_forms import sized

import functensor as ft
from functensor.hooks import CountHook, HistogramHook, MemoryHook, PrintHook, TimerHook, use
from functensor.primitives.core.registry import registry
from functensor.programs.costs import cost_of

# Where a backward hook is active, rules compute with arrays in place of NumPy's scalars, whose
# products of complex numbers are rounded in another order.
OTHER_ROUNDING = {"faddeeva", "complex_erfcx"}


def bits(outs):
    return [np.asarray(out).tobytes() for out in outs]


def hooked(fun, *args):
    """Returns results, which are the same to the last bit under all hooks, and the hooks."""
    hooks = [TimerHook(), MemoryHook(), PrintHook(file=io.StringIO()), CountHook(), HistogramHook()]
    plain = fun(*args)
    with use(hooks[0]), use(hooks[1]), use(hooks[2]), use(hooks[3]), use(hooks[4]):
        seen = fun(*args)
    assert bits([seen]) == bits([plain]) if hasattr(seen, "shape") else bits(seen) == bits(plain)
    return seen, hooks


def pulled(fun, *values):
    """Returns the gradients of the sum of what a function returns."""
    out, pull = ft.vjp(fun, *values)
    return pull(np.ones(out.shape, out.dtype))


def both_ways(fun, g, *values):
    """Returns what a function returns, and the cotangents that belong to another one."""
    out, pull = ft.vjp(fun, *values)
    return out, pull(g)


def check_values(call, operands, name):
    out, (timer, _, printer, counter, histograms) = hooked(call, *operands)
    (shown,) = {name for name, _ in counter.counts}
    assert shown == name or (name == "checkpoint_name" and shown.startswith("tag "))
    assert timer.times()[shown, "forward"].calls == counter.counts[shown, "forward"] == 1
    assert printer.file.getvalue().startswith(f"forward {shown}")
    assert sum(int(np.sum(part)) for part in histograms.histogram(shown)[1:]) == out.size
    program = cost_of(ft.make_program(call)(*operands))
    assert (counter.flops, counter.bytes) == (program.flops, program.bytes)


def check_gradients(call, operands, name):
    inner, values = cases.by_inexact(call, operands)
    if name in OTHER_ROUNDING and () in [x.shape for x in values]:
        return
    _, (timer, _, printer, counter, _) = hooked(pulled, inner, *values)
    names = {name for name, phase in timer.times() if phase == "backward"}
    assert names == {name for name, phase in counter.counts if phase == "backward"}
    assert all(f"\nbackward {name}" in printer.file.getvalue() for name in names)
    assert name in names or name == "checkpoint_name"
    # Of integers, a program computes while it is staged what is computed anew on every way back.
    if len(values) == len(operands):
        out = inner(*values)
        program = ft.make_program(partial(both_ways, inner))
        cotangent = np.ones(out.shape, out.dtype)
        assert counter.flops == cost_of(program(cotangent, *values)).flops


@pytest.mark.filterwarnings("ignore::functensor.programs.staging_warnings.StagingWarning")
@pytest.mark.long
@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitive(name):
    primitive = registry[name]
    double = "d" if "d" in primitive.dtypes else primitive.dtypes[0]
    for sample in cases.few_samples(primitive)[: sized(short=2, long=100)]:
        call = cases.applied(primitive, sample)
        for dtype in primitive.dtypes:
            operands = cases.operands_of(primitive, sample, dtype)
            check_values(call, [ft.numpy.asarray(x) for x in operands], name)
        if sample.operands:
            lengths = ((3,),) * len(sample.operands)
            hooked(ft.vmap(call), *cases.operands_of(primitive, sample, double, lengths))
        if cases.has_derivative(primitive, sample, double):
            check_gradients(call, cases.operands_of(primitive, sample, double), name)
