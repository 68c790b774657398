"""Convolutions and pools outside of plans, by machine code where that is quicker than NumPy.

NumPy computes the first calls with operands of some shapes. Once these have taken a while, a thread
that nobody waits for compiles a kernel. Its first calls are compared with those before it, and the
quicker way stays. Results of convolutions then differ by rounding alone, those of pools in nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ....native.background import later_for
from ....native.machine import in_step, why_not
from ..threads.pool import threads

if TYPE_CHECKING:
    from ....annotations import Buffer, DType, Shape
    from ....native.background import BackgroundJob

__all__ = ["EagerKernel", "eager_kernel"]

# So many are known at once.
MOST_KERNELS = 512
# NumPy computes one for so long, in seconds, and so often, before its kernel is compiled. Those of
# shapes that change from call to call are not worth it.
SECONDS_BEFORE_COMPILING, CALLS_BEFORE_COMPILING = 0.005, 3
# The calls of each way whose shortest times are compared.
COMPARED_CALLS = 8
# The modules and the functions that make runs. These take the name of the primitive, the shapes of
# operands and result, the dtype and the parameters. A run takes the operands, and a word that gets
# the numbers of floating-point exceptions.
OF_CONVOLUTIONS = ".eager_convolutions", "telling_convolution"
OF_POOLS = ".channel_pools", "pool_run"
MAKERS = {
    **dict.fromkeys(("conv", "conv_input_grad", "conv_kernel_grad"), OF_CONVOLUTIONS),
    **dict.fromkeys(("max_pool", "max_pool_argmax", "pool_scatter"), OF_POOLS),
}


class EagerKernel:
    """Computes a primitive of operands of some shapes by the quicker of two ways.

    Attributes:
        run: the run by machine code; None where there is none.
        decided: whether it stays so.

    Args:
        name: the name of the primitive.
        params: its parameters.
    """

    def __init__(self, name: str, params: Mapping[str, Any]) -> None:
        self.run: Callable[..., Any] | None = None
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

    def __call__(self, kernel: Callable[..., Any], operands: tuple[Buffer, ...]) -> Any:
        """Returns the result.

        Args:
            kernel: computes it by NumPy.
            operands: the operands.
        """
        run = self.run
        if run is None:
            if self.decided:
                return kernel(*operands, **self._params)
            begun = perf_counter()
            out = kernel(*operands, **self._params)
            self._note_numpy(perf_counter() - begun, (*operands, out))
            return out
        told = np.zeros(1, np.uint64)
        begun = perf_counter()
        out = run(*operands, told)
        if told[0] and set(np.geterr().values()) != {"ignore"}:
            # NumPy warns of what it finds, or raises it.
            return kernel(*operands, **self._params)
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
        enough = len(times) >= CALLS_BEFORE_COMPILING
        if waits or not enough or self._spent < SECONDS_BEFORE_COMPILING:
            return
        if why_not():
            self.decided = True
            return
        self._shapes = [x.shape for x in arrays]
        self._dtype = arrays[0].dtype
        self._job = later_for(self, EagerKernel.make)

    def make(self) -> None:
        """Makes the run by machine code, for the next call to take."""
        made = None
        try:
            # A fork waits for the end of a step: nobody could end an import in a child process.
            module, function = MAKERS[self._name]
            maker = getattr(in_step(import_module, module, __package__), function)
            made = maker(self._name, self._shapes, self._dtype, self._params)
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


kernels: dict[Any, EagerKernel] = {}


def eager_kernel(
    name: str, operands: tuple[Buffer, ...], params: Mapping[str, Any]
) -> EagerKernel:
    """Returns what computes a primitive of operands of some shapes outside of plans.

    Args:
        name: the name of the primitive.
        operands: the operands.
        params: its parameters.
    """
    shapes = [x.shape for x in operands]
    key = name, threads.number, operands[0].dtype.char, *shapes, *params.values()
    found = kernels.get(key)
    if found is None:
        if len(kernels) >= MOST_KERNELS:
            kernels.clear()
        found = kernels[key] = EagerKernel(name, params)
    return found
