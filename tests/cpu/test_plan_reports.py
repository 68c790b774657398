"""Plans report where NaN or infinity is made: what they rely on, and what they test."""

import numpy as np
import pytest
import support.registry_cases as cases
from core.test_primitives import PRIMITIVES
from support.long_forms import LONG

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan.watched import HARMLESS, INSTRUCTIONS, reported_ufuncs
from functensor.backends.finiteness import has_infinity, has_nan, is_finite
from functensor.jitting.reported_run import alarms
from functensor.primitives.core.registry import registry

pytestmark = [
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
KNOWN = [name for name in PRIMITIVES if name in HARMLESS]


def test_this_machine_tells_of_its_instructions():
    assert reported_ufuncs() == set(INSTRUCTIONS)


def test_names_of_harmless_primitives():
    # Others are ufuncs by which regions compute, or functions of those primitives.
    assert HARMLESS - set(KNOWN) <= {"clip", *dir(registry)}
    assert len(KNOWN) > 20


@pytest.mark.parametrize("name", KNOWN)
def test_harmless_primitives_make_no_nan_and_no_infinity(name):
    primitive = registry[name]
    rng = np.random.default_rng(len(name))
    for sample in primitive.samples:
        call = cases.applied(primitive, sample)
        for dtype in set(primitive.dtypes) & set("efd"):
            limits = np.finfo(dtype)
            special = [limits.max, -limits.max, limits.smallest_subnormal, 0.0, -0.0]
            for value, with_infinity in [*((x, False) for x in special), (np.inf, True)]:
                operands = [np.array(x) for x in cases.operands_of(primitive, sample, dtype)]
                for x in operands:
                    if x.dtype.kind == "f" and x.size:
                        x.flat[rng.integers(x.size)] = value
                out = np.asarray(call(*operands))
                assert not has_nan(out)
                assert with_infinity or not has_infinity(out)


def bad_operands(operands, value, rng):
    """Returns operands with a number in one place of each."""
    found = [np.array(x) for x in operands]
    for x in found:
        if x.dtype.kind in "fc" and x.size:
            x.flat[rng.integers(x.size)] = value
    return found


def raises(call, operands):
    """Says whether a call makes NaN or infinity."""
    try:
        call(*operands)
    except ft.errors.NonFiniteError:
        return True
    except Exception:
        # Both ways refuse such operands.
        return False
    return False


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_plan_misses_nothing_that_a_primitive_makes(name):
    primitive = registry[name]
    rng = np.random.default_rng(len(name))
    for sample in primitive.samples if LONG else primitive.samples[:1]:
        call = cases.applied(primitive, sample)
        for dtype in [d for d in primitive.dtypes if d in ("efdFD" if LONG else "f")]:
            operands = cases.operands_of(primitive, sample, dtype)
            jitted = ft.jit(call)
            entry, _ = jitted._entry(tuple(operands), {})
            most = np.finfo(dtype).max
            for value in (0.0, -3.0, most, -most, np.inf, np.nan):
                bad = bad_operands(operands, value, rng)
                with ft.hooks.check_finite():
                    entry.looked[tuple(alarms())] = None
                    wanted = raises(call, list(map(fnp.asarray, bad)))
                    assert raises(jitted, bad) == wanted


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("size", [0, 1, 5, 9001])
def test_arrays_are_finite(dtype, size):
    x = np.full(size, np.finfo(dtype).max / 2, dtype)
    assert is_finite(x)
    assert is_finite(x[::2])
    assert (has_nan(x), has_infinity(x)) == (False, False)
    for value, nan in [(np.nan, True), (np.inf, False), (-np.inf, False)]:
        for place in {0, size // 2, size - 1} if size else ():
            y = x.copy()
            y[place] = value
            assert (has_nan(y), has_infinity(y)) == (nan, not nan)
            for z in (y, y.reshape(1, -1).T, np.stack([x, y]).T, y[::-1], y[place]):
                assert not is_finite(z)


def test_numbers_are_finite():
    for x in (1, True, 10**400, 1.5, 2j, np.float32(3), np.int64(4), "text", None):
        assert (is_finite(x), has_nan(x), has_infinity(x)) == (True, False, False)
    for x in (np.inf, -np.inf, np.nan, complex(0, np.inf), np.float16("inf"), np.complex64("nan")):
        assert not is_finite(x)
