"""The abilities of processors, as far as kernels that are compiled for them need them."""

from __future__ import annotations

import platform
from typing import NamedTuple

from ..processor import ARM

__all__ = ["InstructionSet", "NativeUnavailable", "known_set"]

# What LLVM calls the parts of x86-64-v3 and of AVX-512 that printed kernels need.
AVX2 = ("avx2", "fma", "f16c")
AVX512 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


class NativeUnavailable(ImportError):
    """Kernels cannot be compiled here; the message says why."""


class InstructionSet(NamedTuple):
    """The abilities of the processor.

    Attributes:
        name: ``AVX-512``, ``AVX2`` or ``NEON``.
        vector_bytes: the size of a vector register.
        processor: LLVM's name of the processor.
        features: LLVM's list of all features, those that it lacks with a minus.
        triple: LLVM's name of the platform.
    """

    name: str
    vector_bytes: int
    processor: str
    features: str
    triple: str


def known_set(processor: str, features: dict[str, bool], text: str, triple: str) -> InstructionSet:
    """Returns the instruction set of a processor.

    Raises:
        NativeUnavailable: kernels are not made for it.
    """
    if platform.machine().lower() in ARM:
        return InstructionSet("NEON", 16, processor, text, triple)
    if not all(features.get(name) for name in AVX2):
        raise NativeUnavailable(f"native code needs AVX2, which the processor ({processor}) lacks")
    if all(features.get(name) for name in AVX512):
        return InstructionSet("AVX-512", 64, processor, text, triple)
    return InstructionSet("AVX2", 32, processor, text, triple)
