"""The CPU backend: NumPy's buffers, NumPy's ufuncs and OpenBLAS through NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import blas_calls, devices, dtypes, protocol
from ..arrays import philox
from ..fresh_results import FRESH_PRIMITIVES
from . import (
    activations,
    attention,
    convolution,
    cross_entropy,
    error_function,
    malloc,
    normalization,
    parallel,
    pooling,
    reductions,
    scatter,
    where_and_extrema,
)

if TYPE_CHECKING:
    from ..annotations import Buffer
    from .plan.annotations import ProgramLike

__all__ = ["NumpyBackend", "numpy_backend"]


def _in_parts(x: Buffer, y: Buffer) -> Any:
    from .plan.threads.matmul import threaded_matmul  # which loads what runs threads

    return threaded_matmul(x, y)


blas_calls.IN_PARTS.append(_in_parts)


class NumpyBackend(protocol.Backend):
    """Implements ``Backend`` over ``numpy``; its only device is ``cpu``."""

    name = "numpy"
    kind = "cpu"
    xp: Any = np
    buffer_type: type = np.ndarray
    fresh = FRESH_PRIMITIVES
    accumulating = frozenset(
        {
            "cumprod", "cumsum", "index_add", "index_multiply", "linear_recurrence", "prod",
            "scatter_add",
        }
    )  # fmt: skip
    takes_bfloat16 = dtypes.MOVING | {"nextafter", "spacing"}

    def __init__(self) -> None:
        malloc.keep_freed_memory()
        self.kernels = {
            "affine_normalize": normalization.affine_normalize,
            "affine_normalize_grad": normalization.affine_normalize_slope,
            "attention": parallel.kept_calm(attention.attention),
            "attention_grad": parallel.kept_calm(attention.attention_grad),
            "avg_pool": pooling.avg_pool,
            "avg_pool_grad": pooling.avg_pool_grad,
            "conv": parallel.kept_calm(convolution.conv),
            "conv_input_grad": parallel.kept_calm(convolution.conv_input_grad),
            "conv_kernel_grad": parallel.kept_calm(convolution.conv_kernel_grad),
            "cross_entropy": cross_entropy.cross_entropy,
            "cross_entropy_grad": cross_entropy.cross_entropy_slope,
            "dropout": philox.numpy_dropout,
            "erf": error_function.erf,
            "erfc": error_function.erfc,
            "logistic": activations.sigmoid,
            "gelu": activations.gelu,
            "gelu_unit_grad": activations.gelu_slope,
            "index_add": scatter.index_add,
            "log_ratio": where_and_extrema.log_ratio,
            "log_softmax": reductions.log_softmax,
            "logaddexp": where_and_extrema.logaddexp,
            "logsumexp": reductions.logsumexp,
            "max": reductions.max,
            "max_pool": pooling.max_pool,
            "max_pool_argmax": pooling.max_pool_argmax,
            "maximum": where_and_extrema.maximum,
            "mean": reductions.mean,
            "min": reductions.min,
            "minimum": where_and_extrema.minimum,
            "normalize": normalization.normalize,
            "normalize_grad": normalization.normalize_slope,
            "pool_scatter": pooling.pool_scatter,
            "pool_take": pooling.pool_take,
            "power": where_and_extrema.power,
            "random_bits": philox.numpy_random_bits,
            "random_keys": philox.numpy_random_bits,
            "relu": where_and_extrema.relu,
            "relu_grad": where_and_extrema.relu_derivative,
            "scatter_add": scatter.scatter_add,
            "sigmoid": activations.sigmoid,
            "silu": activations.silu,
            "silu_grad": activations.silu_grad,
            "softmax": reductions.softmax,
            "softmax_grad": reductions.softmax_derivative,
            "softplus": activations.softplus,
            "sum": reductions.sum,
            "where": where_and_extrema.where,
        }

    def to_host(self, buffer: Buffer) -> Buffer:
        """Returns the buffer itself: it lives on the host."""
        return np.asarray(buffer)

    def synchronize(self) -> None:
        """Returns at once: NumPy's calls are done when they return."""

    def put(self, buffer: Any, device: str) -> Any:
        """Returns another backend's buffer on the host."""
        return devices.to_host(buffer)

    def adopted(self, array: Any) -> Buffer:
        """Returns another library's array on the CPU as NumPy's, with the same memory."""
        return np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)

    def adopt(self, primitive: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function itself: there is one device."""
        return function

    def plan(self, program: ProgramLike, donated: Sequence[int] = ()) -> Any:
        """Returns what runs a program on raw buffers, as generated Python."""
        from .plan import cpu_plan  # which nothing but compiled functions needs

        return cpu_plan(program, donated, self.kernels)

    def load_plans(self) -> None:
        """Imports what plans are made with, so that the first one does not wait for it."""
        import_module(".plan", __package__)

    def loop(self, program: ProgramLike, loop: protocol.Loop) -> Any:
        """Returns what runs a program again and again, as one generated function."""
        from .plan import loop_plan

        return loop_plan(program, loop, self.kernels)

    def memory(self) -> dict[str, int]:
        """Returns the process's peak resident memory in bytes."""
        import resource  # not on every platform

        return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}

    def info(self) -> dict[str, Any]:
        """Returns NumPy's version and which BLAS it was built with."""
        build: Any = np.show_config(mode="dicts")
        blas = build.get("Build Dependencies", {}).get("blas", {})
        return {
            "version": np.__version__,
            "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
            "devices": self.devices(),
        }


numpy_backend = protocol.register(NumpyBackend())
