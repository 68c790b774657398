"""Checks on four processes: every collective against nested ``vmap``.

Values, all derivatives, within the processes' function and around it, batches, programs, plans.
"""

from contextlib import nullcontext

import numpy as np
from support.long_forms import sized
from support.meshes import assert_close, assert_same

import functensor as ft
import functensor.numpy as fnp
from functensor.distributed import P

GRID = {"data": 2, "model": 2}
X = np.cos(np.arange(32.0)).reshape(4, 8) * 1.3 + 0.2
BOTH = ("data", "model")
SWAP = [(0, 1), (1, 0)]
# Functions of a part of shape (2, 4), which return one of the same shape.
FUNCTIONS = {
    "psum": lambda x: x * ft.psum(fnp.sin(x), "data"),
    "psum_both": lambda x: x * ft.psum(fnp.sin(x) * x, BOTH),
    "pmean": lambda x: (x - ft.pmean(x, "model")) ** 2 / ft.pmean(x * x, "data"),
    "pmax": lambda x: fnp.exp(x - ft.pmax(x, "data")) * ft.pmax(x * x, BOTH),
    "pmin": lambda x: x**2 * ft.pmin(x, "model"),
    "all_gather": lambda x: fnp.sum(fnp.sin(ft.all_gather(x, "data")) ** 2, 0) * x,
    "all_gather_tiled": lambda x: (
        ft.all_gather(x * x, "model", axis=1, tiled=True)[:, 2:6]
        + ft.all_gather(fnp.cos(x), BOTH, axis=-1, tiled=True)[:, 9:13]
    ),
    "psum_scatter": lambda x: x * ft.psum_scatter(fnp.sin(x), "data")[None],
    "psum_scatter_tiled": lambda x: x * ft.psum_scatter(
        fnp.concatenate([x, x * x], 1), "model", scatter_dimension=1, tiled=True
    ),
    "ppermute": lambda x: ft.ppermute(fnp.sin(x), "model", SWAP) * x,
    "ppermute_some": lambda x: ft.ppermute(x * x, "data", [(0, 1)]) * x + x,
    "all_to_all": lambda x: ft.all_to_all(x.reshape(2, 2, 2) ** 2, "data", 0, 2).reshape(2, 4) * x,
    "all_to_all_tiled": lambda x: ft.all_to_all(
        fnp.sin(x), "model", 1, 0, tiled=True
    ).reshape(2, 4) * x,
    "axis_index": lambda x: fnp.abs(x) ** (ft.axis_index(BOTH) + 1.0) * x,
    "axis_size": lambda x: x**2 * ft.axis_size("data"),
}  # fmt: skip
SPEC = P("data", "model")


# What is slow is done with one function in so many.
FEW = sized(5, 2)


def functions(every=1):
    """Returns one function in so many, others each time."""
    functions.turn += 1
    return list(FUNCTIONS.values())[functions.turn % every :: every]


functions.turn = 0


def over_functions(use, every=1):
    """Checks what is done with the whole functions."""
    for fun in functions(every):
        assert_same(use, fun, GRID, SPEC, SPEC, X)


def inner(change, every=1):
    """Checks what is done with the functions of one process, within them."""
    for fun in functions(every):
        assert_same(lambda f, x: f(x), change(fun), GRID, SPEC, SPEC, X)


def total(f):
    return lambda x: fnp.sum(fnp.sin(f(x)))


def check_values():
    over_functions(lambda f, x: f(x))


def check_programs_and_plans():
    over_functions(lambda f, x: ft.make_program(f)(x)(x))

    def plans(f, x):
        jitted = ft.jit(f)
        return jitted(x), jitted(x), jitted(x), jitted.compile(x)(x)

    over_functions(plans, FEW)
    inner(ft.jit, FEW)


def check_derivatives_of_the_whole():
    over_functions(lambda f, x: ft.grad(total(f))(x))
    over_functions(lambda f, x: ft.jvp(f, (x,), (fnp.sin(x),))[1])
    over_functions(lambda f, x: ft.linearize(f, x)[1](fnp.sin(x)))
    over_functions(lambda f, x: ft.jit(ft.value_and_grad(total(f)))(x), FEW)
    over_functions(lambda f, x: ft.grad(lambda y: fnp.sum(ft.grad(total(f))(y) ** 2))(x), FEW)
    over_functions(lambda f, x: ft.hvp(total(f), (x,), (fnp.cos(x),)), FEW)


def check_jacobians():
    for name in ("psum_both", "all_gather_tiled", "all_to_all", "ppermute_some"):
        fun = FUNCTIONS[name]
        assert_same(lambda f, x: ft.jacrev(f)(x), fun, GRID, SPEC, SPEC, X)
        assert_same(lambda f, x: ft.jacfwd(f)(x), fun, GRID, SPEC, SPEC, X)


def check_derivatives_within():
    inner(lambda one: ft.grad(total(one)))
    inner(lambda one: ft.jit(ft.grad(total(one))), FEW)
    inner(lambda one: ft.grad(lambda x: fnp.sum(ft.grad(total(one))(x) ** 2)), FEW)
    inner(lambda one: lambda x: ft.jvp(one, (x,), (fnp.cos(x),))[1])
    inner(lambda one: lambda x: ft.linearize(one, x)[1](fnp.cos(x)), FEW)
    inner(lambda one: lambda x: ft.hvp(total(one), (x,), (x,)), FEW)


def check_within_and_around():
    def within(one):
        return lambda x: x * ft.grad(total(one))(x)

    for name in ("psum", "pmax", "all_gather", "psum_scatter", "all_to_all", "ppermute"):
        fun = within(FUNCTIONS[name])
        assert_same(lambda f, x: ft.grad(total(f))(x), fun, GRID, SPEC, SPEC, X)
        assert_same(lambda f, x: ft.jit(ft.grad(total(f)))(x), ft.jit(fun), GRID, SPEC, SPEC, X)


def check_batches():
    xs = np.stack([X, X**2, fnp.sin(X)])
    over_functions(lambda f, x: ft.vmap(f)(xs))
    over_functions(lambda f, x: ft.jit(ft.vmap(f, 0, 1))(xs), FEW)
    over_functions(lambda f, x: ft.vmap(ft.grad(total(f)))(xs), FEW)
    for fun in functions(FEW):
        spec = P(None, "data", "model")
        assert_same(lambda f, x: f(x), ft.vmap(fun), GRID, spec, spec, xs)
        assert_same(lambda f, x: ft.grad(total(f))(x), ft.vmap(fun), GRID, spec, spec, xs)
        named = ft.vmap(lambda x, fun=fun: ft.psum(fun(x), "batch") * x, axis_name="batch")
        assert_same(lambda f, x: f(x), named, GRID, spec, spec, xs)


def check_names_of_both_kinds_at_once():
    def one(x):
        return ft.vmap(lambda row: ft.psum(row, ("model", "rows")) * row, axis_name="rows")(x)

    def hidden(x):
        return ft.vmap(lambda row: ft.psum(row, "model") * row, axis_name="model")(x)

    for fun in (one, hidden):
        assert_same(lambda f, x: f(x), fun, GRID, SPEC, SPEC, X)
        assert_same(lambda f, x: ft.grad(total(f))(x), fun, GRID, SPEC, SPEC, X)


def check_checkpoints():
    inner(ft.checkpoint)
    inner(lambda one: ft.grad(total(ft.checkpoint(one))), FEW)
    inner(lambda one: ft.jit(ft.grad(total(ft.checkpoint(one)))), FEW)
    for fun in functions(FEW):
        assert_same(lambda f, x: ft.grad(total(f))(x), ft.checkpoint(fun), GRID, SPEC, SPEC, X)
    over_functions(lambda f, x: ft.grad(total(ft.checkpoint(f)))(x), FEW)
    over_functions(lambda f, x: ft.jit(ft.grad(total(ft.checkpoint(f))))(x), FEW)


def check_hooks_of_one_process():
    """The others do not wait for runs that only a hook is shown."""
    whole = ft.distributed.spmd(
        lambda x: x * ft.psum(fnp.sin(x), "data"), ft.distributed.mesh(GRID), SPEC, SPEC
    )
    hook = ft.hooks.FnHook(forward=lambda op, inputs, output: None)
    for form in (ft.jit(whole), ft.jit(ft.grad(total(whole))), ft.grad(ft.jit(total(whole)))):
        wanted = form(X)
        for manager in (ft.hooks.check_finite, lambda: ft.hooks.use(hook)):
            for _ in range(3):
                with manager() if ft.distributed.rank() == 1 else nullcontext():
                    assert_close(form(X), wanted)


def check_hooks():
    def seen(use):
        names = []

        class Seen(ft.hooks.Hook):
            def forward(self, op, inputs, output):
                names.append(op.name)

            def backward(self, op, grad_inputs, grad_output):
                names.append(f"{op.name}, backward")

        with ft.hooks.use(Seen()):
            out = use()
        return out, names

    def one(x):
        return x * ft.psum(ft.ppermute(fnp.sin(x), "model", SWAP), "data")

    mesh = ft.distributed.mesh(GRID)
    whole = ft.distributed.spmd(one, mesh, SPEC, SPEC)
    wanted = ft.grad(total(whole))(X)
    for use in (ft.grad(total(whole)), ft.jit(ft.grad(total(whole)))):
        got, names = seen(lambda use=use: use(X))
        assert_close(got, wanted)
        for name in ("psum", "psum, backward", "ppermute", "ppermute, backward"):
            assert names.count(name) == 1, names
    within = ft.distributed.spmd(ft.grad(total(one)), mesh, SPEC, SPEC)
    got, names = seen(lambda: within(X))
    assert_close(got, within(X))
    assert names.count("psum, backward") == 1


def check_dtypes():
    shape = (4, 3)
    for dtype in "?bhilqBHILQefdFD":
        x = (np.arange(12) % 5).reshape(shape).astype(dtype)
        if dtype in "FD":
            x = x + x.dtype.type(1j) * (x[::-1].real % 3)
            x[1, 2] = np.nan
        for name in ("psum", "pmax", "pmin", "all_gather", "ppermute", "all_to_all"):

            def one(part, name=name):
                part = part[0]
                if name == "ppermute":
                    return ft.ppermute(part, "i", [(0, 3), (3, 1)])
                if name == "all_to_all":
                    return ft.all_to_all(ft.all_gather(part, "i"), "i", 0, 0)
                return getattr(ft, name)(part, "i")

            out = P("i") if name in ("ppermute", "all_to_all") else P()
            # Sums of four small whole numbers are exact in all dtypes.
            assert_same(lambda f, x: f(x), one, {"i": 4}, P("i"), out, x, rtol=0, atol=0)


def check_bfloat16():
    import ml_dtypes

    x = (np.arange(12) % 5).reshape(4, 3).astype(ml_dtypes.bfloat16)
    x[2, 1] = np.nan
    for name in ("psum", "pmax", "all_gather", "ppermute"):
        mesh = ft.distributed.mesh({"i": 4})
        more = ([(i, i) for i in range(4)],) if name == "ppermute" else ()
        one = ft.distributed.spmd(
            lambda p, name=name, more=more: getattr(ft, name)(p[0], "i", *more),
            mesh, P("i"), P.local("i") if more else P(),
        )  # fmt: skip
        out = np.asarray(one(x))
        assert out.dtype == x.dtype
        mine = x[ft.distributed.rank()]
        wanted = {"psum": x.sum(0), "pmax": x.astype("f").max(0), "all_gather": x}.get(name, mine)
        np.testing.assert_array_equal(out.astype(float), wanted.astype(float))


def check_not_a_number():
    x = np.array([[1.0, np.nan, -np.inf, 0.0], [2.0, 1.0, np.inf, -0.0], [3.0, -1.0, 5.0, 0.0],
                  [-3.0, -np.nan, 5.0, 0.0]])  # fmt: skip
    for dtype in "efd":
        for fun in (ft.pmax, ft.pmin):
            one = ft.distributed.spmd(
                lambda p, fun=fun: fun(p[0], "i"), ft.distributed.mesh({"i": 4}), P("i"), P()
            )
            wanted = (np.max if fun is ft.pmax else np.min)(x.astype(dtype), 0)
            np.testing.assert_array_equal(np.asarray(one(x.astype(dtype))), wanted)


def check_arrays_without_elements_and_without_axes():
    for name in ("psum", "psum_both", "pmax", "ppermute"):
        fun = FUNCTIONS[name]
        assert_same(lambda f, x: f(x), fun, GRID, SPEC, SPEC, np.zeros((0, 8)))
        for x in (0.5, np.float32(0.5)):
            assert_same(lambda f, x: f(x), fun, GRID, P(), P(), x)
    gathered = ft.distributed.spmd(
        lambda x: ft.all_gather(x, "data"), ft.distributed.mesh(GRID), P(), P()
    )
    assert_close(gathered(0.5), np.array([0.5, 0.5]))
