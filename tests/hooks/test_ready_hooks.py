"""The ready hooks: under every transformation, in threads, over several blocks, without leaks."""

import gc
import io
import subprocess
import sys
import threading

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.backends.native.background import later
from functensor.hooks import CountHook, HistogramHook, MemoryHook, PrintHook, TimerHook, use
from functensor.primitives.core.array import Tracer

X = numpy.array([0.3, -0.7, 1.1])
BATCH = numpy.stack([X, 2 * X, X - 1, X * X])

READY = {
    "timer": TimerHook,
    "memory": MemoryHook,
    "memory, backward": lambda: MemoryHook(backward=True),
    "print": lambda: PrintHook(file=io.StringIO()),
    "count": CountHook,
    "histogram": HistogramHook,
    "histogram, automatic": lambda: HistogramHook(automatic=True),
}


@ft.custom_vjp
def doubled(x):
    return np.sin(x) * 2


doubled.defvjp(lambda x: (doubled(x), x), lambda x, g: (2 * g * np.cos(x),))


def loss(x):
    """Operations of all kinds, a loop, a branch, a rule of its own, tags and scopes."""
    with ft.scope("layer"):
        h = ft.tag(np.tanh(doubled(x) * 1.5), "hidden")
        with ft.scope("inner"):
            h = np.concatenate([h, x[1:]]).astype("float32")
    last, steps = ft.scan(lambda c, y: (np.sin(c) * y, c), np.sum(h), h)
    last = ft.cond(np.sum(x) > 0, np.exp, np.cos, last)
    return last + np.mean(steps.reshape(-1)[::2] / 3)


def by_tensors():
    x = ft.tensor(X, requires_grad=True)
    loss(x).backward()
    return x.grad


MODES = {
    "eager": lambda: loss(X),
    "grad": lambda: ft.grad(loss)(X),
    "jvp": lambda: ft.jvp(loss, (X,), (X,)),
    "vmap": lambda: ft.vmap(loss)(BATCH),
    "vmap of grad": lambda: ft.vmap(ft.grad(loss))(BATCH),
    "grad of vmap": lambda: ft.grad(lambda xs: np.sum(ft.vmap(loss)(xs)))(BATCH),
    "hessian": lambda: ft.hessian(loss)(X),
    "jit": lambda: ft.jit(loss)(X),
    "jit of grad": lambda: ft.jit(ft.grad(loss))(X),
    "grad of jit": lambda: ft.grad(ft.jit(loss))(X),
    "grad of checkpoint": lambda: ft.grad(ft.checkpoint(loss))(X),
    "tensors": by_tensors,
    "program": lambda: ft.make_program(loss)(X)(X),
}


def bits(tree):
    return [numpy.asarray(leaf).tobytes() for leaf in ft.tree.leaves(tree)]


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("make", READY.values(), ids=READY)
def test_results_are_the_same_to_the_last_bit(make, mode):
    plain = bits(mode())
    hook = make()
    for _ in range(2):
        with use(hook):
            assert bits(mode()) == plain
    repr(hook)


def traced_values():
    """Returns the traced values that are alive, but for those of tensors."""
    # What compiles machine code makes some of its own.
    assert later(gc.collect).wait(60)
    # The class itself: other libraries have objects that warn of being asked.
    found = [x for x in gc.get_objects() if issubclass(type(x), Tracer)]
    return [x for x in found if not x.owner.standing]


@pytest.mark.parametrize("make", READY.values(), ids=READY)
def test_no_traced_value_stays_alive(make):
    # Other tests may have left some.
    before = traced_values()
    hook = make()
    with use(hook):
        for mode in MODES.values():
            mode()
    assert not [x for x in traced_values() if not any(x is known for known in before)]
    del hook


def test_a_planted_leak_is_found():
    before = traced_values()
    kept = []
    with use(ft.hooks.FnHook(forward=lambda op, inputs, output: kept.append(output))):
        ft.grad(loss)(X)
    found = {id(x) for x in traced_values()} - {id(x) for x in before}
    assert found == {id(x) for x in kept if isinstance(x, Tracer)} != set()


def fail(op):
    raise RuntimeError(f"no {op.name}")


@pytest.mark.parametrize("make", READY.values(), ids=READY)
def test_an_error_in_the_middle_is_in_the_way_of_nothing(make):
    hook = make()
    failing = ft.hooks.FnHook(forward=lambda op, inputs, output: fail(op))
    for _ in range(3):
        # The failing hook is registered first, so that the operation does not end for this one.
        with use(failing, match="sin"), use(hook), pytest.raises(RuntimeError):
            np.sin(np.cos(X))
    with use(hook):
        ft.grad(loss)(X)


@pytest.mark.parametrize("make", READY.values(), ids=READY)
def test_threads_that_share_a_hook_lose_nothing(make):
    hook, errors = make(), []

    def work(handle):
        try:
            with handle.shared():
                for _ in range(20):
                    ft.grad(lambda x: np.sum(np.sin(x) * x))(X)
        except Exception as error:
            errors.append(error)

    with use(hook) as handle:
        threads = [threading.Thread(target=work, args=(handle,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
    if isinstance(hook, CountHook):
        assert set(hook.counts.values()) == {80}
    if isinstance(hook, TimerHook):
        assert {t.calls for t in hook.times().values()} == {80}
    if isinstance(hook, PrintHook):
        lines = hook.file.getvalue().splitlines()
        assert len(lines) == 80 * 6
        assert all(line.startswith(("forward ", "backward ")) for line in lines)
    if isinstance(hook, HistogramHook) and not hook.automatic:
        assert hook.histogram("sin").counts.sum() == hook.histogram("sin", "backward").counts.sum()
        assert hook.histogram("sin").counts.sum() == 80 * 3
    if isinstance(hook, MemoryHook):
        gc.collect()
        assert hook.live == 0
        assert hook.held() == []
        assert hook.peak >= 24


def test_importing_hooks_does_not_import_the_ready_ones():
    code = (
        "import sys, functensor as ft; ft.hooks.use; "
        "print([m for m in ('counting', 'histograms', 'memory', 'printing', 'timer') "
        "if 'functensor.hooks.' + m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


def test_tags_are_called_by_their_names():
    def tagged(x):
        return np.sum(ft.tag(np.sin(x), "hidden") ** 2)

    timer, counter, printed = TimerHook(), CountHook(), io.StringIO()
    with use(timer), use(counter), use(PrintHook(file=printed)):
        ft.grad(tagged)(X)
    report = ft.hooks.profile(ft.grad(tagged))(X)
    both = {("tag 'hidden'", "forward"), ("tag 'hidden'", "backward")}
    assert both <= set(timer.times())
    assert both <= set(counter.counts)
    assert both <= {(event.name, event.phase) for event in report.events}
    for text in (timer.report(), counter.report(), printed.getvalue(), str(report)):
        assert "tag 'hidden'" in text
        assert "checkpoint_name" not in text
