"""The thread in the background: jobs, errors, owners, forks, and the end of a process."""

import gc
import os
import signal
import sys
import threading
import time
import weakref
from functools import partial
from pathlib import Path

import pytest
from support.interrupts import ran
from support.native import missing, run_python

from functensor.backends.native import background
from functensor.backends.native.background import later, later_for

TIME = 60
IMPORTS = """
import atexit, os, threading, time
from functensor.backends.native import background
from functensor.backends.native.background import later, later_for
"""


def test_jobs_run_in_order_and_in_one_thread():
    seen = []
    jobs = [later(lambda i=i: seen.append((i, threading.get_ident()))) for i in range(20)]
    assert jobs[-1].wait(TIME)
    assert [i for i, _ in seen] == list(range(20))
    assert len({thread for _, thread in seen}) == 1
    assert seen[0][1] != threading.get_ident()
    assert all(job.done and job.error is None and not job.dropped for job in jobs)


def test_a_job_that_waits():
    go = threading.Event()
    job = later(lambda: go.wait(TIME))
    assert not job.wait(0.05)
    assert not job.done
    go.set()
    assert job.wait(TIME)
    assert job.done


@pytest.mark.parametrize("raised", [ValueError("x"), SystemExit(3), KeyboardInterrupt()])
def test_the_thread_survives_what_jobs_raise(raised):
    def fail():
        raise raised

    job = later(fail)
    assert job.wait(TIME)
    assert job.error is raised
    assert raised.__traceback__ is None
    assert later(int).wait(TIME)


def test_jobs_of_jobs():
    inner = []
    job = later(lambda: inner.append(later(lambda: inner.append(1))))
    assert job.wait(TIME)
    assert inner[0].wait(TIME)
    assert inner[1] == 1


class Plan:
    """An owner of jobs."""

    def __init__(self):
        self.grown = False

    def grow(self):
        """Notes that it was called."""
        self.grown = True


def test_an_owner_that_lives_is_given_to_its_job():
    plan = Plan()
    job = later_for(plan, Plan.grow)
    assert job.wait(TIME)
    assert plan.grown
    assert not job.dropped


def test_an_owner_that_died_is_not_worked_for():
    go, called = threading.Event(), []
    later(lambda: go.wait(TIME))
    plan = Plan()
    died = weakref.ref(plan)
    job = later_for(plan, called.append)
    del plan
    gc.collect()
    assert died() is None
    go.set()
    assert job.wait(TIME)
    assert job.dropped
    assert called == []


def test_nothing_is_held_after_a_job():
    plan = Plan()
    died = weakref.ref(plan)

    def fail(plan):
        raise ValueError

    jobs = [later(lambda plan=plan: plan.grow()), later_for(plan, Plan.grow), later_for(plan, fail)]
    assert jobs[-1].wait(TIME)
    assert later(int).wait(TIME)
    del plan
    gc.collect()
    assert died() is None


def test_many_threads_ask():
    counted = []

    def ask():
        jobs = [later(lambda: counted.append(1)) for _ in range(200)]
        assert all(job.wait(TIME) for job in jobs)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counted) == 800


@pytest.mark.skipif(sys.platform != "linux", reason="only there a thread has a priority of its own")
def test_the_priority_is_lower_than_that_of_others():
    found = []

    def ask():
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    assert later(ask).wait(TIME)
    here = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert found == [min(here + background.NICENESS, 19)]


def test_jobs_do_not_wait_for_one_whose_sign_did_not_come():
    assert later(int).wait(TIME)
    code = background.Worker.add.__code__
    come = []

    def interrupt(frame, event, arg):
        if frame.f_code is code:
            if event == "line" and background.worker.jobs:
                come.append(frame.f_lineno)
                raise KeyboardInterrupt
            return interrupt
        return None

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            later(int)
    finally:
        sys.settrace(before)
    assert len(come) == 1
    for _ in range(3):
        assert later(int).wait(TIME)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no signal to send")
def test_ctrl_c_before_the_thread_runs_stops_no_later_job():
    place = 0
    while True:
        worker = background.Worker()
        first, second = background.BackgroundJob(int), background.BackgroundJob(int)
        if ran(partial(worker.add, first), place):
            break
        worker.add(second)
        assert second.wait(TIME), f"the thread does not run after Ctrl-C at place {place}"
        ended(worker)
        place += 1
    assert place > 10
    assert first.wait(TIME)
    ended(worker)


def ended(worker):
    """Ends the thread of a worker, as one does whose place another one has."""
    worker._thread = None
    worker._there.put(None)


def test_an_import_starts_no_thread():
    source = (
        IMPORTS
        + """
print(threading.active_count())
later(int)
print(threading.active_count())
"""
    )
    assert run_python(source).split() == ["1", "2"]


def test_ctrl_c_comes_to_the_main_thread():
    handler = signal.getsignal(signal.SIGINT)
    source = (
        IMPORTS
        + """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
inside, go = threading.Event(), threading.Event()
def work():
    inside.set()
    go.wait()
job = later(work)
inside.wait()
try:
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    job.wait(60)
except KeyboardInterrupt:
    print("interrupted")
go.set()
print(job.wait(60), job.error)
"""
    )
    if os.name == "posix":
        assert run_python(source) == "interrupted\nTrue None\n"
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_thread_does_its_own_job_while_another_one_takes_its_place():
    class Replaced(background.Worker):
        """A worker whose other thread says at every moment that it runs nothing."""

        running = property(lambda self: None, lambda self, job: None)

    worker = Replaced()
    jobs = [background.BackgroundJob(int) for _ in range(3)]
    for job in jobs:
        worker.add(job)
    assert jobs[-1].wait(TIME)
    assert all(job.done and job.error is None and not job.dropped for job in jobs)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_starts_anew():
    source = (
        IMPORTS
        + """
go, inside = threading.Event(), threading.Event()
def hold():
    inside.set()
    go.wait()
ended = later(int)
assert ended.wait(60)
running = later(hold)
left = [later(int) for i in range(3)]
inside.wait()
for i in range(20):
    child = os.fork()
    if not child:
        assert ended.done and not ended.dropped
        assert all(job.done and job.dropped and job.wait(60) for job in [running, *left])
        seen = []
        assert later(lambda: seen.append(os.getpid())).wait(60)
        assert seen == [os.getpid()]
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
assert not any(job.done for job in [running, *left])
go.set()
assert left[-1].wait(60)
print(any(job.dropped for job in [running, *left]))
"""
    )
    assert run_python(source) == "False\n"


def test_the_end_of_the_process_drops_what_has_not_begun():
    source = (
        IMPORTS
        + """
def late():
    print(job.done, [(other.done, other.dropped) for other in others], later(int).dropped)
    # Nobody does this job: there is no more time.
    print(later(lambda: print("never")).wait(60))
# An older function comes behind that of the thread, which was registered when it was imported.
atexit.unregister(background.at_exit); atexit.register(late); atexit.register(background.at_exit)
inside = threading.Event()
def work():
    inside.set()
    while True:
        time.sleep(0.01)
job = later(work)
others = [later(lambda: print("never")) for i in range(2)]
inside.wait()
"""
    )
    start = time.monotonic()
    assert run_python(source) == "False [(True, True), (True, True)] True\nTrue\n"
    assert time.monotonic() - start < 30


def test_a_thread_that_waits_for_a_dropped_job_goes_on():
    source = (
        IMPORTS
        + """
go = threading.Event()
later(go.wait)
job = later(int)
waiting = threading.Thread(target=lambda: print(job.wait(60), job.dropped))
waiting.start()
time.sleep(0.1)
background.worker.close()
waiting.join()
print(later(int).dropped)
"""
    )
    assert run_python(source) == "True True\nTrue\n"


@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.parametrize(("end", "seconds"), [("", 0), ("", 0.4), ("sys.exit(0)", 0.2)])
def test_the_process_ends_while_kernels_are_compiled(end, seconds):
    source = (
        IMPORTS
        + f"""
import sys
from support.native import loop
from functensor.backends.native.entry import kernel_call
from functensor.backends.native.machine import machine_code
held = []
def work(i):
    held.append(kernel_call(machine_code(loop(i), ["kernel"]), "kernel", 2))
jobs = [later(lambda i=i: work(i)) for i in range(10_000)]
time.sleep({seconds})
print("done")
{end}
"""
    )
    tests = Path(__file__).parents[2]
    assert run_python(source, PYTHONPATH=str(tests), FUNCTENSOR_CACHE_DIR="") == "done\n"


@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.parametrize("loaded", [True, False], ids=["loaded before", "loaded at the end"])
def test_a_function_at_the_end_of_the_process_is_compiled_and_freed_in_silence(loaded):
    source = f"""
import atexit
import functensor as ft, functensor.numpy as np
x = np.ones(10_000)
f = ft.jit(lambda x: np.exp(x) * np.sin(x) + x)
@atexit.register
def late():
    g = ft.jit(lambda x: np.exp(x) * np.sin(x) - x)
    for h in (f, g):
        h.compile(x)
        h(x)
        print(h.explain()[-12:])
if {loaded}:
    f.compile(x)
"""
    assert run_python(source, FUNCTENSOR_CACHE_DIR="") == "machine code\nmachine code\n"
