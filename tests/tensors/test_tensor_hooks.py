"""Hooks of one tensor: on its gradient and on operations that take it; values, ids and ends."""

import gc
import threading
import weakref

import numpy
import pytest
from support.noting_hook import Noting

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook

VALUES = numpy.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def leaf():
    return ft.Tensor(VALUES, requires_grad=True)


def test_a_hook_sees_the_operations_on_its_tensor():
    x, y = leaf(), leaf()
    hook = Noting()
    handle = x.register_hook(hook)
    loss = (np.sin(x) * y + (y + x) * np.cos(y)).sum()
    assert hook.seen == [("forward", "sin"), ("forward", "add")]
    loss.backward()
    assert sorted(hook.seen[2:]) == [("backward", "add"), ("backward", "sin")]
    wanted = [numpy.cos(VALUES) * VALUES + numpy.cos(VALUES)]
    numpy.testing.assert_allclose(x.grad, wanted[0])
    del hook.seen[:]
    handle.remove()
    (np.sin(x) * y).sum().backward()
    assert hook.seen == []


def test_a_hook_replaces_results_and_cotangents():
    x, y = leaf(), leaf()
    double = FnHook(
        forward=lambda op, inputs, output: 2 * output,
        backward=lambda op, grad_inputs, grad_output: [10 * g for g in grad_inputs],
    )
    with x.register_hook(double):
        out = np.sin(x) + np.sin(y)
        out.sum().backward()
    numpy.testing.assert_allclose(out.detach(), 3 * numpy.sin(VALUES))
    numpy.testing.assert_allclose(x.grad, 20 * numpy.cos(VALUES))
    numpy.testing.assert_allclose(y.grad, numpy.cos(VALUES))


def test_a_hook_on_a_tensor_without_gradient_sees_operands_by_identity():
    x = ft.Tensor(VALUES)
    same = ft.Tensor(VALUES)
    seen = []

    def forward(op, inputs, output):
        seen.append((op.name, [a is x for a in inputs], op.line.rpartition(":")[0]))

    # The function holds the tensor, which would keep the hook for ever.
    with x.register_hook(FnHook(forward=forward)):
        np.exp(same)
        np.add(same, x)
        np.multiply(x, x)
    assert seen == [("add", [False, True], __file__), ("multiply", [True, True], __file__)]


def test_a_hook_sees_custom_functions_and_changes_in_place():
    @ft.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (2 * x, None), lambda saved, g: (2 * g,))
    x = leaf() * 1
    hook = Noting()
    x.register_hook(hook)
    double(x)
    assert ("forward", "double") in hook.seen
    del hook.seen[:]
    x += 1
    # The addition took the value that the hook belongs to; what comes after takes another.
    assert hook.seen == [("forward", "add")]
    np.sin(x)
    assert hook.seen == [("forward", "add")]


def test_within_transformations_it_sees_nothing():
    x = ft.Tensor(VALUES)
    hook = Noting()
    with x.register_hook(hook):
        found = ft.vmap(np.sin)(x)
        inner = ft.grad(lambda y: np.sum(np.cos(y)))(x)
        array = ft.jit(np.tanh)(np.ones(3)), ft.jit(np.tanh)(np.ones(3))
        assert hook.seen == []
        assert ft.jit(lambda y: np.tanh(y) * 2)(x).shape == x.shape
    numpy.testing.assert_allclose(found, numpy.sin(VALUES))
    numpy.testing.assert_allclose(inner, -numpy.sin(VALUES))
    numpy.testing.assert_allclose(array[1], numpy.tanh(numpy.ones(3)))


# -- the value that a hook belongs to


def in_place(make, sine):
    """Returns what hooks of the gradient are given, and the gradient, in either library."""
    x = make(VALUES)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(("before", g.tolist())))
    before = sine(y)
    y *= 3
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    (before + y * y).sum().backward()
    return seen, x.grad.tolist()


def test_a_hook_belongs_to_the_value_at_registration_as_in_pytorch():
    torch = pytest.importorskip("torch")
    seen, gradient = in_place(leaf_of, np.sin)
    theirs, wanted = in_place(
        lambda values: torch.tensor(values, requires_grad=True), lambda y: torch.sin(y.clone())
    )
    assert [name for name, _ in seen] == [name for name, _ in theirs] == ["after", "before"]
    for (_, g), (_, expected) in zip(seen, theirs, strict=True):
        numpy.testing.assert_allclose(g, expected, rtol=1e-12)
    numpy.testing.assert_allclose(gradient, wanted, rtol=1e-12)


def test_the_gradients_of_values_before_and_after_a_change():
    seen, gradient = in_place(leaf_of, np.sin)
    after = 2 * 6 * VALUES
    before = numpy.cos(2 * VALUES) + 3 * after
    assert [name for name, _ in seen] == ["after", "before"]
    numpy.testing.assert_allclose(seen[0][1], after)
    numpy.testing.assert_allclose(seen[1][1], before)
    numpy.testing.assert_allclose(gradient, 2 * before)


def leaf_of(values):
    return ft.Tensor(values, requires_grad=True)


def test_a_leaf_stays_the_same_value_under_no_grad():
    x = leaf()
    hook, gradients = Noting(), []
    x.register_hook(hook)
    x.register_hook(lambda g: gradients.append(g))
    for _ in range(2):
        np.sin(x).sum().backward()
        with ft.no_grad():
            x -= 0.5 * x.grad
    assert len(gradients) == 2
    assert hook.seen.count(("forward", "sin")) == 2
    plain = ft.Tensor(VALUES)
    plain.register_hook(hook)
    del hook.seen[:]
    plain += 1
    np.cos(plain)
    assert hook.seen == [("forward", "add")]


def test_writing_to_a_base_changes_its_view():
    base = ft.Tensor(VALUES)
    view = base[0]
    hook = Noting()
    view.register_hook(hook)
    np.sin(view)
    base[0] = 3.0
    np.cos(view)
    assert hook.seen == [("forward", "sin")]


# -- ids and ends


def test_hooks_are_removed_by_handle_or_id_in_any_order():
    x = leaf()
    hook, gradients = Noting(), []
    first = x.register_hook(lambda g: gradients.append("first"))
    second = x.register_hook(lambda g: gradients.append("second"))
    third = x.register_hook(hook).id
    x.sum().backward()
    assert gradients == ["first", "second"]
    assert hook.seen == [("forward", "sum"), ("backward", "sum")]
    x.remove_hook(first.id)
    x.remove_hook(third)
    assert not first.active
    x.sum().backward()
    assert gradients == ["first", "second", "second"]
    assert len(hook.seen) == 2
    x.remove_hook(second)
    # A handle that has ended may be removed again, as with its own method.
    x.remove_hook(second)
    x.sum().backward()
    assert len(gradients) == 3


def test_an_id_is_enough_without_the_handle():
    x = leaf()
    seen = []
    id = x.register_hook(lambda g: seen.append(g)).id
    gc.collect()
    x.sum().backward()
    x.remove_hook(id)
    x.sum().backward()
    assert len(seen) == 1
    other = x.register_hook(lambda g: seen.append(g)).id
    gc.collect()
    ft.hooks.remove(other)
    x.sum().backward()
    assert len(seen) == 1


def test_hooks_of_an_earlier_value_are_removed_from_the_same_tensor():
    x = leaf() * 1
    seen = []
    handle = x.register_hook(lambda g: seen.append(g))
    x += 1
    x.remove_hook(handle.id)
    x.sum().backward()
    assert seen == []


def test_unknown_ids_are_errors_that_list_the_hooks():
    x, y = leaf(), leaf()
    mine = [x.register_hook(print), x.register_hook(Noting())]
    theirs = y.register_hook(print)
    for wrong in (theirs, theirs.id, -1):
        number = wrong if isinstance(wrong, int) else wrong.id
        with pytest.raises(ValueError, match="has no hook of that id") as info:
            x.remove_hook(wrong)
        text = str(info.value)
        assert f"remove_hook({number}) of tensor {x.id} (float64[2,3])" in text
        assert f"it has {mine[0].id} and {mine[1].id}" in text
        assert "x.remove_hook(handle.id) once" in text
    assert theirs.active
    for handle in mine:
        x.remove_hook(handle.id)
    with pytest.raises(ValueError, match="has no hook of that id: it has none"):
        x.remove_hook(mine[0].id)
    for wrong in ("1", None, True):
        with pytest.raises(TypeError, match="takes a handle of register_hook or its id, not"):
            x.remove_hook(wrong)


def test_residual_hooks_are_for_blocks():
    x = leaf()
    with pytest.raises(TypeError, match="was given a OffloadHook, which is for all operations"):
        x.register_hook(ft.hooks.OffloadHook())
    with pytest.raises(TypeError, match="register_hook"):
        x.register_hook(3)


def test_a_hook_may_remove_itself():
    x = leaf()
    seen = []

    def forward(op, inputs, output):
        seen.append(op.name)
        x.remove_hook(handle)

    handle = x.register_hook(FnHook(forward=forward))
    np.sin(x)
    np.sin(x)
    assert seen == ["sin"]


def test_a_hook_ends_with_its_tensor():
    from functensor.primitives.core.trace import slot

    x = leaf()
    hook = Noting()
    handle = x.register_hook(hook)
    kept, tensor = weakref.ref(hook), weakref.ref(x)
    del x
    gc.collect()
    assert tensor() is None
    assert not handle.active
    assert slot.trace is None
    del hook, handle
    gc.collect()
    assert kept() is None


def test_other_operations_give_what_they_give_without_the_hook():
    x, other, array = ft.Tensor(VALUES), ft.Tensor(VALUES), np.array(VALUES, "float32")
    hook = Noting()
    cases = [
        lambda: np.sin(array),
        lambda: array + array,
        lambda: array * 2.0,
        lambda: 2 * array,
        lambda: np.add(1.5, 2.5),
        lambda: np.add(array, VALUES),
        lambda: other * array,
        lambda: np.sum(array) + np.sin(1.0),
    ]
    plain = [case() for case in cases]
    with x.register_hook(hook), ft.hooks.use(Noting()):
        within = [case() for case in cases]
    with x.register_hook(hook):
        hooked = [case() for case in cases]
    assert hook.seen == []
    for results in (within, hooked):
        for new, old in zip(results, plain, strict=True):
            assert (type(new), new.dtype) == (type(old), old.dtype)
            assert new.tolist() == old.tolist()
    with x.register_hook(hook), pytest.raises(ft.errors.ShapeError, match="shape"):
        array + np.ones(7)


def test_blocks_that_overlap_leave_nothing_behind():
    from functensor.primitives.core.trace import slot

    x = leaf()
    outer, inner = Noting(), Noting()
    with ft.hooks.use(outer):
        handle = x.register_hook(inner)
        np.sin(x)
    np.cos(x)
    handle.remove()
    np.tan(x)
    assert outer.seen == [("forward", "sin")]
    assert inner.seen == [("forward", "sin"), ("forward", "cos")]
    assert slot.trace is None


def test_other_threads_do_not_see_the_hook():
    x = leaf()
    hook = Noting()
    with x.register_hook(hook):
        thread = threading.Thread(target=np.sin, args=(x,))
        thread.start()
        thread.join()
    assert hook.seen == []


def test_copies_have_no_hooks():
    from copy import copy, deepcopy

    x = leaf()
    x.register_hook(lambda g: 1 / 0)
    for y in (copy(x), deepcopy(x), x.detach().requires_grad_()):
        y.sum().backward()
        assert y.grad is not None


def views(x):
    return (x[0] + x.reshape(4)[1:3] + x.T[0]).sum() + sum(row.sum() for row in x)


def test_hooks_see_the_views_of_tensors():
    def names_of(x):
        seen = []
        with ft.hooks.use(ft.hooks.FnHook(forward=lambda op, *rest: seen.append(op.name))):
            out = views(x)
        return out, seen

    array = np.asarray([[1.0, 2.0], [3.0, 4.0]])
    tensor = ft.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    (wanted, names), (out, seen) = names_of(array), names_of(tensor)
    assert seen == names
    assert "reshape" in seen
    assert float(out) == float(wanted)


def test_views_under_hooks_are_views_and_replaced_ones_are_not():
    x = ft.Tensor([1.0, 2.0, 3.0])
    with ft.hooks.use(ft.hooks.FnHook(forward=lambda *args: None)):
        view = x[:2]
        view += 10
        assert x.tolist() == [11, 12, 3]
        x.zero_()
        assert view.tolist() == [0, 0]
    hook = ft.hooks.FnHook(forward=lambda op, inputs, out: out + 1)
    with ft.hooks.use(hook, match="index"):
        apart = x[:2]
    x.fill_(5)
    assert apart.tolist() == [1, 1]


def test_gradients_are_clipped_at_views():
    x = ft.Tensor([1.0, 1.0], requires_grad=True)
    clipped = ft.hooks.clip_gradients(lambda x: (x[0] * 5).sum(), "index", max_value=1.0)
    clipped(x).backward()
    assert x.grad.tolist() == [1, 0]
