"""The kernels of the cross entropy as functions of the CPU, with all threads of their blocks."""

import ctypes
from types import SimpleNamespace

import numpy as np

from . import gpu_memory, many_threads

# What the compiler of GPUs knows.
KNOWN = """
struct int4 { int x, y, z, w; };
struct float4 { float x, y, z, w; };
struct double2 { double x, y; };
struct uint4 { unsigned int x, y, z, w; };
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static double2 make_double2(double x, double y) { return {x, y}; }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
template <typename T> static void __stwb(T *to, T value) {
    if (reinterpret_cast<unsigned long long>(to) % sizeof(T)) __builtin_trap();
    *to = value;
}
static float __fadd_rn(float x, float y) { return x + y; }
static double __dadd_rn(double x, double y) { return x + y; }
static float __int_as_float(int bits) { return __uint_as_float((unsigned int)bits); }
static long long min(long long x, long long y) { return x < y ? x : y; }
static int __syncthreads_or(int x) {
    static int found;
    block->arrive_and_wait();
    if (threadIdx.x == 0) found = 0;
    block->arrive_and_wait();
    if (x) __atomic_store_n(&found, 1, __ATOMIC_RELAXED);
    block->arrive_and_wait();
    return found;
}
alignas(16) static int4 memory[1 << 12];
"""
EXACT = {"float": "float", "double": "double", "half_t": "float", "bfloat16_t": "float"}
THREADS = 64
# Of each kernel what its parameters are: a letter, or the type that a pointer is cast to.
KERNELS = {
    "LOSS": ("loss", "x:T labels out:T exact:A lllllll"),
    "LOSS_GRAD": ("loss_grad", "x:T loss:L g:T labels out:T lllllllll"),
    "LOSS_WITH_GRAD": ("loss_with_grad", "x:T labels out:T grad:T llllllll d"),
    "LOSS_AHEAD": ("ahead", "x:T labels loss:T exact:A out:T bets:A staked:A bias:T llllll"),
    "SETTLE_LOSS_GRAD": ("settle", "x:T labels exact:A g:T out:T bets:A staked:A llllll"),
}


class Kernel:
    """A kernel as a function of the CPU, compiled for each instance.

    Args:
        family: the file that has it.
        name: its name.
        parameters: as above.
    """

    def __init__(self, family, name, parameters):
        self.family, self.name = family, name
        self.parameters = parameters.split()
        self.libraries = {}
        self.launched = []

    def __call__(self, types, grid, block, *arguments, shared=0):
        """Runs an instance."""
        if types not in self.libraries:
            self.libraries[types] = self.compiled(types)
        self.launched.append((types, grid, block))
        columns, rows, layers = (*(grid if type(grid) is tuple else (grid,)), 1, 1)[:3]
        library = self.libraries[types]
        library.set_layers(layers)
        library.run_instance(columns, rows, block, *map(argument, arguments))

    def compiled(self, types):
        """Returns the library with an instance."""
        from functensor.backends.cuda.launch import source

        first, *others = types.split(", ")
        kinds = {"T": first, "A": EXACT.get(first), "S": others[0], "L": others[-1]}
        declared, given = [], []
        for x in self.parameters:
            name, _, kind = x.partition(":")
            if not kind and set(x) <= {"l", "d"}:
                for letter in x:
                    number = f"n{len(given)}"
                    declared.append(("long long " if letter == "l" else "double ") + number)
                    given.append(number)
                continue
            declared.append(f"const void *{name}")
            given.append(f"({kinds[kind]} *){name}" if kind else name)
        text = f'extern "C" __global__ void\ninstance({", ".join(declared)}) {{\n'
        text += f"    {self.name}<{types}>({', '.join(given)});\n}}\n"
        kernel = SimpleNamespace(name="instance", text=text)
        whole = source(self.family).replace("extern __shared__ int4 memory[];", "")
        return many_threads.Compiled(KNOWN + whole + text, [kernel]).library


def argument(x):
    """Returns an argument of C: a number, or the address of an array."""
    if isinstance(x, np.ndarray):
        return ctypes.c_void_p(x.ctypes.data)
    return ctypes.c_longlong(x) if isinstance(x, int) else ctypes.c_double(x)


def loss_kernels():
    """Returns the kernels of the cross entropy, by their names in its module."""
    return {key: Kernel("cross_entropy", *known) for key, known in KERNELS.items()}


def on_threads(monkeypatch, kernels):
    """Returns the module of the cross entropy, its kernels and memory being the CPU's."""
    from functensor.backends.cuda import row_layout
    from functensor.backends.cuda.kernels import cross_entropy

    limits = {"shared": 1 << 16, "shared_of_processor": 1 << 16, "processors": 3}
    monkeypatch.setattr(cross_entropy, "cupy", gpu_memory.cupy)
    monkeypatch.setattr(row_layout, "cupy", gpu_memory.cupy)
    monkeypatch.setattr(row_layout, "ndarray", gpu_memory.GpuArray)
    monkeypatch.setattr(cross_entropy, "copied_once", lambda: None)
    monkeypatch.setattr(cross_entropy, "limit", lambda name, device: limits[name])
    monkeypatch.setattr(cross_entropy, "PROCESSOR_THREADS", THREADS)
    monkeypatch.setattr(cross_entropy, "geometry", lambda *given: (given[1], THREADS, 0))
    for name, kernel in kernels.items():
        monkeypatch.setattr(cross_entropy, name, kernel)
    monkeypatch.setattr(cross_entropy, "FEWEST_AHEAD_BYTES", 0)
    for kept in (cross_entropy.stakes_of, cross_entropy.bets_of):
        kept.cache_clear()
    return cross_entropy
