"""NVIDIA's compiler as a library, called directly: what compiles the kernels needs no GPU."""

import ctypes
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import NamedTuple

import pytest
from support.long_forms import only_long

# The distributions that bring it. That of CUDA 12 is the last to know sm_70.
DISTRIBUTIONS = ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc")
LIBRARY = re.compile(r"libnvrtc\.so\.\d+")
ARCHITECTURES = (70, 80, 90, 100)


class Made(NamedTuple):
    """The results of a compilation.

    Attributes:
        cubin: machine code; empty where the source is wrong.
        log: what the compiler says.
        names: how the machine code calls each of the instances that were asked for.
    """

    cubin: bytes
    log: str
    names: dict[str, str]

    @property
    def warnings(self):
        """The lines of the log that warn of more than an architecture's age."""
        lines = self.log.splitlines()
        return [x for x in lines if "warning" in x and "Architectures prior to" not in x]


@cache
def library():
    """Returns the library, or None where it is not installed."""
    for distribution in DISTRIBUTIONS:
        try:
            found = files(distribution) or []
        except PackageNotFoundError:
            continue
        for file in found:
            path = Path(file.locate())
            if LIBRARY.fullmatch(path.name) and path.exists():
                # It looks for its own second library beside what is loaded already.
                for builtins in path.parent.glob("libnvrtc-builtins.so*"):
                    ctypes.CDLL(str(builtins))
                loaded = ctypes.CDLL(str(path))
                loaded.nvrtcGetErrorString.restype = ctypes.c_char_p
                return loaded
    return None


def checked(status):
    """Raises what a call of the library failed with."""
    if status:
        raise RuntimeError(library().nvrtcGetErrorString(status).decode())


@cache
def architectures():
    """Returns the numbers of the architectures that the library compiles for."""
    count = ctypes.c_int()
    checked(library().nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    checked(library().nvrtcGetSupportedArchs(numbers))
    return list(numbers)


def text(program, size_of, copy):
    """Returns one of a program's texts, by the two functions that each of them has."""
    size = ctypes.c_size_t()
    checked(size_of(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    checked(copy(program, buffer))
    return buffer.raw


def compiled(source, architecture, options=(), instances=()):
    """Compiles a source to machine code for one architecture.

    Args:
        source: the text, without includes.
        architecture: a number, such as 90.
        options: more of the compiler's options.
        instances: instances of templates, as C++ spells them, that are to be made.
    """
    nvrtc, program = library(), ctypes.c_void_p()
    checked(
        nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None
        )
    )
    try:
        for instance in instances:
            checked(nvrtc.nvrtcAddNameExpression(program, instance.encode()))
        all_options = [f"--gpu-architecture=sm_{architecture}", *options]
        words = (ctypes.c_char_p * len(all_options))(*(word.encode() for word in all_options))
        status = nvrtc.nvrtcCompileProgram(program, len(all_options), words)
        log = text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
        log = log.rstrip(b"\0").decode().strip()
        if status:
            return Made(b"", log, {})
        names = {}
        for instance in instances:
            name = ctypes.c_char_p()
            checked(nvrtc.nvrtcGetLoweredName(program, instance.encode(), ctypes.byref(name)))
            names[instance] = name.value.decode()
        return Made(text(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN), log, names)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


needed = pytest.mark.skipif(
    library() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc-cu12"
)


def on_every_architecture(test):
    """Makes a test of the long form, which runs once with each ``architecture``."""
    known = [] if library() is None else architectures()
    cases = [
        pytest.param(
            number,
            id=f"sm_{number}",
            marks=pytest.mark.skipif(
                number not in known,
                reason=f"this NVRTC does not compile for sm_{number}; that of CUDA 12.9 does",
            ),
        )
        for number in ARCHITECTURES
    ]
    named = pytest.mark.parametrize("architecture", cases)(test)
    return needed(only_long(pytest.mark.long(named)))
