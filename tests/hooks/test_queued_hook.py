"""Hooks whose values are queued: the order of calls, what they get, and that nobody waits."""

import threading

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.errors import RuleResultError
from functensor.hooks import FnHook, Hook, QueuedHook, use, wrap

X = numpy.array([0.5, -1.0, 2.0])


class Noting(Hook):
    """Notes operations and copies of all values."""

    def __init__(self):
        self.seen = []

    def forward(self, op, inputs, output):
        self.note(op, [*inputs, output])

    def backward(self, op, grad_inputs, grad_output):
        self.note(op, [*grad_inputs, grad_output])

    def note(self, op, values):
        values = [
            None if x is None else numpy.asarray(ft.to_device(ft.hooks.value(x), "cpu"))
            for x in values
        ]
        self.seen.append((op.phase, op.name, op.line, op.batch_size, values))


def compare(queued, itself, reduce=None):
    """Checks that a queued hook has seen what the hook itself has."""
    assert itself.seen
    for (*told, values), (*wanted, expected) in zip(queued.seen, itself.seen, strict=True):
        assert told == wanted
        for value, other in zip(values, expected, strict=True):
            if other is None:
                assert value is None
                continue
            other = other if reduce is None else numpy.asarray(reduce(other))
            assert value.shape == other.shape
            assert value.dtype == other.dtype
            numpy.testing.assert_array_equal(value, other)


def f(x):
    return np.sum(np.sin(x) * x)


FORMS = {
    "evaluated": lambda g: lambda: g(X),
    "grad": lambda g: lambda: ft.grad(g)(X),
    "vmap": lambda g: lambda: ft.vmap(g)(numpy.stack([X, X])),
    "jvp": lambda g: lambda: ft.jvp(g, (X,), (X,)),
    "scan": lambda g: lambda: ft.scan(lambda c, x: (c + g(x * X), c), 0.0, X),
    "checkpoint": lambda g: lambda: ft.grad(ft.checkpoint(g))(X),
    "tensor": lambda g: lambda: g(ft.tensor(X, requires_grad=True)).backward(),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_queued_hook_sees_what_the_hook_itself_sees(form, compiled):
    run = FORMS[form](ft.jit(f) if compiled else f)
    for _ in range(3):
        itself, queued = Noting(), Noting()
        with use(itself):
            run()
        with use(QueuedHook(queued)):
            run()
        compare(queued, itself)


def test_only_what_the_hook_has_is_called():
    assert not QueuedHook(FnHook(forward=print)).sees("backward")
    assert not QueuedHook(FnHook(backward=print)).sees("forward")
    assert repr(QueuedHook(ft.hooks.PrintHook())).startswith("QueuedHook(PrintHook(")


def test_no_hook_is_active_while_the_queue_is_shown():
    outer, inner = Noting(), []
    hook = FnHook(forward=lambda op, inputs, out: inner.append(float(np.sum(out * out))))
    with use(outer), use(QueuedHook(hook)):
        np.sin(X)
    assert [name for _, name, *_ in outer.seen] == ["sin"]
    assert inner == [numpy.sum(numpy.sin(X) ** 2)]


def test_a_hook_that_returns_a_value_is_refused():
    hook = QueuedHook(FnHook(forward=lambda op, inputs, out: 2 * out))
    message = "where QueuedHook has it observe alone"
    with pytest.raises(RuleResultError, match=message) as caught, use(hook):
        np.sin(X)
    assert "test_queued_hook.py" in str(caught.value)


def test_a_hook_that_returns_what_it_is_shown_is_not():
    hook = QueuedHook(FnHook(forward=lambda op, inputs, out: out))
    with use(hook):
        numpy.testing.assert_array_equal(np.sin(X), numpy.sin(X))


def test_what_the_hook_raises_names_the_operation_and_the_rest_is_shown_later():
    seen = []

    def forward(op, inputs, output):
        if op.name == "sin":
            raise ValueError("no sines")
        seen.append(op.name)

    hook = QueuedHook(FnHook(forward=forward))
    with use(hook):
        with pytest.raises(ValueError, match="no sines") as caught:
            np.sin(X)
        np.cos(X)
    assert any("on sin, at " in note for note in caught.value.__notes__)
    assert seen == ["cos"]
    assert not hook.waiting


def test_reduced_values_are_shown_where_they_are_asked_for():
    whole, sums = Noting(), Noting()
    for hook in (whole, QueuedHook(sums, reduce=np.sum)):
        with use(hook):
            ft.grad(lambda x: np.sum(np.sin(x) * np.arange(3)))(X)
    compare(sums, whole, numpy.sum)
    with pytest.raises(TypeError, match="reduce"):
        QueuedHook(sums, reduce=3)


def test_hooks_that_measure_are_refused():
    with pytest.raises(TypeError, match="too late: use TimerHook itself"):
        QueuedHook(ft.hooks.TimerHook())
    with pytest.raises(TypeError, match="QueuedHook takes a Hook, not builtin"):
        QueuedHook(print)


def test_threads_share_a_queue():
    names, lock = [], threading.Lock()

    def forward(op, inputs, output):
        with lock:
            names.append(op.name)

    hook = QueuedHook(FnHook(forward=forward))

    def work():
        with handle.shared():
            for _ in range(50):
                np.sin(X)

    with use(hook) as handle:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert names == ["sin"] * 200


def test_the_backward_pass_after_a_wrapped_function_is_shown():
    hook = QueuedHook(noting := Noting())
    ft.grad(wrap(f, hook))(X)
    hook.flush()
    assert [name for phase, name, *_ in noting.seen if phase == "backward"] == [
        "sum", "multiply", "sin",
    ]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True])
def test_a_gpu_is_not_waited_for(compiled):
    x = ft.to_device(numpy.full((4096, 4096), 1 / 4096, numpy.float32), "cuda")

    def products(x):
        for _ in range(20):
            x = x @ x
        return np.sum(ft.tag(x[:64], "last"))

    function = ft.jit(products) if compiled else products
    for _ in range(2):
        with use(QueuedHook(Noting()), "last"):
            function(x)
    queued = QueuedHook(noting := Noting())
    with use(queued, "last"):
        # The GPU has work for longer than Python takes to queue it.
        function(x)
        function(x)
        assert queued.waiting
        assert not noting.seen
    assert not queued.waiting
    with use(itself := Noting(), "last"):
        function(x)
        function(x)
    compare(noting, itself)


@pytest.mark.gpu
@pytest.mark.parametrize("reduced", [False, True])
def test_values_of_a_gpu_of_any_layout_arrive(reduced):
    def largest(x):
        return np.max(x, initial=-9)

    x = ft.to_device(numpy.arange(12.0).reshape(3, 4), "cuda")
    itself, queued = Noting(), Noting()
    for hook in (itself, QueuedHook(queued, reduce=largest if reduced else None)):
        with use(hook):
            for _ in range(30):
                np.sin(x.T[::2]), np.exp(x[:0]), np.sum(x), np.astype(x, "bfloat16")
    compare(queued, itself, largest if reduced else None)
    assert len(queued.seen) > 128
