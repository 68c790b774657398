"""Counts of what code does, in place of times, which a busy machine makes longer."""

import gc
import os
import sys
import tracemalloc
from contextlib import contextmanager
from unittest import mock

from functensor.backends.native.background import later


def lines_run(call):
    """Returns how many lines of Python a call runs, those of all that it calls included."""
    count = 0

    def inside(frame, event, arg):
        nonlocal count
        count += event == "line"
        return inside

    before = sys.gettrace()
    sys.settrace(lambda frame, event, arg: inside)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@contextmanager
def memory_traced():
    """Counts what is allocated within it, while no other thread compiles machine code."""
    with mock.patch.dict(os.environ, {"FUNCTENSOR_NATIVE": "0"}):
        assert later(int).wait(600), "the thread that compiles does not come to an end"
        gc.collect()
        tracemalloc.start()
        try:
            yield
        finally:
            tracemalloc.stop()


def peak_of(call):
    """Returns the most bytes that were allocated at one time while a call ran."""
    with memory_traced():
        call()
        return tracemalloc.get_traced_memory()[1]


def kept_of(call):
    """Returns the bytes that the result of a call holds."""
    with memory_traced():
        kept = call()
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        del kept
        return held
