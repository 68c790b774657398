"""NVIDIA's driver, CuPy and the libraries beside it, and whether they fit each other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

from .distributions import (
    command_for,
    cupy_distributions,
    extras,
    installed_version,
    is_too_old,
    requirement_of,
)
from .finding import ABSENT, PRESENT, WRONG, Finding, first_line
from .trials import trials

__all__ = ["nvidia"]

# The first version of CUDA that compiles for no GPU older than this compute capability.
WITHOUT_OLD_GPUS, OLDEST_CAPABILITY = 13, 75
MENDED_BY_DRIVER = "install NVIDIA's driver: https://www.nvidia.com/drivers"


class Driver(NamedTuple):
    """The driver.

    Attributes:
        cuda: the newest version of CUDA that it supports, 12080 for 12.8; None without a driver.
        shown: the same in words, with its own version where it is known.
    """

    cuda: int | None
    shown: str


def of_nvidia_smi() -> tuple[str, int | None]:
    """Returns the driver's version and its CUDA's, as the program nvidia-smi tells them."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return "", None
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run([program], capture_output=True, text=True, timeout=30)
        own = re.search(r"Driver Version:\s*([\d.]+)", done.stdout)
        cuda = re.search(r"CUDA Version:\s*(\d+)\.(\d+)", done.stdout)
        number = 1000 * int(cuda.group(1)) + 10 * int(cuda.group(2)) if cuda else None
        return own.group(1) if own else "", number
    return "", None


def installed_driver() -> Driver:
    """Returns the driver, by its library or by nvidia-smi."""
    from ..backends.nvidia import driver_number, shown_cuda

    own, told = of_nvidia_smi()
    # Without its library there is no driver for a process, whatever the program says.
    cuda = driver_number() or told
    if cuda is None:
        return Driver(None, "no NVIDIA driver was found")
    return Driver(cuda, ", ".join(filter(None, [own, f"for CUDA up to {shown_cuda(cuda)}"])))


def fitting_extra(driver: Driver) -> str:
    """Returns the name of the extra that fits the driver."""
    from ..backends.nvidia import NEWEST_CUDA, OLDEST_CUDA

    major = NEWEST_CUDA if driver.cuda is None else driver.cuda // 1000
    return f"cuda{min(max(major, OLDEST_CUDA), NEWEST_CUDA)}"


def in_place_of(names: Sequence[str], driver: Driver) -> str:
    """Returns the command that takes CuPy off, and brings the one that fits the driver."""
    leave = f"pip uninstall -y {' '.join(names)}"
    if driver.cuda is None:
        return leave
    return f"{leave} && pip install 'functensor[{fitting_extra(driver)}]'"


def cuda_of(name: str) -> int | None:
    """Returns the major version of CUDA that a distribution of CuPy is for, None if unknown.

    >>> cuda_of("cupy-cuda12x"), cuda_of("cupy-cuda102"), cuda_of("cupy")
    (12, 10, None)
    """
    found = re.fullmatch(r"cupy-cuda(?:(\d+)x|(\d\d)\d)", name)
    return int(found.group(1) or found.group(2)) if found else None


def least_cupy() -> str:
    """Returns the oldest version of CuPy that the extras take."""
    every = [r for group in extras().values() for r in group]
    return next((r.least for r in every if r.name.startswith("cupy")), "")


def faults_of_packages(names: Sequence[str], driver: Driver) -> Iterator[Finding]:
    """Yields what does not fit about CuPy's distributions, before anything is imported."""
    from ..backends.nvidia import OLDEST_CUDA, shown_cuda

    def wrong(what: str, command: str) -> Finding:
        return Finding("NVIDIA", "cupy", WRONG, what, command)

    shown = [f"{name} {installed_version(name)}" for name in names]
    if len(names) > 1:
        what = f"{' and '.join(shown)} are both installed, and overwrite each other's files"
        yield wrong(what, in_place_of(names, driver))
        return
    (name,), (text,) = names, shown
    cuda, supported = cuda_of(name), driver.cuda
    if is_too_old(installed_version(name) or "", least_cupy()):
        yield wrong(f"{text} is older than {least_cupy()}", in_place_of(names, driver))
    elif supported is None:
        yield wrong(f"{text} is installed, but {driver.shown}", in_place_of(names, driver))
    elif supported // 1000 < OLDEST_CUDA:
        what = f"the driver supports CUDA {shown_cuda(supported)}, and {OLDEST_CUDA} is needed"
        yield Finding("NVIDIA", "driver", WRONG, what, MENDED_BY_DRIVER)
    elif cuda is not None and cuda > supported // 1000:
        what = f"{text} is for CUDA {cuda}, and the driver supports {shown_cuda(supported)}"
        yield wrong(what, in_place_of(names, driver))


def imported_cupy(names: Sequence[str]) -> tuple[Any, Finding]:
    """Returns the module ``cupy``, None if it cannot be imported, and what is said of it."""
    try:
        cupy = import_module("cupy")
        number = cupy.cuda.runtime.runtimeGetVersion()
    # A broken package raises whatever it likes.
    except Exception as error:
        name = names[0] if names else "cupy"
        wanted = requirement_of(name)
        command = f"pip install --force-reinstall '{wanted or name}'"
        return None, Finding("NVIDIA", "cupy", WRONG, first_line(error), command)
    from ..backends.nvidia import shown_cuda

    what = f"{' and '.join(names) or 'cupy'} {cupy.__version__}, runtime {shown_cuda(number)}"
    return cupy, Finding("NVIDIA", "cupy", PRESENT, what)


def libraries(cupy: Any, major: int | None, there: bool) -> Iterator[Finding]:
    """Yields the libraries beside CuPy; ``there`` says whether there is a driver."""
    from ..backends.nvidia import library_versions

    cuda = major or cupy.cuda.runtime.runtimeGetVersion() // 1000
    toolkit = f"pip install 'cupy-cuda{cuda}x[ctk]'"
    commands = {"nvrtc": toolkit, "toolkit": toolkit, "nccl": f"pip install nvidia-nccl-cu{cuda}"}
    for name, command in commands.items():
        try:
            yield Finding("NVIDIA", name, PRESENT, library_versions(name))
        except Exception as error:
            # Kernels are compiled by it, once there is a GPU.
            state = WRONG if name == "nvrtc" and there else ABSENT
            yield Finding("NVIDIA", name, state, first_line(error), command)


def found_gpus(cupy: Any, names: Sequence[str]) -> Iterator[Finding]:
    """Yields the GPUs that CuPy finds, or why it finds none."""
    from ..backends.nvidia import OLDEST_CUDA, gpus

    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    unset = "unset CUDA_VISIBLE_DEVICES" if hidden is not None else "nvidia-smi"
    why = f" (CUDA_VISIBLE_DEVICES={hidden})" if hidden is not None else ""
    try:
        found = gpus(cupy)
    except Exception as error:
        yield Finding("NVIDIA", "GPU", WRONG, f"{first_line(error)}{why}", unset)
        return
    if not found:
        yield Finding("NVIDIA", "GPU", WRONG, f"CuPy finds no GPU{why}", unset)
    cuda = cupy.cuda.runtime.runtimeGetVersion() // 1000
    for number, gpu in enumerate(found):
        shown = f"{gpu.name}, {gpu.memory / 2**30:.0f} GiB, compute capability "
        shown += f"{gpu.capability // 10}.{gpu.capability % 10}"
        name = f"cuda:{number}"
        if gpu.capability < OLDEST_CAPABILITY and cuda >= WITHOUT_OLD_GPUS:
            what = f"{shown}: CUDA {cuda} compiles nothing for it"
            command = f"pip uninstall -y {' '.join(names)} && "
            command += f"pip install 'functensor[cuda{OLDEST_CUDA}]'"
            yield Finding("NVIDIA", name, WRONG, what, command)
        else:
            yield Finding("NVIDIA", name, PRESENT, shown)


def cudnn(cupy: Any, there: bool) -> Finding:
    """Returns whether cuDNN is used.

    Args:
        cupy: the module; None if it does not work.
        there: whether there is a GPU.
    """
    version = installed_version("nvidia-cudnn-frontend")
    if version is None:
        what = "nvidia-cudnn-frontend is not installed"
        return Finding("NVIDIA", "cudnn", ABSENT, what, command_for("nvidia-cudnn-frontend"))
    if not there:
        return Finding("NVIDIA", "cudnn", ABSENT, f"front end {version}; no GPU uses it")
    from ..backends.nvidia import library_versions

    cuda = cupy.cuda.runtime.runtimeGetVersion() // 1000
    command = f"pip install nvidia-cudnn-cu{cuda}"
    try:
        what = library_versions("cudnn")
    except Exception as error:
        return Finding("NVIDIA", "cudnn", WRONG, first_line(error), command)
    if what.startswith("not used"):
        return Finding("NVIDIA", "cudnn", WRONG, what.partition("; pip ")[0], command)
    return Finding("NVIDIA", "cudnn", PRESENT, what)


def nvidia() -> Iterator[Finding]:
    """Yields what there is of NVIDIA's, each thing that does not fit, and the trials on GPUs."""
    warnings.simplefilter("ignore")
    driver = installed_driver()
    names = cupy_distributions()
    if driver.cuda is None:
        hint = f"for a GPU, {MENDED_BY_DRIVER}" if names else ""
        yield Finding("NVIDIA", "driver", ABSENT, driver.shown, hint)
    else:
        yield Finding("NVIDIA", "driver", PRESENT, driver.shown)
    with suppress(ImportError):
        # Without metadata a folder may still be importable.
        names = names or [import_module("cupy").__name__]
    if not names:
        command = f"pip install 'functensor[{fitting_extra(driver)}]'"
        yield Finding("NVIDIA", "cupy", ABSENT, "CuPy is not installed", command)
        yield cudnn(None, False)
        return
    cupy, said = imported_cupy(names)
    faults = list(faults_of_packages(names, driver))
    # A fault explains what an import raises.
    yield from faults or [said]
    if driver.cuda is not None and installed_version("ml_dtypes") is None:
        what = "ml_dtypes is not installed, and bfloat16 on a GPU needs it"
        yield Finding("NVIDIA", "bfloat16", WRONG, what, bare_command("ml_dtypes"))
    if cupy is None:
        return
    yield from libraries(cupy, cuda_of(names[0]), driver.cuda is not None)
    if driver.cuda is None:
        yield cudnn(cupy, False)
        return
    there = list(found_gpus(cupy, names))
    yield from there
    devices = [f.name for f in there if f.name.startswith("cuda:")]
    yield cudnn(cupy, bool(devices))
    mend = f"pip install 'cupy-cuda{cupy.cuda.runtime.runtimeGetVersion() // 1000}x[ctk]'"
    for device in devices:
        yield from trials(device, mend)


def bare_command(name: str) -> str:
    """Returns pip's command that brings a distribution alone."""
    return f"pip install '{requirement_of(name) or name}'"
