"""Runs CUDA kernels on the CPU, one thread at a time: g++ compiles their text as C++.

Blocks have one thread here, so that reductions over warps and blocks have nothing to do.
"""

import ctypes
import re
import shutil
import subprocess
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

COMPILER = shutil.which("g++")
HEAD = """
#include <cmath>
#include <cstring>
#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __shared__ static
#define __syncthreads()
struct place { unsigned int x, y, z; };
static place threadIdx, blockIdx;
struct half_t {
    union {
        _Float16 held;
        unsigned short bits;
    };
    half_t() = default;
    half_t(float value) : held(value) {}
    operator float() const { return held; }
};
struct bfloat16_t {
    unsigned short bits;
    bfloat16_t() = default;
    bfloat16_t(float value) {
        unsigned int word;
        memcpy(&word, &value, 4);
        bits = value != value ? (word >> 16) | 0x40 : (word + 0x7fff + ((word >> 16) & 1)) >> 16;
    }
    operator float() const {
        unsigned int word = (unsigned int)bits << 16;
        float value;
        memcpy(&value, &word, 4);
        return value;
    }
};
extern "C" void at(unsigned int x, unsigned int y) { blockIdx = {x, y, 0}; }
"""
HALF = re.compile(r"// begin half\.cuh\n.*?// end half\.cuh\n", re.DOTALL)
REDUCTION = re.compile(
    r"template <typename T, typename F>\s*__device__ __forceinline__ T (\w+_reduce)\((.*?)\) \{"
    r".*?\n\}\n",
    re.DOTALL,
)


class Compiled:
    """Kernels as functions of the CPU.

    Args:
        text: their text, with what it includes.
    """

    def __init__(self, text):
        alone = r"template <typename T, typename F> T \1(\2) { return value; }\n"
        text = REDUCTION.sub(alone, HALF.sub("", text))
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
            source.write_text(HEAD + text)
            words = [COMPILER, "-std=c++17", "-O1", "-ffp-contract=off", "-fwrapv", "-w"]
            subprocess.run([*words, "-fPIC", "-shared", source, "-o", library], check=True)
            self.library = ctypes.CDLL(str(library))

    def launch(self, kernel, given):
        """Runs a kernel's blocks, one after the other.

        Args:
            kernel: the kernel.
            given: an array, or NumPy's scalar, for each of its arguments.
        """
        assert kernel.threads == 1
        function = getattr(self.library, kernel.name)
        arguments = [
            ctypes.c_void_p(x.ctypes.data) if isinstance(x, np.ndarray) else by_value(x)
            for x in given
        ]
        for block in product(*map(range, kernel.blocks)):
            self.library.at(*block, *[0] * (2 - len(block)))
            function(*arguments)


def by_value(number):
    """Returns NumPy's scalar as an argument of C."""
    return np.ctypeslib.as_ctypes_type(number.dtype)(number.item())
