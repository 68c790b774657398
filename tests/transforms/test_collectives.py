"""``vmap`` with a named axis, and what its examples tell each other.

The reference is the function of the whole batch, written with plain sums over the axis. Within the
mapped function a gradient is that of the sum of all outputs: so it is in JAX.
"""

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.testing import check_grads

X = np.array([0.3, -1.2, 2.0])
W = np.array([1.0, -0.5, 2.0])
M = np.arange(6.0).reshape(2, 3) / 7 + 0.1


def over(fun, **kwargs):
    return ft.vmap(fun, axis_name="i", **kwargs)


def close(got, wanted):
    got = np.asarray(got)
    assert (got.shape, got.dtype) == (np.shape(wanted), np.asarray(wanted).dtype)
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)


# Functions of one example, and the same of the batch.
FUNCTIONS = {
    "psum": (lambda x: x * ft.psum(fnp.sin(x), "i"), lambda x: x * fnp.sum(fnp.sin(x), 0)),
    "pmean": (
        lambda x: (x - ft.pmean(x, "i")) ** 2 / ft.pmean(x * x, "i"),
        lambda x: (x - fnp.mean(x, 0)) ** 2 / fnp.mean(x * x, 0),
    ),
    "pmax": (
        lambda x: fnp.exp(x - ft.pmax(x, "i")) * ft.pmax(x * x, "i"),
        lambda x: fnp.exp(x - fnp.max(x, 0)) * fnp.max(x * x, 0),
    ),
    "pmin": (lambda x: x**2 * ft.pmin(x, "i"), lambda x: x**2 * fnp.min(x, 0)),
    "axis_index": (
        lambda x: x ** (ft.axis_index("i") + 1.0),
        lambda x: x ** fnp.reshape(fnp.arange(x.shape[0]) + 1.0, (-1, *(1,) * (x.ndim - 1))),
    ),
    "all_gather": (
        lambda x: fnp.sum(fnp.sin(ft.all_gather(x, "i")), 0) * x,
        lambda x: fnp.sum(fnp.sin(x), 0) * x,
    ),
    "psum_scatter": (
        lambda x: ft.psum_scatter(fnp.stack([x, 2 * x * x, fnp.sin(x)]), "i") * x,
        lambda x: fnp.stack([fnp.sum(x, 0), 2 * fnp.sum(x * x, 0), fnp.sum(fnp.sin(x), 0)]) * x,
    ),
    "psum_scatter_tiled": (
        lambda x: fnp.sum(ft.psum_scatter(
            fnp.stack([x, x**3, 2 * x * x, -x, fnp.sin(x), fnp.cos(x)]), "i", tiled=True
        ) ** 2, 0),
        lambda x: fnp.stack([
            fnp.sum(x, 0) ** 2 + fnp.sum(x**3, 0) ** 2,
            4 * fnp.sum(x * x, 0) ** 2 + fnp.sum(x, 0) ** 2,
            fnp.sum(fnp.sin(x), 0) ** 2 + fnp.sum(fnp.cos(x), 0) ** 2,
        ]),
    ),
    "all_to_all": (
        lambda x: x * fnp.tensordot(
            W, ft.all_to_all(fnp.stack([x, 2 * x * x, fnp.sin(x)], -1), "i", -1, 0), 1
        ),
        lambda x: x * fnp.stack([
            fnp.tensordot(W, x, 1), fnp.tensordot(W, 2 * x * x, 1),
            fnp.tensordot(W, fnp.sin(x), 1),
        ]),
    ),
    "ppermute": (
        lambda x: ft.ppermute(fnp.sin(x), "i", [(0, 2), (2, 1)]) * x,
        lambda x: fnp.stack([0 * x[0], fnp.sin(x[2]), fnp.sin(x[0])]) * x,
    ),
    "axis_size": (lambda x: x * x * ft.axis_size("i"), lambda x: x * x * x.shape[0]),
}
BATCHES = [X, np.stack([X, X * 2 + 0.1], 1), np.array([1 + 0.0])]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_agrees_with_the_function_of_the_batch(name):
    one, whole = FUNCTIONS[name]
    for x in (X, np.stack([X, X * 2 + 0.1], 1)):
        close(over(one)(x), np.asarray(whole(x)))
        close(ft.make_program(over(one))(x)(x), np.asarray(whole(x)))
        # vmap within grad.
        mapped = ft.jacrev(over(one))(x)
        wanted = np.asarray(ft.jacrev(whole)(x))
        close(mapped, wanted)
        close(ft.jacfwd(over(one))(x), wanted)
        check_grads(over(one), (x,), order=2)
        # grad within vmap: of the sum of all outputs.
        total = np.asarray(ft.grad(lambda x: fnp.sum(whole(x)))(x))
        close(over(ft.grad(lambda x: fnp.sum(one(x))))(x), total)
        push = over(lambda x, t: ft.jvp(one, (x,), (t,))[1])(x, np.cos(x))
        close(push, np.asarray(ft.jvp(whole, (x,), (np.cos(x),))[1]))
        linear = over(lambda x, t: ft.linearize(one, x)[1](t))(x, np.cos(x))
        close(linear, np.asarray(push))
        twice = over(ft.grad(lambda x: fnp.sum(ft.grad(lambda y: fnp.sum(one(y)))(x) ** 2)))(x)
        wanted = ft.grad(lambda x: fnp.sum(ft.grad(lambda y: fnp.sum(whole(y)))(x) ** 2))(x)
        close(twice, np.asarray(wanted))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_another_vmap_may_stand_within_or_without(name):
    one, whole = FUNCTIONS[name]
    xs = np.stack([np.stack([X, X * 2]), np.stack([X + 1, X - 1])])  # (2, 2, 3): axis 2 is named
    wanted = np.asarray(ft.vmap(ft.vmap(whole))(xs))
    close(ft.vmap(ft.vmap(over(one)))(xs), wanted)
    close(ft.vmap(over(ft.vmap(one), in_axes=1, out_axes=1))(xs), wanted)
    close(over(ft.vmap(ft.vmap(one)), in_axes=2, out_axes=2)(xs), wanted)


def test_sums_of_trees_numbers_and_booleans():
    def one(x):
        return ft.psum({"a": x, "n": x > 0, "k": 2, "c": np.float32(1.5)}, "i")

    out = over(one)(X)
    close(out["a"], np.full(3, X.sum()))
    close(out["n"], np.full(3, 2))
    close(out["k"], np.full(3, 6))
    close(out["c"], np.full(3, 4.5, "float32"))
    shared = over(lambda x: ft.psum(x, "i"), out_axes=None)(X)
    close(shared, X.sum())
    close(over(lambda n: ft.psum(n, "i"), out_axes=None)(np.int8([100, 100])), np.int8(-56))
    sizes = []
    over(lambda x: sizes.append((ft.axis_size("i"), ft.psum(1, "i"))) or x)(X)
    assert sizes == [(3, 3)]
    assert type(sizes[0][1]) is int


def test_what_does_not_depend_on_the_example():
    y = fnp.asarray([1.0, 2.0])

    def one(x):
        gathered = ft.all_gather(y, "i", axis=1)
        moved = ft.ppermute(y, "i", [(0, 1), (1, 0)])
        part = ft.psum_scatter(fnp.asarray([1.0, 2.0, 4.0]), "i")
        return ft.psum(y, "i"), ft.pmean(y, "i"), ft.pmax(y, "i"), gathered, moved, part

    total, mean, largest, gathered, moved, part = over(one)(X)
    close(total, np.tile(3 * np.asarray(y), (3, 1)))
    close(mean, np.tile(y, (3, 1)))
    close(largest, np.tile(y, (3, 1)))
    close(gathered, np.tile(y, (3, 3, 1)).transpose(0, 2, 1))
    close(moved, np.array([[1.0, 2], [1, 2], [0, 0]]))
    close(part, 3 * np.array([1.0, 2, 4]))
    # All three examples send their cotangent back.
    got = over(ft.grad(lambda x: ft.psum(x * x, "i")), in_axes=None, axis_size=3)(0.5)
    close(got, np.full(3, 3.0))


def test_gathering_along_any_axis_and_tiled():
    rows = np.arange(12.0).reshape(3, 2, 2)
    for axis in (0, 1, 2, -1):
        got = over(lambda x, axis=axis: ft.all_gather(x, "i", axis=axis), out_axes=None)(rows)
        close(got, np.moveaxis(rows, 0, axis))
    for axis in (0, 1, -1):
        got = over(lambda x, a=axis: ft.all_gather(x, "i", axis=a, tiled=True), out_axes=None)(rows)
        close(got, np.concatenate(list(rows), axis))
    squares = np.arange(18.0).reshape(3, 2, 3)
    got = over(lambda x: ft.psum_scatter(x, "i", scatter_dimension=1))(squares)
    close(got, squares.sum(0).T)


def test_exchanges_along_any_axes():
    cubes = np.arange(3 * 3 * 6 * 2.0).reshape(3, 3, 6, 2)  # the first axis is named
    got = over(lambda x: ft.all_to_all(x, "i", 0, 2))(cubes)
    close(got, np.moveaxis(cubes, (1, 0), (0, 3)))
    for split, concat in ((1, 0), (0, 1), (1, 1), (-2, -1)):
        got = over(lambda x, s=split, c=concat: ft.all_to_all(x, "i", s, c, tiled=True))(cubes)
        parts = [np.split(x, 3, split) for x in cubes]
        close(got, np.stack([np.concatenate([p[k] for p in parts], concat) for k in range(3)]))
        back = over(lambda x, s=split, c=concat: ft.all_to_all(x, "i", c, s, tiled=True))(got)
        close(back, cubes)
    rows = np.arange(3 * 6.0).reshape(3, 6)
    got = over(lambda x: ft.psum_scatter(x, "i", tiled=True))(rows)
    close(got, rows.sum(0).reshape(3, 2))


def grid(fun, **kwargs):
    """Maps over rows, named i, and within them over columns, named j."""
    return ft.vmap(ft.vmap(fun, axis_name="j", **kwargs), axis_name="i", **kwargs)


def test_several_names():
    both = ("i", "j")
    close(grid(lambda x: ft.psum(x, both))(M), np.full((2, 3), M.sum()))
    close(grid(lambda x: ft.psum(x, ["j", "i"]))(M), np.full((2, 3), M.sum()))
    close(grid(lambda x: ft.psum(x, "i"))(M), np.tile(M.sum(0), (2, 1)))
    close(grid(lambda x: ft.psum(x, "j"))(M), np.tile(M.sum(1)[:, None], (1, 3)))
    close(grid(lambda x: ft.pmean(x, both))(M), np.full((2, 3), M.mean()))
    close(grid(lambda x: ft.pmax(x, both))(M), np.full((2, 3), M.max()))
    close(grid(lambda x: x * 0 + ft.axis_index(both))(M), np.arange(6.0).reshape(2, 3))
    close(grid(lambda x: x * 0 + ft.axis_index(("j", "i")))(M), np.array([[0.0, 2, 4], [1, 3, 5]]))
    gathered = grid(lambda x: ft.all_gather(x, both), out_axes=None)
    close(gathered(M), M.ravel())
    close(grid(lambda x: ft.all_gather(x, "i"))(M)[0], M.T)
    close(ft.psum(X, ()), X)
    # Every one of the six outputs has every input in it.
    close(grid(ft.grad(lambda x: ft.psum(x * x, both)))(M), 12 * M)
    got = ft.grad(lambda m: fnp.sum(grid(lambda x: x * ft.psum(x, both))(m)))(M)
    close(got, np.full((2, 3), 2 * M.sum()))


def test_the_inner_axis_hides_the_outer_one_of_the_same_name():
    got = over(over(lambda x: ft.psum(x, "i")))(M)
    close(got, np.tile(M.sum(1)[:, None], (1, 3)))


def test_shared_extrema_divide_their_derivative():
    x = np.array([1.0, 2.0, 2.0])
    wanted = np.array([0, 0.5, 0.5])
    close(ft.grad(over(lambda x: ft.pmax(x, "i"), out_axes=None))(x), wanted)
    close(over(ft.grad(lambda x: ft.pmax(x, "i")))(x), 3 * wanted)
    close(over(lambda x: ft.jvp(lambda x: ft.pmax(x, "i"), (x,), (x,))[1])(x), np.full(3, 2.0))


def test_rules_and_hooks_may_speak_of_the_axis():
    @ft.custom_vjp
    def centred(x):
        return x - ft.pmean(x, "i")

    centred.defvjp(lambda x: (centred(x), None), lambda _, g: (10 * (g - ft.pmean(g, "i")),))

    @ft.custom_jvp
    def centred_too(x):
        return x - ft.pmean(x, "i")

    @centred_too.defjvp
    def rule(primals, tangents):
        (t,) = tangents
        return centred_too(*primals), 10 * (t - ft.pmean(t, "i"))

    weights = np.array([1.0, 2.0, 5.0])
    for fun in (centred, centred_too):
        close(over(fun)(X), X - X.mean())
        got = ft.grad(lambda x, fun=fun: fnp.sum(over(fun)(x) * weights))(X)
        close(got, 10 * (weights - weights.mean()))
        got = over(lambda x, w, fun=fun: ft.grad(lambda x: fun(x) * w)(x))(X, weights)
        close(got, 10 * (weights - weights.mean()))
        close(over(fun, in_axes=None, axis_size=2)(1.5), np.zeros(2))

    # A plan of a batch is staged without the axes around it.
    for fun in (centred, centred_too):
        one = ft.grad(lambda x, fun=fun: fnp.sum(fnp.sin(fun(x)) * X))
        for jitted in (ft.jit(one), ft.jit(ft.checkpoint(one))):
            both = [ft.vmap(over(f), axis_name="j")(M) for f in (one, jitted)]
            close(both[1], np.asarray(both[0]))
            both = [over(ft.vmap(f, axis_name="j"))(M) for f in (one, jitted)]
            close(both[1], np.asarray(both[0]))

    class Seen(ft.hooks.Hook):
        names = ()

        def forward(self, op, inputs, output):
            self.names = (*self.names, op.name)

        def backward(self, op, grad_inputs, grad_output):
            return None

    hook = Seen()
    with ft.hooks.use(hook):
        got = ft.grad(lambda x: fnp.sum(over(lambda x: x * ft.psum(x, "i"))(x)))(X)
        close(got, np.full(3, 2 * X.sum()))
        close(over(ft.grad(lambda x: x * ft.psum(x, "i")))(X), np.full(3, 2 * X.sum()))
    assert hook.names.count("psum") == 2


def test_a_normalisation_over_the_batch():
    """The purpose of the names: the statistics of a batch, in a function of one example."""

    def one(x, scale):
        mean = ft.pmean(x, "batch")
        deviation = fnp.sqrt(ft.pmean((x - mean) ** 2, "batch") + 1e-5)
        return scale * (x - mean) / deviation

    def loss(scale, xs):
        return fnp.sum(ft.vmap(one, (0, None), axis_name="batch")(xs, scale) ** 3)

    def whole(scale, xs):
        return fnp.sum((scale * (xs - fnp.mean(xs, 0)) / fnp.sqrt(fnp.var(xs, 0) + 1e-5)) ** 3)

    xs = np.stack([X, X[::-1] ** 2, X + 0.3], 1)
    for got, wanted in zip(
        ft.grad(loss, (0, 1))(X, xs), ft.grad(whole, (0, 1))(X, xs), strict=True
    ):
        np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-9)


def test_empty_batches():
    close(over(lambda x: x + ft.psum(x, "i"))(np.zeros(0)), np.zeros(0))
    close(over(lambda x: ft.psum(x, "i"), out_axes=None)(np.zeros((0, 2))), np.zeros(2))
    close(over(lambda x: x + ft.axis_index("i"))(np.zeros(0)), np.zeros(0))


CALLS = {
    "psum": lambda x, name: ft.psum(x, name),
    "pmean": lambda x, name: ft.pmean(x, name),
    "pmax": lambda x, name: ft.pmax(x, name),
    "pmin": lambda x, name: ft.pmin(x, name),
    "all_gather": lambda x, name: ft.all_gather(x, name),
    "psum_scatter": lambda x, name: ft.psum_scatter(fnp.stack([x] * 3), name),
    "ppermute": lambda x, name: ft.ppermute(x, name, []),
    "all_to_all": lambda x, name: ft.all_to_all(fnp.stack([x] * 3), name, 0, 0),
    "axis_index": lambda x, name: ft.axis_index(name),
    "axis_size": lambda x, name: ft.axis_size(name),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_name_that_is_not_there(name):
    call = CALLS[name]
    words = f"{name}: there is no axis named 'k' here; axes with a name: "
    fix = r"Name one: ft.vmap\(f, axis_name='k'\)"
    with pytest.raises(NameError, match=words + "none. " + fix):
        call(fnp.asarray(1.0), "k")
    with pytest.raises(NameError, match=words + "none. " + fix):
        ft.vmap(lambda x: call(x, "k"))(X)
    with pytest.raises(NameError, match=words + "'j', 'i'. " + fix):
        grid(lambda x: ft.grad(lambda x: call(x, "k"))(x))(M)
    ft.vmap(lambda x: x, axis_name="k")(X)
    with pytest.raises(NameError, match=words + "none"):  # it is over
        call(fnp.asarray(1.0), "k")


def test_other_mistakes():
    with pytest.raises(ValueError, match=r"axis_name=\('i', 'i'\) names an axis twice"):
        over(lambda x: ft.psum(x, ("i", "i")))(X)
    with pytest.raises(TypeError, match=r"axis_name=\('i', 'j'\) is not one name"):
        ft.vmap(lambda x: x, axis_name=("i", "j"))
    words = r"perm=\[\(0, 3\)\] is to hold each position .* 'i' of length 3"
    with pytest.raises(ValueError, match=words):
        over(lambda x: ft.ppermute(x, "i", [(0, 3)]))(X)
    with pytest.raises(ValueError, match="at most once"):
        over(lambda x: ft.ppermute(x, "i", [(0, 1), (2, 1)]))(X)
    words = r"axis 0 of an array of shape \(2,\) has length 2, .* 'i' 3"
    with pytest.raises(ValueError, match=words):
        over(lambda x: ft.psum_scatter(x, "i"))(np.ones((3, 2)))
    words = r"axis 0 of an array of shape \(2,\) has length 2, no multiple of the length 3"
    for exchange in (
        lambda x: ft.psum_scatter(x, "i", tiled=True),
        lambda x: ft.all_to_all(x, "i", 0, 0, tiled=True),
    ):
        with pytest.raises(ValueError, match=words):
            over(exchange)(np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"all_to_all: axis 0 .* has length 2, .* 'i' 3"):
        over(lambda x: ft.all_to_all(x, "i", 0, 0))(np.ones((3, 2)))
    with pytest.raises(np.exceptions.AxisError):
        over(lambda x: ft.all_gather(x, "i", axis=2))(X)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a"), ("a", None)])
@pytest.mark.parametrize("axes", ["a", ("a", "b")])
def test_a_jitted_function_with_a_rule_speaks_of_all_axes_around_it(names, axes):
    if axes != "a" and None in names:
        names = ("b", "a")

    @ft.custom_vjp
    def summed(x):
        return ft.psum(fnp.sin(x), axes)

    summed.defvjp(
        lambda x: (summed(x), x), lambda x, g: (ft.psum(g, axes) * ft.axis_index("a") * x,)
    )
    x = np.arange(6.0).reshape(2, 3)
    jitted = ft.jit(summed)
    for change in (lambda f: f, ft.grad, ft.value_and_grad):
        both = [
            ft.vmap(ft.vmap(change(f), axis_name=names[1]), axis_name=names[0])(x)
            for f in (summed, jitted)
        ]
        for wanted, found in zip(*map(ft.tree.leaves, both), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-14)
