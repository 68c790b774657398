"""The version of PyTorch whose names are here: ``torch.version``.

The local part of the version says that it is not PyTorch itself.
"""

from __future__ import annotations

from .torch_version import TorchVersion

__all__ = ["__version__", "cuda", "debug", "hip"]

__version__ = TorchVersion("2.13.0+functensor")
debug = False
# Nothing here was built for a version of CUDA or ROCm; the CUDA that CuPy brings is used.
cuda = None
hip = None
