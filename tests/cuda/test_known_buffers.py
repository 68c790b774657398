"""Calls with the buffers of the last one: what is not asked again, and what is, without a GPU."""

import numpy as np
import pytest
from support import one_thread
from support.gpu_functions import normal
from support.gpu_programs import fused, plan_of
from support.leaf_kernels import Buffer, Launcher, buffer

import functensor as ft
import functensor.numpy as fnp
from functensor.backends.known_buffers import KnownBuffers, SameBuffers
from functensor.primitives.core import donation
from functensor.primitives.core.buffers import wrap

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
needs_compiler = pytest.mark.skipif(one_thread.COMPILER is None, reason="needs g++")
SHAPES = (10,), (37, 24), (300,)


class Asked(Buffer):
    """Memory that counts how often its address is asked for."""

    count = 0

    @property
    def data(self):
        """Where it lies."""
        Asked.count += 1
        return super().data


def asked(x):
    """Returns a copy of an array as such memory."""
    return buffer(x).view(Asked)


def known(buffers, stands_for):
    """Returns a list of buffers that a call has in common with others."""
    found = KnownBuffers(buffers)
    found.known = found.donated = stands_for
    return found


def update(params, grads):
    """Returns updated parameters."""
    return ft.tree.map(lambda p, g: p - 0.01 * g, params, grads)


def lists():
    """Returns parameters and gradients."""
    return [[normal(*shape).astype("f4") for shape in SHAPES] for _ in range(2)]


@pytest.fixture
def plan(monkeypatch):
    """The plan of an update, whose kernel runs on the CPU."""
    made = plan_of(fused(update, *lists()), range(len(SHAPES)), apart=False)
    Launcher(monkeypatch, made.text.runs)
    return made


@needs_compiler
def test_addresses_are_asked_once(plan):
    params, grads = ([asked(x) for x in some] for some in lists())
    one = SameBuffers([])
    counts, wanted = [], [x.copy() for x in params]
    for _ in range(3):
        Asked.count = 0
        outs = plan(known([*params, *grads], one))
        counts.append(Asked.count)
        wanted = [p - np.float32(0.01) * g for p, g in zip(wanted, grads, strict=True)]
        for out, own, x in zip(outs, params, wanted, strict=True):
            assert out is own
            np.testing.assert_allclose(np.asarray(out), np.asarray(x), rtol=1e-6, atol=1e-6)
    assert counts == [9, 0, 0]


@needs_compiler
@pytest.mark.parametrize("stands_for", ["nothing", "another"])
def test_other_buffers_are_asked_anew(plan, stands_for):
    one = SameBuffers([])
    for _ in range(2):
        plan(known([buffer(x) for some in lists() for x in some], one))
        one = SameBuffers([])
    params, grads = ([buffer(x) for x in some] for some in lists())
    wanted = [p - np.float32(0.01) * g for p, g in zip(params, grads, strict=True)]
    outs = plan(known([*params, *grads], one if stands_for == "another" else None))
    for out, own, x in zip(outs, params, wanted, strict=True):
        assert out is own
        np.testing.assert_allclose(np.asarray(out), np.asarray(x), rtol=1e-6, atol=1e-6)


@needs_compiler
def test_results_in_new_memory_are_new_each_time(plan):
    params, grads = ([buffer(x) for x in some] for some in lists())
    (run,) = plan.text.runs
    operands = [x for pair in zip(grads, params, strict=True) for x in pair]
    wanted = params[1] - np.float32(0.01) * grads[1]
    one = SameBuffers([])
    found = [run(*operands, into=(params[0], None, params[2]), known=one)[1] for _ in range(2)]
    assert found[0] is not found[1]
    for x in found:
        assert x is not params[1]
        np.testing.assert_allclose(np.asarray(x), np.asarray(wanted), rtol=1e-6, atol=1e-6)


def test_who_owns_memory_is_asked_once(monkeypatch):
    counts = []

    def owns(x):
        counts.append(1)
        return True

    monkeypatch.setitem(donation.OWNERS, np.ndarray, owns)
    one = SameBuffers([])
    data = [np.ones(3), np.ones(4)]
    for _ in range(3):
        arrays = [wrap(x) for x in data]
        buffers = known([x._data for x in arrays], one)
        data = []
        donation.claimed(arrays, buffers, (0, 1), "f")
        assert buffers.known is one
        data = [*buffers]
        del buffers
        for x in arrays:
            with pytest.raises(donation.DonatedArrayError):
                x.shape  # noqa: B018
    assert len(counts) == 2


def test_a_copy_is_not_known():
    one = SameBuffers([])
    one.owned = True
    array = wrap(np.ones(3))
    seen = array._data
    buffers = known([seen], one)
    donation.claimed([array], buffers, (0,), "f")
    assert buffers[0] is not seen
    assert buffers.known is None


def test_a_plan_of_what_it_computes_before_asks_each_time():
    def steps(params):
        return ft.tree.map(lambda p: p - 0.1 * fnp.cumsum(p, axis=0), params)

    params, _ = lists()
    source = plan_of(fused(steps, params), range(3), apart=False).source
    assert "into=(into_" in source
    assert source.count("known=known") == 0


def test_a_graph_looks_once_where_known_inputs_are():
    from functensor.backends.cuda.plan.graph import RecordedGraph

    arrays = [asked(np.ones(3)), asked(np.ones(4))]
    addresses = [x.ctypes.data for x in arrays]
    graph = RecordedGraph(None, addresses, [None, None], {}, [], [])
    one, other = SameBuffers([]), SameBuffers([])
    found = []
    for stands_for in (None, one, one, other, one):
        Asked.count = 0
        assert graph.fits(arrays, stands_for)
        found.append(Asked.count)
    assert found == [2, 2, 0, 2, 2]
    moved = [asked(np.ones(3)), arrays[1]]
    assert not graph.fits(moved, other)
    assert graph.fits(arrays, one)
