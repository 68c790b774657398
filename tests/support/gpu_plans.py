"""Plans of GPUs that run on the CPU: products, losses and sums on memory that nobody has written.

Products are those of cuBLAS, of columns in memory. Kernels that copy, that add up columns and that
write losses are compiled for the CPU; regions are computed by NumPy.
"""

import ctypes
import re
from types import SimpleNamespace

import ml_dtypes
import numpy as np

import functensor as ft

from . import gpu_memory, many_threads, slope_kernels
from .gpu_memory import GpuArray, on_gpu
from .gpu_programs import fused, plan_of
from .leaf_kernels import argument

CUBLAS_DTYPES = {0: "f4", 1: "f8", 2: "f2", 14: ml_dtypes.bfloat16}


def kernels():
    """Returns the kernels, by their names in their modules."""
    made = slope_kernels.loss_kernels()
    made["COPY_ROWS"] = slope_kernels.Kernel("padding", "copy_rows", "from:T to:T lllllll")
    made["COLUMN_SUMS"] = slope_kernels.Kernel("axis_sums", "column_sums", "x:T out:S d lllll")
    return made


def columns_at(address, dtype, rows, columns, leading):
    """Returns a matrix of cuBLAS's, whose columns lie one behind the other."""
    count = leading * (columns - 1) + rows
    memory = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    flat = np.frombuffer(memory, dtype)
    strides = flat.itemsize, leading * flat.itemsize
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), strides)


class Products:
    """cuBLAS's products.

    Attributes:
        sizes: for each padded product its sizes.
    """

    def __init__(self):
        self.sizes = []

    def gemmEx(self, handle, t_first, t_second, *given):
        """Computes a product, of the arguments that cuBLAS takes."""
        m, n, k, _, a, kind, lda, b, _, ldb, _, c, _, ldc, *_ = given
        dtype = np.dtype(CUBLAS_DTYPES[kind])
        first = columns_at(a, dtype, *((k, m) if t_first else (m, k)), lda)
        second = columns_at(b, dtype, *((n, k) if t_second else (k, n)), ldb)
        x = (first.T if t_first else first).astype(float)
        y = (second.T if t_second else second).astype(float)
        columns_at(c, dtype, m, n, ldc)[...] = (x @ y).astype(dtype)


def region_by_numpy(run, *operands, into=(), known=None):
    """Computes a region's outputs, in new memory or in what is given."""
    members = getattr(run, "_members", None)
    programs = [e.primitive.program for e in members] if members else [run._region.program]
    left = [x if isinstance(x, np.ndarray) else np.asarray(x) for x in operands]
    outs = []
    for program in programs:
        count = len(program.inputs)
        given, left = left[:count], left[count:]
        values = [
            np.array(x, y.type.dtype) for x, y in zip(given, program.inputs, strict=True)
        ]
        outs += map(np.asarray, program.run(values))
    memory = [*into] or [None] * len(outs)
    made = [GpuArray(x.shape, x.dtype) if own is None else own for x, own in zip(outs, memory)]
    for own, x in zip(made, outs, strict=True):
        own[...] = x
    return made


class Module:
    """The kernels of regions, as functions of the CPU.

    Args:
        text: their text.
    """

    def __init__(self, text):
        from functensor.backends.cuda.plan import region_run

        names = re.findall(r"^(region_\w+)\(", text, re.MULTILINE)
        kernels = [SimpleNamespace(name=name, text=text) for name in names]
        self.library = many_threads.Compiled(region_run.whole_text(text), kernels).library

    def get_function(self, name):
        """Returns what launches a kernel."""

        def launch(blocks, threads, arguments):
            columns, rows = [*blocks, 1][:2]
            run = getattr(self.library, f"run_{name}")
            run(columns, rows, *threads, *map(argument, arguments))

        return launch


def on_numpy(monkeypatch, made, by_kernels=False):
    """Has plans that are made from now on run on the CPU; returns the products.

    Args:
        monkeypatch: pytest's.
        made: the kernels.
        by_kernels: whether regions that are not grouped run by their kernels, and not by NumPy.
    """
    from functensor.backends.cuda.cublas import contraction, padding
    from functensor.backends.cuda.kernels import axis_sums
    from functensor.backends.cuda.plan import (
        biased_losses,
        joint_parts,
        joint_run,
        leaf_run,
        padded_rows,
        plan_text,
        region_run,
    )

    losses = {name: made[name] for name in slope_kernels.KERNELS}
    loss_module = slope_kernels.on_threads(monkeypatch, losses)
    products = Products()
    for module in (contraction, padding, axis_sums, plan_text):
        monkeypatch.setattr(module, "cupy", gpu_memory.cupy)
        monkeypatch.setattr(module, "ndarray", GpuArray)
    monkeypatch.setattr(contraction, "current_cublas", lambda: (0, products))
    monkeypatch.setattr(padding, "COPY_ROWS", made["COPY_ROWS"])
    monkeypatch.setitem(axis_sums.SUM_KERNELS, "columns", made["COLUMN_SUMS"])
    regions = [leaf_run.LeafRun, joint_run.JointRun]
    if by_kernels:
        monkeypatch.setattr(region_run, "ndarray", GpuArray)
        monkeypatch.setattr(region_run, "cupy", gpu_memory.cupy)
        monkeypatch.setattr(region_run, "compiled_module", Module)
    else:
        regions.append(region_run.GpuRegion)
    for kind in regions:
        monkeypatch.setattr(kind, "__call__", region_by_numpy)
    # Products and losses of all sizes are large.
    for module in (padded_rows, padding):
        monkeypatch.setattr(module, "FEWEST_OPERATIONS", 1 << 12)
    monkeypatch.setattr(padding, "BYTES_PER_OPERATION", 1.0)
    monkeypatch.setattr(joint_parts, "is_small", lambda shape: False)
    for module in (loss_module, biased_losses):
        monkeypatch.setattr(module, "FEWEST_AHEAD_BYTES", 0)
    watched(monkeypatch, contraction, products)
    return products


def watched(monkeypatch, contraction, products):
    """Checks what lies between the rows of factors where a padded product sums it up."""
    padded_product = contraction.padded_product

    def checked(first, second, out, transposed):
        found = padded_product(first, second, out, transposed)
        if found is None:
            return None
        summed = first.rows if transposed[0] else first.columns
        for x, is_first in ((found.first, True), (found.second, False)):
            held = columns_at(x.array.data.ptr, x.array.dtype, x.rows, x.columns, x.leading)
            by_rows = bool(transposed[0 if is_first else 1]) is is_first
            rest = held[summed:] if by_rows else held[:, summed:]
            assert not rest.astype(float).any(), "what is summed has more than zeros behind it"
        products.sizes.append(found.sizes)
        return found

    monkeypatch.setattr(contraction, "padded_product", checked)


def there(x):
    """Returns an array as one of the GPU's; a result of NumPy's own is copied."""
    if isinstance(x, tuple | list):
        return [*map(there, x)]
    return on_gpu(x) if isinstance(x, np.ndarray) and type(x) is not GpuArray else x


def plan_on_numpy(function, *args, donated=(), precision="tf32", load=False):
    """Returns the text of a function's plan, and what runs it on flat lists of arrays."""
    from functensor.backends.cuda.cublas import contraction

    plan = plan_of(fused(function, *args), donated, apart=False, precision=precision)
    if load:
        plan.load()
    scope = plan.queue.__globals__
    if "matmul" in scope:
        scope["matmul"] = contraction.matmul
    for name, value in [*scope.items()]:
        if name != "__builtins__" and callable(value):
            scope[name] = lambda *given, own=value, **params: there(own(*given, **params))

    def run(leaves):
        with ft.config.using(matmul_precision=precision):
            return plan([x if type(x) is GpuArray else on_gpu(x) for x in leaves])

    return plan.source, run
