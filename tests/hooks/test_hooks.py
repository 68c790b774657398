"""Hooks: they see the same operations in every transformation, and change only what they return."""

import pickle
import threading
import weakref

import numpy as np
import pytest

import functensor as ft
from functensor.hooks import FnHook, Hook, use
from functensor.primitives.core.errors import RuleResultError
from functensor.primitives.core.registry import registry as ops

X = np.array([0.3, -0.7, 1.1])
W = np.arange(12.0).reshape(4, 3) / 7
A = ops.positive(X)
BATCH = np.stack([X, 2 * X, X - 1, X * X])


class Recorder(Hook):
    """Remembers the names of what it saw, and the shapes."""

    def __init__(self):
        self.forwards = []
        self.backwards = []
        self.shapes = {}

    def forward(self, op, inputs, output):
        self.forwards.append(op.name)
        self.shapes[op.name] = tuple(np.shape(x) for x in inputs)

    def backward(self, op, grad_inputs, grad_output):
        self.backwards.append(op.name)
        self.shapes["grad " + op.name] = grad_output.shape
        self.shapes["grads " + op.name] = tuple(None if g is None else g.shape for g in grad_inputs)


class Identity(Hook):
    """Returns everything as it came."""

    def forward(self, op, inputs, output):
        return output

    def backward(self, op, grad_inputs, grad_output):
        return grad_inputs


def loss(x):
    """All families: elementwise, contraction, reduction, structural, indexing, weak scalars."""
    h = ops.tanh(W @ x) * 0.3 + ops.concatenate([x, x[1:2]])
    e = ops.exp(h[::-1] - ops.max(h))
    return ops.sum(ops.log(ops.sum(e)) - 2.5 * ops.square(x[np.array([0, 2, 0])]) / 3.0)


MODES = {
    "eager": lambda f: lambda: f(A),
    "grad": lambda f: lambda: ft.grad(f)(X),
    "grad of float32": lambda f: lambda: ft.grad(f)(X.astype("float32")),
    "jvp": lambda f: lambda: ft.jvp(f, (X,), (X,)),
    "vmap": lambda f: lambda: ft.vmap(f)(BATCH),
    "vmap of grad": lambda f: lambda: ft.vmap(ft.grad(f))(BATCH),
    "grad of vmap": lambda f: lambda: ft.grad(lambda xs: ops.sum(ft.vmap(f)(xs)))(BATCH),
    "hessian": lambda f: lambda: ft.hessian(f)(X),
    "jacrev of grad": lambda f: lambda: ft.jacrev(ft.grad(f))(X),
    "vjp": lambda f: lambda: ft.vjp(f, X)[1](2.0),
    "linearize": lambda f: lambda: ft.linearize(f, X)[1](X),
    "program": lambda f: lambda: ft.make_program(f)(X)(X),
}


def bits(tree):
    return [np.asarray(leaf).tobytes() for leaf in ft.tree.leaves(tree)]


@pytest.mark.parametrize("hook", [Identity(), Recorder(), Hook()], ids=lambda h: type(h).__name__)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_an_identity_hook_leaves_results_bit_identical(mode, hook):
    plain = mode(loss)()

    def hooked_inside(x):
        with use(hook):
            return loss(x)

    assert bits(mode(hooked_inside)()) == bits(plain)
    with use(hook), use(Identity(), match="multiply|matmul|index"):
        outside = mode(loss)()
    assert bits(outside) == bits(plain)
    assert ft.tree.structure(outside) == ft.tree.structure(plain)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_hook_sees_the_functions_operations_and_no_others(mode):
    hook, eager = Recorder(), Recorder()

    def hooked(x):
        with use(hook):
            return loss(x)

    mode(hooked)()
    with use(eager):
        loss(A)
    assert hook.forwards == eager.forwards


SHARED = {
    "weights": lambda w, x: ops.sum(ops.tanh(w @ x) * 0.3) + ops.sum(w[1, 1:]),
    "lookups": lambda w, x: ops.sum(ops.sin(w[[0, 1, 0, 3, 0]]) @ x) + ops.sum(w[[0, 0]] * x),
    "scalars": lambda w, x: ops.sum(w.astype("float32") * 2.5 * x[0].astype("float32") ** 3.0),
}


@pytest.mark.parametrize("fun", SHARED.values(), ids=SHARED)
def test_an_identity_hook_leaves_what_examples_share_bit_identical(fun):
    def run():
        total = ft.grad(lambda w: ops.sum(ft.vmap(lambda x: fun(w, x))(BATCH)))(W)
        return total, ft.grad(lambda w: fun(w, X))(W), ft.vmap(ft.grad(fun), (None, 0))(W, BATCH)

    plain = run()
    with use(Identity()), use(Recorder()):
        assert bits(run()) == bits(plain)


def test_backward_hooks_see_each_examples_gradient_of_what_they_share():
    def fun(w):
        return ops.sum(ft.vmap(lambda x: ops.sum(w @ x))(BATCH))

    with use(FnHook(backward=lambda op, gi, go: [ops.sign(gi[0]), gi[1]]), match="matmul"):
        signs = ft.grad(fun)(W)
    np.testing.assert_allclose(signs, np.broadcast_to(np.sign(BATCH).sum(0), W.shape))


def test_backward_sees_each_operation_once_in_reverse():
    hook = Recorder()
    with use(hook):
        ft.grad(lambda x: ops.sum(ops.sin(x) * 2.0))(X)
    assert hook.forwards == ["sin", "multiply", "sum"]
    assert hook.backwards == ["sum", "multiply", "sin"]
    assert hook.shapes["grads multiply"] == ((3,), None)


def test_backward_hooks_see_shapes_of_one_example_under_vmap():
    for mode in ("vmap of grad", "grad of vmap"):
        hook = Recorder()
        with use(hook, match="tanh|matmul"):
            MODES[mode](loss)()
        assert hook.shapes["tanh"] == ((4,),)
        assert hook.shapes["matmul"] == ((4, 3), (3,))
        assert hook.shapes["grad tanh"] == (4,)
        assert hook.shapes["grads matmul"][1] == (3,)


MATCHES = [
    (None, ["sin", "multiply", "sum"]),
    ("sin", ["sin"]),
    ("s.*", ["sin", "sum"]),
    ("s", []),
    (["sin", "multiply"], ["sin", "multiply"]),
    (("cos",), []),
    ({"sum"}, ["sum"]),
    (lambda op: len(op.name) == 3, ["sin", "sum"]),
]


@pytest.mark.parametrize(("match", "wanted"), MATCHES, ids=[str(i) for i in range(len(MATCHES))])
def test_match_selects_operations(match, wanted):
    hook = Recorder()
    with use(hook, match=match):
        ft.grad(lambda x: ops.sum(ops.sin(x) * x))(X)
    assert hook.forwards == wanted
    assert hook.backwards == wanted[::-1]


def test_operations_carry_name_parameters_and_the_users_line():
    seen = []
    with use(FnHook(forward=lambda op, inputs, out: seen.append(op))):
        ft.grad(lambda x: ops.sum(x, axis=0) * 2.0)(X)
    assert [op.name for op in seen] == ["sum", "multiply"]
    assert seen[0].params["axis"] == (0,)
    assert all("test_hooks.py:" in op.line for op in seen)
    assert repr(seen[0]).startswith("<sum at ")


def test_values_behind_inputs_and_outputs_can_be_read():
    seen = []

    def forward(op, inputs, out):
        seen.append([np.asarray(ft.value(v)).copy() for v in (*inputs, out)])

    with use(FnHook(forward=forward), match="sin"):
        ft.hessian(lambda x: ops.sum(ops.sin(x)))(X)
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0][0], X)
    np.testing.assert_array_equal(seen[0][1], np.sin(X))


# -- replacing


@pytest.mark.parametrize("as_numpy", [False, True])
def test_forward_replaces_outputs_in_every_transformation(as_numpy):
    def halve(op, inputs, out):
        return np.full(3, 0.5) if as_numpy else out * 0.5

    def fun(x):
        return ops.sum(ops.sin(x).reshape(-1))

    with use(FnHook(forward=halve), match="sin"):
        eager = fun(A)
        value, gradient = ft.value_and_grad(fun)(X)
        tangent = ft.jvp(fun, (X,), (X,))[1]
        batch = ft.vmap(fun)(np.stack([X, X]))
    wanted = 1.5 if as_numpy else np.sum(np.sin(X)) / 2
    slope = np.zeros(3) if as_numpy else np.cos(X) / 2
    np.testing.assert_allclose(eager, wanted)
    np.testing.assert_allclose(value, wanted)
    np.testing.assert_allclose(gradient, slope)
    np.testing.assert_allclose(tangent, slope @ X, atol=1e-15)
    np.testing.assert_allclose(batch, [wanted, wanted])


def test_backward_replaces_and_clips_gradients():
    def clip(op, grad_inputs, grad_output):
        return [None if g is None else ops.clip(g, -0.5, 0.5) for g in grad_inputs]

    def fun(x):
        return ops.sum(ops.sin(x) * np.array([1.0, 100.0, -100.0]))

    clipped = np.clip(np.cos(X) * np.array([1.0, 100.0, -100.0]), -0.5, 0.5)
    with use(FnHook(backward=clip), match="sin"):
        np.testing.assert_allclose(ft.grad(fun)(X), clipped)
        np.testing.assert_allclose(ft.vmap(ft.grad(fun))(BATCH)[0], clipped)
        by_vmap = ft.grad(lambda xs: ops.sum(ft.vmap(fun)(xs)))(BATCH)
        np.testing.assert_allclose(by_vmap[0], clipped)
        second = np.asarray(ft.jacrev(ft.grad(fun))(X))
    np.testing.assert_array_equal(second, np.zeros((3, 3)))  # all are clipped


def test_a_backward_hook_can_use_both_gradients_and_python():
    def norm(op, grad_inputs, grad_output):
        g = grad_inputs[0]
        size = float(ops.sqrt(ops.sum(g * g)))
        return [g / size if size > 1 else g]

    with use(FnHook(backward=norm), match="sin"):
        gradient = np.asarray(ft.grad(lambda x: ops.sum(ops.sin(x) * 100.0))(X))
    np.testing.assert_allclose(np.linalg.norm(gradient), 1.0)


WRONG = {
    "forward shape": (
        FnHook(forward=lambda op, i, out: out[:1]),
        r"the hook <lambda> \(.*\) on sin returned float64\[1\] in place of float64\[3\]",
    ),
    "forward dtype": (
        FnHook(forward=lambda op, i, out: out.astype("f")),
        r"returned float32\[3\] in place of float64\[3\]",
    ),
    "backward count": (
        FnHook(backward=lambda op, gi, go: []),
        "returned 0 cotangents in place of the cotangents of 1 operands",
    ),
    "backward shape": (
        FnHook(backward=lambda op, gi, go: [gi[0][:1]]),
        r"on sin returned float64\[1\]",
    ),
}


@pytest.mark.parametrize(("hook", "words"), WRONG.values(), ids=WRONG)
def test_replacements_that_do_not_fit_are_refused(hook, words):
    with use(hook, match="sin"), pytest.raises(RuleResultError, match=words + r"[\s\S]*errors 9"):
        ft.grad(lambda x: ops.sum(ops.sin(x)))(X)


# -- several hooks, registration and removal


def test_nested_hooks_are_called_in_the_order_of_their_registration():
    order = []

    def named(name):
        return FnHook(
            forward=lambda op, i, out: order.append(f"{name} forward"),
            backward=lambda op, gi, go: order.append(f"{name} backward"),
        )

    with use(named("outer")), use(named("inner")):
        ft.grad(ops.sin)(0.5)
    assert order == ["outer forward", "inner forward", "outer backward", "inner backward"]


def test_nested_replacements_all_apply():
    scaled = FnHook(lambda op, inputs, out: out * 2, lambda op, gi, go: [g * 3 for g in gi])
    with use(scaled, match="sin"), use(scaled, match="sin"), use(scaled, match="cos"):
        value, gradient = ft.value_and_grad(ops.sin)(0.0)
        assert float(value) == 0.0
        assert float(gradient) == 4.0 * 9.0
        assert float(ops.sin(1.0)) == pytest.approx(4 * np.sin(1.0))


def test_no_hook_is_active_within_a_hook():
    seen = []

    def busy(op, inputs, out):
        seen.append(op.name)
        ops.exp(ops.cos(1.0))

    def busy_back(op, grad_inputs, grad_output):
        seen.append("grad " + op.name)
        ops.exp(grad_output)

    with use(FnHook(forward=busy)), use(FnHook(forward=busy)), use(FnHook(backward=busy_back)):
        ft.grad(ops.sin)(1.0)
    assert seen == ["sin", "sin", "grad sin"]


def test_hooks_do_not_see_rules_nor_custom_bodies():
    @ft.custom_vjp
    def fun(x):
        return ops.exp(x)

    fun.defvjp(lambda x: (ops.exp(x), x), lambda x, g: (g * ops.cos(x),))
    hook = Recorder()
    with use(hook):
        ft.grad(lambda x: fun(x) / 2.0)(1.0)
        ft.jvp(ops.tanh, (1.0,), (1.0,))
        fun(1.0)
    assert hook.forwards == ["fun", "divide", "tanh", "fun"]


def test_a_hook_inside_of_the_function_ends_with_it():
    hook = Recorder()

    def fun(x):
        use(hook)
        return ops.sin(x)

    ft.grad(fun)(1.0)
    ops.cos(1.0)
    assert hook.forwards == ["sin"]


def test_handles_have_unique_ids_and_can_be_removed_twice():
    handles = [use(Recorder()) for _ in range(3)]
    assert len({handle.id for handle in handles}) == 3
    assert all(handle.active for handle in handles)
    for handle in handles:  # oldest first, not as a stack
        handle.remove()
        handle.remove()
        assert not handle.active
        assert "removed" in repr(handle)
    ops.sin(1.0)
    assert all(handle.hook.forwards == [] for handle in handles)
    assert ft.primitives.core.trace.slot.trace is None


@pytest.mark.parametrize("mode", ["eager", "grad", "vmap of grad", "hessian"])
def test_a_hook_may_remove_itself(mode):
    seen = []

    class Once(Hook):
        def forward(self, op, inputs, output):
            seen.append(op.name)
            handle.remove()

        def backward(self, op, grad_inputs, grad_output):
            seen.append("never")

    plain = MODES[mode](loss)()
    handle = use(Once())
    again = MODES[mode](loss)()
    handle.remove()
    assert len(seen) == 1
    assert bits(again) == bits(plain)


def test_the_context_manager_removes_after_an_exception():
    handle = use(Recorder())
    with pytest.raises(ZeroDivisionError), handle:
        raise ZeroDivisionError
    assert not handle.active


@pytest.mark.parametrize("part", ["forward", "backward"])
@pytest.mark.parametrize("name", MODES)
def test_exceptions_in_hooks_come_through_and_leave_nothing_behind(name, part):
    class Planned(Exception):
        pass

    def fails(*args):
        raise Planned

    raised = False
    with use(FnHook(**{part: fails})) as handle:
        try:
            MODES[name](loss)()
        except Planned:
            raised = True
    assert raised == (part == "forward" or "grad" in name or name in ("vjp", "hessian"))
    assert not handle.active
    assert float(ft.grad(lambda x: x * x)(3.0)) == 6.0
    assert ft.primitives.core.trace.slot.trace is None


@pytest.mark.parametrize("hook", [None, print, Hook, lambda op, i, o: None])
def test_use_wants_a_hook(hook):
    with pytest.raises(TypeError, match=r"use takes a Hook, not .*FnHook"):
        use(hook)


def test_hooks_belong_to_their_thread():
    hook = Recorder()
    with use(hook):
        thread = threading.Thread(target=lambda: ft.grad(ops.sin)(1.0))
        thread.start()
        thread.join()
    assert hook.forwards == []


def test_the_line_of_an_operation_keeps_no_frame_alive_and_is_that_of_the_call():
    class Value:
        pass

    seen = []
    hook = FnHook(forward=lambda op, inputs, out: seen.append(op))

    def run():
        local = Value()
        with use(hook):
            y = ops.cos(1.0)
            ops.sin(
                ops.exp(y),
            )
        return weakref.ref(local)

    dead = run()
    assert dead() is None
    first = run.__code__.co_firstlineno
    assert [(op.name, int(op.line.rpartition(":")[2]) - first) for op in seen] == [
        ("cos", 3), ("exp", 5), ("sin", 4),
    ]  # fmt: skip
    assert all(op.line.startswith(f"{__file__}:") for op in seen)
    assert [op.at("backward").line for op in seen] == [op.line for op in seen]
    copied = pickle.loads(pickle.dumps(seen[0]))
    assert (copied.name, copied.line, copied.phase) == ("cos", seen[0].line, "forward")
