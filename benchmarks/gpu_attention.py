"""Attention and convolution on a GPU beside PyTorch's eager ones.

``python -m benchmarks.gpu_attention`` prints milliseconds a call, the median of rounds of calls
that are queued one after the other, in every way that there is, and the operations a second that
they come to; of a causal score matrix, half counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import cupy
import numpy as np

from benchmarks.gpu_timing import row, torch
from functensor.backends.config import config
from functensor.backends.cuda import cudnn
from functensor.backends.cuda.kernels import attention, convolution
from functensor.primitives.contract.conv import Geometry

ROUNDS, CALLS = 7, 10
# Of the workload gpt: images, tokens, heads and their width.
IMAGES, TOKENS, HEADS, WIDTH = 8, 1024, 12, 64
# Of the second convolution of the workload cnn.
CONV = ((128, 32, 26, 26), (64, 32, 3, 3), Geometry((1, 1), ((0, 0), (0, 0)), (1, 1), 1))


def line(name: str, operations: float, ours: Callable[[], Any], theirs: Any = None) -> None:
    """Prints one row of the table."""
    try:
        row(name, operations, ours, theirs, ROUNDS, CALLS, decimals=1)
    except Exception as error:  # one row less, and the others as they are
        print(f"{name:44} {type(error).__name__}: {str(error)[:200]}", flush=True)


@contextmanager
def chosen(precision: str, with_cudnn: bool) -> Iterator[None]:
    """Computes in a precision, with or without cuDNN, for the length of a ``with`` block."""
    if torch is not None:
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
    found = cudnn.available() and with_cudnn
    with patch.object(cudnn, "available", lambda: found), config.using(matmul_precision=precision):
        yield


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    """Returns normally distributed numbers."""
    return cupy.random.standard_normal(shape, dtype=np.float32).astype(dtype)


def attentions() -> None:
    """Heads that are split off from the columns, as in the workload gpt."""
    forward = 2 * 2 * IMAGES * HEADS * TOKENS**2 * WIDTH / 2
    rows = [drawn((IMAGES, TOKENS, HEADS, WIDTH), "float32").swapaxes(1, 2) for _ in range(4)]
    params = {"causal": True, "scale": WIDTH**-0.5}
    choices = [("float32", "highest", False), ("float32", "tf32", False)]
    choices += [("bfloat16", "highest", False), ("bfloat16", "highest", True)]
    choices += [("float16", "highest", False), ("float16", "highest", True)]
    for name, precision, with_cudnn in choices:
        if name == "bfloat16":
            import ml_dtypes

            dtype = np.dtype(ml_dtypes.bfloat16)
        else:
            dtype = np.dtype(name)
        q, k, v, g = (x.astype(dtype) for x in rows)
        with chosen(precision, with_cudnn):
            out = attention.attention(q, k, v, **params)
            way = attention.recalled(out, q, k).way
            theirs, pulled = of_torch(rows, name)
            title = f"attention {name} {precision} by {way}"
            ours = partial(attention.attention, q, k, v, **params)
            line(f"{title}, forward", forward, ours, theirs)
            ours = partial(attention.attention_grad, g, out, q, k, v, **params)
            line(f"{title}, backward", 2.5 * forward, ours, pulled)


def of_torch(rows: Any, name: str) -> tuple[Any, Any]:
    """Returns PyTorch's forward and backward calls on the same numbers."""
    if torch is None:
        return None, None
    q, k, v, g = (torch.from_dlpack(x).to(getattr(torch, name)) for x in rows)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    call = torch.nn.functional.scaled_dot_product_attention
    out = call(*leaves, is_causal=True)
    return (
        lambda: call(q, k, v, is_causal=True),
        lambda: torch.autograd.grad(out, leaves, g, retain_graph=True),
    )


def convolutions() -> None:
    """All three operations of a convolution."""
    x_shape, w_shape, geometry = CONV
    x, w = drawn(x_shape, "float32"), drawn(w_shape, "float32")
    g = convolution.conv(x, w, geometry=geometry)
    operations = 2.0 * g.size * np.prod(w_shape[1:])
    same = {"geometry": geometry}
    ours = (
        ("forward", partial(convolution.conv, x, w, **same)),
        ("by x", partial(convolution.conv_input_grad, g, w, spatial=x_shape[2:], **same)),
        ("by w", partial(convolution.conv_kernel_grad, x, g, kernel=w_shape[2:], **same)),
    )
    for precision in ("highest", "tf32"):
        for with_cudnn in (False, True):
            with chosen(precision, with_cudnn):
                title = f"conv {precision} {'cuDNN' if with_cudnn else 'columns'}"
                theirs: list[Any] = [None] * 3
                if torch is not None:
                    theirs = convolutions_of_torch(*map(torch.from_dlpack, (x, w, g)))
                for (name, call), other in zip(ours, theirs):
                    line(f"{title}, {name}", operations, call, other)


def convolutions_of_torch(x: Any, w: Any, g: Any) -> list[Any]:
    """Returns PyTorch's three calls."""
    return [
        lambda: torch.nn.functional.conv2d(x, w),
        lambda: torch.nn.grad.conv2d_input(x.shape, w, g),
        lambda: torch.nn.grad.conv2d_weight(x, w.shape, g),
    ]


def main() -> None:
    """Prints the table."""
    print(cudnn.describe(), end=f"; PyTorch {torch.__version__}\n" if torch is not None else "\n")
    print(f"{'':44} {'ms':>9} {'Tflop/s':>8} {'torch':>9} {'ratio':>7}")
    attentions()
    convolutions()


if __name__ == "__main__":
    main()
