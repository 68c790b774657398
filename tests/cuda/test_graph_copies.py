"""What graphs of plans write and copy in each call, without a GPU: kernels run on the CPU."""

from threading import Thread, get_ident
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from support import gpu_memory, many_threads, one_thread
from support.gpu_functions import normal
from support.gpu_memory import GpuArray
from support.gpu_programs import fused, plan_of
from support.leaf_kernels import argument

import functensor as ft
import functensor.numpy as fnp

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
needs_compiler = pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++")
SIZES = 12, 1, 0, 37, 16


@pytest.fixture(scope="module")
def library():
    """The kernels that copy few arrays, and many."""
    from functensor.backends.cuda.kernels import plan
    from functensor.backends.cuda.launch import source

    made = [
        SimpleNamespace(
            name=f"copy_{count}",
            text=f'extern "C" __global__ void\ncopy_{count}(copies<{count}> given, long long how) '
            f"{{\n    copy_arrays<{count}>(given, how);\n}}\n",
        )
        for count in plan.COPY_TABLES
    ]
    text = source("plan") + "".join(kernel.text for kernel in made)
    return many_threads.Compiled(text, made).library


@pytest.fixture
def copies(library, monkeypatch):
    """The module that copies, by those kernels."""
    from functensor.backends.cuda.kernels import plan

    def launch(types, grid, block, *given):
        getattr(library, f"run_copy_{types}")(*grid, block, *map(argument, given))

    monkeypatch.setattr(plan, "COPY_ARRAYS", launch)
    return plan


def memory(sizes, begin=0):
    """Returns arrays of bytes, which begin some bytes behind a boundary."""
    return [GpuArray((begin + size,), "u1")[begin:] for size in sizes]


def filled(arrays):
    """Returns arrays with random bytes in them."""
    for x in arrays:
        x[...] = np.random.default_rng(len(x)).integers(0, 255, x.shape)
    return arrays


def places_of(arrays):
    """Returns the addresses of arrays, in memory."""
    held = GpuArray((len(arrays),), "u8")
    held[...] = [x.data.ptr for x in arrays]
    return held


@needs_compiler
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("begins", [(0, 0), (16, 32), (3, 0), (0, 5)])
@pytest.mark.parametrize("way", ["both", "in", "out"])
def test_arrays_are_copied_to_where_memory_says(copies, way, begins, count):
    sizes = SIZES * count
    if way != "both":
        # The other end lies where wide loads may begin.
        begins = (0, begins[1]) if way == "in" else (begins[0], 0)
    given, found = filled(memory(sizes, begins[0])), memory(sizes, begins[1])
    if way == "both":
        copies.copy_arrays(list(zip(given, found, strict=True)))
    elif way == "in":
        copies.copy_in(places_of(given), found)
    else:
        copies.copy_out(given, places_of(found))
    for x, y in zip(given, found, strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


NUMBERS = {
    "f4": (1.5, np.float64(0.1), np.float32(3), float("inf"), 1e300, -1e300, 7, np.array(2.5)),
    "f8": (0.1, np.float32(0.1), 3, True), "f2": (0.1, 1e6, np.float16(2)),
    "i8": (3, -1, np.int64(5), True, np.array(9)), "i4": (3, -7, np.int32(5)), "u1": (255, 0),
    "?": (True, 0, np.True_), "u8": (2**64 - 1,), "c8": (1 + 2j,), ml_dtypes.bfloat16: (1.5, 0.1),
}  # fmt: skip


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.filterwarnings("ignore:overflow")
def test_words_are_those_of_numpy(dtype):
    from functensor.backends.cuda.plan.words import Words

    dtype = np.dtype(dtype)
    words = Words([dtype, np.dtype("f8")], 2)
    for number in NUMBERS[next(key for key in NUMBERS if np.dtype(key) == dtype)]:
        found = words.of([number, 0.5], [2**63, 17])
        assert len(found) == 32
        assert found[: dtype.itemsize] == dtype.type(number).tobytes()
        assert found[dtype.itemsize : 8] == bytes(8 - dtype.itemsize)
        assert np.frombuffer(found[8:16], "f8") == [0.5]
        assert np.frombuffer(found[16:], "u8").tolist() == [2**63, 17]


def step(params, state, x):
    """Returns new parameters, and a state with a part that stays as it is."""
    new = [p - 0.1 * fnp.sin(p * x) for p in params]
    return new, {"kept": state["kept"], "mean": state["mean"] * 0.9 + x}


def on_stream(monkeypatch, function, args, donated):
    """Returns what runs a function's graphs on a stream, and the number of its inputs."""
    from functensor.backends.cuda.plan import graph

    monkeypatch.setattr(graph, "cupy", gpu_memory.cupy)
    monkeypatch.setattr(graph, "ndarray", GpuArray)
    monkeypatch.setattr(graph, "lane_of", lambda stream: None)
    program = fused(function, *args)
    return graph.OnStream(plan_of(program, donated), None), len(program.inputs)


def test_inputs_that_are_results_are_handed_on(monkeypatch):
    from functensor.backends.cuda.plan.copied_inputs import CopiedInputs
    from functensor.backends.cuda.plan.graph import RecordedGraph

    args = [normal(3), normal(4)], {"kept": normal(5), "mean": normal(3)}, normal(1)
    run, count = on_stream(monkeypatch, step, args, range(4))
    arrays = [gpu_memory.on_gpu(x) for x in ft.tree.leaves(args)]
    launched = []
    graph = RecordedGraph(
        SimpleNamespace(launch=launched.append), [0] * count, [None] * count,
        CopiedInputs({}, joint=True), [None] * 4, [],
    )  # fmt: skip
    outs = run._launched(graph, arrays, [], [], "the stream")
    assert launched == ["the stream"]
    assert [*map(id, outs)] == [*map(id, arrays[:4])]


def test_what_is_not_taken_is_new(monkeypatch):
    from functensor.backends.cuda.plan import graph
    from functensor.backends.cuda.plan.copied_inputs import CopiedInputs

    copied = []
    run, _ = on_stream(monkeypatch, lambda x, y: (x * 2 @ y, y), [normal(3, 3)] * 2, [0])
    monkeypatch.setattr(graph, "copy_arrays", copied.extend)
    arrays = [gpu_memory.on_gpu(normal(3, 3)) for _ in range(2)]
    own = gpu_memory.on_gpu(normal(3, 3))
    recorded = graph.RecordedGraph(
        SimpleNamespace(launch=lambda stream: None), [0, 0], [None, None],
        CopiedInputs({}, joint=True), [own, None], [],
    )  # fmt: skip
    first, again = (run._launched(recorded, arrays, [], [], None) for _ in range(2))
    assert first[1] is again[1] is arrays[1]
    assert first[0] is not again[0]
    assert first[0] is not own
    assert [x is own for x, _ in copied] == [True, True]
    assert [y is out[0] for (_, y), out in zip(copied, (first, again), strict=True)] == [True] * 2


@pytest.mark.parametrize(
    ("function", "args", "donated", "right"),
    [
        (lambda x: fnp.sin(x) * 2, [(4,)], [], True),
        (lambda x: fnp.sin(x) * 2, [(1 << 19,)], [], False),
        (lambda x: fnp.sin(x) * 2, [(1 << 19,)], [0], True),
        (lambda x: [x, fnp.sum(fnp.sin(x))], [(1 << 19,)], [0], True),
        (lambda x: x.T, [(4, 4)], [], False),
        (lambda x, s: fnp.sin(x) * s, [(4,), ()], [], False),
        (lambda x: [fnp.sin(x), 3.0], [(4,)], [], False),
        (lambda x: ft.scan(lambda c, y: (c + y, y), x[0], x)[1], [(4, 4)], [], False),
    ],
)  # fmt: skip
def test_few_operations_are_a_graph_where_little_is_copied(function, args, donated, right):
    from functensor.backends.cuda.plan import in_launches
    from functensor.backends.cuda.plan.graph_choice import can_be_graph, can_be_small_graph

    program = in_launches(fused(function, *[np.ones(shape, "f4") for shape in args]))
    assert can_be_small_graph(program, donated) is right
    assert not can_be_graph(program)


def test_threads_have_a_context_before_they_call_the_driver(monkeypatch):
    from functensor.backends.cuda.plan import first_node

    asked = []
    runtime = SimpleNamespace(memGetInfo=lambda: asked.append(get_ident()))
    monkeypatch.setattr(first_node, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))

    def twice():
        for device in (0, 0, 1, 0):
            first_node.have_context(device)

    threads = [Thread(target=twice) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert len(asked) == 4


@pytest.mark.parametrize("places", [(), (2,), (0,), (1, 2), (0, 1, 2), (2, 0), (0, 0), (0, 2)])
def test_items_are_those_at_places(places):
    from functensor.backends.cuda.plan.plan import items_of

    assert [*items_of(places)([5, 6, 7])] == [[5, 6, 7][i] for i in places]
