"""CUDA kernels: templates in the ``.cu`` files of ``kernels``, compiled when first launched.

NVRTC compiles one instance of a template at a time, for the device at hand; CuPy keeps the result
on disk. A kernel's parameters are of four kinds only, so that a launch's arguments and the
source's declarations can be compared without a GPU: ``p`` a pointer, ``l`` a ``long long``, ``d`` a
``double``, ``t`` a table: a struct passed by value, as a NumPy array of one element.
"""

from __future__ import annotations

import re
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import cupy

from ..annotations import DType

__all__ = [
    "BLOCK_THREADS", "COMPILER_OPTIONS", "CUDA_KERNELS", "C_FLOATS", "SMALL_BLOCK_THREADS",
    "WIDEST_LOAD_BYTES", "Kernel", "c_type", "included", "is_contiguous", "source",
]  # fmt: skip

SOURCES = Path(__file__).with_name("kernels")
HEADERS = Path(__file__).with_name("include")
COMPILER_OPTIONS = ("-std=c++17",)
# The threads of a block. Some sources count on the 8 warps of the usual one; kernels that take many
# registers have the smaller one.
BLOCK_THREADS, SMALL_BLOCK_THREADS = 256, 128
# The bytes that one instruction loads or stores at most.
WIDEST_LOAD_BYTES = 16
# The bytes of dynamic shared memory that every block may have.
UNASKED_SHARED_BYTES = 48 * 1024
get_device = cupy.cuda.runtime.getDevice
INCLUDE = re.compile(r'^#include "(\w+\.cuh)"\n', re.MULTILINE)

# All kernels, for the test that compiles them.
CUDA_KERNELS: list[Kernel] = []

# The template's arguments, and the device where there are several.
InstanceKey: TypeAlias = str | tuple[str, int]

# The names of dtypes in kernels.
C_TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "float16": "half_t", "bfloat16": "bfloat16_t",
    "float32": "float", "float64": "double", "complex64": "complex_t<float>",
    "complex128": "complex_t<double>",
}  # fmt: skip

# The floats among them, by the character of the dtype.
C_FLOATS = {"f": "float", "d": "double", "e": "half_t", "E": "bfloat16_t"}
# Says whether an array's elements are in order and without gaps; asking its flags costs more.
is_contiguous = attrgetter(
    "_c_contiguous" if hasattr(cupy.ndarray, "_c_contiguous") else "flags.c_contiguous"
)


def c_type(dtype: DType) -> str:
    """Returns the name of a dtype in kernels."""
    return C_TYPES[dtype.name]


@cache
def source(family: str) -> str:
    """Returns the text of a family's file, with the headers that it includes put in."""
    return included((SOURCES / f"{family}.cu").read_text())


def included(text: str) -> str:
    """Returns a text with the headers that it includes put in, each once.

    CuPy's cache knows a kernel by its text alone, so that a header must be part of it.
    """
    seen: set[str] = set()

    def header(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return ""
        seen.add(name)
        inner = INCLUDE.sub(header, (HEADERS / name).read_text())
        return f"// begin {name}\n{inner}// end {name}\n"

    return INCLUDE.sub(header, text)


class Kernel:
    """One ``__global__`` template of a family, called to launch it on CuPy's current stream.

    Args:
        family: the name of its ``.cu`` file.
        name: its name there.
        parameters: a letter for each: ``p``, ``l``, ``d`` or ``t``.
        instances: the template's arguments for which CI compiles it, as texts ``"float, 4"``;
            ``""`` for a kernel that is no template.
    """

    __slots__ = ("family", "functions", "instances", "loaded", "name", "parameters")

    # True where there is one GPU: no launch has to ask which it is for.
    alone = False

    def __init__(
        self, family: str, name: str, parameters: str, instances: tuple[str, ...] = ("",)
    ) -> None:
        self.family = family
        self.name = name
        self.parameters = parameters
        self.instances = instances
        self.functions: dict[InstanceKey, Any] = {}
        self.loaded: dict[InstanceKey, Any] = {}
        CUDA_KERNELS.append(self)

    def __call__(
        self, types: str, grid: int | tuple[int, ...], block: int, *args: Any, shared: int = 0
    ) -> None:
        """Launches an instance.

        Args:
            types: the template's arguments.
            grid, block: the number of blocks, or up to three of them, and of a block's threads.
            args: CuPy arrays for pointers (0 for none), Python integers and floats, NumPy
                arrays for tables.
            shared: bytes of dynamic shared memory.
        """
        key = types if self.alone else (types, get_device())
        function = self.loaded.get(key) or self.load(types, key)
        if shared > UNASKED_SHARED_BYTES:
            self.allow(key, shared)
        function(grid if type(grid) is tuple else (grid,), (block,), args, shared)

    def expression(self, types: str) -> str:
        """Returns the name of an instance as C++ spells it."""
        return f"{self.name}<{types}>" if types else self.name

    def load(self, types: str, key: InstanceKey) -> Any:
        """Returns the compiled function of an instance on the current device."""
        expression = self.expression(types)
        module = cupy.RawModule(
            code=source(self.family), options=COMPILER_OPTIONS, name_expressions=(expression,)
        )
        function = self.functions[key] = module.get_function(expression)
        # This launches without looking up the device once more.
        launched = self.loaded[key] = function.kernel
        return launched

    def allow(self, key: InstanceKey, shared: int) -> None:
        """Lets an instance have more dynamic shared memory than every kernel may have."""
        function = self.functions[key]
        if function.max_dynamic_shared_size_bytes < shared:
            function.max_dynamic_shared_size_bytes = shared

    def __repr__(self) -> str:
        return f"<kernel {self.family}.{self.name}({self.parameters})>"
