"""Where the inputs of plans on a GPU lie, without a GPU."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from support.gpu_programs import fused, plan_of

import functensor.numpy as fnp

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")

IN_ORDER, TURNED = (16, 4), (4, 16)


def array(address, strides=IN_ORDER):
    """Returns what stands for an array of 4 rows of 4 elements in float32."""
    contiguous = strides == IN_ORDER
    return SimpleNamespace(
        data=SimpleNamespace(ptr=address),
        strides=strides,
        _c_contiguous=contiguous,
        flags=SimpleNamespace(c_contiguous=contiguous),
    )


def on_stream():
    """Returns what runs graphs, and has none."""
    from functensor.backends.cuda.plan.graph import OnStream

    found = OnStream.__new__(OnStream)
    found._moving, found._taken, found._dtypes, found._recording = set(), {}, [], None
    found._collective = found._reads_donated = False
    return found


def recording(*arrays):
    """Returns a graph that reads arrays where they are."""
    from functensor.backends.cuda.plan.graph import RecordedGraph, strides_unless_ordered

    addresses = [x.data.ptr for x in arrays]
    return RecordedGraph(None, addresses, list(map(strides_unless_ordered, arrays)), {}, [], [])


def test_a_graph_reads_inputs_in_the_order_that_it_was_recorded_with():
    run, graph = on_stream(), recording(array(512), array(1024, TURNED))
    assert graph.fits([array(512), array(1024, TURNED)])
    run._note_moving(graph, [array(512), array(1024, TURNED)])
    assert run._moving == set()
    # The same memory, transposed.
    for given, moving in (
        ([array(512, TURNED), array(1024, TURNED)], {0}),
        ([array(512), array(1024)], {0, 1}),
    ):
        assert not graph.fits(given)
        run._note_moving(graph, given)
        assert run._moving == moving
    assert not graph.fits([array(512), array(2048, TURNED)])


def test_donated_memory_in_another_order_is_not_written():
    plan = plan_of(fused(lambda x: fnp.sin(x) * 2, fnp.ones((4, 4), "f4")), [0], apart=False)
    plan.queue = lambda *given: list(given)
    x, turned = array(512), array(512, TURNED)
    # Behind the memory stands that for buffers of an earlier call.
    assert plan([x]) == [x, x, None]
    assert plan([turned]) == [turned, None, None]


def test_graphs_write_into_donated_memory_in_order(monkeypatch):
    from functensor.backends.cuda.plan import graph

    copied = array(2048)
    monkeypatch.setattr(graph, "gapless", lambda x: copied)
    run = on_stream()
    run._taken = {0: 0}
    run._calls, run.refused = 0, "a test"
    run._directly = lambda arrays: arrays
    other = array(512, TURNED)
    assert run.run([array(512, TURNED), other], [], None) == [copied, other]


def test_threads_share_no_graph_of_streams_of_their_own(monkeypatch):
    from functensor.backends.cuda.plan import graph

    monkeypatch.setattr(graph.cupy.cuda.runtime, "getDevice", lambda: 0)
    for pointer, same in ((0, True), (1, True), (2, False), (4096, True)):
        stream = SimpleNamespace(ptr=pointer)
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(graph.stream_key, stream).result()
        assert (graph.stream_key(stream) == other) is same


@pytest.mark.gpu
@pytest.mark.parametrize("donated", [(), (0,)], ids=["kept", "donated"])
def test_transposed_inputs(donated):
    import numpy as np

    import functensor as ft

    def f(x, y):
        z = fnp.sin(x) @ y
        return x * 2 - z, z @ z @ x

    first, y = (ft.to_device(np.arange(16.0).reshape(4, 4) / s, "cuda") for s in (9, 11))
    jitted = ft.jit(f, donate_argnums=donated)
    jitted.compile(first, y)
    for number in range(12):
        x = first.T if number % 3 == 2 else first
        wanted = [np.asarray(ft.to_device(v, "cpu")) for v in f(x, y)]
        found = [ft.to_device(v, "cpu") for v in jitted(x + 0 if donated else x, y)]
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, 1e-10)
        if donated:
            found = [ft.to_device(v, "cpu") for v in jitted((first + 0).T, y)]
            wanted = [np.asarray(ft.to_device(v, "cpu")) for v in f(first.T, y)]
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, 1e-10)


@pytest.mark.parametrize(("free", "kept"), [(99, False), (100, True)])
def test_a_graph_finds_the_memory_that_calls_have_left(free, kept, monkeypatch):
    from functensor.backends.cuda.plan import graph

    freed = []
    pool = SimpleNamespace(free_bytes=lambda: 100, free_all_blocks=lambda: freed.append(1))
    runtime = SimpleNamespace(memGetInfo=lambda: (free, 1000))
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(runtime=runtime), get_default_memory_pool=lambda: pool
    )
    monkeypatch.setattr(graph, "cupy", cupy)
    graph.make_room()
    assert freed == ([] if kept else [1])
