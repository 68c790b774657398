"""Runs an example without machine code; prints a digest of all values that leave functensor.

    python values_of_an_example.py EXAMPLE.py none|identity [arguments of the example]

Behind the digest stand the number of the values, and how often the identity hook was called.
"""

import contextlib
import hashlib
import io
import runpy
import sys
from pathlib import Path

import numpy

import functensor as ft
from functensor.jitting import tiers

METHODS = ("__array__", "__float__", "__int__", "__format__", "__str__", "item", "tolist", "numpy")


class Leaving:
    """Adds up, in a hash, the bytes of values that Python or NumPy ask for."""

    def __init__(self):
        self.hash = hashlib.sha256()
        self.count = 0
        self.asked = False

    def watch(self, kind, name):
        plain = getattr(kind, name)

        def method(x, *args, **kwargs):
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if self.asked or caller.startswith("functensor."):
                return plain(x, *args, **kwargs)
            self.asked = True
            try:
                # An operation would be shown to the hook.
                value = ft.value(x)
                self.hash.update(numpy.ascontiguousarray(value._data).tobytes())
                self.count += 1
            finally:
                self.asked = False
            return plain(x, *args, **kwargs)

        setattr(kind, name, method)


class Identity(ft.hooks.Hook):
    """Returns what it is shown."""

    calls = 0

    def forward(self, op, inputs, output):
        self.calls += 1
        return output

    def backward(self, op, grad_inputs, grad_output):
        self.calls += 1
        return list(grad_inputs)


def main(path, hook, *arguments):
    leaving, identity = Leaving(), Identity()
    # It rounds otherwise, and would take over at a time of its own.
    tiers.SECONDS_BEFORE_COMPILING = float("inf")
    for kind in (ft.Array, ft.Tensor):
        for name in METHODS:
            if hasattr(kind, name):
                leaving.watch(kind, name)
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).parent))
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        if hook == "identity":
            stack.enter_context(ft.hooks.use(identity))
        runpy.run_path(path, run_name="__main__")
    print(leaving.hash.hexdigest(), leaving.count, identity.calls)


if __name__ == "__main__":
    main(*sys.argv[1:])
