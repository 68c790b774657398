"""Updates of many leaves by one launch on a GPU give what eager mode does."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.gpu_functions import normal
from support.gpu_programs import run_of

import functensor as ft
import functensor.numpy as fnp

pytestmark = pytest.mark.gpu

SHAPES = (10,), (37, 24), (3000,), (0, 4), (), (1,), (128, 10), (7,), (1 << 20,), (33, 33)


def on_gpu(tree):
    """Returns a tree whose arrays are on the GPU."""
    return ft.tree.map(lambda x: ft.to_device(x, "cuda"), tree)


def copied(tree):
    """Returns a tree of the same numbers in other memory."""
    return ft.tree.map(lambda x: x + 0 if hasattr(x, "_data") else x, tree)


def addresses(tree):
    """Returns where arrays lie, who are not told of it."""
    return [x._data.data.ptr for x in ft.tree.leaves(tree)]


def same(found, wanted):
    """Compares trees of arrays, to some last places."""
    for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        assert (x.dtype, x.shape, x.device) == (y.dtype, y.shape, y.device)
        x, y = (np.asarray(ft.to_device(v, "cpu")).astype(float) for v in (x, y))
        close = 3e-6 if found_in_single(wanted) else 2e-2
        np.testing.assert_allclose(x, y, close, close)


def found_in_single(tree):
    """Says whether no array of a tree has 16 bits."""
    return all(x.dtype.itemsize > 2 for x in ft.tree.leaves(tree) if np.shape(x))


def optimizers():
    """Returns optimizers by name."""
    optim = ft.optim
    return {
        "sgd": optim.sgd(0.1),
        "momentum": optim.momentum(0.1),
        "adam": optim.adam(1e-2),
        "clipped": optim.clipped_by_global_norm(optim.adam(1e-2), 1.0),
        "weight decay": optim.adamw(1e-2),
    }


def arguments(optimizer, dtypes=("f4",)):
    """Returns parameters, the optimizer's state and gradients, on the GPU."""
    kinds = [dtypes[i % len(dtypes)] for i in range(len(SHAPES))]
    params = [normal(*shape).astype(t) for shape, t in zip(SHAPES, kinds, strict=True)]
    grads = [normal(*shape).astype(t) for shape, t in zip(SHAPES, kinds, strict=True)]
    params = on_gpu([np.asarray(x) for x in params])
    return params, optimizer.init(params), on_gpu([np.asarray(x) for x in grads])


def groups(jitted):
    """Returns the sizes of the groups in a jitted function's plan."""
    from functensor.backends.cuda.plan.leaf_run import LeafRun

    (entry,) = jitted._entries.values()
    plan = run_of(entry)
    runs = getattr(plan, "plan", plan).text.runs
    return sorted([len(run._members) for run in runs if isinstance(run, LeafRun)])


@pytest.mark.parametrize("donated", [(), (0, 1)], ids=["kept", "donated"])
@pytest.mark.parametrize("name", optimizers())
def test_updates_are_those_of_eager_mode(name, donated):
    optimizer = optimizers()[name]
    params, state, grads = arguments(optimizer)
    wanted = params, state
    jitted = ft.jit(lambda p, s, g: optimizer.update(p, s, g), donate_argnums=donated)
    found = copied(wanted)
    jitted.compile(*found, grads)
    for call in range(8):
        wanted = optimizer.update(*wanted, grads)
        # Gradients lie elsewhere in some calls.
        found = jitted(*found, copied(grads) if call % 3 == 1 else grads)
        same(found, wanted)
    assert max(groups(jitted)) >= 7


def test_leaves_of_several_dtypes():
    optimizer = optimizers()["adam"]
    import ml_dtypes

    params, state, grads = arguments(optimizer, ("f4", "f2", ml_dtypes.bfloat16, "f8"))
    jitted = ft.jit(lambda p, s, g: optimizer.update(p, s, g), donate_argnums=(0, 1))
    wanted, found = (params, state), copied((params, state))
    jitted.compile(*found, grads)
    for _ in range(4):
        wanted = optimizer.update(*wanted, grads)
        found = jitted(*found, grads)
    same(found, wanted)


def test_leaves_that_are_views():
    f = ft.jit(lambda xs: [x * 2 + 1 for x in xs])
    base = on_gpu(normal(64, 48))
    kinds = [
        lambda: [base, base.T, base[1:], base.reshape(-1)[1:], base[:, ::2], base[:3]],
        lambda: [base + 0, (base + 0).T, base[1:] + 0, (base.reshape(-1) + 0)[1:],
                 base[:, ::2], base[:3] + 0],
    ]  # fmt: skip
    f.compile(kinds[0]())
    for call in range(8):
        leaves = kinds[call % 2]()
        same(f(leaves), [x * 2 + 1 for x in leaves])
    assert groups(f) == [6]


def test_a_training_step_updates_all_leaves_by_one_launch_of_its_graph():
    def loss(params, x):
        for w, b in params:
            x = fnp.tanh(x @ w + b)
        return fnp.mean(x * x)

    # Adam would enlarge the rounding of small gradients, and so would units that are saturated.
    optimizer = ft.optim.momentum(0.1)

    def step(params, state, x):
        value, grads = ft.value_and_grad(loss)(params, x)
        return *optimizer.update(params, state, grads), value

    params = on_gpu([(normal(24, 24) / 5, normal(24) / 5) for _ in range(5)])
    x = on_gpu(normal(8, 24))
    wanted = params, optimizer.init(params)
    found = copied(wanted)
    jitted = ft.jit(step, donate_argnums=(0, 1))
    jitted.compile(*found, x)
    before = addresses(found[0])
    for call in range(10):
        *wanted, value = step(*wanted, x)
        if call == 6:
            # All lie elsewhere, as after a checkpoint.
            found = copied(found)
            before = None
        *found, other = jitted(*found, x)
        same(other, value)
        if before:
            assert addresses(found[0]) == before
    same(found, wanted)
    assert groups(jitted) == [10]
    (entry,) = jitted._entries.values()
    (on_stream,) = run_of(entry)._on_streams.values()
    assert on_stream.refused == ""


def test_threads_and_streams_share_a_group():
    import cupy

    f = ft.jit(lambda xs, s: [x * s + 1 for x in xs])
    leaves = on_gpu([normal(n) for n in (5, 3000, 77)])
    f.compile(leaves, 1.5)
    wanted = {s: [x * s + 1 for x in leaves] for s in (0.5, 1.5, 2.5, 3.5)}
    cupy.cuda.get_current_stream().synchronize()

    def calls(number):
        with cupy.cuda.Stream(non_blocking=True) if number % 2 else cupy.cuda.Stream.null:
            for _ in range(20):
                s = number % 4 + 0.5
                same(f(leaves, s), wanted[s])
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(calls, range(8)))


def test_an_error_in_the_middle_leaves_the_next_call_right():
    from functensor.backends.cuda.plan.leaf_run import LeafRun

    f = ft.jit(lambda xs: [x * 2 + 1 for x in xs], donate_argnums=0)
    leaves = on_gpu([normal(n) for n in (5, 3000, 77)])
    wanted = [x * 2 + 1 for x in leaves]
    f.compile(copied(leaves))
    same(f(copied(leaves)), wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeafRun, "passed", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            f(copied(leaves))
    for _ in range(3):
        same(f(copied(leaves)), wanted)


def test_five_hundred_leaves_take_more_than_one_table():
    f = ft.jit(lambda xs, ys: [x * 2 - y for x, y in zip(xs, ys, strict=True)])
    xs, ys = (on_gpu([normal(n % 50 + 1, 2) for n in range(1500)]) for _ in range(2))
    f.compile(xs, ys)
    for _ in range(3):
        same(f(xs, ys), [x * 2 - y for x, y in zip(xs, ys, strict=True)])
    assert groups(f) == [1500]


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_the_slope_of_a_large_loss_is_written_ahead(dtype):
    from functensor import nn
    from functensor.backends.cuda.kernels import cross_entropy

    def loss(x, labels, scale):
        return fnp.mean(nn.softmax_cross_entropy(x, labels)) * scale

    x = on_gpu(normal(1024, 17_000).astype(dtype))
    labels = on_gpu(np.arange(1024) * 16)
    f = ft.value_and_grad(loss)
    jitted = ft.jit(f)
    jitted.compile(x, labels, 1.0)
    assert cross_entropy.ahead_launch(x._data) is not None
    for scale in (1.0, 1.0, 3.0, 3.0, 1.0):
        found, wanted = jitted(x, labels, scale), f(x, labels, scale)
        for a, b in zip(found, wanted, strict=True):
            a, b = (np.asarray(ft.to_device(v, "cpu")).astype(float) for v in (a, b))
            np.testing.assert_allclose(a, b, 1e-2 if dtype == "f2" else 1e-5, 1e-9)
    assert not cross_entropy.written_ahead
