"""Imports of packages, in a process that they may end; functensor is not imported there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from .distributions import installed_version, normal_name, requirement_of
from .finding import PRESENT, WRONG, Finding, first_line

__all__ = ["MODULES", "probes"]

# The modules of distributions that are not named like them.
MODULES = {
    "nvidia-cudnn-frontend": "cudnn",
    "opt-einsum": "opt_einsum",
    "scikit-learn": "sklearn",
}
TRYING = "is tried"


def module_name(name: str) -> str:
    """Returns the name of a distribution's module."""
    return MODULES.get(normal_name(name), name.replace("-", "_"))


def of_mpi() -> str:
    """Returns the library of MPI, which is not started."""
    mpi: Any = import_module("mpi4py")
    mpi.rc.initialize = False
    library = import_module("mpi4py.MPI").Get_library_version()
    return str(library).splitlines()[0].strip(" \0")


def of_llvm() -> str:
    """Returns the version of LLVM in llvmlite."""
    numbers = import_module("llvmlite.binding").llvm_version_info
    return f"LLVM {'.'.join(map(str, numbers))}"


# What is said of a package beside its version.
DETAILS: dict[str, Callable[[], str]] = {"mpi4py": of_mpi, "llvmlite": of_llvm}


def probe(name: str) -> Finding:
    """Returns whether an installed package can be imported, and the version that was."""
    found = installed_version(name)
    try:
        module = import_module(module_name(name))
        detail = DETAILS[name]() if name in DETAILS else ""
    # Packages raise whatever they like.
    except Exception as error:
        what = f"{found} cannot be imported: {first_line(error)}"
        return Finding("packages", name, WRONG, what, mended(name, error))
    imported = str(getattr(module, "__version__", found))
    shown = found or imported
    if found and name in ("numpy", "scipy") and imported != found:
        what = f"{imported} is imported, and its metadata says {found}"
        return Finding("packages", name, WRONG, what, again(name))
    return Finding("packages", name, PRESENT, ", ".join(filter(None, [shown, detail])))


def mended(name: str, error: Exception) -> str:
    """Returns pip's command for a package that raises an error when it is imported."""
    missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
    if missing and missing.partition(".")[0] != module_name(name):
        # Of a package that is there, pip brings what it needs and lacks.
        return f"pip install '{requirement_of(name) or name}'"
    return again(name)


def again(name: str) -> str:
    """Returns pip's command that installs a package anew, without those that it needs."""
    return f"pip install --force-reinstall --no-deps '{requirement_of(name) or name}'"


def probes(*names: str) -> Iterator[Finding]:
    """Yields for every distribution that it is tried, and then what came of it."""
    warnings.simplefilter("ignore")
    for name in names:
        yield Finding("packages", name, TRYING, "")
        yield probe(name)
