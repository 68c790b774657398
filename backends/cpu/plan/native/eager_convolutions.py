"""Convolutions outside of plans, by the kernels of plans, where these are quicker than NumPy.

The first calls with operands of some shapes gather windows for BLAS. Once they have taken a while,
a thread that nobody waits for compiles a kernel. Its first calls are compared with those before it,
and the quicker way stays. Results of both differ by rounding alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ....native.background import later_for
from ....native.machine import in_step, why_not
from ..threads.pool import threads

if TYPE_CHECKING:
    from ....annotations import Buffer, DType, Shape
    from ....native.background import BackgroundJob
    from .sliding_runs import SlidingRun

__all__ = ["EagerConvolution", "eager_convolution"]

# So many are known at once.
MOST_CONVOLUTIONS = 512
# NumPy computes one for so long, in seconds, before its kernel is compiled.
SECONDS_BEFORE_COMPILING = 0.005
# The calls of each way whose shortest times are compared.
COMPARED_CALLS = 8


class OperandForm:
    """The type of an operand, in the form of which kernels are made."""

    weak: type | None = None

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)
        self.size = int(np.prod(shape))


class FormedOperand:
    """Stands for a variable of a program."""

    __slots__ = ("type",)
    device = "cpu"

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.type = OperandForm(shape, dtype)


class FormedEquation:
    """Stands for an equation of a program, with operands of some shapes and of one dtype.

    Args:
        name: the name of the primitive.
        shapes: those of the operands, and of the result.
        dtype: the dtype of all.
        params: the primitive's parameters.
    """

    line = ""

    def __init__(
        self, name: str, shapes: Sequence[Shape], dtype: DType, params: Mapping[str, Any]
    ) -> None:
        self.primitive = SimpleNamespace(name=name)
        *operands, out = [FormedOperand(shape, dtype) for shape in shapes]
        self.operands, self.outputs = operands, [out]
        self.params = params


class EagerConvolution:
    """Computes convolutions of operands of some shapes by the quicker of two ways.

    Attributes:
        run: the run by machine code; None where there is none.
        decided: whether it stays so.

    Args:
        name: the name of the primitive.
        params: its parameters.
    """

    def __init__(self, name: str, params: Mapping[str, Any]) -> None:
        self.run: SlidingRun | None = None
        self.decided = False
        self._name = name
        self._params = params
        self._shapes: list[Shape] = []
        self._dtype: DType
        self._job: BackgroundJob | None = None
        self._spent = 0.0
        # The times of NumPy's calls, and of those by machine code.
        self._times: tuple[list[float], list[float]] = [], []

    def __repr__(self) -> str:
        way = "NumPy" if self.run is None else "machine code"
        return f"<{self._name} of {self._shapes} by {way}>"

    def __call__(self, kernel: Callable[..., Any], x: Buffer, y: Buffer) -> Any:
        """Returns the result.

        Args:
            kernel: computes it by NumPy.
            x, y: the operands.
        """
        run = self.run
        if run is None:
            if self.decided:
                return kernel(x, y, **self._params)
            begun = perf_counter()
            out = kernel(x, y, **self._params)
            self._note_numpy(perf_counter() - begun, (x, y, out))
            return out
        told = np.zeros(1, np.uint64)
        begun = perf_counter()
        out = run(x, y, told)
        if told[0] and set(np.geterr().values()) != {"ignore"}:
            # NumPy warns of what it finds, or raises it.
            return kernel(x, y, **self._params)
        if not self.decided:
            self._note_code(perf_counter() - begun)
        return out

    def _note_numpy(self, took: float, arrays: Sequence[Buffer]) -> None:
        """Notes the time of a call, and has machine code made once all have taken a while."""
        times, _ = self._times
        del times[: 1 - COMPARED_CALLS]
        times.append(took)
        self._spent += took
        waits = self._job is not None and not self._job.dropped
        if waits or self._spent < SECONDS_BEFORE_COMPILING:
            return
        if why_not():
            self.decided = True
            return
        self._shapes = [x.shape for x in arrays]
        self._dtype = arrays[-1].dtype
        self._job = later_for(self, EagerConvolution.make)

    def make(self) -> None:
        """Makes the run by machine code, for the next call to take."""
        made = None
        try:
            equation = FormedEquation(self._name, self._shapes, self._dtype, self._params)
            # A fork waits for the end of a step, and not in the middle of an import.
            runs = in_step(import_module, ".convolution_runs", __package__)
            made = runs.telling_convolution(equation)
        finally:
            self.decided = made is None
            self.run = made

    def _note_code(self, took: float) -> None:
        """Notes the time of a call by machine code, and decides once there are enough."""
        numpy, code = self._times
        code.append(took)
        if len(code) >= COMPARED_CALLS:
            if min(code) > min(numpy):
                self.run = None
            self.decided = True


convolutions: dict[Any, EagerConvolution] = {}


def eager_convolution(
    name: str, x: Buffer, y: Buffer, params: Mapping[str, Any]
) -> EagerConvolution:
    """Returns what computes a convolution, or a derivative of one, outside of plans.

    Args:
        name: the name of the primitive.
        x, y: the operands.
        params: its parameters.
    """
    key = name, threads.number, x.dtype.char, x.shape, y.shape, *params.values()
    found = convolutions.get(key)
    if found is None:
        if len(convolutions) >= MOST_CONVOLUTIONS:
            convolutions.clear()
        found = convolutions[key] = EagerConvolution(name, params)
    return found
