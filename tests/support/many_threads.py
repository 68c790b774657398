"""Runs CUDA kernels on the CPU with all threads of their blocks, one block after the other.

A thread of the CPU stands for each of a block's. Barriers stand for what waits for a block, or for
a warp, so that folds over warps and blocks do what they do on a GPU.
"""

import ctypes
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from .one_thread import COMPILER, HALF, HEAD, by_value

ALONE = "static place threadIdx, blockIdx;"
TOGETHER = """
#include <barrier>
#include <memory>
#include <thread>
#include <vector>
static thread_local place threadIdx;
static place blockIdx, blockDim, gridDim;
static unsigned int layers = 1;
extern "C" void set_layers(unsigned int count) { layers = count; }
static std::unique_ptr<std::barrier<>> block;
static std::vector<std::unique_ptr<std::barrier<>>> warps;
static unsigned char passed[1024][16];

template <typename T> T __shfl_xor_sync(unsigned int, T value, int offset) {
    auto &warp = *warps[threadIdx.x / 32];
    T other;
    memcpy(passed[threadIdx.x], &value, sizeof(T));
    warp.arrive_and_wait();
    memcpy(&other, passed[threadIdx.x ^ offset], sizeof(T));
    warp.arrive_and_wait();
    return other;
}

template <typename T> T __shfl_sync(unsigned int, T value, int lane) {
    auto &warp = *warps[threadIdx.x / 32];
    T other;
    memcpy(passed[threadIdx.x], &value, sizeof(T));
    warp.arrive_and_wait();
    memcpy(&other, passed[threadIdx.x / 32 * 32 + lane], sizeof(T));
    warp.arrive_and_wait();
    return other;
}

static unsigned int __float_as_uint(float value) {
    unsigned int word;
    memcpy(&word, &value, 4);
    return word;
}

static float __uint_as_float(unsigned int word) {
    float value;
    memcpy(&value, &word, 4);
    return value;
}

template <typename F>
void on_blocks(unsigned int columns, unsigned int rows, unsigned int count, F run) {
    blockDim = {count, 1, 1};
    gridDim = {columns, rows, layers};
    for (unsigned int y = 0; y < rows * layers; ++y)
        for (unsigned int x = 0; x < columns; ++x) {
            blockIdx = {x, y % rows, y / rows};
            block = std::make_unique<std::barrier<>>(count);
            warps.clear();
            for (unsigned int w = 0; w < count; w += 32)
                warps.push_back(std::make_unique<std::barrier<>>(32));
            std::vector<std::thread> threads;
            for (unsigned int t = 0; t < count; ++t)
                threads.emplace_back([=] {
                    threadIdx = {t, 0, 0};
                    run();
                });
            for (auto &thread : threads) thread.join();
        }
}
"""


class Compiled:
    """Kernels as functions of the CPU.

    Args:
        text: their text, with what it includes.
        kernels: the kernels.
    """

    def __init__(self, text, kernels):
        waits = "#define __syncthreads()"
        head = HEAD.replace(ALONE, TOGETHER).replace(waits, f"{waits} block->arrive_and_wait()")
        runs = "".join(map(run_of, kernels))
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
            source.write_text(head + HALF.sub("", text) + runs)
            words = [COMPILER, "-std=c++20", "-O1", "-ffp-contract=off", "-fwrapv", "-w"]
            words += ["-pthread", "-fPIC", "-shared", source, "-o", library]
            subprocess.run(words, check=True)
            self.library = ctypes.CDLL(str(library))

    def launch(self, kernel, given):
        """Runs a kernel's blocks.

        Args:
            kernel: the kernel.
            given: an array, or NumPy's scalar, for each of its arguments.
        """
        columns, rows = [*kernel.blocks, 1][:2]
        arguments = [
            ctypes.c_void_p(x.ctypes.data) if isinstance(x, np.ndarray) else by_value(x)
            for x in given
        ]
        getattr(self.library, f"run_{kernel.name}")(columns, rows, kernel.threads, *arguments)


def run_of(kernel):
    """Returns the text of a function that runs a kernel's blocks."""
    parameters = re.search(rf"{kernel.name}\((.*)\) \{{", kernel.text)[1]
    names = re.findall(r"(\w+)(?:, |$)", parameters)
    call = f"{kernel.name}({', '.join(names)})"
    return (
        f'extern "C" void run_{kernel.name}(unsigned int columns, unsigned int rows, '
        f"unsigned int count, {parameters}) {{\n"
        f"    on_blocks(columns, rows, count, [=] {{ {call}; }});\n}}\n"
    )
