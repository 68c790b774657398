"""Plans of few launches as graphs on a GPU, and what graphs copy in and hand on there."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.gpu_functions import normal
from support.gpu_programs import run_of

import functensor as ft
import functensor.numpy as fnp

pytestmark = pytest.mark.gpu

SIZES = (3,), (40, 7), (1,), (300,)


def placed(x):
    return ft.to_device(x, "cuda")


def on_host(x):
    return np.asarray(ft.to_device(x, "cpu"))


def same(found, wanted, close=1e-6):
    for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(on_host(x), on_host(y), rtol=close, atol=close)


def address(x):
    # Others who ask for it are to see no other values there.
    return x._data.data.ptr


def recorded(jitted):
    """Returns what runs the last kind of a function's calls on its only stream."""
    (found,) = run_of(jitted._last)._on_streams.values()
    return found


def affine(xs):
    return [x * 2 + 1 for x in xs]


def test_results_of_a_small_graph_are_new_each_time():
    xs = [placed(normal(*shape)) for shape in SIZES]
    jitted, wanted = ft.jit(affine), affine(xs)
    jitted.compile(xs)
    held = [jitted(xs) for _ in range(6)]
    assert recorded(jitted)._recording is not None
    assert len({address(x) for outs in held for x in outs}) == 6 * len(SIZES)
    for outs in held:
        same(outs, wanted)
    assert "CUDA graph" not in str(jitted.explain())


def test_few_launches_on_other_inputs_each_time_are_no_graph():
    jitted = ft.jit(lambda x, y: fnp.sum(fnp.sin(x) * y, 1))
    jitted.compile(placed(normal(20, 30)), placed(normal(20, 30)))
    held = []
    for _ in range(12):
        x, y = normal(20, 30), normal(20, 30)
        held += [placed(x), placed(y)]
        same(jitted(*held[-2:]), np.sum(np.sin(x) * y, 1), 1e-4)
    assert not run_of(jitted._last)._is_graph
    assert "CUDA graph" not in str(jitted.explain())


def test_a_small_result_in_another_order_is_right():
    x = placed(normal(8, 9))
    jitted = ft.jit(lambda x: fnp.exp(x).T)
    jitted.compile(x)
    for _ in range(5):
        same(jitted(x), fnp.exp(x).T)
    assert "CUDA graph" not in str(jitted.explain())


@pytest.mark.parametrize("count", [1, 5, 450])
def test_donated_leaves_stay_where_they_are(count):
    jitted = ft.jit(affine, donate_argnums=0)
    hosts = [normal(4) for _ in range(count)]
    xs = [placed(x) for x in hosts]
    places = [*map(address, xs)]
    jitted.compile(xs)
    for call in range(7):
        given, xs = xs, jitted(xs)
        hosts = [x * np.float32(2) + np.float32(1) for x in hosts]
        if call > 2:
            assert [*map(address, xs)] == places
        for x in given:
            with pytest.raises(ft.errors.DonatedArrayError):
                x.sum()
        places = [*map(address, xs)]
    same(xs, hosts, 1e-5)
    assert recorded(jitted)._recording is not None


def test_a_donated_leaf_that_is_shared_is_copied_and_all_goes_on():
    import cupy

    jitted = ft.jit(affine, donate_argnums=0)
    hosts = [normal(5), normal(6)]
    xs = [placed(x) for x in hosts]
    jitted.compile(xs)
    for call in range(12):
        shared = cupy.asarray(xs[0]) if call % 5 == 4 else None
        before = None if shared is None else shared.get()
        xs = jitted(xs)
        hosts = [x * np.float32(2) + np.float32(1) for x in hosts]
        if shared is not None:
            np.testing.assert_array_equal(shared.get(), before)
        same(xs, hosts, 1e-4)


def test_threads_and_streams_share_a_small_graph():
    import cupy

    x = placed(normal(64, 9))
    jitted = ft.jit(lambda x: (fnp.tanh(x) * 3, fnp.sum(x * x)))
    jitted.compile(x)
    wanted = jitted(x)
    cupy.cuda.get_current_stream().synchronize()

    def calls(number):
        with cupy.cuda.Stream(non_blocking=True) if number % 2 else cupy.cuda.Stream.null:
            for _ in range(30):
                same(jitted(x), wanted)
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(calls, range(6)))


def test_a_graph_may_be_what_a_thread_begins_with():
    x = placed(normal(64, 9))
    jitted = ft.jit(lambda x: (fnp.tanh(x) * 3, fnp.sum(x * x)))
    jitted.compile(x)
    # Memory for results is there, so that nothing else asks CUDA first.
    kept = [jitted(x) for _ in range(8)]
    wanted = kept[0]
    assert recorded(jitted)._recording is not None
    del kept
    for _ in range(20):
        with ThreadPoolExecutor(1) as pool:
            same(pool.submit(jitted, x).result(), wanted)


def loss(params, x, y):
    return fnp.mean((fnp.tanh(x @ params["w"] + params["b"]) @ params["v"] - y) ** 2)


OPTIMIZER = ft.optim.adam(1e-2)


def step(params, state, x, y):
    """A step whose state has a part that no operation makes: the last loss."""
    value, grads = ft.value_and_grad(loss)(params, x, y)
    return *OPTIMIZER.update(params, state, grads), value


@pytest.mark.parametrize("batch", ["the same", "another", "a view"])
def test_training_steps_copy_batches_alone(batch):
    params = {"w": normal(6, 16), "b": normal(16), "v": normal(16, 1)}
    params = {name: placed(x) for name, x in params.items()}
    wanted = found = params, OPTIMIZER.init(params)
    found = ft.tree.map(lambda v: v + 0, found)
    jitted = ft.jit(step, donate_argnums=(0, 1))
    rows = placed(normal(41, 6)), placed(normal(41, 1))

    def batch_of(number):
        if batch == "another":
            return placed(normal(32, 6)), placed(normal(32, 1))
        return [x[number % 5 : number % 5 + 32] if batch == "a view" else x[:32] for x in rows]

    given = [batch_of(i) for i in range(14)]
    if batch == "the same":
        given = given[:1] * 14
    jitted.compile(*found, *given[0])
    for i, some in enumerate(given):
        if i == 2:
            # The loss lies on the GPU by now.
            jitted.compile(*found, *some)
        *wanted, first = step(*wanted, *some)
        *found, second = jitted(*found, *some)
        same(second, first, 1e-4)
    same(found, wanted, 1e-3)
    graph = recorded(jitted)._recording
    assert len(graph.copied.memory) == (0 if batch == "the same" else 2)
    assert len(graph.copied_out) == 1
    assert graph.first is not None
