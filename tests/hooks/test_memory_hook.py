"""Memory: all bytes count once, as long as somebody holds them, and the hook holds nothing."""

import gc
import threading
import weakref

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.hooks import MemoryHook, use

N = 1000
X = numpy.linspace(-1.0, 1.0, N)
BYTES = X.nbytes


@pytest.fixture
def memory():
    hook = MemoryHook()
    with use(hook):
        yield hook


def test_arrays_count_as_long_as_they_live(memory):
    y = np.sin(X)
    z = np.cos(y)
    assert memory.live == memory.peak == 2 * BYTES
    del y
    assert (memory.live, memory.peak) == (BYTES, 2 * BYTES)
    y = np.exp(z)
    assert (memory.live, memory.peak) == (2 * BYTES, 2 * BYTES)
    del y, z
    assert (memory.live, memory.peak) == (0, 2 * BYTES)


def test_views_count_as_what_they_show(memory):
    y = np.sin(X)
    views = [y[::2], y.reshape(10, 100).T, np.broadcast_to(y, (50, N))]
    assert memory.live == memory.peak == BYTES
    del y
    assert memory.live == BYTES
    del views[0], views[0]
    assert memory.live == BYTES
    views.clear()
    assert memory.live == 0


def test_views_of_arguments_do_not_count(memory):
    y = np.asarray(X)[::2].reshape(-1, 2)
    assert y.shape == (N // 4, 2)
    assert memory.live == memory.peak == 0


def test_numbers_without_axes_are_left_out(memory):
    y = np.sum(X) * 2
    assert float(y) == pytest.approx(0.0, abs=1e-12)
    assert memory.peak == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int8", "bool"])
def test_bytes_of_all_dtypes(memory, dtype):
    y = np.asarray(X).astype(dtype)
    assert memory.live == N * np.dtype(dtype).itemsize
    assert y.dtype == dtype


def test_empty_arrays(memory):
    y = np.sin(np.zeros((0, 3)))
    assert y.shape == (0, 3)
    assert memory.live == memory.peak == 0
    assert memory.report().startswith("<MemoryHook: 0 bytes alive, 0 at the peak>")


def test_residuals_count_until_they_are_let_go():
    hook = MemoryHook()

    def fun(x):
        y = np.sin(x)  # keeps x alone
        z = np.exp(y)  # keeps its result
        return np.sum(z * 3.0)

    kept = sum(r.nbytes for r in ft.saved_residuals(fun, X)) - BYTES
    with use(hook):
        value, pull = ft.vjp(fun, X)
        assert value.shape == ()
        assert hook.live == kept == BYTES
        assert [(held.name, held.arrays) for held in hook.held()] == [("exp", 1)]
        pull(1.0)
        del pull
        gc.collect()
        assert hook.live == 0
    # The function's own names hold y and z while it runs, beside their product.
    assert hook.peak == 3 * BYTES


def holders(memory):
    """Returns the operations of which alive arrays are residuals, by what made the arrays."""
    found = {}
    for held in memory.held():
        words = held.holder.split()
        assert not words or (words[:2], words[3]) == (["residual", "of"], "at")
        assert not words or "test_memory_hook.py:" in words[4]
        found.setdefault(held.name, []).append((words[2] if words else "", held.arrays))
    return {name: sorted(pairs) for name, pairs in found.items()}


def network(x):
    for _ in range(3):
        x = np.sin(np.exp(x))
    return np.sum(x * np.sin(x))


def test_what_holds_residuals_is_told_until_they_are_let_go(memory):
    value, pull = ft.vjp(network, X)
    # The oldest node is told: exp keeps its result, and so does the sine that comes next.
    wanted = {"exp": [("exp", 3)], "sin": [("multiply", 1), ("sin", 1)]}
    assert holders(memory) == wanted
    assert {held.holder for held in memory.held_at_peak()} >= {h.holder for h in memory.held()}
    pull(np.ones_like(value))
    assert holders(memory) == wanted
    del pull
    assert memory.held() == []


def test_what_variables_hold_has_no_other_holder(memory):
    y = np.exp(X)
    _, pull = ft.vjp(lambda x: np.sum(x * y), X)
    assert holders(memory) == {"exp": [("multiply", 1)]}
    assert "held as\n" in memory.report()
    assert "residual of multiply at " in memory.report()
    del pull
    assert y.shape == (N,)
    assert holders(memory) == {"exp": [("", 1)]}
    assert memory.live == BYTES


def test_a_consumed_node_holds_nothing(memory):
    x = ft.tensor(X, requires_grad=True)
    y = np.exp(x)
    z = np.sum(np.sin(y))
    assert holders(memory) == {"exp": [("exp", 1)]}
    z.backward()
    # The variable y holds the array, and the node of y has let it go.
    assert holders(memory) == {"exp": [("", 1)]}
    assert y.node is not None


@ft.custom_vjp
def tripled(x):
    return 3 * x


tripled.defvjp(lambda x: (3 * x, x), lambda saved, g: (3 * g * np.cos(saved),))


@pytest.mark.parametrize(
    ("fun", "wanted"),
    [
        (tripled, {"sin": [("tripled", 1)]}),
        (ft.vmap(np.exp), {"exp": [("exp", 1)]}),
        (lambda x: ft.grad(lambda x: np.sum(np.exp(x)))(x), {"exp": [("exp", 1)]}),
        # A checkpoint keeps its argument, but is no operation.
        (ft.checkpoint(lambda x: np.exp(x)), {"sin": [("", 1)]}),
    ],
    ids=["rule of its own", "vmap", "grad", "checkpoint"],
)
def test_holders_of_all_kinds(memory, fun, wanted):
    value, pull = ft.vjp(lambda x: fun(np.sin(x)), X)
    found = holders(memory)
    assert value.shape == (N,)
    assert {name: found[name] for name in wanted} == wanted
    del pull, value
    assert memory.live == 0


def test_gradients_are_the_same_to_the_last_bit():
    hook, packing = MemoryHook(), ft.hooks.OffloadHook("disk")
    plain = ft.grad(network)(X)
    second = ft.grad(lambda x: np.sum(ft.grad(network)(x) ** 2))(X)
    for hooks in ([hook], [hook, packing], [packing, hook]):
        with use(hooks[0]), use(hooks[-1] if len(hooks) > 1 else ft.hooks.Hook()):
            assert numpy.array_equal(ft.grad(network)(X), plain)
            twice = ft.grad(lambda x: np.sum(ft.grad(network)(x) ** 2))(X)
        assert numpy.array_equal(twice, second)
    with use(packing), use(hook):
        _, pull = ft.vjp(network, X)
        # What is packed is no array of an operation.
        assert hook.live == 0
        del pull
    with use(hook), use(packing):
        _, pull = ft.vjp(network, X)
        assert hook.live == 0
        del pull


def test_a_hook_that_is_dropped_leaves_no_cycle():
    hook = MemoryHook()
    with use(hook):
        _, pull = ft.vjp(network, X)
    gc.collect()
    gc.disable()
    try:
        dropped = weakref.ref(hook)
        del hook
        assert dropped() is None
    finally:
        gc.enable()
    assert pull(1.0)[0].shape == (N,)


def test_checkpoint_lowers_the_peak_that_is_measured():
    weights = [numpy.full(N, 1.0 + i) for i in range(8)]

    def block(x, w):
        return np.sin(np.exp(np.tanh(x * w)) * w)

    def loss(x, block):
        for w in weights:
            x = block(x, w)
        return np.sum(x)

    peaks = []
    for chosen in (block, ft.checkpoint(block)):
        hook = MemoryHook()
        with use(hook):
            ft.grad(loss)(X, chosen)
        peaks.append(hook.peak)
        assert hook.live == 0
    assert peaks[1] <= peaks[0] / 2


def test_batches_and_tangents_count_whole(memory):
    y = ft.vmap(np.sin)(numpy.stack([X] * 4))
    assert memory.live == 4 * BYTES
    del y
    y, t = ft.jvp(np.sin, (X,), (X,))
    assert memory.live == 2 * BYTES
    assert y.shape == t.shape
    assert {held.phase for held in memory.held()} == {"tangent"}


def test_tensors(memory):
    x = ft.tensor(X, requires_grad=True)
    loss = np.sum(np.exp(x) * 2)
    assert memory.live == BYTES
    loss.backward()
    del loss
    gc.collect()
    assert memory.live == 0


def test_scopes_have_their_own_peaks(memory):
    with ft.scope("model"):
        with ft.scope("first"):
            y = np.exp(np.sin(X))
        del y
        with ft.scope("second"):
            z = np.sin(X)
    found = memory.scopes()
    assert found["model/first"] == (0, 2 * BYTES)
    assert found["model/second"] == (BYTES, BYTES)
    assert found["model"] == found[""] == (BYTES, 2 * BYTES)
    assert z.shape == (N,)


def test_what_was_alive_at_the_peak(memory):
    with ft.scope("layer"):
        a = [np.sin(X) for _ in range(3)]
    b = np.concatenate(a)
    assert memory.held_at_peak() == memory.held()
    first = memory.held_at_peak()
    assert [(h.bytes, h.name, h.scope, h.type, h.arrays) for h in first] == [
        (3 * BYTES, "sin", "layer", f"float64[{N}]", 3),
        (3 * BYTES, "concatenate", "", f"float64[{3 * N}]", 1),
    ]
    assert all("test_memory_hook.py:" in held.line for held in first)
    del a
    np.sin(X)
    assert memory.held_at_peak() == first
    assert [h.name for h in memory.held()] == ["concatenate"]
    assert b.shape == (3 * N,)


def test_cotangents_count_where_they_are_asked_for():
    hook = MemoryHook(backward=True)
    with use(hook):
        gradient = ft.grad(lambda x: np.sum(np.sin(np.exp(x))))(X)
        phases = {held.phase for held in hook.held()}
        assert phases == {"backward"}
        assert hook.live == BYTES
    assert {h.phase for h in hook.held_at_peak()} >= {"forward"}
    assert gradient.shape == (N,)


def test_report(memory):
    with ft.scope("layer"):
        y = np.sin(X)
    z = np.cos(y)
    text = memory.report(rows=1)
    lines = text.splitlines()
    assert lines[0] == "<MemoryHook: 16,000 bytes alive, 16,000 at the peak>"
    assert lines[2].split() == ["alive", "peak", "scope"]
    assert lines[3].split() == ["16,000", "16,000", "(all)"]
    assert lines[4].split() == ["8,000", "8,000", "layer"]
    assert lines[6] == "alive:"
    assert lines[8].split()[:5] == ["8,000", "1", "sin", "forward", f"float64[{N}]"]
    assert lines[8].endswith("layer")
    assert lines[9] == "8,000 bytes of 1 more"
    assert lines[11] == "alive at the peak:"
    assert z.shape == (N,)


def test_several_blocks_add_to_one_measurement():
    hook = MemoryHook()
    with use(hook):
        y = np.sin(X)
    np.exp(X)
    with use(hook):
        z = np.cos(X)
    assert hook.live == hook.peak == 2 * BYTES
    del y, z
    assert hook.live == 0


def test_arrays_may_die_in_other_threads_and_in_cycles():
    hook = MemoryHook()
    made = []

    def work():
        with handle.shared():
            made.extend(np.sin(X) for _ in range(50))

    with use(hook) as handle:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert hook.live == 200 * BYTES
    cycle = [*made]
    cycle.append(cycle)
    made.clear()
    del cycle
    gc.collect()
    assert hook.live == 0
    assert hook.peak == 200 * BYTES


@pytest.mark.gpu
def test_arrays_of_a_gpu():
    x = ft.to_device(np.asarray(X), "cuda")
    hook = MemoryHook()
    with use(hook):
        y = np.sin(x)
        view = y[::2].reshape(-1, 2)
        assert hook.live == BYTES
        del y
        assert hook.live == BYTES
        del view
        assert hook.live == 0
