"""Softmax, cross entropy, layer norm and sums on a GPU, beside PyTorch's eager and compiled ones.

``python -m benchmarks.gpu_rows`` prints the milliseconds that a call keeps the GPU busy, the median
of rounds of calls that were queued behind other work, so that the host's share does not show, and
what that is of a copy's bandwidth, for what has to be read and written at least. Names of parts
after it pick these alone; ``--eager`` compiles nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import cupy

import functensor as ft
import functensor.numpy as np
from benchmarks.gpu_timing import milliseconds, torch
from functensor import nn
from functensor.backends.cuda.kernels import cross_entropy as kernels
from functensor.primitives.core.registry import registry as ops

if torch is not None:
    import torch.nn.functional as F

ROUNDS, CALLS = 7, 10
# Copies of about half a millisecond each that keep the GPU busy while calls are queued.
AHEAD = 16
TOKENS, WORDS, WIDTH = 8192, 50257, 4096


def timed(call: Callable[[], Any]) -> float:
    """Returns the milliseconds that a call keeps the GPU busy."""
    return milliseconds(call, ROUNDS, CALLS, AHEAD)


def copy_bandwidth() -> float:
    """Returns bytes a millisecond, read and written, of a copy within the GPU's memory."""
    source = cupy.ones(1 << 28, "float32")
    target = cupy.empty_like(source)
    return 2 * source.nbytes / timed(lambda: cupy.copyto(target, source))


class Table:
    """Prints rows of figures.

    Args:
        bandwidth: a copy's, in bytes a millisecond.
        compiled: whether PyTorch's compiled functions are timed too.
    """

    def __init__(self, bandwidth: float, compiled: bool) -> None:
        self.bandwidth = bandwidth
        self.compiled = compiled
        print(f"copy: {bandwidth / 1e9:.2f} TB/s")
        print(f"{'':46}{'ms':>9}{'TB/s':>7}{'of copy':>9}{'torch':>9}{'ratio':>7}{'compiled':>10}")

    def line(
        self, name: str, moved: int, ours: Callable[[], Any], theirs: Any = None, args: Any = ()
    ) -> None:
        """Prints a row; ``theirs`` is a function of tensors, called as it is and compiled."""
        mine = timed(ours)
        rate = moved / mine
        text = f"{name:46}{mine:9.4f}{rate / 1e9:7.2f}{rate / self.bandwidth:9.2f}"
        if torch is not None and theirs is not None:
            eager = timed(lambda: theirs(*args))
            text += f"{eager:9.4f}{mine / eager:7.2f}"
        if torch is not None and theirs is not None and self.compiled:
            try:
                compiled = torch.compile(theirs)
                text += f"{timed(lambda: compiled(*args)):10.4f}"
            except Exception as error:
                text += f"  {type(error).__name__}"
        print(text, flush=True)


def normal(*shape: int, dtype: str = "float32") -> Any:
    """Returns an array of random numbers."""
    return cupy.random.standard_normal(shape, dtype="float32").astype(dtype)


def tensors(*arrays: Any) -> list[Any]:
    """Returns PyTorch's tensors that share arrays' memory."""
    return [torch.from_dlpack(x) for x in arrays] if torch is not None else []


def differentiated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of tensors that gives the result and all gradients."""

    def both(*args: Any) -> Any:
        leaves = [a.detach().requires_grad_(a.is_floating_point()) for a in args]
        out = function(*leaves)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        return out.detach(), torch.autograd.grad(out, wanted)

    return both


def cross_entropies(table: Table) -> None:
    """Value and gradient of the mean over tokens; and with a weight for each, that changes."""
    labels = cupy.random.randint(0, WORDS, TOKENS)
    on_gpu = ft.to_device(labels, "cuda:0")
    for dtype in ("float32", "float16"):
        x = normal(TOKENS, WORDS, dtype=dtype)
        logits = ft.to_device(x, "cuda:0")
        both = ft.value_and_grad(lambda v: np.mean(nn.softmax_cross_entropy(v, on_gpu)))
        table.line(
            f"cross entropy, value and gradient, {dtype}",
            2 * x.nbytes,
            lambda both=both, logits=logits: both(logits),
            differentiated(lambda v, y: F.cross_entropy(v, y)),
            tensors(x, labels),
        )
        table.line("  value alone", x.nbytes, lambda x=x: kernels.cross_entropy(x, labels))
        loss, _ = kernels.cross_entropy_ahead(x, labels)
        g = normal(TOKENS, dtype=dtype)
        table.line(
            "  gradient alone",
            2 * x.nbytes,
            lambda x=x, loss=loss, g=g: kernels.cross_entropy_grad(x, loss, g, labels),
        )

        def weighted(x: Any = x, g: Any = g) -> None:
            g *= 1.01
            _, kept = kernels.cross_entropy_ahead(x, labels)
            kernels.cross_entropy_grad(x, kept, g, labels)

        table.line("  without a bet: cotangents change", 3 * x.nbytes, weighted)
        del x, logits, both, weighted
        cupy.get_default_memory_pool().free_all_blocks()
        if torch is not None:
            torch.cuda.empty_cache()


def norms(table: Table) -> None:
    """Forward and backward by the input, the weight and the bias."""
    for rows, width, dtype in (
        (TOKENS, WIDTH, "float32"),
        (TOKENS, WIDTH, "float16"),
        (TOKENS, 768, "float32"),
        (4096, 512, "float32"),
    ):
        x, g = normal(rows, width, dtype=dtype), normal(rows, width, dtype=dtype)
        weight, bias = normal(width, dtype=dtype), normal(width, dtype=dtype)
        arrays = [ft.to_device(v, "cuda:0") for v in (x, weight, bias)]
        cotangent = ft.to_device(g, "cuda:0")

        def layer(arrays: Any = arrays, cotangent: Any = cotangent) -> Any:
            out, pullback = ft.vjp(lambda *a: nn.layer_norm(*a), *arrays)
            return out, pullback(cotangent)

        def theirs(x: Any, weight: Any, bias: Any, g: Any) -> Any:
            leaves = [a.detach().requires_grad_() for a in (x, weight, bias)]
            out = F.layer_norm(leaves[0], weight.shape, *leaves[1:])
            return out.detach(), torch.autograd.grad(out, leaves, g)

        name = f"{rows} x {width}, {dtype}"
        # Forward reads x and writes; backward reads x and the cotangent and writes.
        table.line(
            f"layer norm, both ways, {name}",
            5 * x.nbytes,
            layer,
            theirs,
            tensors(x, weight, bias, g),
        )
        one = arrays[0]
        table.line(
            "  forward alone", 2 * x.nbytes, lambda one=one, a=arrays: nn.layer_norm(one, *a[1:])
        )
        table.line("  RMS norm, forward", 2 * x.nbytes, lambda a=arrays: nn.rms_norm(*a[:2]))


def softmaxes(table: Table) -> None:
    """Rows of many lengths, and columns."""
    for shape, axis in (
        ((96, 1024, 1024), -1),
        ((TOKENS, WIDTH), -1),
        ((TOKENS, WORDS), -1),
        ((1 << 20, 64), -1),
        ((1 << 20, 10), -1),
        ((1 << 17, 500), -1),
        ((64, 512, 512), 1),
    ):
        x, g = normal(*shape), normal(*shape)
        array = ft.to_device(x, "cuda:0")
        table.line(
            f"softmax {shape}, axis {axis}",
            2 * x.nbytes,
            lambda array=array, axis=axis: nn.softmax(array, axis=axis),
            lambda v, axis=axis: torch.softmax(v, axis),
            tensors(x),
        )
        out, cotangent = nn.softmax(array, axis=axis), ft.to_device(g, "cuda:0")
        table.line(
            "  backward",
            3 * x.nbytes,
            lambda out=out, g=cotangent, axis=axis: ops.softmax_grad(g, out, axis),
            lambda g, y, axis=axis: torch._softmax_backward_data(g, y, axis, y.dtype),
            tensors(g, x),
        )
        del x, g, array, out, cotangent
        cupy.get_default_memory_pool().free_all_blocks()


def sums(table: Table) -> None:
    """Sums over all axes but the last, which the gradients of biases are."""
    for shape, dtype in (
        ((8, 1024, 768), "bfloat16"),
        ((TOKENS, 768), "float16"),
        ((TOKENS, 768), "float32"),
        ((TOKENS, 768), "float64"),
        ((8, 1024, 2304), "bfloat16"),
        ((8, 1024, 3072), "bfloat16"),
        ((TOKENS, 3072), "float32"),
        ((TOKENS, WORDS), "bfloat16"),
        ((4096, 4096), "float32"),
        ((64, 128), "float32"),
    ):
        axis = tuple(range(len(shape) - 1))
        x = normal(*shape, dtype="float16" if dtype == "bfloat16" else dtype)
        tensor = tensors(x)
        array = ft.to_device(x, "cuda:0")
        if dtype == "bfloat16":
            array = array.astype(np.bfloat16)
            tensor = [t.to(torch.bfloat16) for t in tensor]
        table.line(
            f"sum of {shape}, {dtype}",
            x.nbytes,
            lambda array=array, axis=axis: np.sum(array, axis),
            lambda v, axis=axis: v.sum(axis),
            tensor,
        )


PARTS = {"cross entropy": cross_entropies, "norm": norms, "softmax": softmaxes, "sum": sums}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--eager", action="store_true", help="compile nothing")
    options = parser.parse_args()
    table = Table(copy_bandwidth(), not options.eager)
    for name in options.parts or PARTS:
        PARTS[name](table)


if __name__ == "__main__":
    main()
