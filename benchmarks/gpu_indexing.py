"""Scatters, gathers, pooling and sorting on a GPU beside PyTorch's eager ones.

``python -m benchmarks.gpu_indexing`` prints milliseconds a call, the median of rounds of calls that
are queued one after the other, and the bandwidth of what has to be read and written at least.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from benchmarks.gpu_timing import milliseconds, row, torch
from functensor.backends.config import config
from functensor.backends.cuda.kernels import gather, pooling, scatter, sorting
from functensor.primitives.core.index_key import ARRAY
from functensor.primitives.core.index_key import IndexKey as Key
from functensor.primitives.nn.pooling import Windows

ROUNDS, CALLS = 9, 20
TOKENS, WORDS, WIDTH = 8192, 50257, 768
ROW = Key((ARRAY,), 1)


def line(name: str, ours: Callable[[], Any], theirs: Callable[[], Any] | None, moved: int) -> None:
    """Prints one row of the table; PyTorch's work is timed on the same stream."""
    row(name, moved, ours, theirs, ROUNDS, CALLS)


def shared(x: Any) -> Any:
    """Returns a PyTorch tensor that shares an array's memory."""
    return torch.from_dlpack(x) if torch is not None else None


def embedding_gradients() -> None:
    """Gradients of a table of words, by indices that are uniform, or as frequent as words are."""
    generator = np.random.default_rng(0)
    uniform = generator.integers(0, WORDS, TOKENS)
    weights = 1 / np.arange(1, WORDS + 1)
    zipf = generator.choice(WORDS, TOKENS, p=weights / weights.sum())
    for name, numbers in (("uniform", uniform), ("zipf", zipf), ("all equal", uniform * 0)):
        for dtype in ("float32", "float16"):
            for deterministic in (False, True):
                with config.using(deterministic=deterministic):
                    embedding_gradient(f"{name} {dtype}{' det.' * deterministic}", numbers, dtype)


def embedding_gradient(name: str, numbers: Any, dtype: str) -> None:
    """The gradient of a table for given numbers of words."""
    index = cupy.asarray(numbers)
    g = cupy.asarray(np.random.default_rng(1).standard_normal((TOKENS, WIDTH))).astype(dtype)
    their_g, their_index = shared(g), shared(index)
    line(
        f"embedding gradient {name}",
        lambda: scatter.scatter_add(g, index, shape=(WORDS, WIDTH), keys=(ROW,)),
        lambda: torch.ops.aten.embedding_dense_backward(their_g, their_index, WORDS, -1, False),
        g.nbytes + WORDS * WIDTH * g.itemsize,
    )


def updates() -> None:
    """Rows that are taken, added and replaced; single elements."""
    generator = np.random.default_rng(1)
    table = cupy.asarray(generator.standard_normal((WORDS, WIDTH)), "f")
    index = cupy.asarray(generator.integers(0, WORDS, TOKENS))
    rows = cupy.asarray(generator.standard_normal((TOKENS, WIDTH)), "f")
    t, i, r = shared(table), shared(index), shared(rows)
    line("x[i], rows", lambda: gather.index(table, index, key=ROW), lambda: t[i], 2 * rows.nbytes)
    both = 2 * table.nbytes + rows.nbytes
    line("x.at[i].add(v), rows", lambda: scatter.index_add(table, rows, index, key=ROW),
         lambda: t.index_add(0, i, r), both)
    line("x.at[i].set(v), rows", lambda: scatter.index_set(table, rows, index, key=ROW),
         lambda: t.index_copy(0, i, r), both)
    line("x.at[i].max(v), rows", lambda: scatter.index_max(table, rows, index, key=ROW),
         lambda: t.index_reduce(0, i, r, "amax"), both)
    count, places = 1 << 22, 1 << 20
    many = cupy.asarray(generator.integers(0, places, count))
    v = cupy.asarray(generator.standard_normal(count), "f")
    m, w = shared(many), shared(v)
    for name, deterministic in (("", False), (" det.", True)):
        with config.using(deterministic=deterministic):
            line(
                f"4 Mi elements into 1 Mi{name}",
                lambda: scatter.scatter_add(v, many, shape=(places,), keys=(ROW,)),
                lambda: torch.zeros(places, device="cuda").index_add_(0, m, w),
                12 * count + 4 * places,
            )


def pools() -> None:
    """Images of 28 x 28 by windows of 2, and of 3 two apart; and again channels-last."""
    x = cupy.asarray(np.random.default_rng(2).standard_normal((128, 64, 28, 28)), "f")
    last = cupy.moveaxis(cupy.ascontiguousarray(cupy.moveaxis(x, 1, -1)), -1, 1)
    for k, p in ((2, 0), (3, 1)):
        pool(f"k{k} s2 p{p}", x, k, 2, p)
        pool(f"k{k} s2 p{p} channels last", last, k, 2, p)


def pool(name: str, x: Any, k: int, s: int, p: int) -> None:
    """Both kinds of pooling by one kind of windows, there and back."""
    windows, spatial = Windows((k, k), (s, s), ((p, p), (p, p))), x.shape[2:]
    winner = pooling.max_pool_argmax(x, windows=windows)
    g = pooling.max_pool(x, windows=windows)
    moved = x.nbytes + g.nbytes
    params = {"windows": windows, "count_include_pad": True}
    t, h = shared(x), shared(g)
    if torch is not None:
        leaf = t.clone().requires_grad_()
        functions = torch.nn.functional
        best, mean = functions.max_pool2d(leaf, k, s, p), functions.avg_pool2d(leaf, k, s, p)
    line(f"max pool {name}", lambda: pooling.max_pool(x, windows=windows),
         lambda: functions.max_pool2d(t, k, s, p), moved)
    line(
        f"max pool {name}, back with argmax",
        lambda: pooling.pool_scatter(
            g, pooling.max_pool_argmax(x, windows=windows), spatial=spatial, windows=windows
        ),
        lambda: torch.autograd.grad(best, leaf, h, retain_graph=True),
        2 * moved,
    )
    line(f"max pool {name}, back",
         lambda: pooling.pool_scatter(g, winner, spatial=spatial, windows=windows),
         lambda: torch.autograd.grad(best, leaf, h, retain_graph=True), moved)
    line(f"avg pool {name}", lambda: pooling.avg_pool(x, **params),
         lambda: functions.avg_pool2d(t, k, s, p), moved)
    line(f"avg pool {name}, back", lambda: pooling.avg_pool_grad(g, spatial=spatial, **params),
         lambda: torch.autograd.grad(mean, leaf, h, retain_graph=True), moved)


def sorts() -> None:
    """Many short rows, and one long one."""
    rows((4096, 1024))
    rows((1 << 22,))


def rows(shape: tuple[int, ...]) -> None:
    """Sorts rows of a length."""
    x = cupy.asarray(np.random.default_rng(3).standard_normal(shape), "f")
    t = shared(x)
    params: dict[str, Any] = {"axis": x.ndim - 1, "stable": True, "descending": False}
    line(f"sort {shape}", lambda: sorting.sort(x, **params), lambda: torch.sort(t)[0],
         2 * x.nbytes)
    line(f"argsort {shape}", lambda: sorting.argsort(x, **params), lambda: torch.argsort(t),
         3 * x.nbytes)


def main() -> None:
    """Prints the table."""
    if torch is not None:
        streams = torch.cuda.current_stream().cuda_stream, cupy.cuda.get_current_stream().ptr
        assert streams[0] == streams[1], "events of CuPy's stream do not see PyTorch's work"
    source = cupy.zeros(1 << 26, "f")
    target = cupy.empty_like(source)
    copying = milliseconds(lambda: cupy.copyto(target, source), ROUNDS, CALLS)
    print(f"copying reaches {2 * source.nbytes / copying / 1e9:.2f} TB/s")
    print(f"{'':44} {'ms':>9} {'TB/s':>8} {'torch ms':>9} {'ratio':>7}")
    for part in (embedding_gradients, updates, pools, sorts):
        part()


if __name__ == "__main__":
    main()
