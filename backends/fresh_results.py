"""Primitives whose functions return memory of their own."""

from __future__ import annotations

__all__ = ["FRESH_PRIMITIVES", "FRESH_REDUCTIONS"]

# Both backends' functions keep to this, whatever the operands and parameters are: no result lies in
# an operand's memory, nor in that of another result. Ufuncs do so by themselves.
FRESH_PRIMITIVES = frozenset(
    {
        "affine_normalize", "affine_normalize_slope", "argsort", "attention", "attention_grad",
        "avg_pool", "avg_pool_grad", "clip", "concatenate", "conv", "conv_input_grad",
        "conv_kernel_grad", "cross_entropy", "cross_entropy_slope", "cumprod", "cumsum", "dropout",
        "elu", "erf", "erfc", "exceeds", "expm1", "floor_divide", "gelu", "gelu_derivative",
        "gelu_slope", "index_add", "index_max", "index_min", "index_multiply", "index_set",
        "log_ratio", "log_softmax", "matmul", "max_pool", "max_pool_argmax", "normalize",
        "normalize_slope", "pool_scatter", "pool_take", "random_bits", "random_keys", "relu",
        "relu_biased", "relu_derivative", "scatter_add", "sigmoid", "sigmoid_biased",
        "sigmoid_derivative", "silu", "silu_derivative", "softmax", "softmax_derivative",
        "softplus", "softplus_biased", "softplus_derivative", "sort", "stack", "tanh_biased",
        "tanh_derivative", "var", "where",
    }
)  # fmt: skip
# Reductions that do so if they reduce at least one axis. A user's own reduction may return a part.
FRESH_REDUCTIONS = frozenset(
    {
        "all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "min",
        "prod", "sum",
    }
)  # fmt: skip
