"""Policies of ``checkpoint``: what is saved, what is computed again, and the same derivatives."""

import functools
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counted import kept_of
from support.long_forms import sized, thinned
from support.trees import close

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import ReplayError
from functensor.primitives.core.trace import EvalTrace
from functensor.testing import check_grads

policies = ft.checkpoint_policies
X = np.array([0.3, -1.2, 2.0])
W = np.arange(9.0).reshape(3, 3) / 10 - 0.4


def block(w, x):
    h = ft.checkpoint_name(fnp.tanh(w @ x), "hidden")
    z = ft.checkpoint_name(w.T @ h, "back")
    return fnp.sin(z) * fnp.exp(h) * fnp.where(x > 0, x, 0.1 * x)


def loss(w, x, f=block):
    return fnp.sum(f(w, f(w, x)) ** 2)


def squeezed(op, *types, **params):
    return policies.Offload(lambda x: {"half": x * 2}, lambda kept: kept["half"] / 2)


POLICIES = {
    "every value": lambda op, *types, **params: True,
    "everything": policies.everything_saveable,
    "nothing": policies.nothing_saveable,
    "dots": policies.dots_saveable,
    "dots without batches": policies.dots_with_no_batch_dims_saveable,
    "names": policies.save_only_these_names("hidden"),
    "other names": policies.save_any_names_but_these("hidden"),
    "all but names": policies.save_anything_except_these_names("hidden", "back"),
    "primitives": policies.save_only_these_primitives("tanh", "sin"),
    "both": policies.save_from_both_policies(
        policies.save_only_these_names("hidden"), policies.save_only_these_primitives("exp")
    ),
    "moved": policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["back"], names_which_can_be_offloaded=["hidden"]
    ),
    "moved dots": policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "changed": squeezed,
}

XS = np.stack([X, X + 1])
TRANSFORMED = {
    "value_and_grad": lambda f: ft.value_and_grad(f, (0, 1))(W, X),
    "jvp": lambda f: ft.jvp(f, (W, X), (W + 1, X * 2)),
    "vmap of grad": lambda f: ft.vmap(ft.grad(f, (0, 1)), (None, 0))(W, XS),
    "grad of vmap": lambda f: ft.grad(lambda w: fnp.sum(ft.vmap(f, (None, 0))(w, XS)))(W),
    "hessian": lambda f: ft.hessian(f, 1)(W, X),
    "hessian by reverse mode": lambda f: ft.hessian(f, 1, mode="rev-rev")(W, X),
    "hessian by reverse over forward": lambda f: ft.hessian(f, 1, mode="rev-fwd")(W, X),
    "third": lambda f: ft.jacrev(ft.hessian(lambda x: f(W, x), mode="rev-rev"))(X),
    "program of grad": lambda f: ft.make_program(ft.grad(f, (0, 1)))(W, X)(W, X),
    "grad of program": lambda f: ft.grad(ft.make_program(f)(W, X), (0, 1))(W, X),
    "hessian of program": lambda f: ft.hessian(ft.make_program(f)(W, X), 1)(W, X),
    "jit of grad": lambda f: ft.jit(ft.grad(f, (0, 1)))(W, X),
    "grad of jit": lambda f: ft.grad(ft.jit(f), (0, 1))(W, X),
    "jit of hessian": lambda f: ft.jit(ft.hessian(f, 1))(W, X),
    "hessian of jit": lambda f: ft.hessian(ft.jit(f), 1)(W, X),
    "jit of vmap of grad": lambda f: ft.jit(ft.vmap(ft.grad(f, (0, 1)), (None, 0)))(W, XS),
    "vjp pulled later": lambda f: ft.vmap(ft.vjp(f, W, X)[1])(np.array([1.0, 2.0])),
    "linearize": lambda f: ft.linearize(f, W, X)[1](W + 1, X * 2),
}


@functools.cache
def expected(name):
    return TRANSFORMED[name](loss)


PAIRS = [
    pytest.param(policy, name, id=f"{policy}-{name}") for name in TRANSFORMED for policy in POLICIES
]


# Thirteen policies: one pair in two has all of them, and each with half of the transformations.
@pytest.mark.parametrize(("policy", "name"), thinned(PAIRS, every=2))
def test_every_composition_gives_what_it_gives_without(policy, name):
    f = functools.partial(loss, f=ft.checkpoint(block, policy=POLICIES[policy]))
    close(TRANSFORMED[name](f), expected(name), 1e-9)


@pytest.mark.parametrize("policy", ["dots", "names", "changed"])
def test_what_is_closed_over_and_what_is_nested(policy):
    chosen = POLICIES[policy]

    def closing(w, x):
        inner = ft.checkpoint(lambda x: block(w, x), policy=chosen)
        return fnp.sum(inner(inner(x)) ** 2)

    def nested(w, x):
        @ft.checkpoint(policy=chosen)
        def outer(x):
            y = ft.checkpoint(lambda y: block(w, y), policy=POLICIES["primitives"])(x)
            return ft.checkpoint(lambda y: block(w, y))(y * 1.0)

        return fnp.sum(outer(x) ** 2)

    for f in (closing, nested):
        close(ft.grad(f, (0, 1))(W, X), ft.grad(loss, (0, 1))(W, X), 1e-10)
        close(ft.hessian(f, 1, mode="rev-rev")(W, X), ft.hessian(loss, 1)(W, X), 1e-9)
        close(ft.jit(ft.grad(f, (0, 1)))(W, X), ft.grad(loss, (0, 1))(W, X), 1e-10)
        check_grads(f, (W, X), order=2)


OPERATIONS = {
    "sin": fnp.sin,
    "tanh": fnp.tanh,
    "square": lambda x: x * x,
    "turn": lambda x: W @ x,
    "scale": lambda x: x * fnp.sum(x),
    "slice": lambda x: fnp.concatenate([x[1:], x[:1]]),
    "branch": lambda x: fnp.where(x > 0.1, x, fnp.sin(x) * 2),
    "stop": lambda x: x - ft.stop_gradient(fnp.max(x)),
    "name": lambda x: ft.checkpoint_name(x, "here"),
}


@settings(max_examples=sized(10, 25))
@given(
    st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=7),
    st.sets(st.sampled_from(["sin", "tanh", "multiply", "matmul", "where", "concatenate"])),
    st.booleans(),
)
def test_any_function_with_any_choice(names, saved, named):
    def f(x):
        for name in names:
            x = OPERATIONS[name](x)
        return fnp.sum(fnp.cos(x))

    policy = policies.save_only_these_primitives(*saved)
    if named:
        policy = policies.save_from_both_policies(policy, policies.save_only_these_names("here"))
    g = ft.checkpoint(f, policy=policy)
    close(ft.grad(g)(X), ft.grad(f)(X), 1e-10)
    close(ft.hessian(g, mode="rev-rev")(X), ft.hessian(f)(X), 1e-8)


# -- what runs again


@pytest.fixture
def counted(monkeypatch):
    """Counts the operations that are computed."""
    found = Counter()

    def counting(process):
        def count(self, primitive, *args):
            found[primitive.name] += 1
            return process(self, primitive, *args)

        return count

    for name in ("process", "process1", "process2"):
        monkeypatch.setattr(EvalTrace, name, counting(getattr(EvalTrace, name)))
    return found


def of_backward(counted, f, *args):
    """Returns how often each operation is computed in a backward pass."""
    _, pull = ft.vjp(f, *args)
    counted.clear()
    pull(1.0)
    return Counter(counted)


def one(w, x):
    return fnp.sum(fnp.sin(w @ ft.checkpoint_name(fnp.tanh(w @ x), "hidden")))


@pytest.mark.parametrize(
    ("policy", "again"),
    [
        ("nothing", {"tanh": 1, "sin": 1, "matmul": 2, "checkpoint_name": 1, "sum": 1}),
        ("dots", {"tanh": 1, "checkpoint_name": 1}),
        ("names", {"matmul": 1}),
        ("primitives", {"matmul": 1}),
        ("every value", {}),
        ("everything", {}),
        ("all but names", {"tanh": 1, "checkpoint_name": 1}),
    ],
)
def test_what_is_saved_and_what_nothing_needs_is_not_computed_again(counted, policy, again):
    plain = of_backward(counted, one, W, X)
    found = of_backward(counted, ft.checkpoint(one, policy=POLICIES[policy]), W, X)
    assert found - plain == Counter(again)
    assert plain - found == Counter()


def test_a_name_saves_what_its_operation_keeps_too(counted):
    """``tanh`` keeps its own output, which is the one that was named."""

    def f(x):
        return fnp.sum(ft.checkpoint_name(fnp.tanh(fnp.exp(x)), "h"))

    found = of_backward(counted, ft.checkpoint(f, policy=policies.save_only_these_names("h")), X)
    assert found["tanh"] == 0
    assert found["exp"] == 1  # which exp's own derivative needs


def test_values_that_python_asks_for_are_there():
    seen = []

    def f(x):
        y = fnp.sin(x)
        if fnp.sum(y) > 0:
            seen.append(float(ft.value(fnp.sum(y))))
            return fnp.sum(fnp.exp(y))
        return fnp.sum(y)

    g = ft.checkpoint(f, policy=policies.save_only_these_primitives("exp"))
    close(ft.grad(g)(X), ft.grad(f)(X))
    assert seen[0] == seen[1] == seen[2]


def test_long_chains_do_not_recurse():
    def f(x):
        for _ in range(3000):
            x = fnp.sin(x)
        return fnp.sum(x)

    g = ft.checkpoint(f, policy=policies.save_only_these_names("none"))
    close(ft.grad(g)(X), ft.grad(f)(X))


def test_random_numbers_are_repeated_or_saved(counted):
    def f(x, key):
        mask = ft.checkpoint_name(ft.random.uniform(key, (3,)) > 0.5, "mask")
        return fnp.sum(fnp.where(mask, fnp.sin(x), x * x))

    key = ft.random.key(3)
    wanted = ft.grad(f)(X, key)
    for policy in (None, policies.dots_saveable, policies.save_only_these_names("mask")):
        with ft.random.check_reuse():
            close(ft.grad(ft.checkpoint(f, policy=policy))(X, key), wanted)
            close(ft.jit(ft.grad(ft.checkpoint(f, policy=policy)))(X, key), wanted)
    _, pull = ft.vjp(
        lambda x: ft.checkpoint(f, policy=policies.save_only_these_names("mask"))(x, key), X
    )
    counted.clear()
    pull(1.0)
    assert counted["random_bits"] == 0
    _, pull = ft.vjp(lambda x: ft.checkpoint(f, policy=policies.dots_saveable)(x, key), X)
    counted.clear()
    pull(1.0)
    assert counted["random_bits"] == 1


def test_functions_with_rules_of_their_own_run_again():
    runs = Counter()

    @ft.custom_vjp
    def gate(x):
        return {"out": fnp.sin(x)}

    def forward(x):
        runs["forward"] += 1
        return {"out": fnp.sin(x)}, fnp.cos(x)

    gate.defvjp(forward, lambda kept, g: (3.0 * g["out"] * kept,))

    @ft.custom_jvp
    def bent(x):
        return x * x

    bent.defjvp(lambda primals, tangents: (bent(*primals), 5.0 * primals[0] * tangents[0]))

    def f(x):
        return fnp.sum(fnp.exp(gate(bent(x * 2))["out"]))

    for policy in (policies.save_only_these_primitives("exp"), POLICIES["every value"]):
        runs.clear()
        g = ft.checkpoint(f, policy=policy)
        close(ft.grad(g)(X), ft.grad(f)(X))
        assert runs["forward"] == 3
        close(ft.hessian(g, mode="rev-rev")(X), ft.hessian(f, mode="rev-rev")(X), 1e-9)
        close(ft.jit(ft.grad(g))(X), ft.grad(f)(X))


def test_jitted_functions_inside_are_looked_into(counted):
    inner = ft.jit(lambda w, x: ft.checkpoint_name(fnp.tanh(w @ x), "hidden"))

    def f(w, x):
        return fnp.sum(fnp.sin(w @ inner(w, x)))

    found = of_backward(counted, ft.checkpoint(f, policy=POLICIES["names"]), W, X)
    assert found["tanh"] == 0
    for g in (ft.checkpoint(f), ft.checkpoint(f, policy=POLICIES["names"])):
        close(ft.grad(g, (0, 1))(W, X), ft.grad(one, (0, 1))(W, X), 1e-12)
        close(ft.jit(ft.grad(g, (0, 1)))(W, X), ft.grad(one, (0, 1))(W, X), 1e-12)


def test_hooks_see_and_change_what_a_policy_saves():
    class Doubled(ft.hooks.Hook):
        def forward(self, op, inputs, output):
            return output * 2.0

    class Names(ft.hooks.Hook):
        def __init__(self):
            self.backwards = []

        def backward(self, op, grad_inputs, grad_output):
            self.backwards.append(op.name)

    for policy in (POLICIES["names"], POLICIES["dots"], POLICIES["every value"]):
        f = functools.partial(loss, f=ft.checkpoint(block, policy=policy))
        with ft.hooks.use(Doubled(), match="tanh"):
            assert float(ft.value(fnp.tanh(1.0))) > 1
            close(ft.grad(f, (0, 1))(W, X), ft.grad(loss, (0, 1))(W, X))
        wanted, hook = Names(), Names()
        with ft.hooks.use(wanted):
            ft.grad(loss)(W, X)
        with ft.hooks.use(hook):
            ft.grad(f)(W, X)
        assert sorted(hook.backwards) == sorted(wanted.backwards)


# -- memory


def kept_by(f, *args):
    """Returns how many bytes are alive between the two passes."""
    ft.vjp(f, *args)[1](1.0)
    return kept_of(lambda: ft.vjp(f, *args)[1])


def test_memory_is_that_of_what_is_saved():
    x = np.linspace(0.1, 1.0, 50_000)

    def f(x):
        y = ft.checkpoint_name(fnp.sin(x), "y")
        for _ in range(6):
            y = fnp.sin(y) * fnp.cos(y)
        return fnp.sum(y)

    size = x.nbytes
    plain = kept_by(f, x)
    nothing = kept_by(ft.checkpoint(f), x)
    named = kept_by(ft.checkpoint(f, policy=policies.save_only_these_names("y")), x)
    small = kept_by(
        ft.checkpoint(
            f,
            policy=policies.save_and_offload_only_these_names(
                names_which_can_be_saved=[],
                names_which_can_be_offloaded=["y"],
                offload=lambda x: x.astype("float16"),
                restore=lambda kept: kept.astype("float64"),
            ),
        ),
        x,
    )
    everything = kept_by(ft.checkpoint(f, policy=lambda op, *types, **params: True), x)
    assert plain > 14 * size
    assert size <= nothing < 1.2 * size  # vjp's copy of its argument
    assert 2 * size <= named < 2.2 * size
    assert 1.25 * size <= small < 1.45 * size
    # Values that the backward pass does not need are not kept, whatever the policy says.
    assert everything <= 1.02 * plain


# -- what a policy may answer


def test_a_policy_is_asked_with_the_primitive_its_types_and_parameters():
    asked = []

    def policy(op, *types, **params):
        asked.append((op.name, types, params))
        return False

    def f(x):
        return fnp.sum(ft.checkpoint_name(W @ x, "y"), axis=0)

    ft.grad(ft.checkpoint(f, policy=policy))(X)
    vector, matrix = ft.ShapeDtype((3,), "float64"), ft.ShapeDtype((3, 3), "float64")
    assert asked == [
        ("matmul", (matrix, vector), {}),
        ("checkpoint_name", (vector,), {"name": "y"}),
        ("sum", (vector,), {"axis": (0,), "dtype": None, "keepdims": False}),
    ]


def test_dots_with_batches():
    def decision(f, *shapes):
        answers = []

        def policy(op, *types, **params):
            answers.append(bool(policies.dots_with_no_batch_dims_saveable(op, *types, **params)))
            return False

        given = [np.ones(shape) for shape in shapes]
        ft.grad(lambda *a: fnp.sum(ft.checkpoint(f, policy=policy)(*a)))(*given)
        return any(answers)

    assert decision(fnp.matmul, (2, 3), (3, 4))
    assert decision(fnp.matmul, (5, 2, 3), (3, 4))
    assert not decision(fnp.matmul, (5, 2, 3), (5, 3, 4))
    assert decision(lambda a, b: fnp.einsum("bij,jk->bik", a, b), (5, 2, 3), (3, 4))
    assert not decision(lambda a, b: fnp.einsum("bij,bjk->bik", a, b), (5, 2, 3), (5, 3, 4))
    assert not decision(lambda a: fnp.einsum("ij->ji", a), (2, 3))
    assert not decision(fnp.sin, (2,))


def test_numbers_of_pythons_are_non_persistent_buffers_set_as_arrays():
    x = X.astype("float32")

    def f(scale, x):
        return fnp.sum(fnp.sin(fnp.exp(scale) * x))

    got = ft.grad(ft.checkpoint(f, policy=POLICIES["every value"]), (0, 1))(2.0, x)
    assert got[1].dtype == np.float32
    close(got, ft.grad(f, (0, 1))(2.0, x), 1e-5)
    jitted = ft.jit(ft.grad(ft.checkpoint(f, policy=POLICIES["every value"]), (0, 1)))(2.0, x)
    assert jitted[1].dtype == np.float32
    close(jitted, got, 1e-5)


def test_15_with_a_policy():
    runs = []

    def f(x):
        runs.append(1)
        y = fnp.sin(x) if len(runs) == 1 else fnp.cos(x)
        return fnp.sum(fnp.exp(y))

    with pytest.raises(ReplayError) as info:
        ft.grad(ft.checkpoint(f, policy=policies.save_only_these_primitives("exp")))(X)
    lines = str(info.value).split("\n")
    assert lines[0] == (
        "checkpoint of f: run again for the backward pass, it did not do the same: operation 0 was "
        "sin, which gives float64[3], and is now cos, which gives float64[3]"
    )
    assert lines[-1] == "  see python -m functensor.errors 15"
    close(ft.grad(fnp.sin)(0.0), 1.0)


def test_restored_values_must_fit():
    policy = policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["hidden"],
        offload=lambda x: x.astype("float16"),
        restore=lambda kept: kept,
    )
    with pytest.raises(ValueError, match=r"restore gave float16\[3\] for float64\[3\]"):
        ft.grad(lambda x: fnp.sum(ft.checkpoint(block, policy=policy)(W, x)))(X)


def test_what_is_refused():
    with pytest.raises(TypeError, match="the policy is a function"):
        ft.checkpoint(block, policy="dots")
    with pytest.raises(TypeError, match="together"):
        policies.Offload(lambda x: x)
    with pytest.raises(ValueError, match="'h' can be either saved or offloaded"):
        policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["h"], names_which_can_be_offloaded=["h"]
        )
    with pytest.raises(TypeError, match="the name is a string"):
        ft.checkpoint_name(X, 3)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in ("every value",)])
def test_policies_can_be_pickled(policy):
    again = pickle.loads(pickle.dumps(ft.checkpoint(block, policy=POLICIES[policy])))
    close(ft.grad(functools.partial(loss, f=again))(W, X), ft.grad(loss)(W, X))
