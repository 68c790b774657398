"""Memory: long chains without recursion, everything freed, nothing kept that no rule needs."""

import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest
from support.counted import memory_traced
from support.long_forms import sized

import functensor as ft
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.errors import TracerConversionError
from functensor.primitives.core.registry import registry as ops
from functensor.traces.reverse import Node, ReverseTracer

pytestmark = pytest.mark.long
LENGTH = sized(20_000, 100_000)


def chain(x, length):
    for _ in range(length // 2):
        x = ops.sin(x) * 1.0000001
    return x


def alive(*classes):
    gc.collect()
    return sum(type(o) in classes for o in gc.get_objects())


@pytest.fixture
def traced():
    """Measures what is allocated while the test runs."""
    with memory_traced():
        yield


def test_a_long_chain_differentiates_without_recursion_and_frees_everything():
    before = alive(Node, ReverseTracer)
    limit = sys.getrecursionlimit()
    gradient = ft.grad(lambda x: chain(x, LENGTH))(0.5)
    assert np.isfinite(float(gradient))
    assert sys.getrecursionlimit() == limit
    assert alive(Node, ReverseTracer) == before


def test_a_long_chain_that_is_thrown_away_is_freed_without_recursion():
    before = alive(Node, ReverseTracer)
    _, pull = ft.vjp(lambda x: chain(x, LENGTH), 0.5)
    first = float(pull(1.0)[0])
    assert float(pull(1.0)[0]) == first
    del pull
    assert alive(Node, ReverseTracer) == before

    def fails(x):
        chain(x, LENGTH)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ft.grad(fails)(0.5)
    assert alive(Node, ReverseTracer) == before


def test_nothing_is_left_for_the_garbage_collector():
    """Reference counting alone frees a run: there are no cycles among nodes and tracers."""

    def loss(x):
        h = ops.tanh(x * 2.0)
        return ops.sum(h[1:] * ops.exp(h)[:-1])

    x = np.linspace(0, 1, 5)
    runs = {
        "grad": lambda: ft.grad(loss)(x),
        "vjp": lambda: ft.vjp(loss, x)[1](1.0),
        "jvp": lambda: ft.jvp(loss, (x,), (x,)),
        "vmap of grad": lambda: ft.vmap(ft.grad(loss))(np.stack([x, x])),
        "hessian": lambda: ft.hessian(loss)(x),
        "linearize": lambda: ft.linearize(loss, x)[1](x),
    }
    for name, run in runs.items():
        run()
        gc.collect()
        gc.disable()
        try:
            count = sum(str(type(o).__module__).startswith("functensor") for o in gc.get_objects())
            run()
            left = sum(str(type(o).__module__).startswith("functensor") for o in gc.get_objects())
        finally:
            gc.enable()
        assert left <= count, name


def test_memory_comes_back_to_the_start(traced):
    x = np.ones(1000)
    step = ft.value_and_grad(lambda x: ops.sum(chain(x, 200)))
    step(x)
    gc.collect()
    start = tracemalloc.get_traced_memory()[0]
    for _ in range(5):
        step(x)
    gc.collect()
    assert tracemalloc.get_traced_memory()[0] - start < 20_000


@pytest.mark.parametrize("size", [1, 2000])
def test_backward_peaks_at_most_at_1_2_times_forward(traced, size):
    x = np.full(size, 0.5)
    peaks = {}

    def run(name, step):
        gc.collect()
        start = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        kept = step()
        peaks[name] = tracemalloc.get_traced_memory()[1] - start
        del kept

    length = 20_000 if size == 1 else 1_000
    run("forward", lambda: ft.vjp(lambda x: ops.sum(chain(x, length)), x))
    run("both", lambda: ft.grad(lambda x: ops.sum(chain(x, length)))(x))
    assert peaks["both"] <= 1.2 * peaks["forward"]
    if size > 1:
        assert peaks["forward"] <= 1.3 * (length // 2) * x.nbytes


def test_memory_of_a_chain_is_linear_in_its_length(traced):
    peaks = []
    for length in (4_000, 8_000, 16_000):
        gc.collect()
        start = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        ft.grad(lambda x, n=length: chain(x, n))(0.5)
        peaks.append(tracemalloc.get_traced_memory()[1] - start)
    assert peaks[1] < 2.3 * peaks[0]
    assert peaks[2] < 2.3 * peaks[1]


@pytest.mark.parametrize("kind", ["row", "column", "slice", "array", "mask"])
def test_the_cotangent_of_many_slices_costs_the_arrays_size(traced, kind):
    steps = 256
    x = np.ones((steps, steps))
    keys = {
        "row": lambda i: i,
        "column": lambda i: (slice(None), i),
        "slice": lambda i: (slice(i, i + 1), slice(None, None, 2)),
        "array": lambda i: np.array([i, i]),
        "mask": lambda i: np.arange(steps) == i,
    }

    def loss(x):
        total = 0.0
        for i in range(steps):
            total = total + ops.sum(ops.square(x[keys[kind](i)]))
        return total

    ft.grad(loss)(x)
    gc.collect()
    start = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    gradient = ft.grad(loss)(x)
    peak = tracemalloc.get_traced_memory()[1] - start
    # Forward keeps each slice once; a dense cotangent for each would be 256 times the array.
    assert peak < 12 * x.nbytes
    assert gradient.shape == x.shape


def test_the_cotangents_of_slices_are_added_in_one_operation(monkeypatch):
    seen = []

    def loss(x):
        return sum(ops.sum(x[i] * float(i)) for i in range(100))

    kernel = ops.scatter_add.impl

    def counted(*operands, **params):
        seen.append(len(operands))
        return kernel(*operands, **params)

    monkeypatch.setattr(ops.scatter_add, "impl", counted)
    gradient = ft.grad(loss)(np.ones((100, 3)))
    assert len(seen) == 1
    np.testing.assert_array_equal(gradient[:, 0], np.arange(100.0))


def weak_run(fun):
    """Says which of the values that a function returns as probes outlive the forward pass."""
    refs = []

    def watched(x):
        out, probes = fun(x)
        for probe in probes:
            buffer = probe.value
            while hasattr(buffer, "value"):
                buffer = buffer.value
            refs.append(weakref.ref(buffer))
        return out

    out, pull = ft.vjp(watched, np.linspace(0.1, 1, 50))
    shape = out.shape
    del out  # it may be a view
    gc.collect()
    kept = [ref() is not None for ref in refs]
    pull(np.ones(shape))
    del pull
    gc.collect()
    assert all(ref() is None for ref in refs)
    return kept


RESIDUALS = {
    "add keeps nothing": (lambda h: h + 1.0, False),
    "sum keeps only a shape": (lambda h: ops.sum(h), False),
    "reshape keeps only a shape": (lambda h: h.reshape(5, 10), False),
    "indexing keeps only a shape": (lambda h: h[::2], False),
    "concatenate keeps only shapes": (lambda h: ops.concatenate([h, h]), False),
    "exp keeps its output": (lambda h: ops.exp(h), False),
    "tanh keeps its output": (lambda h: ops.tanh(h), False),
    "a product with a constant keeps the constant": (lambda h: h * 3.0, False),
    "sin keeps its input": (lambda h: ops.sin(h), True),
    "a square keeps its input": (lambda h: h * h, True),
}


@pytest.mark.parametrize(("fun", "kept"), RESIDUALS.values(), ids=RESIDUALS)
def test_only_what_rules_need_is_kept(fun, kept):
    def probed(x):
        hidden = x + 1.0  # the rule of addition does not keep its output either
        return fun(hidden), [hidden]

    assert weak_run(probed) == [kept]


def test_backward_drops_residuals_as_it_goes():
    """When the first operation's rule runs, the residuals of the later ones are gone."""
    refs, dead = [], []

    @ft.custom_vjp
    def probe(x):
        return x

    def bwd(_, g):
        dead.extend(ref() is None for ref in refs)
        return (g,)

    probe.defvjp(lambda x: (x, None), bwd)

    def loss(x):
        h = probe(x)
        for _ in range(5):
            h = ops.sin(h + 0.1)
            refs.append(weakref.ref(h.value))
        return ops.sum(h)

    ft.grad(loss)(np.ones(10))
    gc.collect()
    assert dead == [True] * 5


def test_a_tracer_that_escapes_keeps_no_residuals():
    kept, refs = [], []

    def loss(x):
        hidden = x + 1.0
        refs.append(weakref.ref(hidden.value))
        kept.append(ops.sin(hidden))
        return ops.sum(kept[0])

    before = alive(Node)
    ft.grad(loss)(np.ones(10))
    assert alive(Node) == before + 1
    assert refs[0]() is None


def test_forward_mode_and_vmap_keep_nothing(traced):
    x = np.ones(10_000)
    for run in (
        lambda: ft.jvp(lambda x: chain(x, 400), (x,), (x,)),
        lambda: ft.vmap(lambda x: chain(x, 400))(x),
        lambda: chain(ops.positive(x), 400),
    ):
        gc.collect()
        start = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        run()
        assert tracemalloc.get_traced_memory()[1] - start < 12 * x.nbytes


def test_a_program_drops_values_after_their_last_use(traced):
    x = np.ones(10_000)
    program = ft.make_program(lambda x: chain(x, 400))(x)
    gc.collect()
    start = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    program(x)
    assert tracemalloc.get_traced_memory()[1] - start < 6 * x.nbytes


# -- memory shared with others


def test_asarray_is_a_read_only_view_without_a_copy():
    x = wrap(np.arange(6.0).reshape(2, 3))
    view = np.asarray(x)
    assert type(view) is np.ndarray
    assert np.shares_memory(view, np.asarray(x))
    assert not view.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    own = np.array(x)
    assert own.flags.writeable
    assert not np.shares_memory(own, view)
    assert np.asarray(x, dtype="float32").dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype="float32", copy=False)
    assert np.asarray(x[0, 0]).shape == ()


def test_dlpack_round_trip():
    a = np.arange(6.0).reshape(2, 3)
    x = wrap(a)
    assert x.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(np.from_dlpack(x), a)

    class Foreign:
        def __dlpack__(self, **options):
            return a.__dlpack__(**options)

        def __dlpack_device__(self):
            return a.__dlpack_device__()

    np.testing.assert_array_equal(ops.add(Foreign(), 1.0), a + 1)
    with pytest.raises(TracerConversionError):
        ft.grad(lambda x: np.from_dlpack(x))(1.0)
