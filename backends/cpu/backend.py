"""The CPU backend: NumPy's buffers, NumPy's ufuncs and OpenBLAS through NumPy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import blas_calls, devices, dtypes, protocol
from ..arrays import philox
from ..blas_threads import controlled
from ..fresh_results import FRESH_ON_CPUS
from ..region_functions import GATHERS, WINDOWED
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
from .eager_code import by_machine_code
from .eager_ways import EAGER_WAYS
from .large_ufuncs import LARGE_UFUNCS, shared_when_large

if TYPE_CHECKING:
    from ..annotations import Buffer
    from .plan.annotations import EquationLike, ProgramLike

__all__ = ["NumpyBackend", "numpy_backend"]


def _in_parts(x: Buffer, y: Buffer) -> Any:
    from .plan.threads.eager_products import product_in_parts  # loads the pool of threads

    return product_in_parts(x, y)


blas_calls.IN_PARTS.append(_in_parts)
blas_calls.BY_CODE += [
    by_machine_code("matrix_product", blas_calls.of_turned),
    by_machine_code("biased_product", blas_calls.of_turned_and_biased),
]


# What plans of machine code are made with, beside what all plans are made with.
NATIVE_PLANS = (
    *("native.convolution_runs", "native.native_loops", "native.native_run"),
    *("native.region_graph", "native.segments"),
    "regions.axis_order",
    *("regions.block_source", "regions.cost", "regions.proofs", "regions.region_run"),
    *("threads.matmul", "threads.sharing"),
)
# The functions of modules that replace NumPy's for the primitives of their names.
KERNELS: dict[ModuleType, tuple[str, ...]] = {
    activations: (
        "gelu", "gelu_grad", "gelu_unit_grad", "sigmoid", "silu", "silu_grad", "softplus",
    ),
    attention: ("attention", "attention_grad"),
    convolution: ("conv", "conv_input_grad", "conv_kernel_grad"),
    cross_entropy: ("cross_entropy", "cross_entropy_grad"),
    error_function: ("erf", "erfc"),
    normalization: (
        "affine_normalize", "affine_normalize_grad", "normalize", "normalize_grad",
    ),
    pooling: (
        "avg_pool", "avg_pool_grad", "max_pool", "max_pool_argmax", "pool_scatter", "pool_take",
    ),
    reductions: (
        "log_softmax", "logsumexp", "max", "mean", "min", "softmax", "softmax_grad", "sum", "var",
    ),
    scatter: ("index_add", "scatter_add"),
    where_and_extrema: (
        "log_ratio", "logaddexp", "maximum", "minimum", "power", "relu", "relu_grad", "where",
    ),
}  # fmt: skip
# Those that multiply many matrices of a kind.
OF_MANY_PRODUCTS = KERNELS[attention] + KERNELS[convolution]


class NumpyBackend(protocol.Backend):
    """Implements ``Backend`` over ``numpy``; its only device is ``cpu``."""

    name = "numpy"
    kind = "cpu"
    xp: Any = np
    buffer_type: type = np.ndarray
    fresh = FRESH_ON_CPUS
    accumulating = frozenset(
        {
            "cumprod", "cumsum", "index_add", "index_multiply", "linear_recurrence", "prod",
            "scatter_add",
        }
    )  # fmt: skip
    takes_bfloat16 = dtypes.MOVING | dtypes.EXCHANGING | {"nextafter", "spacing"}

    def __init__(self) -> None:
        malloc.keep_freed_memory()
        named = {n: getattr(module, n) for module, names in KERNELS.items() for n in names}
        calm = {n: parallel.kept_calm(named[n]) for n in OF_MANY_PRODUCTS}
        self.kernels = {
            **named,
            **calm,
            "dropout": philox.numpy_dropout,
            "logistic": activations.sigmoid,
            "random_bits": philox.numpy_random_bits,
            "random_keys": philox.numpy_random_bits,
        }

    def outside_of_plans(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that has machine code, or several threads, compute large operands."""
        if name in LARGE_UFUNCS:
            return shared_when_large(function)
        return by_machine_code(name, function) if name in EAGER_WAYS else function

    def to_host(self, buffer: Buffer) -> Buffer:
        """Returns the buffer itself: it lives on the host."""
        return np.asarray(buffer)

    def threads(self) -> int:
        """Returns the number of threads that share large work."""
        return import_module(".plan.threads.pool", __package__).threads.number  # type: ignore[no-any-return]

    def set_threads(self, number: int) -> None:
        """Sets the number of threads of plans, of convolutions, and of NumPy's BLAS if it can."""
        import_module(".plan.threads.pool", __package__).threads.number = number
        blas = controlled()
        if blas is not None:
            blas.number = number

    def put(self, buffer: Any, device: str) -> Any:
        """Returns another backend's buffer on the host."""
        return devices.to_host(buffer)

    def adopted(self, array: Any) -> Buffer:
        """Returns another library's array on the CPU as NumPy's, with the same memory."""
        return np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)

    def adopt(self, primitive: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function itself: there is one device."""
        return function

    def plan(
        self,
        program: ProgramLike,
        donated: Sequence[int] = (),
        watched: bool = False,
        native: bool = False,
    ) -> Any:
        """Returns what runs a program on raw buffers, as generated Python.

        ``native`` says whether its regions become machine code, which takes a while.
        """
        from .plan import cpu_plan  # only compiled functions need it

        return cpu_plan(program, donated, self.kernels, watched, native)

    def shown_functions(self, program: ProgramLike, donated: Sequence[int], llvm: bool) -> str:
        """Returns the text of the functions that a plan with machine code calls.

        ``llvm`` says whether they are LLVM's code; otherwise they are kernels in their language.
        """
        from .plan import shown_functions  # only where somebody looks at it

        return shown_functions(program, donated, self.kernels, llvm)

    def is_native(self, equation: EquationLike) -> bool:
        """Says whether machine code computes an equation that can be a part of a region."""
        from .plan.native.region_graph import is_native  # only where machine code is made

        return is_native(equation)

    def plan_threads(self) -> int:
        """Returns how many threads share the work of plans."""
        from .plan.threads.pool import threads

        return threads.number

    def native_test(
        self, program: ProgramLike, of_loop: bool = False
    ) -> Callable[[EquationLike], bool]:
        """Returns what says whether kernels compute an equation of a program, or of a loop's."""
        from .plan.codegen.operands import is_variable
        from .plan.native.element_access import has_single_indices, is_element_access
        from .plan.native.machine_dtypes import elementwise_kind
        from .plan.native.windows import is_native_windowed
        from .plan.regions.axis_order import memory_orders

        orders = memory_orders(program)
        known: dict[Any, bool] = {}

        def has_kernel(equation: EquationLike) -> bool:
            """Asks once for all equations of a kind: an optimizer has some for each parameter."""
            kind = elementwise_kind(equation)
            if kind is None:
                return self.is_native(equation)
            if kind not in known:
                known[kind] = self.is_native(equation)
            return known[kind]

        def test(equation: EquationLike) -> bool:
            if equation.primitive.name in WINDOWED:
                return is_native_windowed(equation, orders)
            # Kernels gather from memory in C order, to which others would be copied.
            source = equation.operands[0] if equation.primitive.name in GATHERS else None
            moved = is_variable(source) and source in orders
            # Loops test the numbers of single elements themselves.
            single = of_loop and is_element_access(equation) and has_single_indices(equation)
            return not moved and not single and has_kernel(equation)

        return test

    def load_plans(self) -> None:
        """Imports what plans are made with, so that the first one does not wait for it."""
        import_module(".plan", __package__)

    def load_native_plans(self) -> None:
        """Imports what plans of machine code are made with, and named by."""
        import_module("hashlib")
        for name in NATIVE_PLANS:
            import_module(f".plan.{name}", __package__)

    def kept_plan(
        self,
        tell: Callable[[], Any],
        make: Callable[[], Any],
        keys: Collection[str] | None = None,
    ) -> Any:
        """Returns a plan of machine code from the disk, or makes it, and keeps it there.

        Args:
            tell: returns the text of its program, with the constants; or None.
            make: returns the plan; or None.
            keys: those of plans, of which it is to be one that is there; otherwise None is
                returned.
        """
        from ..native.machine import in_step  # only where machine code is made

        kept = in_step(import_module, ".plan.native.kept_plans", __package__)
        return kept.kept_or_made(tell, make) if keys is None else kept.kept_among(keys, tell, make)

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
