"""One launch for many leaves, without a GPU: what is grouped, and what the kernels compute."""

import ml_dtypes
import numpy as np
import pytest
from support import nvrtc, one_thread
from support.gpu_functions import normal
from support.gpu_programs import Processes, fused, plan_of
from support.leaf_kernels import Launcher, buffer
from support.long_forms import only_long, with_slow

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.gradient_buckets import begin_mean, end_mean

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")

needs_compiler = pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++")
SHAPES = (10,), (37, 24), (3000,), (1,), (128, 10), (7,)


def groups_of(plan):
    """Returns the sizes of a plan's groups."""
    from functensor.backends.cuda.plan.leaf_run import LeafRun

    return [len(run._members) for run in plan.text.runs if isinstance(run, LeafRun)]


def adam(params, state, grads):
    """A step of Adam alone."""
    return ft.optim.adam(1e-2).update(params, state, grads)


def sgd(params, state, grads):
    """A step of descent with momentum, of which nothing is a power of two."""
    state = ft.tree.map(lambda m, g: 0.9 * m + g, state, grads)
    return ft.tree.map(lambda p, m: p - 0.01 * m, params, state), state


def arguments(optimizer, dtype="f4", shapes=SHAPES):
    """Returns parameters, their state and gradients."""
    params = [normal(*shape).astype(dtype) for shape in shapes]
    grads = [normal(*shape).astype(dtype) for shape in shapes]
    start = [np.zeros(shape, dtype) for shape in shapes]
    state = ft.optim.adam(1e-2).init(list(map(fnp.asarray, params))) if optimizer is adam else start
    return params, state, grads


def test_updates_of_all_leaves_are_one_launch():
    args = arguments(adam, shapes=[(10,), (37, 24), (3000,), (128, 10)])
    plan = plan_of(fused(adam, *args), range(len(ft.tree.leaves(args[:2]))))
    assert groups_of(plan) == [4]
    assert len(plan.text.runs) == 1
    # Parameters and both moments stay where they are.
    assert plan.source.count("into_") == 2 * 12
    assert "moved_into" not in plan.source


def test_other_dtypes_are_other_launches():
    wide = [fnp.ones(n, "f4") for n in (3, 40)]
    narrow = [fnp.ones(n, "f2") for n in (5, 60)]

    def f(xs):
        return [x * 2 + 1 for x in xs]

    assert groups_of(plan_of(fused(f, [*wide, *narrow]))) == [2, 2]
    # What is read by value differs.
    assert groups_of(plan_of(fused(lambda xs: [x * i + 1 for i, x in enumerate(xs)], wide))) == []


def test_numbers_that_leaves_share_are_arguments():
    xs = [fnp.ones(n, "f4") for n in (3, 40, 8)]

    def f(xs, a, b):
        return [xs[0] * a + 1, xs[1] * a + 1, xs[2] * b + 1]

    assert groups_of(plan_of(fused(f, xs, fnp.ones((), "f4"), fnp.ones((), "f4")))) == [2]


def test_regions_that_need_each_other_are_not_grouped():
    def chain(x, w):
        for _ in range(4):
            x = fnp.sin(x) * 2
            x = x @ w
        return x

    x = fnp.ones((4, 4), "f4")
    assert groups_of(plan_of(fused(chain, x, x))) == []

    def crossed(x, y, w):
        # Each text has two regions; grouped both ways they would need each other.
        a, c = fnp.sin(x) * 2, fnp.cos(y) * 3
        return fnp.cos(a @ w) * 3, fnp.sin(c @ w) * 2

    plan = plan_of(fused(crossed, x, x, x))
    assert groups_of(plan) == [2]


def test_leaves_of_earlier_means_are_updated_before_the_last_one_is_waited_for():
    axis = {"axis_name": (Processes(2),)}

    def averaged(params, state, grads):
        means = []
        buckets = grads[:3], grads[3:]
        begun = [begin_mean.bind(gs, {**axis, "scatter": False, "lead": 0}) for gs in buckets]
        for handle, gs in zip(begun, buckets, strict=True):
            flat = end_mean.bind((handle,), {**axis, "parts": 1})
            parts = fnp.split(flat, np.cumsum([g.size for g in gs])[:-1])
            means += [x.reshape(g.shape) for x, g in zip(parts, gs, strict=True)]
        return adam(params, state, means)

    shapes = (10,), (37, 24), (3000,), (128, 10), (7, 5)
    args = arguments(adam, shapes=shapes)
    plan = plan_of(fused(averaged, *args))
    names = [e.primitive.name for e in plan.text.program.equations]
    kept = [name for name in names if name in ("begin_mean", "end_mean", "fused")]
    assert kept == ["begin_mean", "begin_mean", "end_mean", "fused", "end_mean", "fused"]
    assert groups_of(plan) == [3, 2]
    # Nothing is written to gradients while they are on their way.
    assert plan.source.count("owned=False") == 2
    donated = plan_of(fused(averaged, *args), [len(ft.tree.leaves(args)) - len(shapes)])
    assert donated.source.count("owned=False") == 1


def test_texts_are_compared_where_operations_are_the_same(monkeypatch):
    from functensor.backends.cuda.plan import leaf_groups

    made = []
    source = leaf_groups.region_source
    monkeypatch.setattr(leaf_groups, "region_source", lambda *a: made.append(a) or source(*a))

    def f(x, y, z):
        return fnp.sin(x) * 2, fnp.cos(y) * 2, x - fnp.sum(y), fnp.exp(z) * 2 + 1

    program = fused(f, fnp.ones(3, "f4"), fnp.ones(4, "f4"), fnp.ones(5, "f4"))
    assert sum(equation.primitive.fused for equation in program.equations) > 2
    leaf_groups.grouped_leaves(program)
    assert not made
    leaf_groups.grouped_leaves(fused(lambda xs: [x * 2 + 1 for x in xs], [fnp.ones(3, "f4")] * 2))
    assert len(made) == 2


def test_rows_and_broadcasts_are_no_leaves():
    def f(x, y, b):
        return x + b * 2, y + b * 2, fnp.sum(x * 2, 1), fnp.sum(y * 2, 1)

    x, y = fnp.ones((4, 4), "f4"), fnp.ones((8, 4), "f4")
    plan = plan_of(fused(f, x, y, fnp.ones(4, "f4")))
    assert groups_of(plan) == []


def test_memory_that_another_leaf_reads_is_not_written():
    def f(x, y):
        return x * 2 - y, x.reshape(16) * 2 - y.reshape(16)

    def g(x, y):
        return x * 2 - y, y.reshape(16) * 2 - 1 - y.reshape(16)

    x = fnp.ones((4, 4), "f4")
    plan = plan_of(fused(f, x, x), [0], apart=False)
    assert groups_of(plan) == [2]
    assert plan.text.taken == {0: 0}
    assert "into=" not in plan.source
    assert "moved_into(" in plan.source
    plan = plan_of(fused(g, x, x), [0], apart=False)
    assert "into=(into_0,)" in plan.source


def leaf_runs(function, args, donated=()):
    """Returns the plan of a function and its runs, all of which are groups."""
    plan = plan_of(fused(function, *args), donated, apart=False)
    from functensor.backends.cuda.plan.leaf_run import LeafRun

    return plan, [run for run in plan.text.runs if isinstance(run, LeafRun)]


def computed(patch, function, args, change=lambda x: x):
    """Returns the results of a group on the CPU's threads, those of eager mode, and launches."""
    plan, runs = leaf_runs(function, args)
    launcher = Launcher(patch, runs)
    values = [change(buffer(x)) if np.shape(x) else np.asarray(x) for x in ft.tree.leaves(args)]
    found = plan.queue(*values)
    return found, ft.tree.leaves(function(*args)), launcher.launched


def compare(found, wanted, close):
    """Compares results with those of eager mode."""
    for x, y in zip(found, wanted, strict=True):
        y = np.asarray(y)
        assert np.shape(x) == y.shape
        np.testing.assert_allclose(np.asarray(x, "f8"), y.astype("f8"), close, close)


LARGE_SHAPES = (10,), (37, 24), (3000,), (128, 10), (7,)
DTYPES = {"f4": 1e-6, "f8": 1e-12, "f2": 2e-3}


@needs_compiler
@pytest.mark.parametrize("dtype", with_slow([*DTYPES, "bfloat16"], ["f8", "f2", "bfloat16"]))
@pytest.mark.parametrize("optimizer", [adam, sgd])
def test_groups_compute_what_eager_mode_does(monkeypatch, optimizer, dtype):
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    args = arguments(optimizer, kind, LARGE_SHAPES)
    found, wanted, launched = computed(monkeypatch, optimizer, args)
    compare(found, wanted, DTYPES.get(dtype, 1e-2))
    assert len(launched) == 1


@only_long
@pytest.mark.long
@needs_compiler
def test_memory_may_begin_anywhere(monkeypatch):
    def unaligned(x):
        place = np.empty(x.nbytes + 32, "u1")
        start = -place.ctypes.data % 16 + 4
        found = place[start : start + x.nbytes].view(x.dtype).reshape(x.shape).view(type(x))
        found[...] = x
        return found

    args = arguments(sgd, "f4", LARGE_SHAPES)
    found, wanted, launched = computed(monkeypatch, sgd, args, unaligned)
    compare(found, wanted, 1e-6)
    assert len(launched) == 1


@only_long
@pytest.mark.long
@needs_compiler
def test_many_leaves_take_several_tables(monkeypatch):
    from functensor.backends.cuda.plan import leaf_run

    monkeypatch.setattr(leaf_run, "largest_table", lambda: 300)
    args = arguments(sgd, "f4", LARGE_SHAPES)
    found, wanted, launched = computed(monkeypatch, sgd, args)
    compare(found, wanted, 1e-6)
    # Five addresses and two counts are 56 bytes a leaf; five leaves of 300.
    assert [blocks for _, blocks in launched] == [(1 + 1 + 3 + 2 + 1,)]
    monkeypatch.setattr(leaf_run, "largest_table", lambda: 120)
    found, wanted, launched = computed(monkeypatch, sgd, args)
    compare(found, wanted, 1e-6)
    assert [blocks for _, blocks in launched] == [(2,), (5,), (1,)]


@only_long
@pytest.mark.long
@needs_compiler
def test_blocks_of_many_elements_go_over_several_pieces(monkeypatch):
    from functensor.backends.cuda.plan import leaf_run

    monkeypatch.setattr(leaf_run, "FEW_ELEMENTS", 100)
    args = arguments(sgd, "f4", [(10_001,), (4096,), (4097,), (3,)])
    found, wanted, launched = computed(monkeypatch, sgd, args)
    compare(found, wanted, 1e-6)
    assert [blocks for _, blocks in launched] == [(3 + 1 + 2 + 1,)]


@needs_compiler
def test_results_lie_in_the_memory_that_they_are_given(monkeypatch):
    args = arguments(sgd, "f4", LARGE_SHAPES)
    leaves = ft.tree.leaves(args)
    plan, runs = leaf_runs(sgd, args, range(10))
    Launcher(monkeypatch, runs)
    given = list(map(buffer, leaves))
    wanted = ft.tree.leaves(sgd(*args))
    found = plan.queue(*given, *[given[i] for i in plan.text.taken.values()])
    compare(found, wanted, 1e-6)
    assert all(x is given[i] for x, i in zip(found, plan.text.taken.values(), strict=True))


@only_long
@pytest.mark.long
@needs_compiler
def test_a_leaf_in_another_order_is_computed_by_itself(monkeypatch):
    from functensor.backends.cuda.plan import leaf_run

    alone = []

    def by_itself(self, member, given, memory):
        alone.append(given[0].shape)
        values = [fnp.asarray(np.array(x)) for x in given]
        outs = self._members[member].primitive.program.run(values)
        for x, out in zip(memory, outs, strict=True):
            x[...] = np.asarray(out)

    monkeypatch.setattr(leaf_run.LeafRun, "_by_itself", by_itself)
    args = arguments(sgd, "f4", LARGE_SHAPES)

    def turned(x):
        return np.asfortranarray(x).view(type(x)) if x.shape == (37, 24) else x

    found, wanted, launched = computed(monkeypatch, sgd, args, turned)
    compare(found, wanted, 1e-6)
    assert alone == [(37, 24)]
    assert len(launched) == 1


@nvrtc.on_every_architecture
def test_kernels_of_groups_compile(architecture):
    from functensor.backends.cuda.launch import included
    from functensor.backends.cuda.plan.region_run import INCLUDES, REGION_OPTIONS

    texts = []
    for number, (optimizer, dtype) in enumerate([(adam, "f4"), (adam, "f2"), (sgd, "f8")]):
        _, (run,) = leaf_runs(optimizer, arguments(optimizer, dtype, LARGE_SHAPES))
        texts.append(run.text.replace(run.name, f"leaves_{number}"))
    made = nvrtc.compiled(included(INCLUDES + "\n".join(texts)), architecture, REGION_OPTIONS)
    assert made.cubin.startswith(b"\x7fELF"), made.log
    assert made.warnings == []
