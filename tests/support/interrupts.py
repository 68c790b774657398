"""Ctrl-C at every place where CPython looks for it, one place after the other.

CPython handles signals where a function of Python begins, after it has called one of C, and where a
loop goes back. A handler of C code that sends the signal to itself again is called at each of these
places, and only there; at the one that is asked for it raises. So nothing is left to chance, and
nothing happens where it cannot.
"""

import _signal
import _thread
import io
from functools import partial
from itertools import chain, repeat
from operator import call

SIGNAL = _signal.SIGUSR1


def never():
    """Returns a generator, by which C code raises what it likes."""
    yield


class Handler(io.IOBase):
    """A signal's handler in C: ``__exit__`` calls ``close``, whatever it is given."""

    closed = True


def ran(work, place):
    """Runs some work with an interrupt at one place.

    Args:
        work: a function without arguments.
        place: which place, from 0.

    Returns:
        Whether the work came to its end, because there are fewer places.
    """
    return ran_with_error(work, place, KeyboardInterrupt)[1]


def ran_with_error(work, place, error):
    """Runs some work with an error of a signal's handler at one place.

    Args:
        work: a function without arguments.
        place: which place, from 0.
        error: the type of the error.

    Returns:
        Whether the error was raised, and whether the work came to its end.
    """
    again, raising = partial(_thread.interrupt_main, SIGNAL), never()
    steps = chain(repeat(again, place), [partial(raising.throw, error)], repeat(int))
    handler = Handler()
    handler.close = int
    _signal.signal(SIGNAL, handler.__exit__)
    whole = True
    try:
        handler.close = map(call, steps).__next__
        _thread.interrupt_main(SIGNAL)
        work()
        handler.close = int
    except error:
        whole = False
    finally:
        # An assignment is no such place.
        handler.close = int
    return raising.gi_frame is None, whole
