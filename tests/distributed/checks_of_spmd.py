"""Checks on four processes: specs, whole and local arrays, rules, loops, plans of both kinds."""

import numpy as np
import pytest
from support.meshes import assert_close, assert_same

import functensor as ft
import functensor.numpy as fnp
from functensor.distributed import P, mesh, spmd

GRID = {"data": 2, "model": 2}
BOTH = ("data", "model")
RANK = ft.distributed.rank()
X = np.cos(np.arange(64.0)).reshape(8, 8) + 0.2
W = np.sin(np.arange(32.0)).reshape(8, 4)


def run(f, *args):
    return f(*args)


def total(f):
    return lambda *args: sum(fnp.sum(fnp.sin(leaf)) for leaf in ft.tree.leaves(f(*args)))


def check_what_a_process_knows_of_others():
    info = ft.distributed.info()
    assert (info.size, info.local_size, info.engines) == (4, 4, ("MPI",))
    assert ft.distributed.rank() == info.rank == info.local_rank == RANK
    grid = mesh({"data": -1, "model": 2})
    assert grid is mesh({"data": 2, "model": 2})
    assert grid.position == {"data": RANK // 2, "model": RANK % 2}
    assert grid.ranks(["data"]) == [RANK % 2, RANK % 2 + 2]
    assert grid.ranks(["model", "data"]) == [0, 2, 1, 3]
    for shape in ({"data": 3}, {"data": 2, "model": 3}, {"data": 0}):
        with pytest.raises(ValueError, match=r"distributed\.mesh"):
            mesh(shape)


def check_specs_of_inputs_and_outputs():
    specs = [
        P("data", "model"), P("model", "data"), P(BOTH), P(("model", "data")), P(None, BOTH),
        P("data"), P(None, "model"), P(), P(("model", "data"), None), None,
    ]  # fmt: skip
    for spec in specs:
        assert_same(run, lambda x: x * 2 + 1, GRID, spec, spec, X)
        assert_same(lambda f, x: ft.grad(total(f))(x), fnp.sin, GRID, spec, spec, X)
        assert_same(lambda f, x: ft.jvp(f, (x,), (x,)), fnp.sin, GRID, spec, spec, X)
        assert_same(
            lambda f, x: ft.jit(ft.grad(lambda y: fnp.sum(ft.grad(total(f))(y) ** 3)))(x),
            fnp.sin, GRID, spec, spec, X,
        )  # fmt: skip
        assert_same(lambda f, x: ft.vmap(f, 1, 2)(x), lambda x: x**2, GRID, spec, spec,
                    np.stack([X, X + 1], 1))  # fmt: skip
    for spec in specs[2:4]:
        assert_same(run, lambda x: x, GRID, spec, P(("data", "model")), X)


def check_trees_of_specs():
    def loss(params, batch, scale, *, power):
        w, b = params["w"], params["b"]
        y = batch[0] @ ft.all_gather(w, "model", axis=1, tiled=True) + b
        return {"loss": ft.pmean(fnp.mean(y**power), "data") * scale, "rows": y}, params["w"]

    in_specs = ({"w": P(None, "model"), "b": None}, (P("data"),), P())
    out_specs = ({"loss": P(), "rows": P("data")}, P(None, "model"))
    params = {"w": W, "b": W[0]}

    def calls(f, params, x):
        out = f(params, (x,), 0.5, power=3)
        lossy = ft.value_and_grad(lambda p: f(p, (x,), 0.5, power=3)[0]["loss"])
        return out, lossy(params), ft.jit(lossy)(params)

    assert_same(calls, loss, GRID, in_specs, out_specs, params, X)


def check_other_leaves_than_arrays():
    grid = mesh(GRID)
    seen = []

    def one(name, x):
        seen.append(name)
        return name, x * 2

    out = spmd(one, grid, (P(), P("data")), (P(), P("data")))("first", X)
    assert seen == [out[0]] == ["first"]
    assert_close(out[1], X * 2)


def check_local_arrays():
    grid = mesh(GRID)
    mine = X[2 * RANK : 2 * RANK + 2]

    def loss(w, x):
        return ft.pmean(fnp.mean((x @ w) ** 2), BOTH)

    whole = spmd(loss, grid, (P(), P(BOTH)), P())
    local = spmd(loss, grid, (P(), P.local(BOTH)), P())
    for use in (ft.value_and_grad, lambda f: ft.jit(ft.value_and_grad(f))):
        assert_close(use(local)(W, mine), use(whole)(W, X))
    got = ft.grad(local, 1)(W, mine)
    assert_close(got, np.asarray(ft.grad(whole, 1)(W, X))[2 * RANK : 2 * RANK + 2])
    kept = spmd(lambda x: x * (ft.axis_index(BOTH) + 1), grid, P(BOTH), P.local(BOTH))
    assert_close(kept(X), mine * (RANK + 1))
    # Each process counts its own output.
    got = ft.grad(lambda x: fnp.sum(kept(x)))(X)
    assert_close(got, np.repeat(np.arange(1.0, 5), 2)[:, None] * np.ones(8))


def check_a_network_on_two_axes():
    """Rows of examples along one axis, hidden units along the other."""

    def loss(params, x):
        hidden = fnp.tanh(x @ params["in"])
        out = ft.psum(hidden @ params["out"], "model")
        return ft.pmean(fnp.mean(out**2), "data")

    def plain(params, x):
        return fnp.mean((fnp.tanh(x @ params["in"]) @ params["out"]) ** 2)

    params = {"in": W, "out": W.T}
    specs = {"in": P(None, "model"), "out": P("model")}
    whole = spmd(loss, mesh(GRID), (specs, P("data")), P())
    for use in (ft.value_and_grad, lambda f: ft.jit(ft.value_and_grad(f))):
        assert_close(use(whole)(params, X), use(plain)(params, X))

    def step(params, x):
        # Within, a gradient is that of the sum over processes of a loss that they share.
        grads = ft.grad(loss)(params, x)
        grads = ft.psum(grads, "data")
        return ft.tree.map(lambda p, g: p - 0.1 * g / 4, params, grads)

    wanted = ft.tree.map(lambda p, g: p - 0.1 * g, params, ft.grad(plain)(params, X))
    for one in (step, ft.jit(step)):
        assert_close(spmd(one, mesh(GRID), (specs, P("data")), specs)(params, X), wanted)


def check_rules_that_speak_of_axes():
    @ft.custom_vjp
    def centred(x):
        return x - ft.pmean(x, "data")

    centred.defvjp(lambda x: (centred(x), None), lambda _, g: (10 * (g - ft.pmean(g, "data")),))

    @ft.custom_jvp
    def centred_too(x):
        return x - ft.pmean(x, "data")

    @centred_too.defjvp
    def rule(primals, tangents):
        (t,) = tangents
        return centred_too(*primals), 10 * (t - ft.pmean(t, "data"))

    for fun in (centred, centred_too):
        def one(x, fun=fun):
            return fun(x) * fnp.sin(x)

        around = P("data", "model")
        within = ft.grad(total(one))
        assert_same(run, within, GRID, around, around, X)
        assert_same(run, ft.jit(within), GRID, around, around, X)
        # The rules run when the processes' function is over.
        assert_same(lambda f, x: ft.grad(total(f))(x), one, GRID, around, around, X)
        assert_same(lambda f, x: ft.jit(ft.grad(total(f)))(x), one, GRID, around, around, X)
        again = ft.checkpoint(one)
        assert_same(lambda f, x: ft.grad(total(f))(x), again, GRID, around, around, X)


def check_loops_and_branches():
    def scanned(x):
        def body(carry, row):
            carry = fnp.tanh(carry + ft.psum(row, "model"))
            return carry, ft.ppermute(carry * row, "data", [(0, 1), (1, 0)])

        return ft.scan(body, x[0], x)[1]

    def looped(x):
        return ft.fori_loop(0, 3, lambda i, y: fnp.sin(y) + ft.pmean(y, BOTH), x)

    def while_(x):
        def go(state):
            return ft.pmax(fnp.max(fnp.abs(state)), BOTH) > 0.5

        return ft.while_loop(go, lambda y: y * 0.5 + 0 * ft.psum(y, "data"), x)

    def branched(x):
        chosen = ft.psum(fnp.sum(x), BOTH) > 0
        return ft.cond(chosen, lambda y: ft.psum(y, "data") * y, lambda y: y * 2, x)

    spec = P("data", "model")
    for fun in (scanned, looped, while_, branched):
        assert_same(run, fun, GRID, spec, spec, X)
        assert_same(lambda f, x: ft.jit(f)(x), fun, GRID, spec, spec, X)
        assert_same(lambda f, x: ft.jvp(f, (x,), (x,)), fun, GRID, spec, spec, X)
        assert_same(run, ft.jit(fun), GRID, spec, spec, X)
        if fun is not while_:
            assert_same(lambda f, x: ft.grad(total(f))(x), fun, GRID, spec, spec, X)
            assert_same(run, ft.jit(ft.grad(total(fun))), GRID, spec, spec, X)


def check_plans_of_two_kinds_at_once():
    """Some processes run plans over NumPy, others machine code: the order has to be the same."""

    def one(x, y):
        a = ft.pmean(fnp.mean(fnp.exp(x) * y), "data")
        b = fnp.tanh(x * a) + y
        c = ft.psum(b, "model")
        d = fnp.sin(ft.pmax(x * y, "data")) * c + b
        e = ft.pmean(fnp.mean(d * x), BOTH)
        return fnp.exp(-fnp.abs(d * e)) + ft.ppermute(b * c, "data", [(0, 1), (1, 0)]) * a

    x = np.cos(np.arange(2 * 140_000.0)).reshape(2, 140_000)
    spec = P("data", "model")
    f = spmd(one, mesh(GRID), (spec, spec), spec)
    plain = spmd(one, mesh(GRID, emulated=True), (spec, spec), spec)

    def loss(x, y):
        return fnp.mean(fnp.sin(f(x, y)))

    wanted = ft.grad(lambda x, y: fnp.mean(fnp.sin(plain(x, y))), (0, 1))(x, x + 1)
    step = ft.jit(ft.grad(loss, (0, 1)))
    for _ in range(3):
        assert_close(step(x, x + 1), wanted, rtol=1e-9)
        if RANK in (1, 2):
            step.compile(x, x + 1)
    assert_close(ft.jit(f)(x, x + 1), plain(x, x + 1))

    def joined(x, z, k):
        # A region of all that is elementwise needs what is sorted behind the second sum.
        a = fnp.sin(x)
        first = ft.psum(fnp.sum(a, keepdims=True), "data")
        second = ft.psum(k, "data")
        return a * fnp.sort(z), first + second * 0, second

    f = spmd(joined, mesh(GRID), P(), P())
    args = X[0] * (RANK + 1), X[1], X[2, :1] * 2
    step = ft.jit(f)
    wanted = f(*args)
    for _ in range(3):
        assert_close(step(*args), wanted)
        if RANK in (1, 2):
            step.compile(*args)


def check_constants_that_differ_between_processes():
    """Passes look at constants: what is the same on one process may be another on the next."""
    first, second = np.array([2.0, 3.0]), np.array([2.0, 3.0 + (RANK == 1)])
    zero = np.float64(RANK % 2)

    def one(x):
        a = ft.psum(x * first, BOTH)
        b = ft.psum(x * second, BOTH)
        c = ft.psum(x * zero, "data") * zero
        d = ft.psum(fnp.ones(2) * zero, "model")
        return a + 2 * b + c + d + ft.psum(x, "model") * zero + ft.axis_index("data") * x

    x = np.array([0.5, -1.0])
    f = spmd(one, mesh(GRID), P(), P.local())
    wanted = f(x)
    jitted = ft.jit(f)
    with ft.config.using(check_collectives=True):
        for call in (jitted, jitted, jitted.compile(x), ft.jit(ft.grad(lambda x: fnp.sum(f(x))))):
            out = call(x)
        assert_close(jitted(x), wanted)
        assert_close(out, ft.grad(lambda x: fnp.sum(f(x)))(x))


def check_one_function_on_several_meshes():
    @ft.jit
    def one(x):
        return x * ft.psum(ft.axis_index("data") + 1.0, "data")

    wanted = {"a": X * 3, "b": X * 10, "c": X * 3}
    for _ in range(2):
        assert_close(spmd(one, mesh(GRID), P("data"), P("data"))(X), wanted["a"])
        assert_close(spmd(one, mesh({"data": 4}), P("data"), P("data"))(X), wanted["b"])
        named = ft.vmap(one, axis_name="data")(X.reshape(2, 4, 8)).reshape(8, 8)
        assert_close(named, wanted["c"])
    with pytest.raises(NameError, match="there is no axis named 'data'"):
        one(X)


def check_mistakes():
    grid = mesh(GRID)

    def use(message, in_specs, out_specs, *args, kind=ValueError, fun=lambda *xs: xs[0]):
        with pytest.raises(kind, match=message):
            spmd(fun, grid, in_specs, out_specs)(*args)

    use(r"is cut by P\('data'\) into 2 parts, and has length 3", P("data"), P(), np.ones(3))
    use(r"is for 2 axes, and an array float64\[8\]", P(None, "data"), P(), X[0])
    use("no axis 'rows'", P("rows"), P(), X)
    use("in_specs holds 'data', which is no spec", "data", P(), X, kind=TypeError)
    use("does not fit the structure", (P(), P()), P(), X)
    use("out_specs.*does not fit", P(), (P(), P()), X)
    use("cuts 'name', which is no array", P("data"), P(), "name", kind=TypeError)
    use("no axis named 'rows' here; axes with a name: 'data', 'model'", P(), P(), X,
        kind=NameError, fun=lambda x: ft.psum(x, "rows"))  # fmt: skip
    use("within another spmd", P(), P(), X, fun=lambda x: spmd(fnp.sin, grid, P(), P())(x))
    with pytest.raises(ValueError, match="within another axis named 'data'"):
        ft.vmap(spmd(fnp.sin, grid, P(), P()), axis_name="data")(X)
    with pytest.raises(ValueError, match="names an axis twice"):
        P("data", "data")
    with pytest.raises(TypeError, match="the mesh is"):
        spmd(fnp.sin, {"data": 4}, P(), P())
    with pytest.raises(NameError):
        ft.psum(X, "data")  # it is over
