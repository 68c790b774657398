"""Every kind of hook under every transformation, evaluated at once and compiled."""

import contextlib
import gc
import re
import weakref

import numpy
import pytest
from support.long_forms import sized, thinned

import functensor as ft
import functensor.numpy as np
from functensor.hooks import FnHook, Hook, use, wrap

X = np.array([0.3, -1.2, 0.8])
W = np.arange(9.0).reshape(3, 3) / 7 - 0.5


@ft.custom_vjp
def halved(x):
    return x / 2


halved.defvjp(lambda x: (x / 2, None), lambda residuals, g: (g / 2,))


def layers(x):
    for i in range(2):
        with ft.scope(f"layer{i}"):
            x = ft.tag(np.tanh(W @ x), "hidden")
    return np.sum(x**2)


FUNCTIONS = {
    "elementwise": lambda x: np.sum(np.sin(x) * np.exp(-x) / 2.0),
    "layers": layers,
    "lookups": lambda x: np.sum(x[numpy.array([0, 2, 0])] * np.sin(x)),
    "scan": lambda x: ft.scan(lambda c, y: (np.sin(c) * y + c, c * y), x[0], x)[0],
    "fori_loop": lambda x: np.sum(ft.fori_loop(0, 3, lambda i, c: np.sin(c) * x, x)),
    "cond": lambda x: ft.cond(True, lambda x: np.sum(np.sin(x)), lambda x: np.sum(x), x),
    "custom rule": lambda x: np.sum(np.sin(halved(x))),
    "vmap inside": lambda x: np.sum(ft.vmap(lambda a: np.sin(a) * x[0])(x)),
    "grad inside": lambda x: np.sum(ft.grad(lambda x: np.sum(np.sin(x) * x))(x) ** 2),
    "checkpoint": ft.checkpoint(lambda x: np.sum(np.sin(x) * x)),
    "integers": lambda x: np.sum(np.where(np.arange(3) > 0, x, 1) * np.argmax(x)),
}
BATCH = np.stack([X, X + 0.5])
TRANSFORMATIONS = {
    "evaluated": lambda f: lambda: f(X),
    "grad": lambda f: lambda: ft.grad(f)(X),
    "value_and_grad": lambda f: lambda: ft.value_and_grad(f)(X),
    "jvp": lambda f: lambda: ft.jvp(f, (X,), (X,)),
    "vmap": lambda f: lambda: ft.vmap(f)(BATCH),
    "vmap of grad": lambda f: lambda: ft.vmap(ft.grad(f))(BATCH),
    "grad of vmap": lambda f: lambda: ft.grad(lambda xs: np.sum(ft.vmap(f)(xs)))(BATCH),
    "grad of checkpoint": lambda f: lambda: ft.grad(ft.checkpoint(f))(X),
    "hessian": lambda f: lambda: ft.hessian(f)(X),
}


class Watching(Hook):
    """Notes what it sees."""

    def __init__(self):
        self.seen = []

    def forward(self, op, inputs, output):
        self.seen.append((op.phase, op.name, op.scope, op.tag, np.shape(output)))

    def backward(self, op, grad_inputs, grad_output):
        self.seen.append((op.phase, op.name, op.scope, op.tag, np.shape(grad_output)))


def doubled(op, inputs, output):
    return 2 * output if op.name in ("sin", "tanh") else None


def shrunk(op, grad_inputs, grad_output):
    return [g if g is None else g / 2 for g in grad_inputs] if op.name != "sum" else None


def clipped_if_large(op, grad_inputs, grad_output):
    # Python looks at a value, so that it cannot be compiled in.
    found = [g if g is None or ft.value(np.max(np.abs(g))) < 0.5 else g / 3 for g in grad_inputs]
    return found


REPLACING = {
    "forward": lambda: FnHook(forward=doubled),
    "backward": lambda: FnHook(backward=shrunk),
    "both": lambda: FnHook(doubled, shrunk),
}


# There is an odd number of transformations, so that one pair in two, or in four, has all of them
# with some functions and all functions with some of them.
PAIRS = [
    pytest.param(mode, name, id=f"{mode}-{name}") for name in FUNCTIONS for mode in TRANSFORMATIONS
]


def same(got, wanted, **tolerance):
    assert ft.tree.structure(got) == ft.tree.structure(wanted)
    for a, b in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype
        numpy.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14, **tolerance)


def compiled_forms(transform, f):
    """Yields functions that do the same, compiled inside, outside and on both sides."""
    yield "inside", transform(ft.jit(f))
    yield "outside", ft.jit(transform(f))
    yield "both", ft.jit(transform(ft.jit(f)))


@pytest.mark.parametrize(("mode", "name"), thinned(PAIRS, every=2))
def test_compiled_functions_show_what_others_do(mode, name):
    transform, f = TRANSFORMATIONS[mode], FUNCTIONS[name]
    plain, watching = transform(f)(), Watching()
    with use(watching):
        same(transform(f)(), plain)
    wanted = watching.seen
    for where, form in compiled_forms(transform, f):
        for _ in range(2):
            watching.seen = []
            with use(watching):
                same(form(), plain)
            assert sorted(map(str, watching.seen)) == sorted(map(str, wanted)), where
        # Each operation is seen in its turn.
        assert order(watching.seen) == order(wanted), where


def order(seen):
    """Returns the names in the order of the forward pass."""
    return [name for phase, name, *_ in seen if phase != "backward"]


@pytest.mark.long
@pytest.mark.parametrize("hook", sized(["both"], list(REPLACING)))
@pytest.mark.parametrize(("mode", "name"), thinned(PAIRS, every=4))
def test_compiled_functions_take_what_hooks_return(mode, name, hook):
    transform, f = TRANSFORMATIONS[mode], FUNCTIONS[name]
    replacing = REPLACING[hook]()
    with use(replacing):
        wanted = transform(f)()
    for _, form in compiled_forms(transform, f):
        for each in (replacing, REPLACING[hook]()):
            for _ in range(2):
                with use(each):
                    same(form(), wanted)
        same(form(), transform(f)())


@pytest.mark.parametrize("mode", ["grad", "value_and_grad", "grad of checkpoint"])
def test_a_hook_that_looks_at_values_clips_in_compiled_functions(mode):
    transform = TRANSFORMATIONS[mode]
    hook = FnHook(backward=clipped_if_large)
    for name, f in FUNCTIONS.items():
        if name == "vmap inside":
            continue  # where no hook may ask for a number
        with use(hook):
            wanted = transform(f)()
            for _, form in compiled_forms(transform, f):
                same(form(), wanted)
                same(form(), wanted)


@pytest.mark.parametrize("mode", TRANSFORMATIONS)
def test_a_wrapped_function_keeps_its_hook(mode):
    transform, f = TRANSFORMATIONS[mode], FUNCTIONS["layers"]
    for make in REPLACING.values():
        hook = make()
        hooked = wrap(f, hook, "tanh|matmul")
        wanted = transform(hooked)()
        for form in (transform(ft.jit(hooked)), transform(wrap(ft.jit(f), hook, "tanh|matmul"))):
            same(form(), wanted)
            same(form(), wanted)


@pytest.mark.parametrize("exact", [False, True])
def test_what_no_hook_matches_stays_fused(exact):
    def f(x):
        y = ft.tag(np.sin(x) * 2 + x, "h")
        return np.tanh(y) * y + 1

    x = np.ones(100_000)
    g = ft.jit(f)
    with use(FnHook(forward=lambda op, inputs, output: None, exact=exact), "h"):
        same(g(x), f(x))
        same(g(x), f(x))
        [entry] = [entry for key, entry in g._entries.items() if key[6]]
    names = [e.primitive.name for e in entry.compiled.program.equations]
    # The second part is that of the plan without hooks, if the result is to be exact.
    assert names == ["fused", "hook on checkpoint_name", *([] if exact else ["fused"])]


def test_a_plan_is_made_once_for_a_hook_and_again_without_it():
    f = ft.jit(lambda x: np.sin(x) * 2)
    hook = FnHook(forward=lambda op, inputs, output: None)
    for _ in range(3):
        with use(hook):
            f(X)
        f(X)
    assert f.cache_size == 2
    assert "the hooks are other ones" in f.explain()
    for _ in range(2):
        with use(hook, "sin"):
            f(X)
    assert f.cache_size == 3
    # Hooks that come and go are not kept.
    for _ in range(20):
        with use(FnHook(forward=lambda op, inputs, output: None)):
            f(X), f(X)
    assert f.cache_size <= 5


def test_a_hook_removed_by_itself_sees_nothing_more_of_the_plan():
    f = ft.jit(lambda x: np.exp(np.cos(np.sin(x))))
    for first in ("sin", "cos", "exp"):
        seen = []

        def forward(op, inputs, output, seen=seen, first=first):
            seen.append(op.name)
            if op.name == first:
                handle.remove()

        hook = FnHook(forward=forward)
        with use(FnHook(forward=lambda op, inputs, output: None), "sin"):
            pass
        hook.replaces = False
        with use(hook) as handle:
            f(X)
        assert seen == ["sin", "cos", "exp"][: ["sin", "cos", "exp"].index(first) + 1]


def test_a_hook_added_by_a_hook_sees_what_comes_next():
    seen = []
    later = FnHook(forward=lambda op, inputs, output: seen.append(op.name))
    handles = []

    def forward(op, inputs, output):
        if op.name == "sin":
            handles.append(use(later))

    with use(FnHook(forward=forward)):
        np.exp(np.cos(np.sin(X)))
    assert seen == ["cos", "exp"]
    ft.hooks.remove(handles[0].id)
    np.sin(X)
    assert seen == ["cos", "exp"]


def test_nothing_keeps_a_hook_alive_once_it_is_over():
    gc.collect()
    gc.disable()
    try:
        for run in (lambda: FUNCTIONS["layers"](X), lambda: ft.grad(FUNCTIONS["scan"])(X)):
            for by_remove in (False, True):
                hook = Watching()
                known = weakref.ref(hook)
                if by_remove:
                    handle = use(hook)
                    run()
                    handle.remove()
                else:
                    with use(hook) as handle:
                        run()
                del hook, handle
                assert known() is None
    finally:
        gc.enable()


def test_batch_sizes_and_phases_are_told():
    seen = []
    hook = FnHook(forward=lambda op, i, o: seen.append((op.batch_size, op.phase, np.shape(o))))
    with use(hook, "sin"):
        np.sin(X)
        ft.vmap(np.sin)(BATCH)
        ft.vmap(ft.vmap(np.sin))(BATCH)
        ft.jvp(np.sin, (X,), (X,))
    assert seen == [
        (None, "forward", (3,)), (2, "forward", (3,)), (6, "forward", ()), (None, "tangent", (3,)),
    ]  # fmt: skip


def test_values_that_a_function_takes_back_from_a_hook_have_derivatives():
    taken = []

    def net(x):
        return np.sum(np.tanh(x) * 2)

    def loss(x, net=net):
        taken.clear()
        out = net(x)
        return out + sum(np.sum(h**2) for h in taken)

    def run(f):
        with use(FnHook(forward=lambda op, inputs, output: taken.append(output)), "tanh"):
            return [(ft.grad(f)(X), f(X), ft.vmap(lambda x: f(x[None]))(X)) for _ in range(3)]

    wanted = run(loss)
    for form in (lambda x: loss(x, ft.jit(net)), ft.jit(loss), ft.jit(lambda x: loss(x))):
        same(run(form), wanted)


def test_gradients_have_the_names_of_their_values():
    def f(x):
        a, b = ft.tag(np.sin(x), "h"), ft.tag(np.cos(x), "h")
        return np.sum(3 * b) + 0 * a.size

    _, gradients = ft.hooks.capture_grads(f, "h")(X)
    assert list(gradients) == ["h:1"]


@pytest.mark.parametrize("tag", ["h[0]", "a+b", "x.y", "(z)"])
def test_a_tag_is_chosen_by_its_own_name_whatever_its_letters_mean(tag):
    seen = []
    with use(FnHook(forward=lambda op, inputs, output: seen.append(op.tag)), tag):
        ft.tag(X, tag), ft.tag(X, "other")
    assert seen == [tag]


@pytest.mark.parametrize(
    "match",
    [
        [np.sin, np.cos],
        ["si.", "cos"],
        re.compile("sin|cos"),
        [re.compile("sin"), lambda op: op.name == "cos"],
    ],
    ids=["primitives", "expressions", "pattern", "mixed"],
)
def test_several_choices_of_any_kind(match):
    seen = []
    with use(FnHook(forward=lambda op, inputs, output: seen.append(op.name)), match):
        np.sin(X), np.cos(X), np.exp(X)
    assert seen == ["sin", "cos"]
    with pytest.raises(TypeError, match="match is a name, several names"):
        use(Hook(), [3])


def test_batched_pullbacks_tell_the_number_of_examples():
    seen = []
    hook = FnHook(backward=lambda op, gi, g: seen.append((op.name, op.batch_size, np.shape(g))))
    for hooks in ([hook], [hook, FnHook(backward=lambda *args: None)]):
        seen.clear()
        with contextlib.ExitStack() as stack:
            for each in hooks:
                stack.enter_context(use(each))
            ft.jacrev(lambda x: np.sin(x)[:2])(X)
        assert seen[-1] == ("sin", 2, (3,))


@pytest.mark.parametrize("hook", [ft.hooks.TimerHook, ft.hooks.PrintHook, Watching])
def test_linear_functions_of_gradients(hook, capsys):
    g = ft.grad(lambda x: np.sum(np.sin(x) ** 2))
    wanted = ft.linearize(g, X)[1](X)
    for f in (g, ft.jit(g), ft.vmap(ft.grad(lambda x: np.sin(x) ** 2))):
        with use(hook()):
            same(ft.linearize(f, X)[1](X), wanted)


def test_a_choice_may_compute_and_be_a_primitive():
    seen = []
    hook = FnHook(forward=lambda op, inputs, output: seen.append(op.name))
    with use(hook, lambda op: bool(np.all(np.zeros(2) == 0))), use(hook, np.tanh):
        np.tanh(X)
    assert seen == ["tanh", "tanh"]
    with pytest.raises(TypeError, match="match is a name, several names"):
        use(hook, 3)
    with pytest.raises(ValueError, match=r"match='\*' is no regular expression: nothing to repeat"):
        use(hook, "*")
    with pytest.raises(TypeError, match="remove takes the id of a handle, not str"):
        ft.hooks.remove("a")
    handle = use(hook)
    ft.hooks.remove(handle)
    assert not handle.active


def test_numbers_of_pythons_keep_their_dtypes_under_hooks():
    f = ft.jit(lambda s, a: np.sin(s) * a * (s + 1))
    seen = []
    hook = FnHook(forward=lambda op, inputs, output: seen.append((op.name, output.dtype)))
    wanted = f(2.0, np.ones(1, "float32"))
    for _ in range(3):
        seen.clear()
        with use(hook):
            same(f(2.0, np.ones(1, "float32")), wanted)
        # Hooks see no arithmetic of Python's.
        assert [name for name, _ in seen] == ["sin", "multiply", "multiply"]
