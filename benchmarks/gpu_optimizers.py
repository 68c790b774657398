"""Updates of whole trees, activations and dropout on a GPU beside PyTorch's.

``python -m benchmarks.gpu_optimizers`` prints milliseconds a call, the median of rounds of calls
that are queued one after the other, and the bandwidth of what has to be read and written at least.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from statistics import median
from time import perf_counter
from typing import Any

import cupy
import numpy as np

import functensor as ft
from benchmarks.gpu_timing import milliseconds, torch
from functensor import nn, random
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.registry import registry

ROUNDS, CALLS = 9, 10
MEBI = 2**20
# 100 Mi parameters: as one array, and as what a model has of them.
ONE = [(100 * MEBI,)]
MANY = [(1024, 1024), (1024,)] * 50 + [(50 * MEBI - 50 * 1024,)]
SMALL = [(784, 128), (128,), (128, 128), (128,), (128, 10), (10,)]
# Arrays that are read and written for every parameter.
PASSES = {"sgd": 3, "momentum": 5, "adagrad": 5, "lion": 5, "adam": 7, "adamw": 7}
# PyTorch's Adagrad has no fused form on GPUs.
PEERS = {
    "sgd": ("SGD", {"fused": True}),
    "momentum": ("SGD", {"fused": True, "momentum": 0.9}),
    "adagrad": ("Adagrad", {"foreach": True}),
    "adam": ("Adam", {"fused": True}),
    "adamw": ("AdamW", {"fused": True}),
}


def host_microseconds(call: Callable[[], Any]) -> float:
    """Returns what a call costs the CPU, which only queues."""
    times = []
    for _ in range(ROUNDS):
        cupy.cuda.Device().synchronize()
        start = perf_counter()
        for _ in range(CALLS):
            call()
        times.append((perf_counter() - start) / CALLS * 1e6)
    return median(times)


def line(name: str, ours: Callable[[], Any], theirs: Callable[[], Any] | None, moved: int) -> None:
    """Prints one row of the table."""
    mine, host = milliseconds(ours, ROUNDS, CALLS), host_microseconds(ours)
    text = f"{name:36} {mine:9.4f} {moved / mine / 1e9:8.2f} {host:9.1f}"
    if theirs is not None and torch is not None:
        other, other_host = milliseconds(theirs, ROUNDS, CALLS), host_microseconds(theirs)
        text += f" {other:9.4f} {other_host:9.1f} {mine / other:7.2f}"
    print(text, flush=True)


def peer(name: str, shapes: list[tuple[int, ...]]) -> Callable[[], Any] | None:
    """Returns PyTorch's step, fused where it has that."""
    if torch is None or name not in PEERS:
        return None
    params = [torch.zeros(s, device="cuda", requires_grad=True) for s in shapes]
    for p in params:
        p.grad = torch.ones_like(p)
    make, options = PEERS[name]
    step: Callable[[], Any] = getattr(torch.optim, make)(params, 1e-3, **options).step
    return step


def updates(name: str, what: str, shapes: list[tuple[int, ...]]) -> None:
    """Prints what one step of an optimizer costs."""
    opt = getattr(ft.optim, name)(1e-3)
    held: list[Any] = [[wrap(cupy.zeros(s, np.float32)) for s in shapes]]
    grads = [wrap(cupy.ones(s, np.float32)) for s in shapes]
    held.append(opt.init(held[0]))

    def step() -> None:
        held[:] = opt.update(*held, grads)

    moved = PASSES[name] * 4 * sum(map(prod, shapes))
    line(f"{name}, {what}", step, peer(name, shapes), moved)


def elementwise(name: str, passes: int, ours: Callable[..., Any], theirs: Any) -> None:
    """Prints what a function of 64 Mi numbers costs."""
    x = cupy.random.standard_normal(64 * MEBI, dtype=np.float32)
    other = None
    if torch is not None:
        t = torch.from_dlpack(x)
        other = lambda: theirs(t)  # noqa: E731
    line(name, lambda: ours(x), other, passes * x.nbytes)


def copies() -> None:
    """Prints what a copy costs, whose bandwidth is the limit of all that follows."""
    source = cupy.zeros(ONE[0], np.float32)
    target = cupy.empty_like(source)
    line("copy of 400 MiB", lambda: cupy.copyto(target, source), None, 2 * source.nbytes)


def functions() -> None:
    """Prints activations, dropout and running sums."""
    there = torch.nn.functional if torch is not None else None
    for name, own, options in (
        ("relu", {}, {}),
        ("gelu", {"approximate": True}, {"approximate": "tanh"}),
        ("silu", {}, {}),
    ):
        elementwise(
            f"{name}, 64 Mi",
            2,
            partial(registry[name].impl, **own),
            there and partial(getattr(there, name), **options),
        )
    key = random.key(0)
    elementwise(
        "dropout, 64 Mi",
        2,
        lambda x: nn.dropout(key, wrap(x), 0.1),
        there and (lambda t: there.dropout(t, 0.1)),
    )
    for name, own in (("cumsum", {}), ("cumprod", {"exclusive": False})):
        impl = partial(registry[name].impl, axis=1, dtype=None, reverse=False, **own)
        elementwise(
            f"{name} of 16384 x 4096",
            2,
            lambda x, impl=impl: impl(x.reshape(16384, 4096)),
            torch and (lambda t, n=name: getattr(torch, n)(t.view(16384, 4096), 1)),
        )


def main() -> None:
    """Prints the table."""
    ft.backends.get("cupy")
    heads = ("ms", "TB/s", "host us", "torch ms", "host us", "ratio")
    print(f"{'':36}", *(f"{head:>{n}}" for head, n in zip(heads, (9, 8, 9, 9, 9, 7), strict=True)))
    copies()
    updates("adam", "100 Mi in one", ONE)
    for name in ("adam", "sgd", "lion"):
        cupy.get_default_memory_pool().free_all_blocks()
        updates(name, "100 Mi in 101", MANY)
    for name in PASSES:
        updates(name, "a small MLP", SMALL)
    functions()


if __name__ == "__main__":
    main()
