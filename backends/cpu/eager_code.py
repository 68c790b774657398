"""Large primitives outside of plans, by machine code where that is quicker than NumPy.

A primitive of operands of some shapes and dtypes is a kind. NumPy computes its first calls. Once
these have taken a while, a thread that nobody waits for makes machine code. Both are timed, and the
quicker way stays. Results of both differ by rounding alone, and ``config.benchmark`` allows that.
Where they have the same bits they need no leave: those of pools always have, and those of
convolutions where BLAS adds up as the kernels do, which a trial on random numbers tells.
`eager_ways` has the primitives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import config
from ..restoring import quiet
from .blocks import order_in_memory
from .eager_ways import EAGER_WAYS

if TYPE_CHECKING:
    from ..annotations import Buffer, DType, Shape
    from ..native.background import BackgroundJob

__all__ = ["Kind", "by_machine_code", "kinds"]

# Calls of a kind take so long over NumPy, in seconds, before machine code is compiled, and are so
# many. Compiling takes a tenth of a second of another thread, and a tenth of that from the disk.
SECONDS_OVER_NUMPY, CALLS_OVER_NUMPY = 0.01, 4
# The calls of each way whose shortest times are compared.
CALLS_OF_EACH_WAY = 8
# Larger operands, in bytes, are not made for a trial.
LARGEST_TRIED_OPERAND = 1 << 27
# So many kinds are known at once.
MOST_KNOWN_KINDS = 512
FLOATS = "fd"
# Naming code needs these, and a trial.
NEEDED_BY_CODE = "hashlib", "numpy.random"


class _Inside(threading.local):
    """Knows of a thread that it computes a primitive of a kind, whose plan may call NumPy for it.

    Attributes:
        a_kind: whether it does now.
    """

    a_kind = False


inside = _Inside()


class Kind:
    """Computes a primitive of operands of some shapes and dtypes, by the quicker of two ways.

    Once machine code is there, both ways take turns for some calls, whose shortest times are
    compared.

    Args:
        name, operands, params: what the primitive is first called with.
        alike: the kernel whose bits results of machine code need; None for those of any rounding.

    Attributes:
        name: the name of the primitive.
        code: what computes it as machine code, once that is there: a function of the operands,
            which returns None where NumPy is to compute the result.
        settled: whether it is decided which way stays.
        job: the work that makes machine code; None before.
    """

    __slots__ = (
        *("__weakref__", "_alike", "_calls", "_orders", "_params", "_result", "_spent", "_times"),
        *("_types", "code", "job", "name", "settled"),
    )

    def __init__(
        self,
        name: str,
        operands: Sequence[Buffer],
        params: Mapping[str, Any],
        alike: Callable[..., Any] | None = None,
    ) -> None:
        self.name = name
        self._types = [(x.shape, x.dtype) for x in operands]
        self._orders = [order_in_memory(x) for x in operands]
        self._alike = alike
        self._result: tuple[Shape, DType]
        self._params = dict(params)
        self._calls, self._spent = 0, 0.0
        # The times of calls over NumPy, and of those by machine code, which take turns.
        self._times: tuple[list[float], list[float]] = [], []
        self.code: Callable[[Sequence[Buffer]], Any] | None = None
        # A trial has operands without gaps.
        self.settled = alike is not None and not all(map(is_without_gaps, operands, self._orders))
        self.job: BackgroundJob | None = None

    def __repr__(self) -> str:
        shapes = [shape for shape, _ in self._types]
        return f"<{self.name} of {shapes} {'as machine code' if self.code else 'over NumPy'}>"

    def __call__(
        self, kernel: Callable[..., Any], operands: Sequence[Buffer], params: Mapping[str, Any]
    ) -> Any:
        """Returns the result, and looks whether there is a better way to the next one."""
        code, out = self.code, None
        if not self.settled and code is not None:
            numpy, other = self._times
            if len(numpy) < len(other):
                code = None
        begun = perf_counter()
        try:
            inside.a_kind = True
            if code is not None:
                out = code(operands)
            if out is None:
                out = kernel(*operands, **params)
        finally:
            inside.a_kind = False
        if not self.settled:
            self._note(perf_counter() - begun, code, out)
        return out

    def _note(self, took: float, code: Any, out: Buffer) -> None:
        """Notes the time of a call, and decides once there are enough of both ways."""
        numpy, other = self._times
        if self.code is not None:
            (numpy if code is None else other).append(took)
            if min(len(numpy), len(other)) >= CALLS_OF_EACH_WAY:
                self._settle(self.code if min(other) <= min(numpy) else None)
            return
        self._calls += 1
        self._spent += took
        waits = self.job is not None and not self.job.dropped
        enough = self._spent >= SECONDS_OVER_NUMPY and self._calls >= CALLS_OVER_NUMPY
        if enough and not waits:
            self._begin(out)

    def _begin(self, out: Buffer) -> None:
        """Has machine code made in the background, unless there is none here."""
        from ..native.background import later_for  # only where machine code is made
        from ..native.machine import why_not

        if why_not():
            self._settle(None)
        else:
            self._result = out.shape, out.dtype
            self.job = later_for(self, Kind.make)

    def make(self) -> None:
        """Makes machine code, for the next call to take."""
        from ..native.machine import in_step  # only where machine code is made

        code = None
        try:
            # In the child of a fork in the middle of an import nobody could import the modules.
            for module in NEEDED_BY_CODE:
                in_step(import_module, module)
            make = in_step(EAGER_WAYS[self.name].maker)
            made = make(self.name, [*self._types, self._result], self._params)
            if made is not None and (self._alike is None or self._is_alike(made, self._alike)):
                code = made
        finally:
            if code is None:
                self._settle(None)
            else:
                self.code = code

    def _is_alike(self, code: Callable[..., Any], kernel: Callable[..., Any]) -> bool:
        """Says whether machine code and a kernel make the same bits of random numbers."""
        random = np.random.default_rng(0)
        operands = []
        for (shape, dtype), order in zip(self._types, self._orders, strict=True):
            if prod(shape) * dtype.itemsize > LARGEST_TRIED_OPERAND:
                return False
            numbers = random.standard_normal([shape[i] for i in order]).astype(dtype)
            operands.append(numbers.transpose(np.argsort(order)))
        with quiet():
            found, expected = code(operands), kernel(*operands, **self._params)
        return found is not None and bool(found.tobytes() == expected.tobytes())

    def _settle(self, code: Any) -> None:
        self.code, self.settled = code, True


kinds: dict[Any, Kind] = {}


def is_without_gaps(x: Buffer, order: Sequence[int]) -> bool:
    """Says whether an array has no gaps in memory, whose axes lie in some order."""
    return bool(x.transpose(order).flags.c_contiguous)


def by_machine_code(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that does the same as a kernel, for large operands by machine code.

    The kernel computes all with ``config.deterministic``, and without ``config.benchmark`` all that
    differs.

    Args:
        name: the name of the primitive, one of `EAGER_WAYS`.
        kernel: computes it on buffers. Plans call this one: they become machine code as a whole.
    """
    way = EAGER_WAYS[name]
    free = way.exact or way.tried

    @wraps(kernel)
    def run(*operands: Any, **params: Any) -> Any:
        x = operands[0]
        if (
            type(x) is not np.ndarray
            or x.size < way.fewest
            or x.dtype.char not in FLOATS
            or inside.a_kind
            or not (free or config.benchmark)
            or config.deterministic
        ):
            return kernel(*operands, **params)
        key = way.key_of(name, operands, params)
        if key is None:
            return kernel(*operands, **params)
        alike = kernel if way.tried and not config.benchmark else None
        # What BLAS adds up, and how, depends on how operands lie in memory.
        strides = None if alike is None else tuple([x.strides for x in operands])
        key = key, alike, strides
        kind = kinds.get(key)
        if kind is None:
            if len(kinds) >= MOST_KNOWN_KINDS:
                kinds.clear()
            kind = kinds[key] = Kind(name, operands, params, alike)
        return kind(kernel, operands, params)

    run.wide = kernel  # type: ignore[attr-defined]
    return run
