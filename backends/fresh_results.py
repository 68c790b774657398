"""Primitives whose functions return memory of their own."""

from __future__ import annotations

__all__ = ["FRESH_ON_CPUS", "FRESH_PRIMITIVES", "FRESH_REDUCTIONS"]

# Both backends' functions keep to this, whatever the operands and parameters are: no result lies in
# an operand's memory, nor in that of another result. Ufuncs do so by themselves.
FRESH_PRIMITIVES = frozenset(
    {
        "affine_normalize", "affine_normalize_grad", "argsort", "attention", "attention_grad",
        "avg_pool", "avg_pool_grad", "clip", "concatenate", "conv", "conv_input_grad",
        "conv_kernel_grad", "cross_entropy", "cross_entropy_grad", "cumprod", "cumsum", "dropout",
        "elu", "erf", "erfc", "exceeds", "expm1", "floor_divide", "gelu", "gelu_grad",
        "gelu_unit_grad", "index_add", "index_max", "index_min", "index_multiply", "index_set",
        "log_ratio", "log_softmax", "matmul", "max_pool", "max_pool_argmax", "normalize",
        "normalize_grad", "pool_scatter", "pool_take", "random_bits", "random_keys", "relu",
        "relu_biased", "relu_grad", "sigmoid", "sigmoid_biased", "sigmoid_grad", "silu",
        "silu_grad", "softmax", "softmax_grad", "softplus", "softplus_biased",
        "softplus_grad", "sort", "stack", "tanh_biased", "tanh_grad", "var", "where",
    }
)  # fmt: skip
# On a GPU values that lie where they go to already are not copied.
FRESH_ON_CPUS = FRESH_PRIMITIVES | {"scatter_add"}
# Reductions that do so if they reduce at least one axis. A user's own reduction may return a part.
FRESH_REDUCTIONS = frozenset(
    {
        "all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "min",
        "prod", "sum",
    }
)  # fmt: skip
