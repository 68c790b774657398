"""Copies of a graph's inputs share memory as the inputs do; backward plans on GPUs copy them."""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.jitting.backward_plans import met_graphs

pytestmark = pytest.mark.gpu
WIDTH, HEADS = 32, 4


def heads_of(x):
    """Returns the three parts of an array's rows, as heads: views of it."""
    return [
        x[..., i * WIDTH : (i + 1) * WIDTH].reshape(2, 8, HEADS, -1).transpose(0, 2, 1, 3)
        for i in range(3)
    ]


def drawn(seed):
    import cupy

    random = np.random.default_rng(seed)
    whole = cupy.asarray(random.standard_normal((2, 8, 3 * WIDTH)).astype("f4"))
    alone = cupy.asarray(random.standard_normal((6, 5)).astype("f4"))
    return [*heads_of(whole), alone, alone[::2], alone.T[1:3]]


def copied(arrays, joint=True):
    from functensor.backends.cuda.plan.copied_inputs import CopiedInputs

    return CopiedInputs(dict(enumerate(arrays)), joint)


@pytest.mark.parametrize("joint", [True, False])
def test_copies_share_memory(joint):
    import cupy

    inputs = copied(drawn(0), joint)
    assert len(inputs.memory) == (2 if joint else 6)
    for seed in range(3):
        arrays = drawn(seed)
        for own, source in zip(inputs.memory, inputs.sources(arrays), strict=True):
            cupy.copyto(own.ravel().view("u1"), source.ravel().view("u1"))
        for place, x in enumerate(arrays):
            own = inputs.arrays[place]
            assert (own.shape, own.dtype) == (x.shape, x.dtype)
            assert not joint or own.strides == x.strides
            cupy.testing.assert_array_equal(own, x)


def test_inputs_that_share_memory_otherwise():
    arrays = drawn(0)
    inputs = copied(arrays)
    other = [x.copy() for x in arrays]
    assert inputs.sources(other) is None
    first, second, *rest = arrays
    assert inputs.sources([second, first, *rest]) is None
    assert inputs.sources(arrays) is not None


def test_a_view_of_little_is_copied_alone():
    import cupy

    large = cupy.zeros((1000, 8), "f4")
    inputs = copied([large[3:5], large[7:9]])
    assert [x.nbytes for x in inputs.memory] == [64, 64]


def placed(*shape, seed=0):
    x = np.random.default_rng([seed, *shape]).standard_normal(shape).astype("f4")
    return ft.to_device(0.3 * x, "cuda:0")


def block(params, x, y):
    rows = nn.layer_norm(x, params["scale"], params["shift"])
    mixed = nn.attention(*heads_of(rows @ params["in"]), causal=True)
    x = x + mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ params["out"]
    return fnp.mean((nn.gelu(x) - y) ** 2)


def test_a_transformer_block_trains():
    met_graphs.clear()
    params = {
        "in": placed(WIDTH, 3 * WIDTH), "out": placed(WIDTH, WIDTH),
        "scale": placed(WIDTH), "shift": placed(WIDTH),
    }  # fmt: skip
    step = ft.value_and_grad(block)
    given = [(placed(2, 8, WIDTH, seed=i), placed(2, 8, WIDTH, seed=i + 10)) for i in range(6)]
    wanted = [step(params, *batch) for batch in given]
    with ft.config.using(benchmark=True):
        step(params, *given[0])
        (alike,) = met_graphs.values()
        (graph,) = alike.graphs
        graph.make()
        graph.settled = True
        found = [step(params, *batch) for batch in given * 3]
    (stream,) = graph.plan._on_streams.values()
    assert stream._recording is not None
    assert stream._recordings == 1
    # Queries, keys and values are one copy.
    assert len(stream._recording.copied.memory) < len(graph.outline.held)
    for i, (value, grads) in enumerate(found):
        ft.testing.assert_allclose(value, wanted[i % 6][0], rtol=1e-5, atol=1e-6)
        for name, g in grads.items():
            ft.testing.assert_allclose(g, wanted[i % 6][1][name], rtol=1e-3, atol=1e-5)
    met_graphs.clear()
