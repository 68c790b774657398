"""All functions of the CUDA backend, by the primitive's name; importing them imports CuPy."""

from __future__ import annotations

from collections.abc import Callable

from cupy import ndarray

from .. import dtypes
from .cublas.contraction import CONTRACTION_FUNCTIONS
from .cublas.linear_algebra import LINEAR_ALGEBRA_FUNCTIONS
from .kernels.activations import ACTIVATION_FUNCTIONS
from .kernels.attention import ATTENTION_FUNCTIONS
from .kernels.axis_sums import AXIS_SUM_FUNCTIONS
from .kernels.bessel import BESSEL_FUNCTIONS
from .kernels.convolution import CONVOLUTION_FUNCTIONS
from .kernels.cross_entropy import CROSS_ENTROPY_FUNCTIONS
from .kernels.cumulative import CUMULATIVE_FUNCTIONS
from .kernels.elementwise import ELEMENTWISE_FUNCTIONS
from .kernels.gather import GATHER_FUNCTIONS
from .kernels.incomplete import INCOMPLETE_FUNCTIONS
from .kernels.normalization import NORMALIZATION_FUNCTIONS
from .kernels.philox import PHILOX_FUNCTIONS
from .kernels.pooling import POOLING_FUNCTIONS
from .kernels.rejection import REJECTION_FUNCTIONS
from .kernels.scatter import SCATTER_FUNCTIONS
from .kernels.softmax import SOFTMAX_FUNCTIONS
from .kernels.sorting import SORTING_FUNCTIONS
from .kernels.special import SPECIAL_FUNCTIONS
from .unsupported import UNSUPPORTED_FUNCTIONS
from .where_and_extrema import WHERE_FUNCTIONS

__all__ = ["GPU_FUNCTIONS", "TAKES_BFLOAT16"]

WITH_BFLOAT16: dict[str, Callable[..., ndarray]] = {
    **UNSUPPORTED_FUNCTIONS, **ACTIVATION_FUNCTIONS, **BESSEL_FUNCTIONS, **ATTENTION_FUNCTIONS,
    **AXIS_SUM_FUNCTIONS, **CONTRACTION_FUNCTIONS, **CONVOLUTION_FUNCTIONS,
    **CROSS_ENTROPY_FUNCTIONS, **CUMULATIVE_FUNCTIONS, **ELEMENTWISE_FUNCTIONS,
    **GATHER_FUNCTIONS, **NORMALIZATION_FUNCTIONS, **PHILOX_FUNCTIONS, **POOLING_FUNCTIONS,
    **SCATTER_FUNCTIONS, **WHERE_FUNCTIONS, **SOFTMAX_FUNCTIONS,
}  # fmt: skip
WITHOUT_BFLOAT16: dict[str, Callable[..., ndarray]] = {
    **INCOMPLETE_FUNCTIONS, **LINEAR_ALGEBRA_FUNCTIONS, **REJECTION_FUNCTIONS,
    **SORTING_FUNCTIONS, **SPECIAL_FUNCTIONS,
}  # fmt: skip
GPU_FUNCTIONS = {**WITH_BFLOAT16, **WITHOUT_BFLOAT16}
# The primitives whose operands may be in bfloat16, for CuPy's own functions too.
TAKES_BFLOAT16 = dtypes.MOVING | dtypes.EXCHANGING | {
    "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal",
    "max", "maximum", "min", "minimum", "nextafter", "not_equal", "spacing", "sum",
    *WITH_BFLOAT16,
}  # fmt: skip
