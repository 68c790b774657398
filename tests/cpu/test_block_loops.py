"""Functions of elements as lists of NumPy's loops: NumPy's bits, and nobody waits."""

import threading

import numpy as np
import pytest
from support.drawn_operands import laid_out
from support.known_stacks import known

from functensor.backends.blas_threads import controlled
from functensor.backends.cpu import activations, blocks, error_function, stacks
from functensor.backends.cpu.plan.threads import pool
from functensor.backends.native import machine
from functensor.backends.native.ufunc_loops import address_of_loop

needs_code = pytest.mark.skipif(
    not machine.compiles_here() or controlled() is None,
    reason=machine.why_not() or "BLAS is none that can be kept to a thread",
)
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, 90.0, -90.0]
FUNCTIONS = {
    "gelu": lambda x: activations.gelu(x, approximate=True),
    "slope of gelu": lambda x: activations.gelu_unit_grad(x, approximate=True),
    "exact gelu": lambda x: activations.gelu(x, approximate=False),
    "sigmoid": activations.sigmoid,
    "silu": activations.silu,
    "slope of silu": lambda x: activations.silu_grad(x, x),
    "softplus": activations.softplus,
    "erf": error_function.erf,
}
# The error function chooses between formulas by its operand.
LISTED = {*FUNCTIONS} - {"erf"}


@pytest.fixture(autouse=True)
def small_and_soon(monkeypatch):
    """Makes machine code of small work too, after the first call."""
    monkeypatch.setattr(stacks, "known_stacks", {})
    monkeypatch.setattr(stacks, "CALLS_BEFORE", 1)
    monkeypatch.setattr(stacks, "BYTES_OF_STACK_BLOCK", 1 << 8)
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 100)
    monkeypatch.setattr(pool.threads, "number", 2)


def numbers(length, dtype="f", seed=0):
    x = (5 * np.random.default_rng(seed).normal(size=length)).astype(dtype)
    x[: len(EDGES)] = EDGES
    return x


@needs_code
@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_bits_of_numpy(monkeypatch, name, dtype):
    operands = [numbers(length, dtype) for length in (101, 64 * 8, 64 * 8 + 1, 3001)]
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "has_listed_blocks", lambda *given: 0)
        wanted = [FUNCTIONS[name](x) for x in operands]
    for _ in range(6):
        for x, right in zip(operands, wanted, strict=True):
            got = FUNCTIONS[name](x)
            assert (got.dtype, got.tobytes()) == (right.dtype, right.tobytes())
        found = known()
    assert [each.calls is not None for each in found] == [name in LISTED] * len(found)


@needs_code
@pytest.mark.parametrize("layout", ["plain", "fortran", "strided", "read-only", "unaligned"])
def test_operands_that_lie_otherwise(layout):
    x = numbers(600).reshape(20, 30)
    wanted = activations.silu(x)
    known()
    for _ in range(2):
        np.testing.assert_array_equal(activations.silu(laid_out(x, layout)), wanted)


def test_without_machine_code_numpy_computes_all(monkeypatch):
    monkeypatch.setenv("FUNCTENSOR_NATIVE", "0")
    x = numbers(1000)
    for _ in range(2):
        activations.silu(x)
        (found,) = known()
        assert found.calls is None


@needs_code
def test_a_job_that_was_dropped_begins_again():
    x = numbers(1000)
    activations.silu(x)
    (found,) = known()
    # As in the child of a fork.
    found.calls, found.job.dropped = None, True
    activations.silu(x)
    (found,) = known()
    assert found.calls is not None


@needs_code
def test_several_threads():
    operands = [numbers(5000, seed=i) for i in range(4)]
    activations.softplus(operands[0])
    wanted = [activations.softplus(x).tobytes() for x in operands]
    known()
    failed, met = [], threading.Barrier(4)

    def work(number):
        met.wait(30)
        found = [activations.softplus(operands[number]).tobytes() for _ in range(50)]
        failed.extend([number] * (found != [wanted[number]] * 50))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@needs_code
def test_no_more_runs_are_measured_than_are_needed():
    x = numbers(5000)
    for _ in range(2):
        activations.softplus(x)
        (kind,) = known()
    ((_, _, _, times),) = kind.calls.stacks.values()
    # As where two threads have measured the last run at the same time.
    times[:] = [1.0] * (stacks.RUNS_ALONE + 1)
    for _ in range(3):
        activations.softplus(x)
    assert len(times) == stacks.RUNS_ALONE + 1


@needs_code
def test_lengths_are_bounded(monkeypatch):
    monkeypatch.setattr(stacks, "MOST_STACKS", 2)
    for length in (200, 300, 400, 500, 200):
        x = np.linspace(-9, 9, length, dtype="f")
        np.testing.assert_allclose(activations.softplus(x), np.logaddexp(x, 0), rtol=1e-6)
        (kind,) = known()
        assert kind.calls is not None
        assert len(kind.calls.stacks) <= 2


def test_loops_of_ufuncs():
    found = address_of_loop(np.exp, "ff")
    assert found is not None
    assert found[0]
    assert found != address_of_loop(np.exp, "dd")
    assert address_of_loop(np.exp, "??") is None
    assert address_of_loop(np.frompyfunc(abs, 1, 1), "ff") is None
