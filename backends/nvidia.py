"""Facts of NVIDIA's driver, GPUs and libraries, for where the backend of CuPy may not load."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from .cuda.driver import NEWEST_CUDA, OLDEST_CUDA, driver_number

__all__ = [
    "NEWEST_CUDA", "OLDEST_CUDA", "GpuFacts", "driver_number", "gpus", "library_versions",
    "shown_cuda",
]  # fmt: skip


class GpuFacts(NamedTuple):
    """A GPU that CuPy finds.

    Attributes:
        name: its name.
        capability: its compute capability, 90 for 9.0.
        memory: the bytes of its memory.
    """

    name: str
    capability: int
    memory: int


def shown_cuda(number: int) -> str:
    """Returns a version of CUDA as text.

    >>> shown_cuda(12080)
    '12.8'
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def gpus(cupy: Any) -> list[GpuFacts]:
    """Returns the GPUs that CuPy finds.

    Raises:
        CUDARuntimeError: there is no driver, or it refuses.
    """
    runtime = cupy.cuda.runtime
    found = []
    for number in range(runtime.getDeviceCount()):
        facts = runtime.getDeviceProperties(number)
        capability = 10 * facts["major"] + facts["minor"]
        found.append(GpuFacts(facts["name"].decode(), capability, facts["totalGlobalMem"]))
    return found


def nccl_version() -> str:
    """Returns the version of NCCL that CuPy has loaded."""
    from cupy.cuda import nccl

    if not nccl.available:
        raise ImportError("CuPy finds no libnccl")
    number = nccl.get_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def nvrtc_version() -> str:
    """Returns the version of the compiler of kernels that CuPy has loaded."""
    from cupy.cuda import nvrtc

    return "{}.{}".format(*nvrtc.getVersion())


def toolkit_folder() -> str:
    """Returns the folder of the toolkit that CuPy uses, or the packages that it is in."""
    from cupy.cuda import get_cuda_path

    folder = get_cuda_path()
    if folder is not None and Path(folder).is_dir():
        return str(folder)
    try:
        return f"cuda-toolkit {version('cuda-toolkit')}, in Python packages"
    except PackageNotFoundError:
        raise ImportError("no folder has it, and no package cuda-toolkit is installed") from None


def cudnn_versions() -> str:
    """Returns the versions of cuDNN and its front end, or why they are not used."""
    from .cuda import cudnn

    return cudnn.describe()


SHARED_LIBRARIES: dict[str, Callable[[], str]] = {
    "nvrtc": nvrtc_version, "toolkit": toolkit_folder, "nccl": nccl_version,
    "cudnn": cudnn_versions,
}  # fmt: skip


def library_versions(name: str) -> str:
    """Returns the version or the place of a library that CuPy uses.

    Args:
        name: ``nvrtc``, ``toolkit``, ``nccl`` or ``cudnn``; the last one needs a GPU.

    Raises:
        Exception: it is not there, or does not work.
    """
    return SHARED_LIBRARIES[name]()
