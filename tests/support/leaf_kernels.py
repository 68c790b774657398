"""Runs groups of regions on the CPU: memory of NumPy's stands for that of a GPU."""

import ctypes
from types import SimpleNamespace

import numpy as np

from . import many_threads
from .one_thread import by_value


class Buffer(np.ndarray):
    """Memory with the attributes of CuPy's arrays that launches ask for."""

    @property
    def data(self):
        """Where it lies."""
        return SimpleNamespace(ptr=self.ctypes.data)

    @property
    def _c_contiguous(self):
        return self.flags.c_contiguous


def buffer(x):
    """Returns a copy of an array as a buffer."""
    return np.array(x).view(Buffer)


class Launcher:
    """The kernels of groups, as functions of the CPU; it notes what is launched.

    Args:
        patch: pytest's ``monkeypatch``.
        runs: the runs of groups.
    """

    def __init__(self, patch, runs):
        from functensor.backends.cuda.launch import included
        from functensor.backends.cuda.plan import leaf_run
        from functensor.backends.cuda.plan.region_run import INCLUDES

        patch.setattr(leaf_run, "ndarray", Buffer)
        text = included(INCLUDES + "\n".join(run.text for run in runs))
        self.library = many_threads.Compiled(text, [run.kernel for run in runs]).library
        self.launched = []
        for run in runs:
            run.take(self)

    def get_function(self, name):
        """Returns what launches a kernel."""

        def launch(blocks, threads, arguments):
            self.launched.append((name, blocks))
            table, *rest = arguments

            class Table(ctypes.Structure):
                _fields_ = (("words", ctypes.c_ulonglong * (table.nbytes // 8)),)

            given = [Table.from_buffer_copy(table.tobytes()), *map(argument, rest)]
            getattr(self.library, f"run_{name}")(*blocks, 1, *threads, *given)

        return launch


def argument(x):
    """Returns an argument of C."""
    if isinstance(x, np.ndarray):
        return ctypes.c_void_p(x.ctypes.data)
    return ctypes.c_longlong(x) if isinstance(x, int) else by_value(x)
