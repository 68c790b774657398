"""Every mistake in every situation: the whole message, with the user's line and the stack.

A mistake is a function of one array that goes wrong in its first line. A situation is a way to
come to that line: in a loop, a rule, a checkpoint's second run, a hook, on a tensor's way back.
"""

from typing import NamedTuple

import numpy
import pytest
from support.error_cases import defined, text

import functensor as ft
import functensor.numpy as np
from functensor import errors

X = np.array([0.5, 1.0, 2.0])
BATCH = np.ones((2, 3))
OTHER = np.ones(4)
KEPT = []


class Way(NamedTuple):
    """A way to a mistake.

    Attributes:
        run: runs the function.
        under: what the message says of transformations.
        depends: the clause about arguments; empty where there is none.
        known: whether the value is known to Python.
        traced: whether there is more than a plain array.
    """

    run: object
    under: str
    depends: str = ""
    known: bool = False
    traced: bool = True


ARGUMENT = ", which depends on argument 0 (x)"


def eager(f):
    return Way(lambda: f(X), "", known=True, traced=False)


def jit(f):
    return Way(lambda: ft.jit(f)(X), f"jit({defined(f)})", ARGUMENT)


def grad(f):
    return Way(lambda: ft.grad(f)(X), f"grad({defined(f)})", ARGUMENT, known=True)


def vjp(f):
    return Way(lambda: ft.vjp(f, X), f"vjp({defined(f)})", ARGUMENT, known=True)


def jvp(f):
    return Way(lambda: ft.jvp(f, (X,), (X,)), f"jvp({defined(f)})", ARGUMENT, known=True)


def vmap(f):
    return Way(lambda: ft.vmap(f)(BATCH), f"vmap({defined(f)})", ARGUMENT)


def jit_of_grad(f):
    return Way(lambda: ft.jit(ft.grad(f))(X), f"jit({defined(f)}) of grad({defined(f)})", ARGUMENT)


def grad_of_jit(f):
    return Way(lambda: ft.grad(ft.jit(f))(X), f"grad({defined(f)}) of jit({defined(f)})", ARGUMENT)


def vmap_of_grad(f):
    under = f"vmap({defined(f)}) of grad({defined(f)})"
    return Way(lambda: ft.vmap(ft.grad(f))(BATCH), under, ARGUMENT)


def in_a_called_function(f):
    def outer(x):
        return np.sum(f(x))

    return Way(lambda: ft.jit(outer)(X), f"jit({defined(outer)})", ARGUMENT)


def in_the_second_call(f):
    def chosen(x):
        return f(x) if x.shape == (3,) else x

    jitted = ft.jit(chosen)
    jitted(OTHER)
    return Way(lambda: jitted(X), f"jit({defined(chosen)})", ARGUMENT)


def in_scan(f):
    def body(carry, x):
        return carry, f(x)

    def outer(xs):
        return ft.scan(body, 0.0, xs)

    under = f"jit({defined(outer)}) of scan({defined(body)})"
    return Way(lambda: ft.jit(outer)(BATCH), under, ", which depends on xs")


def in_eager_scan(f):
    def body(carry, x):
        return carry, f(x)

    def outer(x):
        return np.sum(ft.scan(body, 0.0, x)[1])

    return Way(lambda: ft.grad(outer)(BATCH), f"grad({defined(outer)})", ARGUMENT, known=True)


def in_while_loop(f):
    def body(x):
        return f(x)

    def outer(x):
        return ft.while_loop(lambda x: np.sum(x) < 9, body, x)

    under = f"jit({defined(outer)}) of while_loop({defined(body)})"
    return Way(lambda: ft.jit(outer)(X), under, ", which depends on carry")


def in_fori_loop(f):
    def body(i, x):
        return f(x)

    def outer(x):
        return ft.fori_loop(0, 3, body, x)

    under = f"jit({defined(outer)}) of fori_loop({defined(body)})"
    return Way(lambda: ft.jit(outer)(X), under, ", which depends on carry")


def in_cond(f):
    def chosen(x):
        return f(x * 2.0)

    def outer(x):
        return ft.cond(np.sum(x) > 0, chosen, lambda x: x, x)

    under = f"jit({defined(outer)}) of cond: true_fun({defined(chosen)})"
    return Way(lambda: ft.jit(outer)(X), under, ARGUMENT)


def in_a_checkpoint(f):
    under = f"grad({defined(f)}) of checkpoint({defined(f)})"
    return Way(lambda: ft.grad(ft.checkpoint(f))(X), under, known=True)


def in_the_second_run_of_a_checkpoint(f):
    runs = []

    def twice(x):
        runs.append(1)
        return np.sum(f(np.sin(x)) if len(runs) == 2 else np.sin(x))

    under = f"grad({defined(twice)}) of checkpoint({defined(twice)})"
    return Way(lambda: ft.grad(ft.checkpoint(twice))(X), under, known=True)


def ruled(fwd, bwd):
    """Returns a function with a rule."""

    def own(x):
        return np.sum(x)

    out = ft.custom_vjp(own)
    out.defvjp(fwd, bwd)
    return out, own


def in_a_fwd_rule(f):
    function, own = ruled(lambda x: (np.sum(x), f(x)), lambda saved, g: (saved,))
    under = f"jit({defined(own)}) of grad({defined(own)})"
    return Way(lambda: ft.jit(ft.grad(function))(X), under, ARGUMENT)


def in_a_bwd_rule(f):
    function, own = ruled(lambda x: (np.sum(x), x), lambda x, g: (f(x),))
    under = f"jit({defined(own)}) of grad({defined(own)})"
    return Way(lambda: ft.jit(ft.grad(function))(X), under, ARGUMENT)


def in_an_eager_bwd_rule(f):
    function, own = ruled(lambda x: (np.sum(x), x), lambda x, g: (f(x),))
    return Way(lambda: ft.grad(function)(X), f"grad({defined(own)})", known=True, traced=False)


def in_a_bwd_rule_of_a_jitted_function(f):
    function, own = ruled(lambda x: (np.sum(x), x), lambda x, g: (f(x),))
    return Way(lambda: ft.grad(ft.jit(function))(X), f"grad({defined(own)})")


def in_a_bwd_rule_by_a_pull(f):
    function, own = ruled(lambda x: (np.sum(x), x), lambda x, g: (f(x),))
    pull = ft.vjp(function, X)[1]
    return Way(lambda: pull(1.0), f"vjp({defined(own)})", known=True, traced=False)


def in_a_jvp_rule(f):
    def own(x):
        return np.sum(x)

    function = ft.custom_jvp(own)
    function.defjvp(lambda primals, tangents: (np.sum(primals[0]), np.sum(f(tangents[0]))))

    def outer(x):
        return ft.jvp(function, (x,), (x,))

    return Way(lambda: ft.jit(outer)(X), f"jit({defined(outer)}) of jvp({defined(own)})", ARGUMENT)


def in_the_backward_pass_of_a_tensor(f):
    function, _ = ruled(lambda x: (np.sum(x), x), lambda x, g: (f(x),))
    loss = function(ft.Tensor(X, requires_grad=True))
    return Way(lambda: loss.backward(), "", known=True, traced=False)


class Applies(ft.hooks.Hook):
    """Applies a function to what it is shown."""

    def __init__(self, f):
        self.f = f

    def forward(self, op, inputs, output):
        self.f(output)


class AppliesBack(Applies):
    """Applies a function on the way back."""

    def forward(self, op, inputs, output):
        return None

    def backward(self, op, grad_inputs, grad_output):
        self.f(grad_inputs[0])


def sines(x):
    return np.sum(np.sin(x))


def in_a_hook(f):
    def run():
        with ft.hooks.use(Applies(f), match="sin"):
            ft.grad(sines)(X)

    return Way(run, f"grad({defined(sines)})", ARGUMENT, known=True)


def in_a_hook_under_vmap(f):
    def run():
        with ft.hooks.use(Applies(f), match="sin"):
            ft.vmap(sines)(BATCH)

    return Way(run, f"vmap({defined(sines)})", ARGUMENT)


def in_a_hook_on_the_way_back(f):
    def run():
        with ft.hooks.use(AppliesBack(f), match="sin"):
            ft.grad(sines)(X)

    return Way(run, f"grad({defined(sines)})", known=True, traced=False)


SITUATIONS = [
    *(eager, jit, grad, vjp, jvp, vmap, jit_of_grad, grad_of_jit, vmap_of_grad),
    *(in_a_called_function, in_the_second_call, in_scan, in_eager_scan),
    *(in_while_loop, in_fori_loop, in_cond, in_a_checkpoint, in_the_second_run_of_a_checkpoint),
    *(in_a_fwd_rule, in_a_bwd_rule, in_an_eager_bwd_rule, in_a_bwd_rule_of_a_jitted_function),
    *(in_a_bwd_rule_by_a_pull, in_a_jvp_rule, in_the_backward_pass_of_a_tensor, in_a_hook),
    *(in_a_hook_under_vmap, in_a_hook_on_the_way_back),
]


# -- the mistakes, by their rows


def row_1(x):
    return numpy.asarray(x)


def row_2(x):
    numpy.zeros(3)[:] = x


def row_3(x):
    x[0] = 1.0


def row_4(x):
    return x if x[0] else -x


def row_5(x):
    return x * float(x[0])


def row_6(x):
    return x + KEPT[0]


def row_7(x):
    return ft.grad(itself)(x)


def row_8(x):
    return ft.grad(unruled)(1.0)


def row_9(x):
    return ft.grad(misruled)(x)


def row_10(x):
    return ft.vmap(tripled)(x, OTHER)


def row_11(x):
    return jitted(x, [1, 2])


def row_16(x):
    return x + OTHER


def itself(y):
    return y


def tripled(y, by=3.0):
    return y * by


unruled = ft.custom_vjp(tripled)
jitted = ft.jit(lambda x, places: x, static_argnums=1)
misruled, own_of_misruled = ruled(lambda x: (np.sum(x), x), lambda x, g: (g,))
WRONG_RULE = misruled._rules[1]


def leaking(x):
    KEPT[:] = [np.sin(x)]
    return np.sum(x)


class Row(NamedTuple):
    """What a mistake is told by: a class, words, right code where the value is known and not."""

    mistake: object
    error: type
    what: str
    fix: str
    number: int
    fix_of_unknown: str = ""
    # None: anywhere; True: traced values alone; False: values that are not known alone.
    wants: bool | None = None
    within: str = ""


LEFT = "return the value from the transformed function"
PLAIN = "ft.extend.numpy_function gives foreign code a rule"
ROWS = {
    1: Row(
        row_1,
        errors.TracerConversionError,
        "numpy.asarray(x) in row_1 (test_rows_in_situations.py) asked for a plain NumPy array, "
        "but got float64[3]{depends}",
        "use functensor.numpy instead of numpy; ft.value(x) or ft.stop_gradient(x) drops the "
        f"gradient; {PLAIN}",
        1,
        f"use functensor.numpy instead of numpy; {PLAIN}",
        wants=True,
    ),
    2: Row(
        row_2,
        errors.ImmutableArrayError,
        "buf[i] = x: buf is a plain ndarray and cannot record gradients of x, float64[3]",
        "buf = functensor.numpy.zeros(shape), then buf = buf.at[i].set(x)",
        2,
        wants=True,
    ),
    3: Row(
        row_3,
        errors.ImmutableArrayError,
        "x[...] = value: an array (float64[3]) is immutable",
        "x = x.at[i].set(value)",
        3,
    ),
    4: Row(
        row_4,
        errors.ConcretizationError,
        "bool() asked for the value of float64[]{depends}, which is not known while the function "
        "is traced",
        "np.where(condition, a, b) instead of if/and/or/min, or ft.cond(condition, f, g, x)",
        4,
        wants=False,
    ),
    5: Row(
        row_5,
        errors.ConcretizationError,
        "float() asked for the value of float64[]{depends}, which is not known while the function "
        "is traced",
        "x.astype(float) instead of float(x), functensor.numpy instead of math",
        5,
        wants=False,
    ),
    6: Row(
        row_6,
        errors.EscapedTracerError,
        f"a tracer float64[3], made by sin, was used after grad of {defined(leaking)} had ended",
        f"{LEFT} (has_aux=True for extras) instead of storing it, or store ft.value(x)",
        6,
    ),
    7: Row(
        row_7,
        errors.NonScalarOutputError,
        "grad of itself: the output has shape (3,), not ()",
        "use ft.jacrev or ft.vjp, or reduce it, e.g. .sum()",
        7,
    ),
    8: Row(
        row_8,
        errors.MissingRuleError,
        "custom_vjp function tripled has no rule",
        "tripled.defvjp(fwd, bwd)",
        8,
        within=f"grad({defined(tripled)})",
    ),
    9: Row(
        row_9,
        errors.RuleResultError,
        "the bwd rule of own returned a cotangent float64[], expected float64[3]: at the top the "
        f"shape is (), not (3,)\n    the rule is {defined(WRONG_RULE)}",
        "return a cotangent in the structure and shapes float64[3]",
        9,
        within=f"grad({defined(own_of_misruled)})",
    ),
    10: Row(
        row_10,
        errors.AxisSizeError,
        "vmap of tripled: the mapped axes differ in length\n"
        "    argument 0 (y): float64[3], axis 0 has length 3\n"
        "    argument 1 (by): float64[4], axis 0 has length 4   <- differs",
        "give every mapped argument the same length, or in_axes=None to share one",
        10,
    ),
    11: Row(
        row_11,
        errors.StaticArgumentError,
        "jit of <lambda>: the static argument 'places' is of type list, which cannot be hashed: "
        "its value is part of what the function is staged for",
        "pass a tuple instead of a list, or drop it from static_argnums so that it is traced",
        11,
    ),
    16: Row(
        row_16,
        errors.ShapeError,
        "add: shapes (3,) and (4,) do not broadcast: axis -1 has lengths 3 and 4",
        "make the lengths equal or 1, e.g. x[:, None] adds an axis of length 1",
        16,
    ),
}


def happens(row, way):
    """Says whether a mistake is one in a situation."""
    return row.wants is None or (way.traced if row.wants else not way.known)


CASES = [
    pytest.param(number, situation, id=f"{number}-{situation.__name__}")
    for number, row in ROWS.items()
    for situation in SITUATIONS
    if happens(row, situation(itself))
]


@pytest.mark.parametrize(("number", "situation"), CASES)
def test_the_whole_message(number, situation):
    row = ROWS[number]
    ft.grad(leaking)(X)
    way = situation(row.mistake)
    with pytest.raises(row.error) as info:
        way.run()
    KEPT.clear()
    assert type(info.value) is row.error
    what = row.what.format(depends=way.depends) if "{depends}" in row.what else row.what
    fix = row.fix if way.known else row.fix_of_unknown or row.fix
    line = f"{__file__}:{row.mistake.__code__.co_firstlineno + 1}"
    under = " of ".join(filter(None, [way.under, row.within]))
    assert str(info.value) == text(what, line, fix, number, under)
    # A traceback has the user's frames alone.
    assert {str(entry.path) for entry in info.traceback} == {__file__}
