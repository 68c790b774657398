"""One thread that does work which nobody waits for, such as the compilation of kernels.

It is started by the first job, and takes one after the other. Where the system allows it, it has a
lower priority than the threads that compute. A child process starts anew, without the jobs of its
parent. The end of the process does not wait for jobs; what must not be left in the middle guards
itself, as `machine` does.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeVar

__all__ = ["BackgroundJob", "later", "later_for"]

# What is added to the niceness of the thread that compiles; threads have their own on Linux.
NICENESS = 5
# Seconds that a thread waits at a time: Ctrl-C may have lost the sign that a job has ended.
ROUND = 0.1

Owner = TypeVar("Owner")


class BackgroundJob:
    """Work for the thread.

    Attributes:
        done: whether it has ended, or was dropped.
        error: what the work raised; None if it did not, or has not ended.
        dropped: whether it will never be done: its owner has died, or the process ends or was
            forked.
    """

    __slots__ = ("_ended", "_work", "done", "dropped", "error")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        # Has an entry once it is done, which whoever waits takes and puts back.
        self._ended: SimpleQueue[None] = SimpleQueue()
        self.done = False
        self.error: BaseException | None = None
        self.dropped = False

    @property
    def begun(self) -> bool:
        """Says whether its work has begun, or was dropped."""
        return self._work is None

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has ended, so many seconds at most; returns whether it has."""
        end = None if timeout is None else monotonic() + timeout
        while not self.done:
            left = ROUND if end is None else min(ROUND, end - monotonic())
            if left <= 0:
                break
            with suppress(Empty):
                self._ended.get(timeout=left)
                self._ended.put(None)
        return self.done

    def run(self) -> None:
        """Does the work, and keeps what it raises."""
        work, self._work = self._work, None
        try:
            if work is not None:
                work()
        except BaseException as error:
            # The frames of a traceback hold arrays.
            self.error = error.with_traceback(None)
        del work
        self.end()

    def drop(self) -> None:
        """Ends it without doing it."""
        self._work = None
        self.dropped = True
        self.end()

    def end(self) -> None:
        """Lets those go on who wait."""
        self.done = True
        self._ended.put(None)


class Worker:
    """The thread and its jobs.

    Ctrl-C comes between any two lines of the main thread. So nothing here is locked that it would
    leave locked: queues of C, and a lock whose block ends in C.
    """

    def __init__(self) -> None:
        self.jobs: deque[BackgroundJob] = deque()
        self.running: BackgroundJob | None = None
        self.closed = False
        self._there: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        # It may be taken twice: whatever dies under it may ask for a job.
        self._lock = threading.RLock()

    def add(self, job: BackgroundJob) -> None:
        """Takes a job, and starts the thread with the first one."""
        self.jobs.append(job)
        self._there.put(None)
        if self.closed:
            self.drop_all()
        else:
            self.start()

    def start(self) -> None:
        """Starts the thread, where it does not run: Ctrl-C may have come before it did."""
        if self._thread is not None and self._thread.is_alive():
            return
        thread = threading.Thread(target=self.work, name="functensor-background", daemon=True)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = thread
                try:
                    thread.start()
                except RuntimeError:  # no thread can be started any more
                    self.close()

    def work(self) -> None:
        """Does one job after the other."""
        be_nice()
        while True:
            self._there.get()
            if self._thread is not threading.current_thread():
                # It ran later than Ctrl-C let anybody see, and another one has its place.
                self._there.put(None)
                return
            # One sign may stand for several jobs, where Ctrl-C came before that of one, and for
            # none, where all were dropped.
            with suppress(IndexError):
                while True:
                    # A fork finds a job in one of the two at every moment.
                    self.running = self.jobs[0]
                    job = self.running = self.jobs.popleft()
                    # Not `running`: a thread that gets this one's place just now sets that, too.
                    job.run()
                    # What belongs to the job is freed before the thread waits for the next one.
                    self.running = None
                    del job

    def close(self) -> None:
        """Drops what has not begun, and takes nothing more."""
        self.closed = True
        self.drop_all()

    def drop_all(self) -> None:
        """Drops what has not begun."""
        with suppress(IndexError):
            while True:
                self.jobs.popleft().drop()


def be_nice() -> None:
    """Gives this thread a lower priority, where a thread has its own."""
    if sys.platform == "linux":
        with suppress(OSError):
            thread = threading.get_native_id()
            given = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(given + NICENESS, 19))


worker = Worker()


def renew_after_fork() -> None:
    """Gives a child process a worker of its own, and drops the jobs of its parent."""
    global worker
    before, worker = worker, Worker()
    for job in [before.running, *before.jobs]:
        # The running one may have ended, and its thread not have said so.
        if job is not None and not job.done:
            job.drop()


def at_exit() -> None:
    """Lets no more jobs begin."""
    worker.close()


atexit.register(at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=renew_after_fork)


def later(work: Callable[[], Any]) -> BackgroundJob:
    """Returns a job that does some work in the thread, after those that were asked for before.

    It may be called anywhere. What the work raises is kept in the job, and the thread goes on.

    >>> job = later(lambda: 1 / 0)
    >>> job.wait(60), job.error
    (True, ZeroDivisionError('division by zero'))
    """
    job = BackgroundJob(work)
    worker.add(job)
    return job


def later_for(owner: Owner, work: Callable[[Owner], Any]) -> BackgroundJob:
    """Returns a job that calls a function with its owner, unless nobody else needs that any more.

    The owner is held weakly until the work begins.

    Args:
        owner: what the work is for.
        work: a function that does not hold the owner itself.
    """
    held = weakref.ref(owner)

    def work_for_owner() -> None:
        living = held()
        if living is None:
            job.dropped = True
        else:
            work(living)

    job = BackgroundJob(work_for_owner)
    worker.add(job)
    return job
