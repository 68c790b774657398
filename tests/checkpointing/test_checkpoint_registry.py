"""Every primitive within a checkpointed function: what its first run notes, the second does."""

from importlib import import_module

import numpy
import pytest
import support.registry_cases as cases
from support.long_forms import LONG

import functensor as ft
import functensor.numpy as np
from functensor import scipy
from functensor.primitives.core.registry import registry

for module in scipy.__all__:
    import_module(f"functensor.scipy.{module}")
for module in ("extend", "nn", "random", "custom.kernel_op"):
    import_module(f"functensor.{module}")

pytestmark = pytest.mark.long
FORMS = {
    "nothing saved": ft.checkpoint,
    "nested": lambda f: ft.checkpoint(ft.checkpoint(f)),
    "products saved": lambda f: ft.checkpoint(f, policy=ft.checkpoint_policies.dots_saveable),
    "under jit": lambda f: ft.jit(ft.checkpoint(f)),
}


def calls_of(primitive):
    """Yields a primitive's samples as functions of all operands, with floats in every place."""
    for sample in cases.few_samples(primitive) if LONG else primitive.samples[:1]:
        operands = cases.operands_of(primitive, sample)
        yield cases.applied(primitive, sample), operands
        if any(x.dtype.kind == "b" for x in operands):
            floats = [x.astype(float) if x.dtype.kind == "b" else x for x in operands]
            try:
                primitive.bind(floats, sample.params)
            except (TypeError, ValueError, IndexError):
                continue
            yield cases.applied(primitive, sample), floats


def total(x):
    """Returns a real number that depends on all elements."""
    return np.sum(np.real(x)) if x.dtype.kind in "fc" else 0.0


def loss_of(call, operands, places):
    """Returns a scalar function of the operands in some places, which has a derivative by each."""

    def loss(*values):
        filled = list(operands)
        for i, value in zip(places, values, strict=True):
            filled[i] = value
        # The result meets an operand again, so that nothing is left out of the replay.
        rest = sum(np.sum(np.sin(value)) for value in values)
        return total(call(*filled)) * rest

    return loss


@pytest.mark.parametrize("name", [primitive.name for primitive in registry])
def test_gradients_of_checkpoints_are_those_without(name):
    primitive = registry[name]
    for call, operands in calls_of(primitive):
        real = [i for i, x in enumerate(operands) if x.dtype.kind == "f"]
        # Each alone too: there may be no derivative by it.
        for places in dict.fromkeys([*((i,) for i in real), tuple(real)]):
            if not places:
                continue
            loss = loss_of(call, operands, places)
            values = [operands[i] for i in places]
            argnums = tuple(range(len(places)))
            wanted = ft.grad(loss, argnums)(*values)
            for form in FORMS if LONG else ["nothing saved", "products saved"]:
                got = ft.grad(FORMS[form](loss), argnums)(*values)
                for g, w in zip(got, wanted, strict=True):
                    numpy.testing.assert_allclose(g, w, rtol=1e-12, err_msg=f"{form}, {places}")
