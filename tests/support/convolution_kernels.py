"""The kernels of convolutions as functions of the CPU, and checks of what they compute."""

import ctypes
from types import SimpleNamespace

import numpy as np

from functensor.backends.cpu import convolution as on_the_cpu
from functensor.backends.cuda.launch import source

from . import many_threads
from .leaf_kernels import Buffer, argument, buffer

RNG = np.random.default_rng(0)
TABLE = "const long long *numbers"
FOUR = "long long n0, long long n1, long long n2, long long n3"
WINDOWS = f"const float *x, const float *bias, float *out, {TABLE}, {FOUR}"
COTANGENTS = f"const float *g, const float *x, float *parts, {TABLE}, {FOUR}"
# The parameters of each kernel, by the module that launches it.
KERNELS = {
    "gathered_convolution": {
        "window_product": f"const float *weights, {WINDOWS}",
        "kernel_product": COTANGENTS,
        "add_parts": "const float *parts, float *out, long long n0, long long n1",
    },
    "patched_convolution": {
        "arrange_weights": f"const float *weights, float *out, {TABLE}",
        "patch_product": f"const float *weights, const float *arranged, {WINDOWS}",
        "patch_kernel_product": COTANGENTS,
        "add_kernel_parts": f"const float *parts, float *out, {TABLE}, long long n0",
    },
    "shallow_convolution": {"shallow_product": f"const float *weights, {WINDOWS}"},
}
# What the compiler of GPUs knows, and the memory that blocks share.
KNOWN = """
static float __int_as_float(int bits) { return __uint_as_float((unsigned int)bits); }
alignas(16) static unsigned int memory[1 << 16];
"""
SHARED = "extern __shared__ word_t memory[];"
LIMITS = {"processors": 2, "shared": 1 << 17}


class ConvolutionKernels:
    """The kernels, compiled as they are asked for.

    Attributes:
        launched: for each launch the kernel's name, the template's arguments and the grid.
    """

    def __init__(self):
        self.libraries = {}
        self.launched = []

    def kernel(self, family, name):
        """Returns what launches a kernel."""

        def launch(types, grid, block, *arguments, shared=0):
            grid = (*grid, 1, 1)[:3] if type(grid) is tuple else (grid, 1, 1)
            assert shared <= LIMITS["shared"]
            self.launched.append((name, types, grid))
            library = self.library(family, name, types)
            library.set_layers(grid[2])
            given = [ctypes.c_longlong(x) if type(x) is int else argument(x) for x in arguments]
            library.run_instance(*grid[:2], block, *given)

        return launch

    def library(self, family, name, types):
        """Returns the library of an instance."""
        if (name, types) not in self.libraries:
            declared = KERNELS[family][name]
            names = ", ".join([x.rpartition(" ")[2].lstrip("*") for x in declared.split(", ")])
            call = f"{name}<{types}>" if types else name
            head = 'extern "C" __global__ void\n'
            text = f"{head}instance({declared}) {{\n    {call}({names});\n}}\n"
            kernel = SimpleNamespace(name="instance", text=text)
            whole = KNOWN + source(family).replace(SHARED, "") + text
            self.libraries[name, types] = many_threads.Compiled(whole, [kernel]).library
        return self.libraries[name, types]

    def take_over(self, patch):
        """Puts them, and memory of the CPU, in the place of the GPU's.

        Args:
            patch: pytest's ``monkeypatch``.

        Returns:
            the module that has them compute convolutions.
        """
        from functensor.backends.cuda.kernels import (
            gathered_convolution,
            patched_convolution,
            shallow_convolution,
        )

        ours = SimpleNamespace(empty=empty, ascontiguousarray=lambda x: buffer(x))
        for module in (gathered_convolution, patched_convolution, shallow_convolution):
            family = module.__name__.rpartition(".")[2]
            patch.setattr(module, "table", lambda x, device: np.array(x, "i8"))
            for name in KERNELS[family]:
                patch.setattr(module, name.upper(), self.kernel(family, name))
            if module is not shallow_convolution:
                patch.setattr(module, "cupy", ours)
                patch.setattr(module, "limit", lambda name, device: LIMITS[name])
        patch.setattr(gathered_convolution, "has_units", lambda device: True)
        patched_convolution.product_launch.cache_clear()
        patched_convolution.kernel_product_launch.cache_clear()
        self.launched.clear()
        return gathered_convolution


def empty(shape, dtype):
    """Returns memory that holds no numbers yet."""
    return np.full(shape, np.nan, dtype).view(Buffer)


def normal(*shape):
    """Returns normal numbers."""
    return RNG.normal(size=shape).astype("f4")


def close(found, wanted, rtol=2e-5):
    """Compares with results in double precision."""
    assert found.shape == wanted.shape
    np.testing.assert_allclose(np.asarray(found), wanted, rtol, rtol * np.abs(wanted).max())


def check(module, x, w, geometry):
    """Compares all three functions with those of the CPU in double precision."""
    exact_x, exact_w = x.astype(float), w.astype(float)
    out = on_the_cpu.conv(exact_x, exact_w, geometry=geometry)
    g = normal(*out.shape)
    close(module.gathered_conv(buffer(x), buffer(w), out.shape[2:], geometry), out)
    spatial, kernel, exact_g = x.shape[2:], w.shape[2:], g.astype(float)
    found = module.gathered_input_grad(buffer(g), buffer(w), spatial, geometry)
    # Elements are in the windows of places that are no neighbours.
    assert (found is None) == (max(geometry.stride) > 1)
    if found is not None:
        transposed = on_the_cpu.conv_input_grad
        close(found, transposed(exact_g, exact_w, spatial=spatial, geometry=geometry))
    found = module.gathered_kernel_grad(buffer(x), buffer(g), kernel, geometry)
    wanted = on_the_cpu.conv_kernel_grad(exact_x, exact_g, kernel=kernel, geometry=geometry)
    close(found, wanted)
