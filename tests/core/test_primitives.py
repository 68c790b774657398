"""Every primitive of the registry goes through every check; a declaration is enough to be tested.

The declared samples come first. Of elementwise primitives and reductions, Hypothesis also draws
shapes, axes and values.
"""

from importlib import import_module

import numpy as np
import pytest
import support.registry_cases as cases
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.fewer_samples import is_special
from support.long_forms import sized

from functensor import scipy
from functensor.primitives.core.primitive import RETURN_OPERAND, Unary
from functensor.primitives.core.registry import registry
from functensor.primitives.core.test_samples import Operand

# Primitives of a single module of SciPy's enter the registry when that is first used.
for module in scipy.__all__:
    import_module(f"functensor.scipy.{module}")
for module in ("distributed", "extend", "nn", "random", "custom.kernel_op", "torch.nn"):
    import_module(f"functensor.{module}")

PRIMITIVES = [primitive.name for primitive in registry]


def of_family(family):
    """Returns the names of the primitives of a family."""
    return [primitive.name for primitive in registry if primitive.family == family]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_reference(name):
    cases.check_reference(registry[name])


@pytest.mark.parametrize("name", PRIMITIVES)
def test_samples(name):
    cases.check_samples(registry[name])


@pytest.mark.parametrize("check", cases.SAMPLE_CHECKS)
@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitive(name, check):
    cases.run_check(cases.SAMPLE_CHECKS[check], registry[name])


class Source:
    """Has those methods of a random generator that the cases use, but Hypothesis draws."""

    def __init__(self, data):
        self.data = data

    def uniform(self, low, high, size):
        numbers = st.floats(low, high, allow_subnormal=False)
        return self.data.draw(hnp.arrays(float, size, elements=numbers))

    def integers(self, low, high, size, endpoint):
        numbers = st.integers(int(low), int(high) - (not endpoint))
        return self.data.draw(hnp.arrays(int, size, elements=numbers))

    def permutation(self, count):
        return np.array(self.data.draw(st.permutations(range(count))), int)


def run_checks(primitive, sample, *names):
    """Runs some of the checks on one sample that is not declared."""
    for name in names:
        cases.SAMPLE_CHECKS[name](primitive, sample)


SPECIAL = [p.name for p in registry if is_special(p)]


@pytest.mark.parametrize("name", [x for x in of_family("elementwise") if x not in SPECIAL])
@given(data=st.data())
def test_elementwise(name, data):
    check_elementwise(registry[name], data)


@pytest.mark.parametrize("name", SPECIAL)
@settings(max_examples=sized(3, 6))
@given(data=st.data())
def test_special(name, data):
    check_elementwise(registry[name], data)


def check_elementwise(primitive, data):
    """Checks a primitive on operands of any shapes that broadcast."""
    first = primitive.samples[0]
    count = len(first.operands)
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=count, min_side=0, max_side=3))
    operands = [
        Operand(shape, op.domain)
        for shape, op in zip(shapes.input_shapes, first.operands, strict=True)
    ]
    sample = cases.Drawn(Source(data), *operands, **first.params)
    run_checks(primitive, sample, "forward", "types", "derivatives")


@pytest.mark.parametrize("name", of_family("reduction"))
@given(data=st.data())
def test_reduction(name, data):
    primitive = registry[name]
    domain = primitive.samples[0].operands[0].domain
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
    axes = st.none()
    if shape:
        one = st.integers(-len(shape), len(shape) - 1)
        axes = axes | one | hnp.valid_tuple_axes(len(shape))
    arguments = {"axis": data.draw(axes), "keepdims": data.draw(st.booleans())}
    zeros = np.zeros(shape)
    try:
        wanted = cases.reference_of(primitive)(zeros, **arguments)
    except RuntimeWarning:  # the mean of nothing, and the like
        reject()
    except (TypeError, ValueError):
        with pytest.raises((TypeError, ValueError)):
            primitive(zeros, **arguments)
        return
    cases.same_type(primitive(zeros, **arguments), np.asarray(wanted), "the result")
    _, params = primitive.prepare(zeros, **arguments)
    sample = cases.Drawn(Source(data), Operand(shape, domain), **params)
    run_checks(primitive, sample, "forward", "types", "batching", "empty_batch")
    # The mean of nothing is NaN and has no derivative.
    if not np.isnan(wanted).any():
        run_checks(primitive, sample, "derivatives")


def test_all_unary_primitives_of_the_library_but_the_listed_take_the_short_way():
    ours = (p for p in registry if isinstance(p, Unary) and p.module.startswith("functensor."))
    assert {p.name for p in ours if p.passes} == RETURN_OPERAND
