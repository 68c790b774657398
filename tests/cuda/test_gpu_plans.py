"""Plans on a GPU give what eager mode does there."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.gpu_functions import RNG, ROW, X, Y, gaussian, layer_loss, normal, step
from support.gpu_programs import run_of

import functensor as ft
import functensor.numpy as fnp
from functensor import nn

pytestmark = pytest.mark.gpu

def adam_case():
    """Returns the arguments of a step."""
    params = (normal(24, 16) / 5, normal(16), normal(16, 10) / 4)
    state = ft.optim.adam(1e-2).init(tuple(map(fnp.asarray, params)))
    return params, state, X, RNG.integers(0, 10, 37)


CASES = {
    "map": (lambda x, y: fnp.tanh(x) * y + 2.0, X, Y),
    "bias": (lambda x, b: fnp.maximum(x + b, 0), X, ROW),
    "column": (lambda x: x - x[:, :1] * 2 + fnp.exp(x), X),
    "transposed": (lambda x: fnp.sin(x.T) + x.T, X),
    "broadcast": (lambda x: fnp.exp(fnp.broadcast_to(x[0], (37, 24)) * 2) + 1, X),
    "flipped": (lambda x: fnp.exp(x[::-1] * 2) + 1, X),
    "unaligned": (lambda x: fnp.exp(x.reshape(-1)[1:] * 2) + 1, X),
    "mean": (lambda x, y: fnp.mean((x - y) ** 2), X, Y),
    "sum and map": (lambda x, y: (fnp.sum(x * y), fnp.exp(x) * y), X, Y),
    "columns": (lambda x, y: (fnp.sum(x * y, 0), fnp.mean(fnp.sin(x), 0)), X, Y),
    "many columns": (lambda x: fnp.sum(fnp.exp(x) * 2, 0), normal(5000, 70)),
    "wide columns": (lambda x: (x * ROW[0], fnp.sum(fnp.exp(x) * 2, 0)), normal(5000, 136)),
    "few columns": (lambda x: fnp.sum(fnp.exp(x) * 2, 0), normal(5000, 3)),
    "rows": (lambda x, y: (fnp.sum(x * y, 1), fnp.max(fnp.sin(x), 1)), X, Y),
    "softmax": (lambda x: nn.softmax(x * 2, -1) + 1, X),
    "long rows": (lambda x: nn.softmax(x * 2, -1) + 1, normal(3, 50257)),
    "rows of blocks": (lambda x: nn.log_softmax(x * 2, -1) + 1, normal(9, 5000)),
    "layer norm": (ft.grad(layer_loss), (X, ROW, ROW)),
    "wide layer norm": (ft.grad(layer_loss), (normal(300, 768), normal(768), normal(768))),
    "value and grad": (
        ft.value_and_grad(gaussian),
        normal(100_001),
    ),
    "double": (ft.grad(lambda x: fnp.sum(fnp.tanh(x) * fnp.exp(-x * x))), RNG.normal(size=(33, 7))),
    "middle": (lambda x: (fnp.sum(fnp.exp(x), 1), fnp.sum(x * 2, (0, 2))), normal(5, 6, 7)),
    "channels": (lambda x: (x - fnp.mean(x, (0, 2), keepdims=True)) * 2, normal(5, 6, 80)),
    "half": (lambda x: fnp.exp(x) * 2 + 1, X.astype("f2")),
    "softmax of half": (lambda x: nn.softmax(x * 2, -1) * 3, X.astype("f2")),
    "sum of half": (lambda x: (fnp.sum(x * 2, 1), fnp.mean(x * 2, 0)), X.astype("f2")),
    "integers": (
        lambda x: (x * 7 - (x // 3) + (x % 5), fnp.sum(x * x, 1), fnp.where(x > 2, x, -x)),
        RNG.integers(-50, 50, (9, 11)),
    ),
    "small integers": (
        lambda x: (x * 7 - x, fnp.max(x * 2, 1)),
        np.arange(60, dtype="i1").reshape(6, 10),
    ),
    "booleans": (lambda x: (fnp.isnan(x) | (x > 0.5)) & ~(x > 1), X),
    "number": (lambda x, s: x * s + 1, X, 3.5),
    "NumPy's number": (lambda x, s: x * s + 1, X, np.float32(3.5)),
    "outer": (lambda a, b: fnp.sin(a[:, None] * b[None, :] + 1), normal(13), normal(8)),
    "constant": (lambda x: fnp.sin(x) * placed(ROW) + fnp.sum(x * placed(Y)), X),
    "softmax's gradient": (ft.grad(lambda x: fnp.sum(nn.softmax(x, -1) ** 2)), X),
    "gelu": (ft.grad(lambda x: fnp.sum(nn.gelu(x))), X),
    "power": (lambda x: fnp.abs(x) ** 2.7 + fnp.arctan2(x, 2.0) + fnp.hypot(x, 1.0), X),
    "scan": (lambda x: ft.scan(lambda c, y: (fnp.sin(c) + y, c * 2), x[0], x)[0], X),
    "choice": (lambda x: ft.cond(fnp.sum(x) > 0, lambda x: x * 2 + 1, lambda x: x - 1, x), X),
    "second derivative": (
        ft.grad(lambda x: fnp.sum(ft.grad(lambda y: fnp.sum(fnp.sin(y) * y))(x) ** 2)),
        X,
    ),
    "adam": (step, *adam_case()),
    "batched": (ft.vmap(lambda x: nn.softmax(x, -1) @ x), X),
    "infinities": (
        lambda x: (nn.softmax(x * 1.0, -1), fnp.maximum(x, -x), fnp.sum(x * 2, 0)),
        np.array([[np.inf, 1.0, -np.inf], [np.nan, 2.0, 3.0], [-0.0, 0.0, 5e-39]], "f4"),
    ),
}


def placed(x):
    """Returns an argument, its arrays on the GPU."""
    return ft.to_device(x, "cuda") if np.shape(x) else x


def same(found, wanted):
    """Compares trees of arrays, to some last places."""
    for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        assert x.device == y.device
        x, y = (np.asarray(ft.to_device(v, "cpu")) for v in (x, y))
        close = {2: 2e-2, 4: 3e-5, 8: 1e-12}.get(x.dtype.itemsize, 0)
        close = close if x.dtype.kind in "fV" else 0
        np.testing.assert_allclose(x.astype(float), y.astype(float), rtol=close, atol=close)


@pytest.mark.parametrize("name", CASES)
def test_plans_give_what_eager_mode_does(name):
    function, *args = CASES[name]
    args = ft.tree.map(placed, tuple(args))
    wanted = function(*args)
    jitted = ft.jit(function)
    same(jitted(*args), wanted)
    jitted.compile(*args)
    # From the third call on it may be a graph, whose arguments may lie elsewhere.
    for call in range(6):
        given = ft.tree.map(lambda v: v + 0 if np.shape(v) else v, args) if call == 4 else args
        same(jitted(*given), wanted)
    assert "by kernels that were made for it" in str(jitted.explain())
    assert name in WITHOUT_GRAPH or "graph" not in str(jitted.explain())


# Those with a result that is a view.
WITHOUT_GRAPH = ()


def test_a_result_in_another_order_is_said_to_hinder_graphs():
    x, y = placed(normal(8, 8)), placed(normal(8, 8))
    f = ft.jit(lambda x, y: ((x @ y) @ y).T @ fnp.sin(x) + 1)
    g = ft.jit(lambda x, y: (((x @ y) @ y @ x @ y).T, fnp.sin(x) * 2))
    for jitted in (f, g):
        jitted.compile(x, y)
        for _ in range(4):
            jitted(x, y)
    assert "graph" not in str(f.explain())
    assert "not as a CUDA graph: NotCaptured" in str(g.explain())
    same(g(x, y), (((x @ y) @ y @ x @ y).T, fnp.sin(x) * 2))


def test_bfloat16():
    import ml_dtypes

    x = ft.to_device(X.astype(ml_dtypes.bfloat16), "cuda")
    w = ft.to_device(ROW.astype(ml_dtypes.bfloat16), "cuda")

    def f(x, w):
        sums = fnp.sum(x * w, 0), fnp.mean(x * w, 1)
        return fnp.tanh(x) * w + 1.0, nn.softmax(x * 2, -1), *sums, x > w, x.astype("float32") * 2

    jitted = ft.jit(f)
    jitted.compile(x, w)
    same(jitted(x, w), f(x, w))


def test_results_are_memory_of_their_own():
    x = ft.to_device(normal(24, 24), "cuda")
    f = ft.jit(lambda x: (fnp.sin(x @ x) @ x, fnp.cos(x @ x) + 1))
    f.compile(x)
    for _ in range(4):
        first = f(x)
    kept = [np.asarray(ft.to_device(v, "cpu")) for v in first]
    second = f(x * 2)
    assert not np.allclose(kept[0], np.asarray(ft.to_device(second[0], "cpu")))
    for v, before in zip(first, kept):
        np.testing.assert_array_equal(np.asarray(ft.to_device(v, "cpu")), before)


def test_donated_training_runs_as_one_graph():
    params, state, x, labels = ft.tree.map(placed, adam_case())
    wanted = params, state
    jitted = ft.jit(step, donate_argnums=(0, 1))
    found = ft.tree.map(lambda v: v + 0, (params, state))
    jitted.compile(*found, x, labels)
    for _ in range(8):
        *wanted, loss = step(*wanted, x, labels)
        *found, other = jitted(*found, x, labels)
        same(other, loss)
    same(found, wanted)
    (entry,) = jitted._entries.values()
    (on_stream,) = run_of(entry)._on_streams.values()
    assert on_stream.refused == ""
    assert on_stream._recordings == 1
    assert not on_stream._recording.copied.memory


@pytest.mark.parametrize("graphs", [False, True])
def test_donated_arrays_in_another_order_or_shared_with_others(graphs):
    import cupy

    def f(w, x):
        y = fnp.sin(w) * 2 + 1
        return y @ x @ x @ x if graphs else y

    # Of this size products keep the size of what is multiplied.
    jitted, x = ft.jit(f, donate_argnums=0), placed(normal(16, 16) / 4)
    host = normal(16, 16)
    jitted.compile(placed(host), x)
    for _ in range(5):
        turned = placed(np.asfortranarray(host))
        wanted = f(placed(host), x)
        same(jitted(turned, x), wanted)
        shared = placed(host)
        other = cupy.asarray(shared)
        same(jitted(shared, x), wanted)
        np.testing.assert_array_equal(other.get(), host)


def test_a_single_element_of_a_donated_array_is_read_before_it_is_written():
    x = normal(16, 16)
    f = ft.jit(lambda w: w - w[3, 3], donate_argnums=0)
    g = ft.jit(lambda w: (w * 2 + 1, w[0, 0]), donate_argnums=0)
    for jitted, wanted in ((f, x - x[3, 3]), (g, (x * 2 + 1, x[0, 0]))):
        jitted.compile(placed(x))
        for _ in range(4):
            found = jitted(placed(x))
            for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
                np.testing.assert_allclose(np.asarray(ft.to_device(a, "cpu")), b, rtol=1e-6)


def test_threads_and_streams_share_a_function():
    import cupy

    def f(x, s):
        return fnp.sum(fnp.sin(x @ x) @ x * s), fnp.cos(x @ x) @ x

    x = placed(normal(64, 64))
    jitted = ft.jit(f)
    jitted.compile(x, 1.5)
    wanted = {s: f(x, s) for s in (0.5, 1.5, 2.5, 3.5)}
    cupy.cuda.get_current_stream().synchronize()

    def calls(number):
        with cupy.cuda.Stream(non_blocking=True) if number % 2 else cupy.cuda.Stream.null:
            for _ in range(20):
                s = number % 4 + 0.5
                same(jitted(x, s), wanted[s])
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(calls, range(8)))


def test_an_error_leaves_the_next_call_right():
    from functensor.backends.cuda.plan import graph

    x = placed(normal(16, 16))
    f = ft.jit(lambda x: fnp.sin(x @ x) @ x @ x @ x)
    f.compile(x)
    wanted = f(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "set_words", lambda *given: 1 / 0)
        patch.setattr(graph.OnStream, "_record", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            f(x)
    for _ in range(4):
        same(f(x), wanted)


def test_graphs_follow_inputs_that_move():
    def f(x, y):
        z = fnp.sin(x) @ fnp.cos(y)
        return nn.softmax(z @ z, -1) @ z, fnp.sum(z)

    jitted = ft.jit(f)
    jitted.compile(placed(normal(16, 16)), placed(normal(16, 16)))
    for _ in range(20):
        x, y = placed(normal(16, 16)), placed(normal(16, 16))
        same(jitted(x, y), f(x, y))
    (entry,) = jitted._entries.values()
    (on_stream,) = run_of(entry)._on_streams.values()
    assert on_stream.refused == ""
    assert on_stream._recordings <= 7


def test_plans_are_made_while_calls_run():
    x = ft.to_device(X, "cuda")
    f = ft.jit(lambda x: fnp.tanh(x) * 2 + fnp.exp(x))
    wanted = f(x)
    for _ in range(2000):
        same(f(x), wanted)
        if "by kernels" in str(f.explain()):
            break
    assert "by kernels" in str(f.explain())
