"""Jobs that threads do ahead of time; results come in the order of the jobs.

The threads know queues alone, and not the iterator that its user holds. When that one is dropped,
its ``finally`` ends them. Queues and locks are those of C, in which no Ctrl-C comes.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

from ..backends.restoring import in_turn
from ..primitives.core.errors import failure

__all__ = ["END_OF_BATCHES", "in_this_thread", "in_threads"]

# The result of a job where there is nothing left.
END_OF_BATCHES = object()

Step = Callable[[Any], Any]


def in_this_thread(jobs: Iterator[Any], take: Step, work: Step) -> Iterator[Any]:
    """Yields the results of jobs, each done when it is asked for."""
    for job in jobs:
        taken = take(job)
        if taken is END_OF_BATCHES:
            return
        yield work(taken)


def in_threads(
    jobs: Iterator[Any],
    take: Step,
    work: Step,
    *,
    threads: int,
    depth: int,
    one_reads: bool,
    timeout: float | None,
    begin: Callable[[int], Any],
) -> Iterator[Any]:
    """Yields the results of jobs, in their order, that threads do ahead of time.

    Args:
        jobs: the jobs; they are gone through in the caller's thread.
        take: makes of a job what the work needs, or `END_OF_BATCHES`.
        work: does it.
        threads: how many threads there are, until the jobs end or nobody asks for results.
        depth: how many results there are ahead of the one that is asked for.
        one_reads: whether jobs are taken one after the other.
        timeout: how many seconds a result is waited for.
        begin: is called by each thread with its number.

    Raises:
        RuntimeError: a result is not there in time. What a job raises is raised here.
    """
    tasks: SimpleQueue[Any] = SimpleQueue()
    over: list[bool] = []
    turn = Lock() if one_reads else nullcontext()
    crew = [
        Thread(
            target=copy_context().run,
            args=(serve, tasks, over, turn, take, work, begin, number),
            name=f"functensor-data-{number}",
            daemon=True,
        )
        for number in range(threads)
    ]
    waiting: deque[SimpleQueue[Any]] = deque()
    started: SimpleQueue[BaseException | None] = SimpleQueue()
    # In C, so that no Ctrl-C comes between.
    dismiss = in_turn([partial(over.append, True), *[partial(tasks.put, None)] * threads])
    try:
        start_new_thread(start_all, (crew, started))
        if (error := started.get()) is not None:
            raise error
        while True:
            while len(waiting) < depth:
                job = next(jobs, END_OF_BATCHES)
                if job is END_OF_BATCHES:
                    break
                result: SimpleQueue[Any] = SimpleQueue()
                tasks.put((job, result))
                waiting.append(result)
            if not waiting:
                break
            try:
                done, *value = waiting.popleft().get(timeout=timeout)
            except Empty:
                raise failure(
                    RuntimeError,
                    f"DataLoader: no batch came within the timeout of {timeout} seconds",
                    fix="DataLoader(..., timeout=...) of more seconds, or a quicker dataset",
                ) from None
            if not done:
                raise value.pop()
            if value[0] is END_OF_BATCHES:
                break
            # Nothing here keeps the batch alive.
            yield value.pop()
    finally:
        dismiss()
    for thread in crew:
        thread.join()


def start_all(crew: list[Thread], started: SimpleQueue[BaseException | None]) -> None:
    """Starts threads, in one of its own: Ctrl-C within ``Thread.start`` leaves locks behind."""
    try:
        for thread in crew:
            thread.start()
    except BaseException as error:
        started.put(error)
    else:
        started.put(None)


def serve(
    tasks: SimpleQueue[Any],
    over: list[bool],
    turn: Any,
    take: Step,
    work: Step,
    begin: Callable[[int], Any],
    number: int,
) -> None:
    """Does tasks until there is None, or they are over."""
    failed: list[BaseException] = []
    try:
        begin(number)
    except BaseException as error:
        failed.append(error)
    while serve_one(tasks, over, turn, take, work, failed):
        continue


def serve_one(
    tasks: SimpleQueue[Any],
    over: list[bool],
    turn: Any,
    take: Step,
    work: Step,
    failed: list[BaseException],
) -> bool:
    """Does one task, and says whether there was one; nothing of it is kept."""
    with turn:
        task = tasks.get()
        if task is None or over:
            return False
        job, result = task
        try:
            if failed:
                raise failed[0]
            taken = take(job)
        except BaseException as error:
            result.put((False, error))
            return True
    try:
        done = (True, taken if taken is END_OF_BATCHES else work(taken))
    except BaseException as error:
        done = (False, error)
    result.put(done)
    return True
