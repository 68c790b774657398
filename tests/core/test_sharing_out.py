"""Results have memory that nobody can write to; extras are as the user returned them."""

import contextlib
import inspect

import numpy
import pytest
import scipy.linalg

import functensor as ft
import functensor.numpy as np
from functensor import extend
from functensor.primitives.core.handing_out import sealed


def signature_of(name):
    """Returns the signature of one of SciPy's functions, if it has one."""
    try:
        return inspect.signature(getattr(scipy.linalg, name))
    except (TypeError, ValueError):
        return ""


DTYPES = "?bBhHiIlLqQefdgFDG"
LAYOUTS = {
    "C": lambda dtype: numpy.ones((3, 4), dtype),
    "strided": lambda dtype: numpy.ones((4, 6), dtype)[::2, ::-1].T,
    "scalar": lambda dtype: numpy.ones((), dtype),
    "empty": lambda dtype: numpy.ones((0, 3), dtype),
    "swapped": lambda dtype: numpy.ones((3, 4), numpy.dtype(dtype).newbyteorder()),
    "bfloat16": lambda _: numpy.asarray(np.ones((2, 4), "bfloat16"))[:, ::2],
}


def is_sealed(x):
    """Says whether an array, and all that it is a view of, refuses to become writable."""
    while isinstance(x, numpy.ndarray):
        assert not x.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            x.setflags(write=True)
        with pytest.raises(ValueError, match="WRITEABLE"):
            x.flags.writeable = True
        x = x.base
    return True


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_cannot_be_made_writable(layout):
    for dtype in DTYPES:
        x = LAYOUTS[layout](dtype)
        view = sealed(x)
        assert (view.dtype, view.shape) == (x.dtype, x.shape)
        assert not x.size or (view.strides == x.strides and numpy.shares_memory(view, x))
        numpy.testing.assert_array_equal(view, x)
        assert is_sealed(view)


HANDED = {
    "numpy.asarray": lambda x: numpy.asarray(x),
    "a view": lambda x: numpy.asarray(x.T)[::-1].view("int64"),
    "of a jitted function": lambda x: numpy.asarray(ft.jit(lambda y: y + 1)(x)),
    "numpy.asarray(dtype)": lambda x: numpy.asarray(x, "float64"),
    "numpy.require": lambda x: numpy.require(x, None, "C"),
    "from_dlpack": lambda x: numpy.from_dlpack(x, copy=False),
    "numpy.asarray of a tensor": lambda x: numpy.asarray(ft.Tensor(x)),
}


@pytest.mark.parametrize("name", HANDED)
def test_what_is_handed_to_numpy_cannot_be_made_writable(name):
    assert is_sealed(HANDED[name](np.asarray([[1.0, 2.0], [3.0, 4.0]])))


@pytest.mark.parametrize("make", [extend.numpy_function, lambda f: ft.custom_op(f, abstract=same)])
def test_what_a_foreign_function_gets_cannot_be_made_writable(make):
    def doubled(x):
        assert is_sealed(x)
        return 2 * x

    x = np.asarray([1.0, 2.0])
    assert make(doubled)(x).tolist() == ft.jit(make(doubled))(x).tolist() == [2.0, 4.0]


S = numpy.asfortranarray(numpy.eye(4) * 5 + numpy.arange(16.0).reshape(4, 4) / 20)
S = numpy.asfortranarray(S @ S.T)
Q, R = map(numpy.asfortranarray, numpy.linalg.qr(S))
# Functions that may write into their operands, with operands.
OVERWRITING = {
    name: [S, numpy.ones(4), S]
    for name in scipy.linalg.__all__
    if "overwrite_" in str(signature_of(name))
}
OVERWRITING |= {
    "qr_delete": [Q, R, 1],
    "qr_insert": [Q, R, numpy.ones(4), 1],
    "qr_update": [Q, R, numpy.ones(4), numpy.ones(4)],
}


@pytest.mark.parametrize("name", OVERWRITING)
@pytest.mark.parametrize("kind", [np.asarray, lambda x: ft.Tensor(x, dtype="float64")])
@pytest.mark.parametrize("by_position", [False, True])
def test_scipy_overwrites_copies(name, kind, by_position):
    parameters = inspect.signature(getattr(scipy.linalg, name)).parameters
    arrays = [kind(x) if isinstance(x, numpy.ndarray) else x for x in OVERWRITING[name]]
    known = [numpy.array(x) for x in arrays]
    given = [p for p in parameters.values() if p.default is p.empty]
    flags = [p for p in parameters if p.startswith("overwrite_")]
    args = arrays[: len(given)]
    if name in ("cho_solve", "lu_solve"):
        args = [(arrays[0], numpy.arange(4) if name == "lu_solve" else False), arrays[1]]
    if by_position:
        rest = list(parameters.values())[len(given) :]
        last = max(i for i, p in enumerate(rest) if p.name in flags)
        if any(p.kind is p.KEYWORD_ONLY for p in rest[: last + 1]):
            return
        args += [True if p.name in flags else p.default for p in rest[: last + 1]]
        flags = []
    with contextlib.suppress(ValueError, TypeError, scipy.linalg.LinAlgError):  # other operands
        getattr(scipy.linalg, name)(*args, **dict.fromkeys(flags, True))
    for x, before in zip(arrays, known, strict=True):
        numpy.testing.assert_array_equal(numpy.asarray(x), before)


# Extras, and results of functions that return what they were given


def same(x):
    return x


def fresh():
    return numpy.arange(1.0, 7.0).reshape(2, 3)


WITH_EXTRAS = {
    "grad": lambda f, x: ft.grad(f, has_aux=True)(x)[1],
    "value_and_grad": lambda f, x: ft.value_and_grad(f, has_aux=True)(x)[0][1],
    "jacrev": lambda f, x: ft.jacrev(f, has_aux=True)(x)[1],
    "jacfwd": lambda f, x: ft.jacfwd(f, has_aux=True)(x)[1],
    "jacobian": lambda f, x: ft.jacobian(f, has_aux=True)(x)[1],
    "hessian": lambda f, x: ft.hessian(f, has_aux=True)(x)[1],
    "vjp": lambda f, x: ft.vjp(f, x, has_aux=True)[2],
    "jvp": lambda f, x: ft.jvp(f, (x,), (x,), has_aux=True)[2],
    "linearize": lambda f, x: ft.linearize(f, x, has_aux=True)[2],
    "minimize": lambda f, x: minimized(f, x),
}


def minimized(f, x):
    opt = ft.optim.sgd(0.1)
    return opt.minimize(f, has_aux=True)(np.asarray(x), opt.init(np.asarray(x)))[2]


@pytest.mark.parametrize("name", WITH_EXTRAS)
def test_extras_are_what_the_user_returned(name):
    X = fresh()
    view = X.T
    extras = WITH_EXTRAS[name](lambda x: (np.sum(x * x), [X, view, np.reshape(X, -1), x, "a"]), X)
    assert extras[0] is X
    assert extras[1] is view
    assert type(extras[2]) is type(extras[3]) is ft.Array
    assert not any(numpy.shares_memory(x, X) for x in extras[2:4])
    assert extras[4] == "a"


def by_rule(kind):
    def make(f):
        made = kind(f)
        if kind is ft.custom_vjp:
            made.defvjp(lambda x: (f(x), None), lambda _, g: (g,))
        elif kind is ft.custom_jvp:
            made.defjvp(lambda primals, tangents: (f(*primals), *tangents))
        return made

    return make


def hooked(f):
    def replaced(x):
        with ft.hooks.use(ft.hooks.FnHook(forward=lambda op, xs, out: f(x)), match="sin"):
            return np.sin(x)

    return replaced


def within(**choices):
    def make(f):
        def called(x):
            with ft.config.using(**choices):
                return ft.jit(f)(x)

        return called

    return make


def undisturbed(f):
    def called(x):
        with ft.disable_jit():
            return ft.jit(f)(x)

    return called


EVERYTHING = ft.checkpoint_policies.everything_saveable
SOME = ft.checkpoint_policies.dots_saveable
# Functions of a function, which compute the same.
MAKERS = {
    "jit": ft.jit,
    "jit without": undisturbed,
    "jit, checked": within(check_finite=True),
    "vmap": ft.vmap,
    "checkpoint": ft.checkpoint,
    "checkpoint of everything": lambda f: ft.checkpoint(f, policy=EVERYTHING),
    "checkpoint of some": lambda f: ft.checkpoint(f, policy=SOME),
    "vjp": lambda f: lambda x: ft.vjp(f, x)[0],
    "jvp": lambda f: lambda x: ft.jvp(f, (x,), (x,))[0],
    "linearize": lambda f: lambda x: ft.linearize(f, x)[0],
    "program": lambda f: lambda x: ft.make_program(f)(x)(x),
    "custom_vjp": by_rule(ft.custom_vjp),
    "custom_jvp": by_rule(ft.custom_jvp),
    "custom_gradient": lambda f: ft.custom_gradient(lambda x: (f(x), lambda g: g)),
    "custom_op": lambda f: ft.custom_op(f, abstract=same, batch=lambda axes, x: x),
    "numpy_function": lambda f: extend.numpy_function(f, vmap="sequential"),
    "custom_root": lambda f: lambda x: ft.custom_root(np.sin, x, lambda g, y: f(y)),
    "cond": lambda f: lambda x: ft.cond(True, f, f, x),
    "switch": lambda f: lambda x: ft.switch(0, [f, f], x),
    "scan": lambda f: lambda x: ft.scan(lambda c, _: (f(c), c), x, numpy.ones(2)),
    "fori_loop": lambda f: lambda x: ft.fori_loop(0, 1, lambda _, c: f(c), x),
    "while_loop": lambda f: lambda x: ft.while_loop(lambda c: False, f, x),
    "map": lambda f: lambda x: ft.control.map(lambda y: (f(x), y), x),
    "hook": hooked,
}
AROUND = {
    "alone": lambda f, x: f(x),
    "in grad": lambda f, x: ft.grad(lambda y: (np.sum(y), f(x)), has_aux=True)(x)[1],
    "in jvp": lambda f, x: ft.jvp(lambda y: (y, f(x)), (x,), (x,), has_aux=True)[2],
    "in vmap": lambda f, x: ft.vmap(lambda y: f(x), out_axes=None)(x),
    "in a checkpoint": lambda f, x: ft.vjp(ft.checkpoint(lambda y: (y, f(x))), x)[0],
    "of what vmap shares": lambda f, x: ft.vmap(lambda y, z: f(z), (0, None), None)(x, x),
}
RETURNED = {
    "its operand": lambda X: lambda x: x,
    "a constant": lambda X: lambda x: X,
    "a view": lambda X: lambda x: X[:],
    "an operation": lambda X: lambda x: np.reshape(X, X.shape),
    "an operation of its operand": lambda X: lambda x: np.reshape(x, x.shape),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", MAKERS)
def test_results_are_arrays_with_memory_of_their_own(name, around):
    for returned in RETURNED:
        if name in ("custom_op", "numpy_function") and "operation" in returned:
            continue  # they know NumPy's functions alone
        X = fresh()
        out = AROUND[around](MAKERS[name](RETURNED[returned](X)), X)
        for leaf in ft.tree.leaves(out):
            assert type(leaf) is ft.Array, returned
            assert not numpy.may_share_memory(numpy.asarray(leaf), X), returned


class OwnClass(numpy.ndarray):
    """As `numpy.memmap` is, for one."""


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[::-1], lambda x: x.T])
@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: ft.jvp(f, (x,), (x,)),
        lambda f, x: ft.vjp(f, x)[0],
        lambda f, x: ft.linearize(f, x)[0],
    ],
    ids=["jvp", "vjp", "linearize"],
)
def test_results_are_apart_from_arrays_of_other_classes(call, view):
    x = numpy.arange(6.0).reshape(2, 3).view(OwnClass)
    assert not any(numpy.shares_memory(out, x) for out in ft.tree.leaves(call(view, x)))
