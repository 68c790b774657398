"""The GPU's driver: the reason why a process cannot use it, and the command that helps."""

from __future__ import annotations

import ctypes
import ctypes.util
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from ..messages import message
from ..protocol import BackendUnavailable

__all__ = ["NEWEST_CUDA", "OLDEST_CUDA", "driver_number", "driver_version", "imported"]

# The oldest and the newest major version of CUDA that there is an extra for.
OLDEST_CUDA, NEWEST_CUDA = 12, 13


def driver_number() -> int | None:
    """Returns the version of CUDA that the machine's driver supports, 12080 for 12.8, or None."""
    name = ctypes.util.find_library("cuda") or "libcuda.so.1"
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return None
    version = ctypes.c_int()
    return version.value if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def driver_version() -> int | None:
    """Returns the major version of CUDA that the machine's driver supports, None without one."""
    number = driver_number()
    return None if number is None else number // 1000


def distribution_of_cupy() -> str:
    """Returns the name under which CuPy was installed; its own where that cannot be told."""
    for name in (f"cupy-cuda{major}x" for major in range(OLDEST_CUDA, NEWEST_CUDA + 1)):
        try:
            return str(distribution(name).metadata["Name"])
        except PackageNotFoundError:
            continue
    return "cupy"


def gpu_remedy(version: int | None, installed: str = "") -> str:
    """Returns the remedy, by the driver's version and the distribution that brought CuPy."""
    if version is None:
        return (
            f"pip install 'functensor[cuda{NEWEST_CUDA}]' on a machine with an NVIDIA GPU; no "
            "driver of one was found here"
        )
    major = min(max(version, OLDEST_CUDA), NEWEST_CUDA)
    command = f"pip install 'functensor[cuda{major}]'"
    if installed == f"cupy-cuda{major}x":
        return (
            "see that nvidia-smi lists a GPU and that CUDA_VISIBLE_DEVICES hides none; the driver "
            f"and {installed} are both for CUDA {major}"
        )
    if installed:
        command = f"pip uninstall {installed}; {command}"
    return f"{command}, since this machine's driver is for CUDA {version}"


def unavailable(what: str, installed: str = "") -> BackendUnavailable:
    """Returns the error for arrays that cannot be on a GPU."""
    fix = gpu_remedy(driver_version(), installed)
    return BackendUnavailable(message(what, fix=fix, number=17))


def imported() -> Any:
    """Returns the module ``cupy``, once it is known that there is a GPU to use it with.

    Raises:
        BackendUnavailable: CuPy is not installed, or finds no GPU.
    """
    try:
        import cupy
    except ImportError as error:
        raise unavailable("arrays on a GPU need CuPy, which cannot be imported") from error
    try:
        if cupy.cuda.runtime.getDeviceCount() > 0:
            return cupy
        reason = "there is none"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        reason = str(error)
    name = distribution_of_cupy()
    found = f"CuPy is installed ({name} {cupy.__version__}), but finds no GPU: {reason}"
    raise unavailable(found, name)
