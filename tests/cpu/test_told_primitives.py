"""The processor tells of all NaN and infinity that machine code of some primitives makes."""

import numpy as np
import pytest
import support.registry_cases as cases
from cpu.test_plan_reports import bad_operands, raises
from support.kept_plans import plan_of
from support.long_forms import with_slow
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends.processor import IS_X86_64
from functensor.primitives.core.registry import registry

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

if not missing:
    from functensor.backends.cpu.plan.native.telling import TOLD_PRIMITIVES
else:
    TOLD_PRIMITIVES = []


# Regions have these along the last axis, and no sample is of matrices and that axis.
ALONG_ROWS = {
    "log_softmax": (nn.log_softmax, 1),
    "softmax": (nn.softmax, 1),
    "softmax_grad": (lambda x, g: ft.vjp(nn.softmax, x)[1](g), 2),
}


def samples_of(name, dtype):
    """Yields calls of a primitive, and operands."""
    if name in ALONG_ROWS:
        call, count = ALONG_ROWS[name]
        yield call, [np.linspace(-2, 1, 15).reshape(3, 5).astype(dtype) for _ in range(count)]
        return
    primitive = registry[name]
    for sample in primitive.samples:
        operands = cases.operands_of(primitive, sample, dtype)
        yield cases.applied(primitive, sample), list(map(np.asarray, operands))


def asked_plans(name, dtype):
    """Yields calls of a primitive with operands, and what runs them, where that is asked."""
    for call, operands in samples_of(name, dtype):

        def twice(*args, call=call):
            # A single operation of a few numbers would be left to NumPy.
            return [x + x if x.dtype.kind == "f" else x for x in ft.tree.leaves(call(*args))]

        for f in (call, twice):
            jitted = ft.jit(f).compile(*operands)
            jitted(*operands), jitted(*operands)
            if getattr(plan_of(jitted), "tells", False):
                yield f, operands, jitted._last.compiled


@pytest.mark.skipif(not IS_X86_64, reason="the processor is not asked")
@pytest.mark.parametrize("dtype", with_slow("fd", "d"))
@pytest.mark.parametrize("name", sorted(TOLD_PRIMITIVES))
def test_the_processor_tells_of_all_that_a_primitive_makes(name, dtype):
    rng = np.random.default_rng(len(name))
    asked = list(asked_plans(name, dtype))
    assert asked
    most = np.finfo(dtype).max
    for call, operands, compiled in asked:
        for value in (0.0, -3.0, 100.0, 800.0, most, -most, np.inf, -np.inf, np.nan):
            for _ in range(3):
                bad = bad_operands(operands, value, rng)
                with ft.hooks.check_finite():
                    wanted = raises(call, list(map(fnp.asarray, bad)))
                told = compiled.told(bad)[1]
                assert told or not wanted
