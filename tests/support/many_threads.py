"""Runs CUDA kernels on the CPU with all threads of their blocks, one block after the other.

Threads of a block take turns on one thread of the CPU, each with a stack of its own. One goes on
until it waits for its block, or for its warp, so that folds over both do what they do on a GPU. A
warp goes on for as long as it can, far ahead of the others, so that a missing barrier is seen.
"""

import ctypes
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from .one_thread import COMPILER, HALF, HEAD, by_value

ALONE = "static place threadIdx, blockIdx;"
# Threads of a block take turns: each runs until it waits for others, or to its end.
TOGETHER = """
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>
#include <ucontext.h>
static place threadIdx, blockIdx, blockDim, gridDim;
static unsigned int layers = 1;
extern "C" void set_layers(unsigned int count) { layers = count; }
static const size_t stack_bytes = 1 << 18;
struct turn { ucontext_t state; bool ended; };
static std::unique_ptr<turn[]> turns;
static std::unique_ptr<char[]> stacks;
static ucontext_t home;
static unsigned int made, vain;

static bool found_among(unsigned int first, unsigned int count) {
    unsigned int own = threadIdx.x;
    for (unsigned int i = 1; i <= count; ++i) {
        threadIdx.x = first + (own - first + i) % count;
        if (!turns[threadIdx.x].ended && threadIdx.x != own) return true;
    }
    threadIdx.x = own;
    return false;
}

static bool next_turn() {
    unsigned int first = threadIdx.x / 32 * 32, left = blockDim.x - first;
    bool in_warp = vain <= 64 && found_among(first, left < 32 ? left : 32);
    return in_warp || found_among(0, blockDim.x);
}

static void give_way() {
    unsigned int own = threadIdx.x;
    if (++vain > 2 * blockDim.x + 64) {
        fprintf(stderr, "all threads wait for others\\n");
        abort();
    }
    if (next_turn()) swapcontext(&turns[own].state, &turns[threadIdx.x].state);
}

struct meeting {
    unsigned int expected, arrived = 0, over = 0;
    explicit meeting(unsigned int threads) : expected(threads) {}
    void arrive_and_wait() {
        unsigned int before = over;
        vain = 0;
        if (++arrived == expected) {
            arrived = 0;
            ++over;
        }
        while (over == before) give_way();
    }
};
static std::unique_ptr<meeting> block;
static std::vector<std::unique_ptr<meeting>> warps;
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

template <typename F> struct of_thread {
    static F *run;
    static void begin() {
        (*run)();
        turns[threadIdx.x].ended = true;
        vain = 0;
        setcontext(next_turn() ? &turns[threadIdx.x].state : &home);
    }
};
template <typename F> F *of_thread<F>::run;

template <typename F>
void on_blocks(unsigned int columns, unsigned int rows, unsigned int count, F run) {
    blockDim = {count, 1, 1};
    gridDim = {columns, rows, layers};
    of_thread<F>::run = &run;
    if (made < count) {
        turns.reset(new turn[count]);
        stacks.reset(new char[count * stack_bytes]);
        made = count;
    }
    for (unsigned int y = 0; y < rows * layers; ++y)
        for (unsigned int x = 0; x < columns; ++x) {
            blockIdx = {x, y % rows, y / rows};
            block = std::make_unique<meeting>(count);
            warps.clear();
            for (unsigned int w = 0; w < count; w += 32)
                warps.push_back(std::make_unique<meeting>(32));
            for (unsigned int t = 0; t < count; ++t) {
                turns[t].ended = false;
                getcontext(&turns[t].state);
                turns[t].state.uc_stack.ss_sp = &stacks[t * stack_bytes];
                turns[t].state.uc_stack.ss_size = stack_bytes;
                makecontext(&turns[t].state, of_thread<F>::begin, 0);
            }
            threadIdx = {0, 0, 0};
            swapcontext(&home, &turns[0].state);
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
            words = [COMPILER, "-std=c++17", "-O0", "-ffp-contract=off", "-fwrapv", "-w"]
            words += ["-fPIC", "-shared", source, "-o", library]
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
