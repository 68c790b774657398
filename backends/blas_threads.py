"""Control of BLAS's threads: one for small work, and while a plan's own threads share work.

NumPy's own BLAS is asked by its C functions, where it is an OpenBLAS that has them; elsewhere
nothing is shared that calls BLAS, since threads that start threads are slower than either.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, compress
from operator import call, not_
from pathlib import Path
from typing import Any

import numpy as np

from .restoring import Restoring, in_turn

__all__ = ["alone", "blas_libraries", "blas_name_and_threads", "controlled", "held"]

# The names of OpenBLAS's functions, with and without the marks of wheels.
OPENBLAS_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)


class Control:
    """Sets the threads of BLAS, and sets them back when nobody needs it any more."""

    def __init__(self, library: Any, name: str) -> None:
        # They keep Python's lock, so that nobody comes between the calls of `releasing`.
        number, nothing = ctypes.c_int, None
        self._set: Callable[[int], None] = ctypes.PYFUNCTYPE(nothing, number)(
            (name.format("set"), library)
        )
        self._get: Callable[[], int] = ctypes.PYFUNCTYPE(number)((name.format("get"), library))
        self._lock = threading.RLock()
        self._holders: set[object] = set()
        # The number of threads that it had before it was held to one.
        self._before: list[int] = []

    @property
    def held(self) -> bool:
        """Says whether BLAS is kept to one thread."""
        return bool(self._holders)

    def threads(self) -> int:
        """Returns how many threads BLAS may use now."""
        return int(self._get())

    def several(self) -> bool:
        """Says whether BLAS may use more than one thread where nobody keeps it to one.

        Who keeps it to one now may release it at any time.
        """
        for before in self._before:
            return before > 1
        return self._get() > 1

    @property
    def number(self) -> int:
        """The number of threads that BLAS has where nobody keeps it to one."""
        with self._lock:
            return self._before[0] if self._before else self._get()

    @number.setter
    def number(self, threads: int) -> None:
        with self._lock:
            if self._before:
                self._before[0] = threads
            else:
                self._set(threads)

    def hold(self, holder: object) -> None:
        """Keeps BLAS to one thread until the holder releases it."""
        with self._lock:
            # Whoever releases it meanwhile takes no lock. He finds this holder, and leaves the
            # number of threads where it is.
            self._holders.add(holder)
            if not self._before:
                self._before.append(self._get())
            self._set(1)

    def releasing(self, holder: object) -> Callable[[], Any]:
        """Returns a function of C that releases it. The last one gives BLAS its threads back."""
        held, before = self._holders, self._before
        threads = chain.from_iterable(compress((before,), map(not_, (held,))))
        forget = map(call, compress((before.clear,), map(not_, (held,))))
        set_back = map(self._set, threads)
        return in_turn(
            [partial(held.discard, holder), partial(deque, set_back, 0), partial(deque, forget, 0)]
        )

    def before_fork(self) -> None:
        """Waits until nobody else is within BLAS's functions, whose lock a child would wait for."""
        self._lock.acquire()

    def after_fork(self) -> None:
        """Lets others go on."""
        with suppress(RuntimeError):  # the control was found only meanwhile
            self._lock.release()

    def forget(self) -> None:
        """Gives BLAS its threads back in a child process, which has no holders."""
        self._lock = threading.RLock()
        self._holders.clear()
        self.releasing(None)()


def blas_libraries() -> Iterator[ctypes.CDLL]:
    """Yields the libraries of BLAS that NumPy's wheel has beside it."""
    folder = Path(np.__file__).parent
    for path in [*folder.parent.glob("numpy.libs/*openblas*"), *folder.glob(".dylibs/*openblas*")]:
        with suppress(OSError):
            yield ctypes.CDLL(str(path))


def find_control() -> Control | None:
    """Returns the control of NumPy's BLAS; None where it has none that is known."""
    for library in blas_libraries():
        for name in OPENBLAS_NAMES:
            if hasattr(library, name.format("set")) and hasattr(library, name.format("get")):
                return Control(library, name)
    return None


_control: list[Control | None] = []


def at_fork(method: Callable[[Control], None]) -> None:
    """Calls a method of the control, if one was found by then."""
    for control in _control:
        if control is not None:
            method(control)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=partial(at_fork, Control.before_fork),
        after_in_parent=partial(at_fork, Control.after_fork),
        after_in_child=partial(at_fork, Control.forget),
    )


def controlled() -> Control | None:
    """Returns the control of NumPy's BLAS, which is looked for once."""
    if not _control:
        _control.append(find_control())
    return _control[0]


class alone(Restoring):
    """Keeps BLAS to the threads that call it, for the length of a ``with`` block."""

    __slots__ = ("_control", "_holder")

    def __init__(self) -> None:
        self._control = controlled()
        self._holder = object()
        control = self._control
        self.close = bool if control is None else control.releasing(self._holder)

    def __enter__(self) -> Any:
        if self._control is not None:
            try:
                self._control.hold(self._holder)
            except BaseException:
                self.close()
                raise


def held() -> bool:
    """Says whether BLAS keeps to the threads that call it."""
    return bool(_control) and _control[0] is not None and _control[0].held


def blas_name_and_threads() -> tuple[str, int | None]:
    """Returns NumPy's BLAS, and how many threads it may use; None where it does not tell.

    >>> name, threads = blas_name_and_threads()
    >>> bool(name)
    True
    """
    built: Any = np.show_config(mode="dicts")
    library = built.get("Build Dependencies", {}).get("blas", {})
    name = f"{library.get('name', 'an unknown BLAS')} {library.get('version', '')}".strip()
    control = controlled()
    return name, None if control is None else control.threads()
