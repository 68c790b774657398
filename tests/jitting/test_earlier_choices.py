"""Machine code that an earlier process has found to be quicker runs in the first call."""

import os
import re
import sys
import threading

import numpy as np
import pytest
from support.kept_plans import bits, counted, files
from support.long_forms import only_long
from support.native import missing, run_python

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan import CpuPlan
from functensor.backends.native.background import later
from functensor.backends.native.machine import Inside
from functensor.backends.native.object_loader import can_load
from functensor.jitting import earlier_choices, tiers

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.skipif(not can_load(), reason="objects are loaded by LLVM here"),
]

X = np.linspace(-2, 2, 40).reshape(8, 5)


def function(x, y):
    return fnp.sum(fnp.tanh(x) * fnp.exp(-y * y), axis=0), x / (1 + y * y)


@pytest.fixture
def counts(tmp_path, monkeypatch):
    """Returns counts, with an empty folder; machine code is compiled at once, and chosen."""
    monkeypatch.setattr(tiers, "SECONDS_BEFORE_COMPILING", 0.0)
    monkeypatch.setattr(tiers, "MOST_OF_NUMPYS_TIME", float("inf"))
    return counted(tmp_path, monkeypatch)


def decided(fun, *args, **options):
    """Returns the results of a jitted function once machine code was chosen for it."""
    jitted = ft.jit(fun, **options)
    jitted(*args)
    found = jitted._last.compiled.tiers
    assert found._job.wait(60)
    for _ in range(tiers.COMPARED_CALLS):
        outs = jitted(*args)
    assert found.note == "as machine code"
    return bits(outs)


def in_first_call(fun, *args):
    """Returns the results of the first call, and whether machine code has made them."""
    # A first call takes no choice while a thread compiles.
    assert later(int).wait(60)
    jitted = ft.jit(fun)
    outs = bits(jitted(*args))
    return outs, jitted.explain().endswith("as machine code")


def test_a_choice_is_taken_by_the_next_first_call(counts):
    wanted = decided(function, X, X)
    assert in_first_call(function, X, X) == (wanted, True)
    assert counts.scheduled == 1
    jitted = ft.jit(function)
    jitted(X, X)
    assert isinstance(jitted._last.compiled.run, CpuPlan)
    assert jitted._last.compiled._plan is None
    # Arguments in another order, and all forms of the function, are there as ever.
    turned = np.asfortranarray(X)
    np.testing.assert_array_equal(jitted(turned, turned)[1], jitted(X, X)[1])
    low = jitted.lower(X, X)
    assert low.source.startswith("# This runs as machine code.")
    assert "tanh" in str(low.optimized)
    assert jitted.cost().flops > 0


def test_threads_that_ask_at_once_find_a_fused_program(counts):
    large = np.linspace(-2, 2, 120_000)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            jitted = ft.jit(lambda x, y: function(x, y))
            jitted(large, large)
            jitted._last.compiled._program = None
            barrier = threading.Barrier(4)
            found = []

            def ask(compiled=jitted._last.compiled, barrier=barrier, found=found):
                barrier.wait(60)
                found.append(len(compiled.program.equations))

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert found == [1] * 4
    finally:
        sys.setswitchinterval(interval)


def test_hooks_see_the_operations_of_a_first_call(counts):
    for fun in (function, lambda x, y: function(x * 10, y)):
        decided(fun, X, X)
    jitted = ft.jit(function)
    jitted(X, X)
    seen = ft.hooks.CountHook()
    with ft.hooks.use(seen):
        jitted(X, X)
    assert seen.counts["tanh", "forward"] == 1
    large = np.full_like(X, 1e308)
    with ft.config.using(check_finite=True), pytest.raises(FloatingPointError, match="multiply"):
        ft.jit(lambda x, y: function(x * 10, y))(large, X)


def test_other_programs_of_the_same_name_and_shapes_wait(counts):
    decided(function, X, X)

    def other(x, y):
        return fnp.sum(fnp.tanh(x) * fnp.exp(-y + y), axis=0), x / (1 + y * y)

    other.__name__ = "function"
    assert not in_first_call(other, X, X)[1]
    assert in_first_call(function, X, X)[1]


@pytest.mark.parametrize(
    "setting", [{"deterministic": True}, {"matmul_precision": "tf32"}], ids=str
)
def test_under_other_settings_nothing_was_chosen(counts, setting):
    decided(function, X, X)
    with ft.config.using(**setting):
        assert not in_first_call(function, X, X)[1]


def test_nobody_waits_for_a_thread_within_llvm(counts, monkeypatch):
    decided(function, X, X)
    monkeypatch.setattr(Inside, "step", True)
    assert not in_first_call(function, X, X)[1]


@pytest.mark.parametrize("ending", [".o", ".plan", ".chosen"])
def test_without_a_file_the_plan_over_numpy_runs(counts, ending):
    wanted = decided(function, X, X)
    for path in files(ending):
        path.write_bytes(b"damaged")
    outs, by_machine_code = in_first_call(function, X, X)
    assert not by_machine_code
    for (_, _, found), (_, _, known) in zip(outs, wanted, strict=True):
        np.testing.assert_allclose(np.frombuffer(found), np.frombuffer(known), rtol=1e-12)


def test_donated_memory_is_used(counts):
    def update(x, g):
        return x - 0.1 * fnp.tanh(g)

    wanted = decided(lambda x, g: update(x, g), fnp.array(X), X)
    jitted = ft.jit(lambda x, g: update(x, g), donate_argnums=0)
    for _ in range(2 * tiers.COMPARED_CALLS):
        outs = jitted(fnp.array(X), X)
        assert later(int).wait(60)
    again = ft.jit(lambda x, g: update(x, g), donate_argnums=0)
    given = fnp.array(X)
    address = given._data.ctypes.data
    outs = again(given, X)
    assert (bits(outs), outs._data.ctypes.data) == (wanted, address)
    with pytest.raises(ft.errors.DonatedArrayError):
        given + 1


def test_the_latest_choices_are_kept(counts):
    program = ft.jit(function).lower(X, X).program
    for number in range(earlier_choices.MOST_KEYS + 3):
        earlier_choices.note_choice(program, f"key{number}")
    earlier_choices.note_choice(program, "key9")
    keys = earlier_choices.chosen_keys(program)
    assert keys[:2] == ["key9", f"key{earlier_choices.MOST_KEYS + 2}"]
    assert len(keys) == len({*keys}) == earlier_choices.MOST_KEYS


PROCESS = """
import time
import numpy as np
import functensor as ft, functensor.numpy as fnp
from functensor.jitting import tiers
tiers.SECONDS_BEFORE_COMPILING, tiers.MOST_OF_NUMPYS_TIME = 0.0, float("inf")
jitted = ft.jit(ft.grad(lambda x: fnp.sum(fnp.tanh(x) * fnp.exp(-x * x))))
x = np.linspace(-2, 2, 40)
out, how = jitted(x), jitted.explain()
while "as machine code" not in jitted.explain():
    out = jitted(x)
    time.sleep(0.001)
print(out, "as machine code" in how, "llvmlite" in __import__("sys").modules)
"""


def test_another_process_takes_the_choice_without_llvm(tmp_path):
    first, again = [run_python(PROCESS, FUNCTENSOR_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    assert first.endswith("False True\n")
    assert again == first.replace("False True\n", "True False\n")


FORKS = """
import os, signal, threading, time
import numpy as np
import functensor as ft, functensor.numpy as fnp
def call():
    ft.jit(ft.grad(lambda x: fnp.sum(fnp.tanh(x) * fnp.exp(-x * x))))(np.linspace(-2, 2, 40))
ft.jit(ft.grad(lambda x: fnp.sum(fnp.tanh(x) * fnp.exp(x))))(np.ones(3))
thread = threading.Thread(target=call)
thread.start()
children = []
for _ in range(8):
    children.append(os.fork())
    if not children[-1]:
        signal.alarm(5)
        call()
        os._exit(0)
    time.sleep(0.001)
print({os.waitpid(child, 0)[1] for child in children})
"""


@only_long
@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked")
def test_forks_wait_for_what_a_first_call_imports(tmp_path):
    run_python(PROCESS, FUNCTENSOR_CACHE_DIR=str(tmp_path))
    assert run_python(FORKS, FUNCTENSOR_CACHE_DIR=str(tmp_path)) == "{0}\n"


WITHOUT_LLVM = """
import numpy as np
import functensor as ft, functensor.numpy as fnp
print(ft.jit(ft.grad(lambda x: fnp.sum(fnp.tanh(x) * fnp.exp(-x * x))))(np.linspace(-2, 2, 40)))
"""


def test_where_llvm_fails_numpy_computes(tmp_path):
    cache, broken = tmp_path / "cache", tmp_path / "llvmlite"
    wanted = run_python(PROCESS, FUNCTENSOR_CACHE_DIR=str(cache))
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('broken')")
    out = run_python(WITHOUT_LLVM, FUNCTENSOR_CACHE_DIR=str(cache), PYTHONPATH=str(tmp_path))
    assert numbers_in(out) == pytest.approx(numbers_in(wanted.rpartition("]")[0]), rel=1e-6)


def numbers_in(text):
    """Returns the numbers that a text shows."""
    return [float(x) for x in re.findall(r"-?\d[\d.e+-]*", text)]
