"""PyTorch's switches of the libraries below, where they mean something here.

>>> import functensor.torch as torch
>>> torch.backends.mps.is_available()
False
>>> import functensor.torch.backends.cudnn as cudnn
>>> cudnn is torch.backends.cudnn
True
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from ..backends.config import config
from ..faces.publish import publish
from .cuda import is_available

__all__ = ["cuda", "cudnn", "mps"]

# Programs import what is here as modules: see `deep_names`.
__path__: list[str] = []


class CublasSwitches:
    """``torch.backends.cuda.matmul``."""

    @property
    def allow_tf32(self) -> bool:
        """True if products of float32 matrices may round their factors to TF32, in this thread."""
        return config.matmul_precision == "tf32"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        config.matmul_precision = "tf32" if value else "highest"


class CudaSwitches:
    """``torch.backends.cuda``."""

    matmul = CublasSwitches()

    def is_built(self) -> bool:
        """Says whether CuPy is installed."""
        return find_spec("cupy") is not None


class CudnnSwitches:
    """``torch.backends.cudnn``.

    Attributes:
        enabled: of no effect: cuDNN is used where the extra ``cudnn`` is installed.
    """

    enabled = True

    @property
    def benchmark(self) -> bool:
        """True if large operations on the CPU take the way that was quicker in trials.

        On a GPU a convolution's way is chosen when its shapes are first met.
        """
        return config.benchmark

    @benchmark.setter
    def benchmark(self, value: bool) -> None:
        config.benchmark = bool(value)

    @property
    def deterministic(self) -> bool:
        """True if results on a GPU are the same bits in every run, in this thread."""
        return config.deterministic

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        config.deterministic = bool(value)

    def is_available(self) -> bool:
        """Says whether convolutions on a GPU are cuDNN's."""
        return is_available() and find_spec("cudnn") is not None


class MetalSwitches:
    """``torch.backends.mps``: there is no backend for Apple's GPUs."""

    def is_available(self) -> bool:
        """Returns False."""
        return False

    def is_built(self) -> bool:
        """Returns False."""
        return False


cuda: Any = CudaSwitches()
cudnn = CudnnSwitches()
mps = MetalSwitches()

publish(globals())
