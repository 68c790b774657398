"""Products of all shapes are shared among threads, as large ones are, with the same results.

The sizes from which BLAS is kept to one thread, and from which threads share products, are set to
nothing. So the samples of primitives and the cases of public functions, which are small, take the
ways of large operands.
"""

import pytest
import support.registry_cases as cases
from public_functions import all_cases
from public_functions.harness import CHECKS

import functensor.numpy as fnp
import functensor.scipy.linalg
from functensor import nn
from functensor.backends import blas_calls, blas_threads
from functensor.backends.cpu import parallel
from functensor.backends.cpu.plan.threads import eager_products, pool
from functensor.backends.cpu.plan.threads.balance import Balance
from functensor.primitives.contract import matmul
from functensor.primitives.core.registry import registry

pytestmark = pytest.mark.skipif(
    blas_threads.controlled() is None, reason="BLAS is none that can be kept to a thread"
)
NO_LIMITS = {
    blas_calls: [
        *["SMALLEST_BLAS_THREADED_WORK", "SMALLEST_SHARED_WORK", "SHORTEST_BLAS_THREADED_VECTOR"],
        *["FEWEST_BLAS_THREADED_TERMS", "FEWEST_CALM_ROWS"],
    ],
    matmul: ["SMALLEST_EXAMINED_WORK"],
    parallel: ["FEWEST_PARALLEL_ELEMENTS"],
}


@pytest.fixture(autouse=True)
def holds(monkeypatch):
    """Gives BLAS and plans two threads, and returns a list to which every hold is added."""
    control = blas_threads.controlled()
    before, hold, found = control._get(), control.hold, []

    def noted(holder):
        found.append(holder)
        hold(holder)

    monkeypatch.setattr(control, "hold", noted)
    monkeypatch.setattr(pool.threads, "number", 2)
    monkeypatch.setattr(eager_products, "layouts", {})
    monkeypatch.setattr(eager_products, "balance", Balance())
    for module, names in NO_LIMITS.items():
        for name in names:
            assert hasattr(module, name)
            monkeypatch.setattr(module, name, 0)
    control._set(2)
    yield found
    control._set(before)


def of_folders(*names):
    """Returns the names of the primitives that folders declare."""
    assert functensor.scipy.linalg  # its primitives enter the registry when it is first used
    starts = tuple(f"functensor.primitives.{name}." for name in names)
    return [primitive.name for primitive in registry if primitive.module.startswith(starts)]


@pytest.mark.parametrize("name", of_folders("contract", "linalg"))
def test_checks_of_primitives(name):
    for check in ("forward", "types", "derivatives", "batching", "batched_derivatives"):
        cases.run_check(cases.SAMPLE_CHECKS[check], registry[name])


@pytest.mark.parametrize("name", of_folders("nn", "reduce"))
def test_values_of_primitives(name):
    cases.run_check(cases.check_forward, registry[name])


FUNCTIONS = {}
for each in all_cases():
    FUNCTIONS.setdefault(each.name, []).append(each)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_of_public_functions(name):
    for case in FUNCTIONS[name]:
        CHECKS["value"](case)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x @ x,
        lambda x: x @ x[0],
        lambda x: x[0] @ x,
        lambda x: fnp.einsum("ij,kj->ik", x, x),
        lambda x: nn.conv(x[None, None], x[None, None, :2, :2]),
        lambda x: fnp.linalg.inv(x + fnp.eye(3)),
    ],
)
def test_small_operands_take_the_ways_of_large_ones(call, holds):
    call(fnp.arange(9.0).reshape(3, 3))
    assert holds
