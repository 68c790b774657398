"""Runs groups of regions and products on the CPU: memory of NumPy's stands for that of a GPU."""

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
        return SimpleNamespace(ptr=self.ctypes.data, device_id=0)

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
        from functensor.backends.cuda.plan import joint_run, leaf_run, region_run

        for module in (joint_run, leaf_run, region_run):
            patch.setattr(module, "ndarray", Buffer)
        text = region_run.whole_text("\n".join(run.text for run in runs))
        self.library = many_threads.Compiled(text, [run.kernel for run in runs]).library
        self.launched = []
        for run in runs:
            run.take(self)

    def get_function(self, name):
        """Returns what launches a kernel."""

        def launch(blocks, threads, arguments):
            self.launched.append((name, blocks))
            given = map(argument, arguments)
            getattr(self.library, f"run_{name}")(*blocks, 1, *threads, *given)

        return launch


def argument(x):
    """Returns an argument of C; tables are passed by value."""
    if isinstance(x, np.ndarray) and x.dtype.kind == "V":

        class Table(ctypes.Structure):
            _fields_ = (("words", ctypes.c_ulonglong * (x.nbytes // 8)),)

        return Table.from_buffer_copy(x.tobytes())
    if isinstance(x, np.ndarray):
        return ctypes.c_void_p(x.ctypes.data)
    return ctypes.c_longlong(x) if isinstance(x, int) else by_value(x)
