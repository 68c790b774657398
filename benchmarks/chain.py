"""Differentiates a chain of many operations: `python -m benchmarks.chain`.

Each length runs twice: once for the time, once under tracemalloc for the memory. Of the peaks,
`forward` is that of `ft.vjp`, which holds the whole graph; `gradient` that of `ft.value_and_grad`,
forward and backward together; `left` is what stays allocated after it with no garbage collection.
The gradient is compared with the product of cosines that NumPy computes.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import functensor as ft
import functensor.numpy as fnp
from benchmarks.case import NumpyArray

SIZE = 10
MIB = 2**20


def chain(length: int) -> Callable[[Any], Any]:
    """The sum of sin(sin(...sin(x)))."""

    def run(x: Any) -> Any:
        for _ in range(length):
            x = fnp.sin(x)
        return fnp.sum(x)

    return run


def expected_gradient(x: NumpyArray, length: int) -> NumpyArray:
    """The chain rule, multiplied out."""
    gradient = np.ones_like(x)
    for _ in range(length):
        gradient *= np.cos(x)
        x = np.sin(x)
    return gradient


@dataclass(frozen=True)
class Memory:
    """Bytes: the peaks of both passes, and what is left after them."""

    forward: int
    gradient: int
    left: int


def measure_memory(function: Callable[[Any], Any], x: Any) -> Memory:
    """Trace the allocations of a forward pass, and of a forward and backward pass."""
    ft.value_and_grad(chain(10))(x)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        base = tracemalloc.get_traced_memory()[0]
        pulled = ft.vjp(function, x)
        forward = tracemalloc.get_traced_memory()[1] - base
        del pulled
        tracemalloc.reset_peak()
        base = tracemalloc.get_traced_memory()[0]
        result = ft.value_and_grad(function)(x)
        gradient = tracemalloc.get_traced_memory()[1] - base
        del result
        left = tracemalloc.get_traced_memory()[0] - base
    finally:
        tracemalloc.stop()
        gc.enable()
    return Memory(forward, gradient, left)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line a length; 1 if a gradient is wrong."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.chain", description=__doc__)
    options.add_argument("--lengths", default="10000,100000,1000000", metavar="A,B")
    parsed = options.parse_args(arguments)
    start = np.linspace(0.5, 1.5, SIZE)
    x = fnp.asarray(start)
    right = True
    print("              seconds             peak MiB                       bytes/op")
    print("  length   forward gradient   forward gradient    ratio   left   gradient")
    for length in map(int, parsed.lengths.split(",")):
        function = chain(length)
        clock = time.perf_counter()
        function(x)
        forward = time.perf_counter() - clock
        clock = time.perf_counter()
        _, gradient = ft.value_and_grad(function)(x)
        both = time.perf_counter() - clock
        right &= np.allclose(np.asarray(gradient), expected_gradient(start, length), rtol=1e-6)
        memory = measure_memory(function, x)
        print(
            f"{length:8d}  {forward:8.3f} {both:8.3f}  {memory.forward / MIB:8.1f}"
            f" {memory.gradient / MIB:8.1f} {memory.gradient / memory.forward:8.2f}"
            f" {memory.left / MIB:6.1f} {memory.gradient / length:10.0f}",
            flush=True,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"peak resident memory of the process: {peak / MIB:.0f} MiB")
    print("gradients are right" if right else "PROBLEM a gradient is wrong")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
