"""jit: what is staged, when it is staged again, and that it does what the function does."""

import gc
import pickle
import threading
import warnings

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.jitting.retraces import RetraceError, RetraceWarning
from functensor.jitting.signature import StaticArgumentError
from functensor.primitives.core.donation import DonatedArrayError
from functensor.primitives.core.errors import ConcretizationError

X = np.linspace(-1.0, 2.0, 6).reshape(2, 3)
W = np.linspace(0.5, 1.5, 12).reshape(3, 4)


def model(w, x):
    return fnp.sum(fnp.tanh(x @ w) ** 2)


def calls_of(fun):
    """Returns a function that counts how often it is run, and the count."""
    seen = []

    def counted(*args, **kwargs):
        seen.append(1)
        return fun(*args, **kwargs)

    return counted, seen


def staged_times(f):
    return f.explain().count("\n")


# -- when it is staged


def test_is_staged_once_for_every_kind_of_arguments():
    fun, seen = calls_of(lambda x, scale: fnp.sin(x) * scale)
    f = ft.jit(fun)
    for scale in (2.0, 3.0, -1.0):
        np.testing.assert_array_equal(f(X, scale), np.sin(X) * scale)
    assert len(seen) == 1
    f(X, 2)
    f(X.astype("f4"), 2.0)
    f(X[0], 2.0)
    f(x=X, scale=2.0)
    assert len(seen) == 5
    assert f.cache_size == 5
    f.clear_cache()
    f(X, 1.0)
    assert len(seen) == 6


def test_python_numbers_stay_weak_and_are_not_baked_in():
    f = ft.jit(lambda x, s: x * s + 1)
    x = X.astype("f4")
    assert f(x, 2.0).dtype == np.float32
    assert f(x, np.float64(2)).dtype == np.float64
    assert f(x, 1 + 2j).dtype == np.complex64
    np.testing.assert_array_equal(f(3, 4), 13)
    assert f(3, 4).dtype == np.asarray(13).dtype
    np.testing.assert_array_equal(f(True, 2), 3)
    assert f(2.0, 3.0).dtype == np.float64


def test_explanations_name_the_leaf_the_old_and_the_new():
    f = ft.jit(lambda p, s=1.0: p["w"] * s)
    f({"w": X})
    f({"w": X.astype("f4")})
    f({"w": X, "b": X})
    f({"w": X}, 2)
    lines = f.explain().splitlines()
    assert lines[0].endswith("was staged 4 times:")
    assert "the first call" in lines[1]
    assert "test_jit.py:" in lines[1]
    assert "argument 0['w'] was float64[2,3], and is float32[2,3]" in lines[2]
    assert "argument 0['b'] is new" in lines[3]
    assert "argument 1 is new" in lines[4]
    assert "was not called yet" in ft.jit(lambda x: x).explain()


def test_retracing_can_be_refused():
    f = ft.jit(lambda x: x + 1)
    f(X)
    with f.assert_no_retrace():
        f(X + 1)
        with pytest.raises(RetraceError) as caught:
            f(X[0])
    text = str(caught.value)
    assert "argument 0 was float64[2,3], and is float64[3]" in text
    assert "python -m functensor.errors 11" in text
    np.testing.assert_array_equal(f(X[0]), X[0] + 1)


def test_the_cache_is_bounded(monkeypatch):
    from functensor.jitting import jitted as jitting

    monkeypatch.setattr(jitting, "MOST_KEPT_PLANS", 3)
    f = ft.jit(lambda x: x * 2)
    for n in range(6):
        f(np.ones(n))
    assert f.cache_size == 3
    np.testing.assert_array_equal(f(np.ones(0)), np.ones(0))


def test_many_retraces_are_told():
    f = ft.jit(lambda x, n: x * n, static_argnums=1)
    for n in range(19):
        f(X, n)
    with pytest.warns(RetraceWarning, match=r"static argument 1 was 18, and is 19"):
        f(X, 19)

    def shifted(x):
        return ft.jit(lambda x: x - 1)(x)

    for _ in range(99):
        shifted(X)
    with pytest.warns(RetraceWarning, match="a lambda or def that is made in each call is"):
        shifted(X)


# -- static arguments


def test_static_arguments_are_constants():
    def power(x, n, *, mode="product"):
        if mode == "product":
            out = 1.0
            for _ in range(n):
                out = out * x
            return out
        return x**n

    f = ft.jit(power, static_argnums=1, static_argnames="mode")
    np.testing.assert_array_equal(f(X, 3), X * X * X)
    np.testing.assert_array_equal(f(X, n=2), X * X)
    np.testing.assert_allclose(f(X, 2, mode="power"), X**2)
    assert f.cache_size == 3
    g = ft.jit(lambda x, flag: x if flag else -x, static_argnames=("flag",))
    np.testing.assert_array_equal(g(X, True), X)
    np.testing.assert_array_equal(g(X, 1), X)
    np.testing.assert_array_equal(g(X, flag=False), -X)
    assert "static argument 'flag' is now False" in g.explain()
    with ft.disable_jit():
        np.testing.assert_array_equal(g(X, flag=False), -X)


def test_static_arguments_must_be_hashable():
    f = ft.jit(lambda x, sizes: x * len(sizes), static_argnums=(1,))
    with pytest.raises(StaticArgumentError) as caught:
        f(X, [1, 2])
    text = str(caught.value)
    for part in ["static argument 'sizes'", "list", "cannot be hashed", "tuple", "errors 11"]:
        assert part in text
    np.testing.assert_array_equal(f(X, (1, 2)), 2 * X)
    with pytest.raises(ValueError, match="static_argnums=5, but it has 2 positional"):
        ft.jit(lambda x, y: x, static_argnums=5)
    with pytest.raises(ValueError, match="static_argnames='z', but its arguments are x, y"):
        ft.jit(lambda x, y: x, static_argnames="z")
    with pytest.raises(ValueError, match="is static and donated"):
        ft.jit(lambda x, y: x, static_argnums=0, donate_argnums=0)


def test_what_is_no_array_must_be_static():
    f = ft.jit(lambda x, name: x)
    with pytest.raises(TypeError, match=r"argument 1 is of type str, not an array"):
        f(X, "name")
    with pytest.raises(TypeError, match=r"the output\['n'\] is of type str"):
        ft.jit(lambda x: {"x": x, "n": "name"})(X)


# -- values are not known


def test_messages_name_the_argument_and_the_way_out():
    with pytest.raises(ConcretizationError) as caught:
        ft.jit(lambda x, y: x if y > 0 else -x)(X, 1.0)
    text = str(caught.value)
    for part in [
        "bool() asked for the value of bool[], which depends on argument 1 (y),",
        "test_jit.py:",
        "under jit(",
        "fix: np.where(condition, a, b) instead of if/and/or/min, or ft.cond(condition, f, g, x);",
        "; or make the argument static: static_argnums=1\n",
        "python -m functensor.errors 4",
    ]:
        assert part in text, text
    with pytest.raises(ConcretizationError) as caught:
        ft.jit(lambda x, n: float(n) * x)(X, 1.0)
    text = str(caught.value)
    for part in [
        "float()",
        "argument 1",
        "test_jit.py:",
        "functensor.numpy instead of math; or make the argument static: static_argnums=1\n",
        "python -m functensor.errors 5",
    ]:
        assert part in text, text
    with pytest.raises(ConcretizationError, match="argument 1"):
        ft.jit(lambda x, n: fnp.ones(n) * x)(X, 3)


def test_an_exception_leaves_the_next_call_right():
    broken = [True]

    def fun(x):
        y = fnp.sin(x)
        if broken:
            broken.pop()
            raise KeyError("mine")
        return y

    f = ft.jit(fun)
    with pytest.raises(KeyError, match="mine"):
        f(X)
    np.testing.assert_array_equal(f(X), np.sin(X))
    g = ft.jit(lambda a, b: ft.numpy.linalg.solve(a, b))
    with pytest.raises(np.linalg.LinAlgError):
        g(np.zeros((2, 2)), np.ones(2))
    np.testing.assert_allclose(g(np.eye(2), np.ones(2)), np.ones(2))


# -- trees, closures, outputs


def test_trees_closures_constants_and_inputs_as_outputs():
    table = fnp.asarray(W)

    def fun(p, *rest, key=None):
        return {"y": (p["a"] @ table, rest), "n": 3.0, "key": key, "a": p["a"]}

    f = ft.jit(fun)
    a = fnp.asarray(X)
    for _ in range(2):
        out = f({"a": a}, a, 2, key=None)
        np.testing.assert_allclose(out["y"][0], X @ W)
        assert out["a"] is a
        assert out["y"][1][0] is a
        assert out["key"] is None
        np.testing.assert_array_equal(out["n"], 3.0)
    assert ft.jit(lambda: fnp.arange(3))().tolist() == [0, 1, 2]
    assert ft.jit(lambda x: ())(X) == ()


def test_methods_decorators_names_and_pickles():
    class Model:
        scale = 3.0

        @ft.jit
        def double(x):
            """Returns twice x."""
            return 2 * x

        @ft.jit
        def method(self, x):
            return x

    assert Model.double.__name__ == "double"
    assert Model.double.__doc__ == "Returns twice x."
    np.testing.assert_array_equal(Model.double(X), 2 * X)
    with pytest.raises(TypeError, match="argument 0 is of type Model, not an array"):
        Model().method(X)

    @ft.jit(static_argnums=1)
    def power(x, n):
        return x**n

    np.testing.assert_array_equal(power(X, 2), X**2)
    again = pickle.loads(pickle.dumps(ft.jit(np.sin)))
    np.testing.assert_array_equal(again(X), np.sin(X))
    assert repr(power) == "<jit of power>"


def test_captured_tracers_are_arguments_of_the_call():
    def loss(w):
        inner = ft.jit(lambda x: fnp.sum(x @ w))
        return inner(X) + inner(X + 1)

    np.testing.assert_allclose(ft.grad(loss)(W), ft.grad(lambda w: fnp.sum((2 * X + 1) @ w))(W))
    values = ft.vmap(lambda s: ft.jit(lambda x: x * s)(2.0))(X[0])
    np.testing.assert_allclose(values, 2 * X[0])


# -- transformations


ORDERS = {
    "grad of jit": lambda f: ft.grad(ft.jit(f)),
    "jit of grad": lambda f: ft.jit(ft.grad(f)),
    "jit of grad of jit": lambda f: ft.jit(ft.grad(ft.jit(f))),
    "grad of jit of jit": lambda f: ft.grad(ft.jit(ft.jit(f))),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_gradients(order):
    wanted = ft.grad(model)(W, X)
    for w in (W, fnp.asarray(W)):
        np.testing.assert_allclose(order(model)(w, X), wanted, rtol=1e-13)


SECOND = {
    "hessian of jit": lambda f: ft.hessian(ft.jit(f)),
    "jit of hessian": lambda f: ft.jit(ft.hessian(f)),
    "jacfwd of jit of grad": lambda f: ft.jacfwd(ft.jit(ft.grad(f))),
    "jacrev of grad of jit": lambda f: ft.jacrev(ft.grad(ft.jit(f))),
    "jit of jacrev of jit of jacfwd": lambda f: ft.jit(ft.jacrev(ft.jit(ft.jacfwd(f)))),
}


@pytest.mark.parametrize("order", SECOND.values(), ids=SECOND)
def test_second_derivatives(order):
    wanted = ft.hessian(model)(W, X)
    np.testing.assert_allclose(order(model)(W, X), wanted, rtol=1e-11, atol=1e-13)


BATCHES = {
    "vmap of jit": lambda f: ft.vmap(ft.jit(f), (None, 0)),
    "jit of vmap": lambda f: ft.jit(ft.vmap(f, (None, 0))),
    "vmap of grad of jit": lambda f: ft.vmap(ft.grad(ft.jit(f)), (None, 0)),
    "vmap of jit of grad": lambda f: ft.vmap(ft.jit(ft.grad(f)), (None, 0)),
    "jit of vmap of jit of grad": lambda f: ft.jit(ft.vmap(ft.jit(ft.grad(f)), (None, 0))),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches(name):
    batch = np.stack([X, -X, X + 1])
    plain = ft.grad(model) if "grad" in name else model
    wanted = np.stack([plain(W, x) for x in batch])
    np.testing.assert_allclose(BATCHES[name](model)(W, batch), wanted, rtol=1e-12)
    empty = BATCHES[name](model)(W, batch[:0])
    assert (empty.shape, empty.dtype) == ((0, *wanted.shape[1:]), wanted.dtype)


def test_forward_mode_and_several_outputs():
    def fun(x, n):
        return fnp.sin(x), n * 2, (x**2).sum()

    plain = ft.jvp(lambda x: fun(x, 3), (X,), (np.ones_like(X),))
    jitted = ft.jvp(lambda x: ft.jit(fun)(x, 3), (X,), (np.ones_like(X),))
    for a, b in zip(ft.tree.leaves(plain), ft.tree.leaves(jitted), strict=True):
        np.testing.assert_allclose(a, b)
    _, pull = ft.vjp(lambda x: ft.jit(fun)(x, 3)[::2], X)
    (got,) = pull((np.ones_like(X), 2.0))
    np.testing.assert_allclose(got, np.cos(X) + 4 * X)
    # One of the outputs has no cotangent.
    got = ft.grad(lambda x: ft.jit(fun)(x, 3)[2])(X)
    np.testing.assert_allclose(got, 2 * X)


def test_collectives_reach_through():
    batch = np.stack([X, -X, X + 1])

    def normalized(x):
        return x - ft.pmean(x, "i")

    wanted = batch - batch.mean(0)
    got = ft.vmap(ft.jit(normalized), axis_name="i")(batch)
    np.testing.assert_allclose(got, wanted)
    got = ft.jit(ft.vmap(normalized, axis_name="i"))(batch)
    np.testing.assert_allclose(got, wanted)


def test_custom_rules_within_are_kept_for_derivatives():
    @ft.custom_vjp
    def clipped(x):
        return fnp.exp(x)

    clipped.defvjp(lambda x: (fnp.exp(x), None), lambda res, g: (7 * g,))
    f = ft.jit(lambda x: fnp.sum(clipped(x)))
    np.testing.assert_allclose(f(X), np.exp(X).sum())
    np.testing.assert_array_equal(ft.grad(f)(X), np.full(X.shape, 7.0))
    np.testing.assert_array_equal(ft.jit(ft.grad(f))(X), np.full(X.shape, 7.0))


def test_hooks_see_the_operations_inside():
    seen = []
    f = ft.jit(lambda x: fnp.sum(fnp.sin(x)))
    f(X)
    with ft.hooks.use(ft.hooks.FnHook(forward=lambda op, xs, out: seen.append(op.name))):
        f(X)
    assert seen == ["sin", "sum"]


def test_an_optimizer_step():
    opt = ft.optim.adam(1e-2)

    def loss(params, x):
        return model(params["w"], x) + fnp.sum(params["b"] ** 2)

    params = {"w": fnp.asarray(W), "b": fnp.ones(3)}
    plain, jitted = opt.minimize(loss), ft.jit(opt.minimize(loss))
    one, two = (params, opt.init(params)), (params, opt.init(params))
    for _ in range(5):
        one, two = plain(*one, X), jitted(*two, X)
    for a, b in zip(ft.tree.leaves(one), ft.tree.leaves(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert a.dtype == b.dtype
    assert staged_times(jitted) <= 2


# -- donation


def test_donated_arrays_are_written_in_place_and_refuse_to_be_used():
    f = ft.jit(lambda w, g: w - 0.1 * g, donate_argnums=0)
    w, g = fnp.asarray(np.ones(1000)), np.ones(1000)
    w = w + 1
    address = np.asarray(w).ctypes.data
    gc.collect()
    out = f(w, g)
    assert np.asarray(out).ctypes.data == address
    np.testing.assert_allclose(out, 1.9 * np.ones(1000))
    for use in (lambda: w + 1, lambda: w.shape, lambda: np.asarray(w), lambda: f(w, g)):
        with pytest.raises(DonatedArrayError, match=r"donated to jit of <lambda>"):
            use()


def test_donation_never_touches_what_others_see():
    f = ft.jit(lambda w: w * 2, donate_argnums=0)
    mine = np.ones(10)
    np.testing.assert_array_equal(f(mine), 2.0)
    np.testing.assert_array_equal(mine, 1.0)
    shared = fnp.asarray(mine)
    f(shared)
    np.testing.assert_array_equal(mine, 1.0)
    w = fnp.ones(10) + 1
    view = w[:5]
    np.testing.assert_array_equal(f(w), 4.0)
    np.testing.assert_array_equal(view, 2.0)


# -- threads


def test_eight_threads_get_right_answers():
    f = ft.jit(lambda x, n: fnp.tanh(x * n) @ W + fnp.sum(x), static_argnums=1)
    failures = []
    barrier = threading.Barrier(8)

    def work(number):
        x = X + number
        barrier.wait()
        for n in range(1, 5):
            for _ in range(20):
                got = f(x, n)
                wanted = np.tanh(x * n) @ W + x.sum()
                if not np.allclose(got, wanted, rtol=1e-12):
                    failures.append((number, n))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert f.cache_size == 4


# -- what it shows


def test_lowered_programs_sources_and_costs():
    f = ft.jit(lambda w, x: fnp.sum(fnp.sin(x @ w) * 2))
    low = f.lower(W, X)
    assert str(low.program).startswith("<lambda>(a: float64[3,4], b: float64[2,3]):")
    assert "matmul" in low.source
    cost = low.cost()
    assert cost.flops >= 2 * 2 * 3 * 4 + 8 + 8 + 8
    assert cost.peak >= X.nbytes + W.nbytes
    assert "matmul" in str(cost)
    with pytest.raises(RuntimeError, match="was not called yet"):
        ft.jit(lambda x: x).cost()
    f(W, X)
    assert f.cost().flops == cost.flops


def test_lowering_takes_types():
    low = ft.jit(lambda x: x * 2).lower(ft.ShapeDtype((3,), "float32"))
    assert low.program.outputs[0].type == ft.ShapeDtype((3,), "float32")


def test_rules_warn_of_no_values():
    grad = ft.grad(lambda x: fnp.sum(fnp.abs(x) ** 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(ft.jit(grad)(np.zeros(2)), grad(np.zeros(2)))
