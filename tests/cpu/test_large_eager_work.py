"""Large work outside of plans: threads share its parts, and results keep every bit."""

import os
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import support.registry_cases as cases
from support.native import run_python

import functensor.numpy as fnp
from functensor import nn
from functensor.backends.blas_threads import alone, controlled
from functensor.backends.cpu import (
    activations,
    attention,
    blocks,
    large_ufuncs,
    parallel,
    pooling,
    small_attention,
    stacks,
    where_and_extrema,
)
from functensor.backends.cpu.plan.threads import pool, shared_parts
from functensor.backends.cpu.plan.threads.balance import Balance
from functensor.backends.native import machine
from functensor.primitives.core.registry import registry


@pytest.fixture(autouse=True)
def shares(monkeypatch):
    """Has two threads share work on small arrays, and returns a list of what they share."""
    found, share = [], shared_parts.share

    def noted(work, number):
        found.append(number)
        share(work, number)

    monkeypatch.setattr(pool.threads, "number", 2)
    monkeypatch.setattr(shared_parts, "share", noted)
    monkeypatch.setattr(shared_parts, "balance", Balance())
    # Small parts cost more than they save.
    monkeypatch.setattr(shared_parts.balance, "add", lambda saved, now: None)
    monkeypatch.setattr(large_ufuncs, "FEWEST_SHARED_ELEMENTS", 100)
    monkeypatch.setattr(large_ufuncs, "ELEMENTS_OF_A_PART", 32)
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 32)
    monkeypatch.setattr(where_and_extrema, "BLOCK_ELEMENTS", 32)
    return found


def numbers(*shape, dtype="float32"):
    return np.random.default_rng(0).uniform(0.5, 2.0, shape).astype(dtype)


def assert_same(x, y):
    assert (type(x), x.dtype, x.shape, x.strides) == (type(y), y.dtype, y.shape, y.strides)
    assert x.tobytes() == y.tobytes()


LAYOUTS = {
    "flat": numbers(300),
    "rows": numbers(20, 30),
    "columns": numbers(30, 20).T,
    "channels last": numbers(6, 5, 4, 7).transpose(0, 3, 1, 2),
    "doubles": numbers(300, dtype="float64"),
}
SHARED = {
    "itself": lambda x: x,
    "another": lambda x: x.copy("K"),
    "number": lambda x: 0.7,
    "whole number": lambda x: 3,
    "scalar": lambda x: x.dtype.type(0.7),
    "array without axes": lambda x: np.asarray(0.7, x.dtype),
    "last axis": lambda x: numbers(x.shape[-1], dtype=x.dtype),
    "second axis": lambda x: numbers(x.shape[1], *[1] * (x.ndim - 2), dtype=x.dtype),
    "column": lambda x: numbers(x.shape[0], *[1] * (x.ndim - 1), dtype=x.dtype),
}
# Of these NumPy computes all: no part of the result would have its dtype, shape or layout.
PLAIN = {
    "more axes": lambda x: numbers(2, *x.shape, dtype=x.dtype),
    "wider": lambda x: x.astype(np.float64 if x.dtype.char == "f" else complex),
    "integers": lambda x: 1 + np.arange(x.size).reshape(x.shape),
    "complex number": lambda x: 1j,
    "scalar of another dtype": lambda x: np.float64(0.7) if x.dtype.char == "f" else np.int8(3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("other", [*SHARED, *PLAIN])
def test_a_function_of_two_operands_has_numpys_bits_and_layout(layout, other, shares):
    x = LAYOUTS[layout]
    if other == "second axis" and x.ndim < 2:
        other = "last axis"
    y = (SHARED | PLAIN)[other](x)
    for name in ("add", "subtract", "multiply", "divide"):
        ufunc = getattr(np, name)
        run = large_ufuncs.shared_when_large(ufunc)
        before = len(shares)
        assert_same(run(x, y), ufunc(x, y))
        assert_same(run(y, x), ufunc(y, x))
        assert len(shares) - before == 2 * (other in SHARED)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", sorted(large_ufuncs.LARGE_UFUNCS))
def test_a_function_of_one_operand_has_numpys_bits_and_layout(layout, name, shares):
    ufunc, x = getattr(np, name), LAYOUTS[layout]
    if ufunc.nin == 1:
        assert_same(large_ufuncs.shared_when_large(ufunc)(x), ufunc(x))
        assert shares


@pytest.mark.parametrize("name", sorted(large_ufuncs.LARGE_UFUNCS))
def test_checks_of_primitives_hold_in_parts(name, shares, monkeypatch):
    monkeypatch.setattr(large_ufuncs, "FEWEST_SHARED_ELEMENTS", 2)
    monkeypatch.setattr(large_ufuncs, "ELEMENTS_OF_A_PART", 1)
    monkeypatch.setattr(parallel, "FEWEST_PARTS_OUTSIDE_OF_PLANS", 2)
    for check in ("forward", "types", "derivatives", "batching", "batched_derivatives"):
        cases.run_check(cases.SAMPLE_CHECKS[check], registry[name])
    assert shares


@pytest.mark.parametrize(
    "x", [numbers(300)[::2], numbers(40, 40)[:, ::2], np.broadcast_to(numbers(3, 1), (3, 300))]
)
def test_arrays_with_gaps_are_left_to_numpy(x, shares):
    assert_same(large_ufuncs.shared_when_large(np.exp)(x), np.exp(x))
    assert not shares


@pytest.mark.parametrize("place", [0, 299])
def test_a_warning_of_a_part_comes_once_and_from_the_calling_thread(place, shares):
    y = numbers(300)
    y[place] = 0
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        out = fnp.ones(300, "float32") / y
    assert [str(w.message) for w in told] == ["divide by zero encountered in divide"]
    assert shares
    assert np.isinf(out[place])
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        fnp.ones(300, "float32") / y
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf((fnp.ones(300, "float32") / y)[place])


def test_the_treatment_of_overflow_stays_as_it_was():
    before = np.geterr()
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        fnp.exp(np.full(300, 1e3, "float32"))
    assert np.geterr() == before


KERNELS = {
    "gelu": lambda x: activations.gelu(x, approximate=True),
    "gelu_grad": lambda x: activations.gelu_grad(x, x, approximate=True),
    "gelu_exact": lambda x: activations.gelu(x, approximate=False),
    "sigmoid": activations.sigmoid,
    "silu": activations.silu,
    "softplus": activations.softplus,
    "relu": where_and_extrema.relu,
    "relu_grad": lambda x: where_and_extrema.relu_grad(x, x),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_have_the_same_bits_on_one_thread_and_on_two(name, shares, monkeypatch):
    x = numbers(3000) * np.where(np.arange(3000) % 3, 4, -4).astype("float32")
    shared = KERNELS[name](x)
    assert shares
    shares.clear()
    monkeypatch.setattr(pool.threads, "number", 1)
    assert_same(KERNELS[name](x), shared)
    assert not shares


needs_control = pytest.mark.skipif(
    controlled() is None, reason="BLAS is none that can be kept to a thread"
)

@needs_control
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_has_the_same_bits_on_one_thread_and_on_two(dtype, causal, shares, monkeypatch):
    monkeypatch.setattr(attention, "BLOCK_SCORES", 40)
    monkeypatch.setattr(small_attention, "FEWEST_SCORES", 1)
    monkeypatch.setattr(stacks, "ELEMENTS_AT_ONCE", 40)
    q, k, v, g = numbers(4, 6, 7, 3, dtype=dtype)

    def results():
        with alone():
            out = attention.attention(q, k, v, causal=causal, scale=0.5)
            return out, attention.attention_grad(g, out, q, k, v, causal=causal, scale=0.5)

    shared = results()
    assert len(shares) == 2
    monkeypatch.setattr(pool.threads, "number", 1)
    for x, y in zip(results(), shared, strict=True):
        assert_same(x, y)
    assert len(shares) == 2


def test_work_that_overflows_in_a_part_is_done_again_from_the_beginning(shares):
    windows = SimpleNamespace(window=(2,), stride=(1,), padding=((0, 0),))
    winner = np.tile(np.array([1, 0], "int8"), (40, 1, 8))
    g = np.ones(winner.shape, "float32")
    g[30, 0, :2] = np.finfo("float32").max
    wanted = np.zeros((40, 1, 17), "float32")
    wanted[:, 0, 1::2] = 2
    wanted[30, 0, 1] = np.inf
    with pytest.warns(RuntimeWarning, match="overflow encountered in add"):
        out = pooling.pool_scatter(g, winner, spatial=(17,), windows=windows)
    np.testing.assert_array_equal(out, wanted)
    assert shares


def test_an_error_in_a_part_reaches_the_caller(shares):
    def work(parts):
        for part in parts:
            if part == 5:
                raise KeyError(part)

    with pytest.raises(KeyError, match="5"):
        parallel.side_by_side(work, range(6))
    assert shares


def test_nothing_is_shared_while_sharing_rests_or_others_share(shares, monkeypatch):
    done = []
    monkeypatch.setattr(shared_parts.balance, "rests_until", float("inf"))
    parallel.side_by_side(done.extend, range(6))
    monkeypatch.setattr(shared_parts.balance, "rests_until", 0.0)
    monkeypatch.setattr(pool.pool, "callers", {object()})
    parallel.side_by_side(done.extend, range(6))
    assert sorted(done) == sorted([*range(6)] * 2)
    assert not shares


def test_few_parts_stay_in_the_calling_thread(shares):
    threads = set()

    def work(parts):
        threads.update(threading.get_ident() for _ in parts)

    parallel.side_by_side(work, range(parallel.FEWEST_PARTS_OUTSIDE_OF_PLANS - 1))
    assert threads == {threading.get_ident()}
    assert not shares


def test_the_balance_hears_of_every_sharing(shares, monkeypatch):
    heard = []
    monkeypatch.setattr(shared_parts.balance, "add", lambda saved, now: heard.append(saved))
    monkeypatch.setattr(shared_parts, "share", lambda work, number: work())
    parallel.side_by_side(list, range(6))
    # One thread did it all: nothing is saved but for what the clock itself takes.
    assert len(heard) == 1
    assert -0.01 < heard[0] <= 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_process_shares_work_with_threads_of_its_own(shares):
    x = numbers(1000)
    expected = (fnp.asarray(x) + 1.0).tobytes()
    child = os.fork()
    if not child:
        os._exit((fnp.asarray(x) + 1.0).tobytes() != expected)
    assert os.waitpid(child, 0)[1] == 0
    assert shares


def test_derivatives_are_shared_too(shares):
    import functensor as ft

    x = numbers(20, 30)
    value = ft.grad(lambda x: fnp.sum(nn.gelu(x * 2.0) / (x + 1.0)))(x)
    assert shares
    shares.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool.threads, "number", 1)
        assert_same(
            np.asarray(ft.grad(lambda x: fnp.sum(nn.gelu(x * 2.0) / (x + 1.0)))(x)),
            np.asarray(value),
        )
    assert not shares


IMPORTED_BY_THE_THREAD = """
import sys, threading
import numpy as np
import functensor as ft
import functensor.numpy as fnp
from functensor import nn
outside = []
class Noting:
    def find_spec(self, name, *args):
        machine = sys.modules.get("functensor.backends.native.machine")
        held = hasattr(machine, "_llvm_lock") and machine._llvm_lock._is_owned()
        by_thread = threading.current_thread() is not threading.main_thread()
        # What is only looked for takes no lock of a module.
        if by_thread and name not in ("llvmlite", "ml_dtypes", "scipy") and not held:
            outside.append(name)
sys.meta_path.insert(0, Noting())
from functensor.backends import blas_calls
from functensor.backends.cpu import eager_code
eager_code.SECONDS_OVER_NUMPY = 0.0
x, w = np.ones((512, 512), "float32"), np.ones((16, 16, 3, 3), "float32")
for _ in range(5):
    {call}
from functensor.backends.native.background import later
assert later(int).wait(60)
print(outside, {found})
"""
MADE_BY_THE_THREAD = {
    "blas_calls.IN_PARTS[0](x, x)": "plan.threads.eager_products'].multipliers.found.values()",
    "nn.silu(x)": "stacks'].known_stacks.values()",
    "nn.conv(x.reshape(4, 16, 64, 64), w)": "eager_code'].kinds.values()",
}


@pytest.mark.skipif(not machine.compiles_here(), reason=machine.why_not())
@pytest.mark.parametrize("call", MADE_BY_THE_THREAD)
def test_the_compiling_thread_imports_in_steps_that_forks_wait_for(call):
    made = f"sys.modules['functensor.backends.cpu.{MADE_BY_THE_THREAD[call]}"
    found = f"sum(getattr(x, 'calls', x) is not None for x in {{*{made}}})"
    assert run_python(IMPORTED_BY_THE_THREAD.format(call=call, found=found)) == "[] 1\n"
