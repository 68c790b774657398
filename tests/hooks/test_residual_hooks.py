"""Hooks on residuals: each is packed once, freed, and comes back where a rule asks for it."""

import gc
import threading
import weakref

import numpy
import pytest
from support.residual_cases import BATCH, Bytes, W, X, bits, network, twice

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, MemoryHook, ResidualHook, use, wrap


def test_each_residual_is_packed_once():
    hook = Bytes()
    with use(hook):
        ft.grad(network)(W, X)
    # The products and sin keep what tanh keeps already; W and X are arguments.
    assert hook.packed == [("tanh", (5, 4), "forward")] * 3


def test_views_are_packed_as_what_they_show():
    hook = Bytes()

    def f(x):
        y = np.exp(x)
        return np.sum(np.sin(y.T) + np.cos(y.reshape(-1)).reshape(4, 5) + np.sqrt(y.T[None])[0])

    with use(hook):
        ft.grad(f)(X)
    # Beside y: sqrt keeps its result.
    assert hook.names() == ["exp", "sqrt"]


def test_originals_are_freed_and_packed_forms_too():
    gc.disable()
    try:
        hook = Bytes()
        with use(hook):
            pull = ft.vjp(network, W, X)[1]
            assert len(hook.packed) == 3
            assert hook.alive() == []
            first = bits(pull(1.0))
            assert hook.alive() == []
            assert bits(pull(1.0)) == first
        kept = weakref.ref(hook)
        del hook
        # The way back needs it.
        assert kept() is not None
        del pull
        assert kept() is None
    finally:
        gc.enable()


def test_memory_that_reverse_mode_keeps_is_that_of_the_packed_forms():
    def peak(*hooks):
        memory = MemoryHook()
        with use(memory):
            if hooks:
                with use(hooks[0]):
                    pull = ft.vjp(network, W, np.ones((1000, 4)))[1]
            else:
                pull = ft.vjp(network, W, np.ones((1000, 4)))[1]
            held = memory.live
            del pull
        return held, memory.peak

    size = 1000 * 4 * 8
    assert peak()[0] == 3 * size
    held, most = peak(Bytes())
    assert held == 0
    # The operand, the product and the result of one layer, or sin(x) and twice that.
    assert most <= 3 * size


def test_a_residual_is_unpacked_where_a_rule_asks_for_it():
    hook = Bytes()
    with use(hook):
        pull = ft.vjp(lambda w, x: np.sum(np.exp(x) @ w), W, X)[1]
    assert hook.names() == ["exp"]
    pull(1.0)
    # The derivative of the product by w asks for it, and that of exp finds it there.
    assert hook.unpacked == ["exp"]
    hook = Bytes()
    with use(hook):
        ft.grad(lambda x: np.sum(np.exp(x) * 2 + np.cos(np.sign(x))))(X)
    # Nothing flows back through sign, and so nothing is asked for.
    assert hook.unpacked == ["exp"]


def test_unpacked_residuals_are_freed_on_the_way_back():
    class Watched(Bytes):
        def __init__(self):
            super().__init__()
            self.arrays = []
            self.most = 0

        def unpack(self, op, packed):
            self.most = max(self.most, sum(array() is not None for array in self.arrays))
            out = np.array(super().unpack(op, packed))
            self.arrays.append(weakref.ref(out._data))
            return out

    def deep(w, x):
        for _ in range(10):
            x = np.tanh(x @ w)
        return np.sum(x)

    hook = Watched()
    with use(hook):
        seen = ft.grad(deep)(W, X)
    # Each is unpacked once, for the product that took it and the tanh that made it.
    assert len(hook.unpacked) == len(hook.packed) == 10
    assert hook.most <= 2
    assert bits(seen) == bits(ft.grad(deep)(W, X))


def test_arguments_are_not_packed():
    hook = Bytes()
    constant = np.asarray(numpy.ones((5, 4)))
    with use(hook):
        ft.grad(lambda w, x: np.sum((x @ w) * constant * x.T.T))(W, X)
        ft.grad(lambda w, x: np.sum(x[1:] @ w.T * w.reshape(-1)[:4]))(W, X)
    # The last factor meets a product, and only that was made by an operation.
    assert hook.packed == [("multiply", (4, 4), "forward")]


def test_parameters_that_an_operation_has_made_are_arguments_of_the_next_step():
    hook = Bytes()
    w = W
    with use(hook):
        for _ in range(2):
            w = w - 0.1 * ft.grad(network)(w, X)
    assert hook.names() == ["tanh"] * 6
    hook = Bytes()
    w = ft.Tensor(W, requires_grad=True)
    with use(hook):
        for _ in range(2):
            network(w, X).backward()
            with ft.no_grad():
                w -= 0.1 * w.grad
    assert hook.names() == ["tanh"] * 6


def test_values_of_an_inner_derivative_are_packed_for_the_outer_one():
    hook = Bytes()

    def adapted(w, x):
        # An inner step of training: its parameters are no arguments of the outer derivative.
        w = w - 0.1 * ft.grad(network)(w, x)
        return network(w, x)

    plain = ft.grad(adapted)(W, X)
    with use(hook):
        seen = ft.grad(adapted)(W, X)
    assert bits(seen) == bits(plain)
    assert "backward" in {phase for _, _, phase in hook.packed}
    assert ("matmul", (4, 4), "forward") in hook.packed
    assert hook.alive() == []


def test_the_way_back_of_the_way_back_frees_its_originals():
    hook = Bytes()
    gc.disable()
    try:
        with use(hook):
            _, pull = ft.vjp(ft.grad(network), W, X)
            phases = {phase for _, _, phase in hook.packed}
            assert phases == {"forward", "backward"}
            assert hook.alive() == []
            seen = pull(W)
        assert bits(seen) == bits(ft.vjp(ft.grad(network), W, X)[1](W))
    finally:
        gc.enable()


def test_a_lossy_hook_counts_as_the_identity_for_derivatives():
    half = ResidualHook(
        pack=lambda op, value: value.astype("float16"),
        unpack=lambda op, packed: packed.astype("float64"),
    )
    rounded = numpy.exp(numpy.asarray(X)).astype("float16").astype("float64")
    with use(half, "exp"):
        value, first = ft.value_and_grad(lambda x: np.sum(np.exp(x)))(X)
        second = ft.grad(lambda x: np.sum(ft.grad(lambda x: np.sum(np.exp(x)))(x) * 2))(X)
    # The loss is not rounded, the gradient is what was kept, and so is that of the gradient.
    assert float(value) == float(np.sum(np.exp(X)))
    numpy.testing.assert_array_equal(first, rounded)
    numpy.testing.assert_array_equal(second, 2 * rounded)


def test_the_hook_is_given_plain_arrays_with_the_batch_axes_in_front():
    seen = []

    def pack(op, value):
        seen.append((type(value), value.shape, op.batch_size))
        return value.tolist()

    hook = ResidualHook(pack, lambda op, packed: np.asarray(packed))
    with use(hook, "tanh"):
        ft.vmap(ft.grad(network), (None, 0))(W, BATCH)
    assert seen == [(type(W), (2, 5, 4), 2)] * 3


def test_match_and_scope_choose_the_operations_that_keep():
    for choice, found in (
        ({"match": "tanh"}, ["tanh"] * 3),
        ({"match": "tanh", "scope": "layer1"}, ["tanh"]),
        ({"match": lambda op: op.name == "sin"}, ["sin"]),
        ({"match": "fft"}, []),
    ):
        hook = Bytes()
        with use(hook, **choice):
            seen = ft.grad(network)(W, X)
        assert hook.names() == found
        assert bits(seen) == bits(ft.grad(network)(W, X))


def test_wrap_and_the_end_of_the_block():
    hook = Bytes()
    pull = ft.vjp(wrap(network, hook), W, X)[1]
    assert hook.names() == ["tanh"] * 3
    assert bits(pull(1.0)) == bits(ft.vjp(network, W, X)[1](1.0))
    assert len(hook.unpacked) >= 3
    np.sin(X)
    ft.grad(network)(W, X)
    assert len(hook.packed) == 3
    seen = ft.grad(twice(wrap(network, hook)))(W, X)
    assert bits(seen) == bits(ft.grad(twice(network))(W, X))
    assert "backward" in {phase for _, _, phase in hook.packed}


def test_a_hook_that_returns_the_value_leaves_it():
    class Large(Bytes):
        def pack(self, op, value):
            return super().pack(op, value) if value.size > 16 else value

    hook = Large()
    with use(hook):
        gradient = ft.grad(lambda x: np.sum(np.tanh(x)) + np.sum(np.tanh(x[0])))(X)
    assert hook.packed == [("tanh", (5, 4), "forward")]
    assert bits(gradient)
    hook = ResidualHook()
    with use(hook):
        assert bits(ft.grad(network)(W, X)) == bits(ft.grad(network)(W, X))


def test_of_two_hooks_the_first_one_packs():
    first, second = Bytes(), Bytes()
    with use(first, scope="layer1"), use(second):
        seen = ft.grad(twice(network))(W, X)
    assert bits(seen) == bits(ft.grad(twice(network))(W, X))
    assert "tanh" in first.names()
    assert "tanh" in second.names()
    assert first.alive() == second.alive() == []


def test_beside_other_hooks():
    log = []
    other = FnHook(
        forward=lambda op, inputs, output: log.append(op.name),
        backward=lambda op, inner, outer: log.append(op.name),
    )
    plain = ft.grad(network)(W, X)
    for order in (0, 1):
        hook = Bytes()
        pair = [hook, other][:: 1 - 2 * order]
        log.clear()
        with use(pair[0]), use(pair[1]):
            seen = ft.grad(network)(W, X)
        assert bits(seen) == bits(plain)
        assert log.count("tanh") == 6
        assert "tanh" in hook.names()


def test_its_own_forward_method_is_called_too():
    class Both(Bytes):
        def forward(self, op, inputs, output):
            self.seen.append(op.name)

    hook = Both()
    hook.seen = []
    with use(hook):
        ft.grad(network)(W, X)
    assert hook.seen.count("tanh") == 3
    assert hook.names() == ["tanh"] * 3


def test_checks_of_nan_and_of_buffers_look_at_unpacked_values():
    with ft.config.using(check_finite=True, check_buffers=True), use(Bytes()):
        seen = ft.grad(network)(W, X)
        with pytest.raises(ft.errors.NonFiniteError, match="the gradient of sqrt"):
            ft.grad(lambda x: np.sum(np.sqrt(np.exp(x) * 0)))(X)
    assert bits(seen) == bits(ft.grad(network)(W, X))


def test_checkpoints_keep_packed_arguments():
    layer = ft.checkpoint(lambda w, x: np.tanh(np.sin(x @ w)))

    def chain(w, x):
        for _ in range(3):
            x = layer(w, x)
        return np.sum(x)

    hook = Bytes()
    with use(hook):
        seen = ft.grad(chain)(W, X)
    assert bits(seen) == bits(ft.grad(chain)(W, X))
    # The argument of the first one is X, an argument of the gradient.
    assert len(hook.packed) == 2
    again = Bytes()
    with use(again, on_replay=True):
        assert bits(ft.grad(chain)(W, X)) == bits(seen)
    # The second runs keep the results of sin and tanh, and the products.
    assert len(again.packed) > 2
    policy = ft.checkpoint(chain, policy=ft.checkpoint_policies.dots_saveable)
    hook = Bytes()
    with use(hook):
        assert bits(ft.grad(policy)(W, X)) == bits(ft.grad(policy)(W, X))


def test_tensors():
    def gradients(*hooks, retain=False):
        w = ft.Tensor(W, requires_grad=True)
        x = ft.Tensor(X)
        if hooks:
            with use(hooks[0]):
                loss = network(w, x)
        else:
            loss = network(w, x)
        loss.backward(retain_graph=retain)
        if retain:
            loss.backward()
        return w.grad

    hook = Bytes()
    gc.disable()
    try:
        assert bits(gradients(hook)) == bits(gradients())
        assert hook.names() == ["tanh"] * 3
        assert hook.alive() == []
    finally:
        gc.enable()
    assert bits(gradients(Bytes(), retain=True)) == bits(gradients(retain=True))


def test_tensors_with_hooks_of_their_own_and_changed_in_place():
    def run(*hooks):
        w = ft.Tensor(W, requires_grad=True)
        with use(hooks[0]) if hooks else ft.enable_grad():
            hidden = np.exp(ft.Tensor(X) @ w)
            hidden.register_hook(lambda g: g * 2)
            hidden.retain_grad()
            total = np.sin(hidden)
            hidden *= 3
            loss = (total * hidden).sum()
        loss.backward()
        return w.grad, hidden.grad

    assert bits(run(Bytes())) == bits(run())


def test_tensors_given_to_transformations():
    def run(*hooks):
        w = ft.Tensor(W, requires_grad=True)
        with use(hooks[0]) if hooks else ft.enable_grad():
            ft.vmap(network, (None, 0))(w, ft.Tensor(BATCH)).sum().backward()
        return w.grad

    hook = Bytes()
    assert bits(run(hook)) == bits(run())
    assert "tanh" in hook.names()


def test_threads_have_hooks_of_their_own():
    hook = Bytes()
    found = []

    def work():
        found.append(ft.grad(network)(W, X))
        with handle.shared():
            found.append(ft.grad(network)(W, X))

    with use(hook) as handle:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert hook.names() == ["tanh"] * 3
    assert bits(found[0]) == bits(found[1])


def test_no_hook_is_active_in_its_methods():
    seen = []

    class Computing(ResidualHook):
        def pack(self, op, value):
            return np.exp(value)

        def unpack(self, op, packed):
            return np.log(packed)

    with (
        use(FnHook(forward=lambda op, inputs, output: seen.append(op.name))),
        use(Computing(), "tanh"),
    ):
        gradient = ft.grad(network)(W, X)
    assert {"exp", "log"}.isdisjoint(seen)
    numpy.testing.assert_allclose(gradient, ft.grad(network)(W, X), rtol=1e-12)


def test_an_exception_leaves_nothing_behind():
    class Failing(Bytes):
        def unpack(self, op, packed):
            raise OSError("gone")

    with use(Failing()), pytest.raises(OSError, match="gone") as info:
        ft.grad(network)(W, X)
    (note,) = info.value.__notes__
    assert note.startswith("in unpack of the hook Failing on tanh, at ")
    assert bits(ft.grad(network)(W, X))
    with use(ResidualHook(lambda op, value: 1 / 0)), pytest.raises(ZeroDivisionError) as info:
        ft.grad(network)(W, X)
    (note,) = info.value.__notes__
    assert note.startswith("in pack of the hook <lambda> (")


def test_what_unpack_returns_is_checked():
    for wrong, words in (
        (lambda op, x: x[0], r"from unpack float64\[4\] in place of float64\[5, 4\]"),
        (lambda op, x: x.astype("f4"), r"from unpack float32\[5, 4\] in place of float64\[5, 4\]"),
        (lambda op, x: None, r"from unpack NoneType in place of float64\[5, 4\]"),
    ):
        hook = ResidualHook(lambda op, x: numpy.array(x), wrong)
        with use(hook), pytest.raises(ft.errors.RuleResultError, match=words) as info:
            ft.grad(network)(W, X)
        assert "the hook <lambda> (" in str(info.value)
        assert "on tanh returned from unpack" in str(info.value)
        assert "return from unpack an array of the shape and dtype" in str(info.value)
    with pytest.raises(TypeError, match="ResidualHook"):
        ResidualHook(3)


def test_what_unpack_returns_may_be_changed_later():
    class Same(Bytes):
        def unpack(self, op, packed):
            self.last = super().unpack(op, packed).copy()
            return self.last

    hook = Same()
    with use(hook):
        pull = ft.vjp(lambda x, y: np.exp(x) * y, X, X)[1]
        found = pull(np.ones((5, 4)))[1]
    before = bits(found)
    hook.last[:] = 7
    assert bits(found) == before
