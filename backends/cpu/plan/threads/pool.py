"""The pool of threads that share work with the thread that calls a plan.

NumPy's loops release the interpreter's lock, so that blocks are computed side by side. The caller
takes blocks itself until none is left, and then waits only for helpers that still hold one. A job
never waits for a helper that has not begun. So jobs within jobs, and any number of callers, end.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import numpy as np

from ....blas_threads import controlled
from ....native.desk import CALLED_AWAY, awake, desk, has_pieces

__all__ = ["call_helpers", "has_callers", "run_side_by_side", "share", "threads"]

# The environment variables that set the number of threads; the first one that is set counts.
THREAD_VARIABLES = (
    "FUNCTENSOR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)


def cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count() -> int:
    """Returns the number of threads that the environment asks for, or the number of cores."""
    for variable in THREAD_VARIABLES:
        # OpenMP takes a list, one number for each level.
        number = os.environ.get(variable, "").partition(",")[0].strip()
        if number.isdecimal() and int(number):
            return min(int(number), cores())
    return cores()


# The number of times that a caller looks if helpers have ended. It adds these numbers up in
# between, which takes 3 microseconds.
WAITING_ROUNDS = 50
WAITING_WORK = np.zeros(1 << 14, np.float32)


class Threads:
    """The number of threads that compute large regions, the caller included."""

    number = thread_count()


threads = Threads()


def core_function() -> Callable[[], int]:
    """Returns a function that gives the number of the current core, -1 if it is not known."""
    try:
        # ``PyDLL`` keeps the interpreter's lock, as the function returns at once.
        told: Callable[[], int] = ctypes.PyDLL(None).sched_getcpu
    except (AttributeError, OSError, TypeError):
        return lambda: -1
    return told if hasattr(os, "sched_setaffinity") else lambda: -1


current_core = core_function()


class Job:
    """Work that several threads share.

    Attributes:
        work: the function that each of them calls.
        tickets: one for every helper that has not begun.
        ended: None, or the raised exception, for every helper that has ended.
        done: gets None when a helper has ended.
    """

    __slots__ = ("done", "ended", "tickets", "work")

    def __init__(self, work: Callable[[], Any], helpers: int) -> None:
        self.work = work
        self.tickets = [None] * helpers
        self.ended: list[BaseException | None] = []
        self.done: SimpleQueue[None] = SimpleQueue()


class Pool:
    """Helper threads, started when they are first needed."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job] = SimpleQueue()
        self.lock = threading.Lock()
        self.started = 0
        # The jobs of all callers that wait now.
        self.callers: set[Job] = set()
        # What looks for more work of machine code.
        self.last_served: Callable[[], Any] | None = None
        self._threads: list[threading.Thread] = []
        # The core on which no helper may run.
        self._caller = -1

    def grown(self, helpers: int) -> int:
        """Starts threads until there is that number of helpers, and returns how many there are.

        Where the system allows no more threads there are fewer, and it is not asked again.
        """
        if self.started >= helpers:
            return min(helpers, len(self._threads))
        with self.lock:
            while self.started < helpers:
                self.started += 1
                name = f"functensor-{self.started}"
                thread = threading.Thread(
                    target=help_out, args=(self.jobs,), name=name, daemon=True
                )
                self._threads.append(thread)
                try:
                    thread.start()
                except RuntimeError:
                    self._threads.remove(thread)
                self._caller = -1
            return min(helpers, len(self._threads))

    def make_room(self) -> None:
        """Keeps helpers off the core that the caller runs on.

        In many virtual machines Linux wakes a thread on the core of its waker. The thread stays
        there for milliseconds, and both get half of the core while others are idle.
        """
        core = current_core()
        # A helper that calls has fewer cores than the process.
        if core == self._caller or threading.current_thread() in self._threads:
            return
        # Without the permission, or before a thread has begun, work is only slower.
        with suppress(OSError, TypeError):
            others = os.sched_getaffinity(0) - {core}
            if others:
                for thread in self._threads:
                    os.sched_setaffinity(thread.native_id, others)  # type: ignore[arg-type]
                self._caller = core


def help_out(jobs: SimpleQueue[Job]) -> None:
    """Takes part in one job after the other."""
    # Plans show no warnings.
    np.seterr(all="ignore")
    while True:
        job = jobs.get()
        try:
            job.tickets.pop()
        except IndexError:
            del job
            continue  # the job is done, or has enough helpers
        raised: BaseException | None = None
        try:
            job.work()
        except BaseException as error:
            raised = error
        job.ended.append(raised)
        job.done.put(None)
        # The arrays of this job are freed before the thread waits for the next one.
        del job, raised


pool = Pool()


def after_fork() -> None:
    """Forgets the threads: a child process has none of them."""
    global pool
    pool = Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)


def share(work: Callable[[], Any], number: int) -> None:
    """Calls a function in this thread and in others, at most a number of times at once.

    Every call takes its share of the work from an iterator that all have. Returns when all calls
    have returned, and raises what one of them raised.
    """
    helpers = pool.grown(number - 1) if number > 1 else 0
    if not helpers:
        work()
        return
    pool.make_room()
    job = Job(work, helpers)
    try:
        pool.callers.add(job)
        if awake():
            # Helpers that look for work of machine code take this first.
            desk[CALLED_AWAY // 8] = 1
        raised = worked(job, helpers)
    finally:
        pool.callers.discard(job)
        # Late helpers must not keep the arrays: a donated array that others hold is copied.
        del job.work
        if not pool.callers:
            desk[CALLED_AWAY // 8] = 0
    if pool.last_served is not None and has_pieces():
        call_helpers(pool.last_served, helpers)
    if raised is not None:
        raise raised


def has_callers() -> bool:
    """Says whether threads share some work now."""
    return bool(pool.callers)


def call_helpers(work: Callable[[], Any], number: int) -> None:
    """Has helpers call a function of machine code, each of them once; waits for none of them."""
    helpers = pool.grown(number)
    pool.make_room()
    pool.last_served = work
    if pool.jobs.empty():
        for _ in range(helpers):
            pool.jobs.put(Job(work, 1))


def worked(job: Job, helpers: int) -> BaseException | None:
    """Does a job with some helpers, and returns an exception of theirs or of the caller's."""
    for _ in range(helpers):
        pool.jobs.put(job)
    raised: BaseException | None = None
    try:
        job.work()
    except BaseException as error:
        raised = error
    begun = helpers
    while job.tickets:
        try:
            job.tickets.pop()
            begun -= 1
        except IndexError:
            break
    waiting = True
    while waiting:
        # Helpers write into the caller's memory until they have ended.
        try:
            while len(job.ended) < begun:
                wait_for_job(job, begun)
            waiting = False
        except BaseException as error:
            raised = error
    return next((error for error in job.ended if error is not None), raised)


def wait_for_job(job: Job, begun: int) -> None:
    """Waits until one more helper has ended, or all that have begun.

    Most helpers end within microseconds of the caller, and waking up takes ten times as long. So
    the caller adds numbers up for a while, unless other callers want the cores.
    """
    for _ in range(WAITING_ROUNDS):
        if len(job.ended) == begun:
            return
        if len(pool.callers) > 1:
            break
        np.add(WAITING_WORK, 1, WAITING_WORK)
    job.done.get()


def run_side_by_side(
    sharing: Callable[[Callable[[], Any], int], None], *calls: tuple[Any, tuple[Any, ...], Any]
) -> list[Any]:
    """Returns the results of independent regions and products, shared among threads at once.

    A thread that finds nothing left of one goes on with the next. So threads wait only at the end.

    Args:
        sharing: shares work among at most a number of threads, as `share` does.
        calls: for each the run of a region or a product, its operands, and memory for its results.
    """
    begun = [run.begun(operands, into) for run, operands, into in calls]

    def work_through() -> None:
        for _, work in begun:
            work()

    # Threads that call a BLAS with threads of its own slow each other down.
    sharing(work_through, 1 if controlled() is None else threads.number)
    return [run.finished(out) for (run, *_), (out, _) in zip(calls, begun, strict=True)]
