"""Machine code takes over from plans over NumPy: when, and when not."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest
from support.native import missing, run_python

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.cpu.plan import CpuPlan
from functensor.backends.cpu.plan.native.segments import segmented
from functensor.backends.native.background import later
from functensor.jitting import tiers
from functensor.testing import assert_allclose

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)


def loss(x):
    return fnp.sum(fnp.tanh(x) * fnp.exp(-x * x) + fnp.log1p(x * x))


def last_tiers(jitted):
    """Returns what decides about the tier of the last kind of arguments."""
    return jitted._last.compiled.tiers


@pytest.fixture
def at_once(monkeypatch):
    """Lets machine code be compiled from the first call on."""
    monkeypatch.setattr(tiers, "SECONDS_BEFORE_COMPILING", 0.0)


def test_the_first_calls_run_over_numpy_and_later_ones_as_machine_code(at_once, monkeypatch):
    monkeypatch.setattr(tiers, "MOST_OF_NUMPYS_TIME", float("inf"))
    x = np.linspace(-3, 3, 1001).astype(np.float32)
    jitted = ft.jit(ft.value_and_grad(loss))
    wanted = ft.value_and_grad(loss)(x)
    jitted(x)
    decided = last_tiers(jitted)
    assert decided.note == ""
    assert decided._job.wait(60)
    assert jitted.explain().splitlines()[-1].endswith("the first call")
    for _ in range(tiers.COMPARED_CALLS):
        assert_allclose(jitted(x), wanted)
    assert decided.note == "as machine code"
    assert isinstance(jitted._last.compiled.run, CpuPlan)
    source = jitted._last.compiled.run.source
    assert "# segment_0 = " in source
    assert "object at 0x" not in source
    assert_allclose(jitted(x), wanted)
    assert jitted.explain().endswith("the last of these runs as machine code")


def test_the_quicker_plan_stays(at_once, monkeypatch):
    monkeypatch.setattr(tiers, "MOST_OF_NUMPYS_TIME", 0.0)
    x = np.ones(10)
    jitted = ft.jit(loss)
    jitted(x)
    assert last_tiers(jitted)._job.wait(60)
    for _ in range(tiers.COMPARED_CALLS):
        jitted(x)
    assert last_tiers(jitted).note == "over NumPy, which was quicker than machine code"
    assert jitted._last.compiled.run is jitted._last.compiled.plan


def test_compile_waits_and_runs_nothing():
    ran = []

    @ft.jit
    def noted(x):
        ran.append(x)
        return fnp.sum(x * x)

    assert noted.compile(ft.ShapeDtype((3,), "float64")) is noted
    assert len(ran) == 1
    assert float(noted(np.arange(3.0))) == 5.0
    assert len(ran) == 1
    assert noted.explain().endswith("as machine code")


def test_compile_waits_for_the_thread_and_does_not_do_its_work_again(at_once, monkeypatch):
    made, plans = [], tiers.native_plan

    def counted(*args):
        made.append(threading.current_thread().name)
        return plans(*args)

    monkeypatch.setattr(tiers, "native_plan", counted)
    x = np.linspace(-3, 3, 1001)
    jitted = ft.jit(loss)
    jitted(x)
    while not last_tiers(jitted)._job.begun:
        time.sleep(0.001)
    jitted.compile(x)
    jitted.compile(x)
    assert made == ["functensor-background"]
    assert last_tiers(jitted).note == "as machine code"


def test_compile_does_not_wait_for_other_programs(at_once, monkeypatch):
    made, plans, gate = [], tiers.native_plan, threading.Event()

    def counted(*args):
        made.append(threading.current_thread())
        return plans(*args)

    monkeypatch.setattr(tiers, "native_plan", counted)
    before = later(lambda: gate.wait(60))
    x = np.linspace(-3, 3, 1001)
    jitted = ft.jit(loss)
    try:
        jitted(x)
        jitted.compile(x)
        assert not before.done
    finally:
        gate.set()
    assert last_tiers(jitted)._job.wait(60)
    assert made == [threading.current_thread()]
    assert last_tiers(jitted).note == "as machine code"


def test_texts_are_the_same_each_time():
    def step(params, grads):
        moved = [0.9 * p + g for p, g in zip(params, grads, strict=True)]
        return moved, [p - 0.1 * m for p, m in zip(params, moved, strict=True)]

    params = [np.ones((3, 4)) for _ in range(5)]
    texts = set()
    for _ in range(8):
        program = ft.make_program(step)(params, params)
        texts.add(segmented(tiers.native_program(program)).text)
    assert len(texts) == 1


def test_a_failed_compilation_leaves_the_plan_over_numpy(at_once, monkeypatch):
    def broken(program, donated):
        raise ZeroDivisionError("no code today")

    monkeypatch.setattr(tiers, "native_plan", broken)
    jitted = ft.jit(loss)
    first = jitted(np.ones(4))
    assert last_tiers(jitted)._job.wait(60)
    assert isinstance(last_tiers(jitted)._job.error, RuntimeWarning)
    assert_allclose(jitted(np.ones(4)), first)
    assert "compiling failed with ZeroDivisionError('no code today')" in jitted.explain()


def test_failures_that_are_no_fault_of_the_machine_are_warned_of(at_once, monkeypatch):
    def broken(program, donated):
        raise failure

    monkeypatch.setattr(tiers, "native_plan", broken)
    for failure in (MemoryError("full"), OSError("no disk")):
        jitted = ft.jit(loss)
        jitted(np.ones(4))
        assert last_tiers(jitted)._job.wait(60)
        assert last_tiers(jitted)._job.error is None
        assert f"compiling failed with {failure!r}" in jitted.explain()
    failure = KeyError("slot")
    jitted = ft.jit(loss)
    jitted(np.ones(4))
    assert last_tiers(jitted)._job.wait(60)
    told = str(last_tiers(jitted)._job.error)
    assert told.startswith("loss was not compiled, and runs slower: KeyError: 'slot' (line ")
    assert "test_tiers.py)" in told


def test_with_config_deterministic_a_function_keeps_its_tier(at_once):
    with ft.config.using(deterministic=True):
        jitted = ft.jit(loss)
        jitted(np.ones(4))
        jitted(np.ones(4))
        assert "keeps the plan of its first call" in jitted.explain()
        assert last_tiers(jitted)._job is None


def test_nothing_is_compiled_where_nothing_would_be_quicker(at_once):
    jitted = ft.jit(lambda x: fnp.sort(x))
    jitted(np.ones(4))
    assert last_tiers(jitted)._job.wait(60)
    assert "nothing in it would be machine code" in jitted.explain()


def test_long_programs_are_not_compiled(at_once, monkeypatch):
    monkeypatch.setattr(tiers, "MOST_COMPILED_EQUATIONS", 2)
    jitted = ft.jit(lambda x: fnp.exp(fnp.sin(fnp.cos(x))))
    jitted(np.ones(4))
    assert last_tiers(jitted)._job is None
    why = "over NumPy: it has 3 equations, and programs of more than 2 stay there"
    assert why in jitted.explain()
    # Bodies of loops count.
    jitted = ft.jit(lambda x: ft.fori_loop(0, 3, lambda i, x: fnp.exp(fnp.sin(x)), x))
    assert "it has 4 equations" in jitted.compile(np.ones(4)).explain()
    assert "as machine code" in ft.jit(lambda x: fnp.sin(x) + 1).compile(np.ones(4)).explain()


def test_a_function_that_dies_is_not_compiled(at_once):
    gate = threading.Event()
    from functensor.backends.native import background

    blocking = background.later(gate.wait)
    jitted = ft.jit(lambda x: x * x + 1)
    jitted(np.ones(3))
    job, gone = last_tiers(jitted)._job, weakref.ref(last_tiers(jitted))
    del jitted
    gc.collect()
    assert gone() is None
    gate.set()
    assert blocking.wait(60)
    assert job.wait(60)
    assert job.dropped


def test_the_environment_turns_it_off():
    text = """
        import numpy as np
        import functensor as ft

        f = ft.jit(lambda x: x * x + 1)
        f.compile(np.ones(3))
        print(f(np.ones(3)).tolist())
        print(f.explain().splitlines()[-1].strip())
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        env={**os.environ, "FUNCTENSOR_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == [
        "[2.0, 2.0, 2.0]",
        "the last of these runs over NumPy: FUNCTENSOR_NATIVE=0 turns native code off",
    ]


def test_threads_share_machine_code():
    x = np.linspace(0, 1, 257)
    jitted = ft.jit(ft.grad(loss)).compile(x)
    wanted = ft.grad(loss)(x)
    right = []

    def work():
        right.append(all(np.allclose(jitted(x), wanted) for _ in range(50)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_compiles_though_a_thread_was_importing():
    source = """
import os, signal, sys, threading, time
import numpy as np
import functensor as ft
import functensor.numpy as fnp
from functensor.jitting import tiers
tiers.SECONDS_BEFORE_COMPILING = 0.0
begun = threading.Event()
class Slowly:
    def find_spec(self, name, *args):
        if name.endswith(".native.region_graph"):
            begun.set()
            time.sleep(0.5)
sys.meta_path.insert(0, Slowly())
x = np.linspace(0, 1, 100)
f = ft.jit(lambda x: fnp.sin(x) * 2)
f(x)
assert begun.wait(60)
child = os.fork()
signal.alarm(60)
f.compile(x)
assert np.allclose(f(x), np.sin(x) * 2)
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(f.explain().splitlines()[-1].strip())
"""
    assert run_python(source) == "the last of these runs as machine code\n"


IMPORTED_BY_THE_THREAD = """
import sys, threading
import numpy as np
import functensor as ft
import functensor.numpy as fnp
from functensor.backends.native import machine
from functensor.backends.native.background import later
from functensor.jitting import tiers
tiers.SECONDS_BEFORE_COMPILING = 0.0
outside = []
class Noting:
    def find_spec(self, name, *args):
        by_thread = threading.current_thread() is not threading.main_thread()
        # What is only looked for takes no lock of a module.
        looked_for = name in ("llvmlite", "ml_dtypes", "scipy")
        if by_thread and not looked_for and not machine._llvm_lock._is_owned():
            outside.append(name)
sys.meta_path.insert(0, Noting())
x = np.linspace(0, 1, 100)
f = ft.jit(lambda x: fnp.sin(x) * 2)
f(x)
assert later(int).wait(60)
f.compile(x)
print(f.explain().splitlines()[-1].strip(), outside)
"""


@pytest.mark.parametrize("kept", [False, True])
def test_the_compiling_thread_imports_in_steps_that_forks_wait_for(kept, tmp_path):
    folder = str(tmp_path) if kept else ""
    found = run_python(IMPORTED_BY_THE_THREAD, FUNCTENSOR_CACHE_DIR=folder)
    assert found == "the last of these runs as machine code []\n"


def looped(x):
    return ft.scan(lambda h, row: (fnp.tanh(h * 0.5 + row), h), fnp.zeros(3), x)[1]


SHOWN = {
    "a kernel": (loss, np.ones(1001), "exp("),
    "a loop": (looped, np.ones((100, 3)), "tanh("),
    "an argument in another order": (lambda x: fnp.tanh(x) @ x.T, np.ones((40, 50)).T, "tanh("),
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_source_shows_the_tier_that_runs(name):
    fun, x, word = SHOWN[name]
    jitted = ft.jit(fun)
    jitted(x)
    before = jitted.lower(x).source
    assert before.startswith("def plan(a):")
    jitted.compile(x)
    text = jitted.lower(x).source
    assert text.startswith("# This runs as machine code.\ndef plan(a):")
    kernels = text[text.index("\nkernel ") :]
    assert word in kernels
    assert "np_tanh" not in text
    code = jitted.lower(x).llvm()
    assert code.count("define ") >= 1
    assert "getelementptr" in code
    with ft.config.using(deterministic=True):
        kept = ft.jit(fun)
        kept.compile(x)
        assert kept.lower(x).source.startswith("def plan(a):")
        with pytest.raises(ft.errors.BackendUnavailable, match=r"config\.deterministic"):
            kept.lower(x).llvm()
