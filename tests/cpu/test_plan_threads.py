"""Blocks are shared among threads: results, exceptions, nesting, forks, settings."""

import _thread
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from functools import partial

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends import blas_threads
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.regions import block_source, region_run
from functensor.backends.cpu.plan.threads import pool
from functensor.backends.cpu.plan.threads.sharing import MeasuredSharing
from functensor.passes.fusion import fusion
from functensor.passes.pipeline import optimized


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    monkeypatch.setattr(pool.threads, "number", 4)
    monkeypatch.setattr(block_source, "SMALLEST_BLOCK_ELEMENTS", 8192)
    monkeypatch.setattr(block_source, "LARGEST_BLOCK_ELEMENTS", 8192)
    monkeypatch.setattr(region_run, "SMALLEST_SHARED_EFFORT", 1 << 20)


def fused(fun, *args):
    return get_backend("numpy").plan(fusion(optimized(ft.make_program(fun)(*args))))


def loss(x):
    return fnp.sum(fnp.tanh(x) * fnp.exp(-(x**2)) + fnp.log1p(x**2))


X = np.random.default_rng(0).normal(size=(512, 256)).astype("float32")


def test_the_number_of_threads_does_not_change_the_result(monkeypatch):
    plan = fused(ft.value_and_grad(loss), X)
    results = []
    for number in (1, 2, 3, 8):
        monkeypatch.setattr(pool.threads, "number", number)
        results.append(plan([X]))
    for value, gradient in results[1:]:
        np.testing.assert_array_equal(value, results[0][0])
        np.testing.assert_array_equal(gradient, results[0][1])
    value, gradient = ft.value_and_grad(loss)(fnp.asarray(X))
    np.testing.assert_allclose(results[0][0], value, rtol=1e-6)
    np.testing.assert_array_equal(results[0][1], gradient)


def test_every_block_is_computed_once():
    done = []
    blocks = iter(range(1000))

    def work():
        done.extend(blocks)

    pool.share(work, 4)
    assert sorted(done) == list(range(1000))


def test_many_callers_at_once():
    plan = fused(lambda x: nn.softmax(fnp.sin(x) * 3, axis=-1), X)
    wanted = [plan([X * i])[0] for i in range(6)]
    wrong = []

    def work(i):
        wrong.extend(i for _ in range(10) if not np.array_equal(plan([X * i])[0], wanted[i]))

    callers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not any(caller.is_alive() for caller in callers)
    assert not wrong


def test_a_job_that_nobody_came_for_keeps_no_arrays():
    everyone_waits, gate = threading.Barrier(4), threading.Event()

    def busy():
        everyone_waits.wait(30)
        gate.wait(30)

    caller = threading.Thread(target=pool.share, args=(busy, 4))
    caller.start()
    try:
        while everyone_waits.n_waiting:
            gate.wait(0.001)
        x = np.ones(10)
        seen = weakref.ref(x)
        pool.share(partial(np.sum, x), 4)
        del x
        assert seen() is None
    finally:
        gate.set()
        caller.join()


def test_jobs_within_jobs_come_to_an_end():
    counts = []

    def inner():
        counts.append(1)

    def outer():
        for _ in range(20):
            pool.share(inner, 4)

    pool.share(outer, 4)
    assert len(counts) >= 20


@pytest.mark.parametrize("place", ["caller", "helper"])
def test_what_a_thread_raises_reaches_the_caller(place):
    caller = threading.current_thread()
    begun = threading.Event()

    def work():
        mine = threading.current_thread() is caller
        if mine and place == "helper":
            begun.wait(10)
        if mine == (place == "caller"):
            begun.set()
            raise KeyError("this one")

    with pytest.raises(KeyError, match="this one"):
        pool.share(work, 2)
    done = []
    pool.share(lambda: done.append(1), 2)
    assert done


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("pause", [0, 0.02])
def test_an_interrupt_is_raised_once_all_helpers_have_ended(pause, error):
    def interrupted(*_):
        raise error

    caller, begun, ended = threading.get_ident(), threading.Event(), []

    def work():
        if threading.get_ident() == caller:
            assert begun.wait(10)
            return
        begun.set()
        time.sleep(pause)
        _thread.interrupt_main()
        time.sleep(0.02)
        ended.append(True)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        with pytest.raises(error):
            pool.share(work, 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [True]
    assert not pool.pool.callers


def test_an_error_in_a_block_points_at_the_users_line():
    labels = np.zeros(512, int)

    def fun(x, labels):
        return fnp.mean(nn.softmax_cross_entropy(x * 2, labels))  # here

    plan = fused(fun, X, labels)
    assert "for number, low, high in blocks" in plan.source
    labels[300] = 256
    with pytest.raises(IndexError, match="label 256") as caught:
        plan([X, labels])
    line = fun.__code__.co_firstlineno + 1
    assert caught.value.__notes__ == [f"in cross_entropy of fun, at {__file__}:{line}"]
    labels[300] = 0
    wanted = fun(fnp.asarray(X), fnp.asarray(labels))
    np.testing.assert_allclose(plan([X, labels])[0], wanted, rtol=1e-6)


def test_threads_do_not_warn():
    plan = fused(lambda x: fnp.sqrt(fnp.log(x)) / 0.0, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan([X])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_threads_of_its_own():
    code = """
import os, numpy as np
from functensor.backends.cpu.plan.threads import pool
done = []
pool.share(lambda: done.append(1), 3)
child = os.fork()
if not child:
    pool.share(lambda: done.append(1), 3)
    os._exit(0 if pool.pool.started == 2 else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60, check=False)
    assert run.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_that_is_forked_while_blas_is_held_holds_it_no_more():
    if blas_threads.controlled() is None:
        pytest.skip("NumPy's BLAS has no functions to ask it")
    code = """
import os
from functensor.backends import blas_threads as blas
control = blas.controlled()
control._set(2)
with blas.alone():
    child = os.fork()
    if not child:
        fine = not blas.held() and control._get() == 2
        with blas.alone():
            fine = fine and control._get() == 1
        os._exit(0 if fine and control._get() == 2 else 1)
    fine = blas.held() and control._get() == 1
fine = fine and control._get() == 2 and control._lock.acquire(blocking=False)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not fine)
"""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60, check=False)
    assert run.returncode == 0


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "1,4"}, 1),
        ({"OPENBLAS_NUM_THREADS": "1"}, 1),
        ({"FUNCTENSOR_NUM_THREADS": "1", "OMP_NUM_THREADS": "2"}, 1),
        ({"OMP_NUM_THREADS": "100000"}, pool.cores()),
        ({"OMP_NUM_THREADS": "many"}, pool.cores()),
        ({}, pool.cores()),
    ],
)
def test_the_environment_says_how_many_threads(variables, wanted, monkeypatch):
    for name in pool.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert pool.thread_count() == wanted


def test_small_regions_stay_in_one_thread(monkeypatch):
    calls = []
    monkeypatch.setattr(MeasuredSharing, "__call__", lambda self, work, n: calls.append(n))
    small = np.ones((128, 480), "float32")
    program = fusion(ft.make_program(lambda x: fnp.sin(x) * fnp.cos(x))(small), 1024)
    get_backend("numpy").plan(program)([small])
    fused(lambda x: fnp.sin(x) * fnp.cos(x), X)([X])
    assert calls == [1, 4]


def test_blas_gets_its_threads_back():
    control = blas_threads.controlled()
    if control is None:
        pytest.skip("NumPy's BLAS has no functions to ask it")
    before = control._get()

    def nested():
        with blas_threads.alone():
            with blas_threads.alone():
                assert control._get() == 1
            assert control._get() == 1
            raise KeyError

    with pytest.raises(KeyError):
        nested()
    assert control._get() == before


@pytest.mark.parametrize("number", [1, 4])
def test_an_interrupt_leaves_blas_its_threads(number):
    control = blas_threads.controlled()
    if control is None:
        pytest.skip("NumPy's BLAS has no functions to ask it")
    before, set_threads = control._get(), control._set
    set_threads(4)

    def interrupted(to):
        set_threads(to)
        if to == number:
            control._set = set_threads
            raise KeyboardInterrupt

    control._set = interrupted
    try:
        with pytest.raises(KeyboardInterrupt), blas_threads.alone():
            assert control._get() == 1
        with blas_threads.alone():
            assert control._get() == 1
        assert control._get() == 4
        assert not blas_threads.held()
    finally:
        control._set = set_threads
        set_threads(before)


def test_an_interrupt_leaves_numpy_its_warnings():
    def interrupted(x):
        raise KeyboardInterrupt

    called = ft.extend.numpy_function(interrupted, result=ft.ShapeDtype(X.shape, X.dtype))
    plan = ft.jit(lambda x: called(fnp.sin(x)))
    before = np.geterr()
    with pytest.raises(KeyboardInterrupt):
        plan(X)
    assert np.geterr() == before


def test_what_is_called_within_a_plan_keeps_what_it_sets_in_its_context():
    count = contextvars.ContextVar("count", default=0)

    def counting(x):
        count.set(count.get() + 1)
        return x

    called = ft.extend.numpy_function(counting, result=ft.ShapeDtype(X.shape, X.dtype))
    jitted = ft.jit(lambda x: called(fnp.sin(x)))
    for _ in range(3):
        jitted(X)
    assert count.get() == 3


@pytest.mark.skipif(blas_threads.controlled() is None, reason="BLAS has no known control")
def test_threads_that_hold_blas_in_turn_give_its_threads_back():
    seen, library = set(), blas_threads.controlled()
    before = library.threads()

    def hold():
        for _ in range(60_000):
            with blas_threads.alone():
                seen.add(library.threads())

    library.number = 2
    workers = [threading.Thread(target=hold) for _ in range(3)]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert (seen, library.threads()) == ({1}, 2)
    finally:
        library.number = before


def test_work_is_done_where_the_system_allows_no_more_threads():
    code = """
import threading
from functensor.backends.cpu.plan.threads import pool
threading.stack_size(1 << 47)  # more than there is
done = []
for _ in range(2):
    pool.share(lambda: done.append(1), 3)
    pool.call_helpers(lambda: done.append(1), 2)
raise SystemExit((len(done), pool.pool.jobs.qsize()) != (2, 0))
"""
    run = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert run.returncode == 0
