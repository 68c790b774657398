"""Steps of loops that go along axes, or take elements by arrays: as eagerly, and without Python."""

import numpy as np
import pytest
from support.native import missing
from support.native_loops import assert_same, compiled, drawn

import functensor as ft
import functensor.numpy as fnp
import functensor.scipy as fsc
from functensor import nn

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore:invalid value|divide by zero|overflow:RuntimeWarning"),
]
CUBE = drawn((3, 4, 5), "f8")
STRANGE = CUBE.copy()
STRANGE[0, 1, 2] = STRANGE[2, 1, 2] = np.nan
STRANGE[1, 1, 1], STRANGE[1, 0, 1] = np.inf, -np.inf
STRANGE[1, 2], STRANGE[1, 3] = 0.0, -0.0


def check(step, x, rtol=1e-12):
    def f(x):
        return ft.fori_loop(0, 2, lambda i, x: step(x), x)

    assert_same(compiled(f, x)(x), f(x), rtol)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cumulative_functions(axis, reverse):
    check(lambda x: 0.1 * fnp.cumsum(x, axis, reverse=reverse), CUBE)
    check(lambda x: 0.1 * fnp.cumprod(x, axis, reverse=reverse), CUBE)
    check(lambda x: x * 0 + fnp.cumsum(x, axis, reverse=reverse), STRANGE)

    def energy(x):
        products = fnp.cumprod(x, axis, reverse=reverse)
        return fnp.sum(products**2) + fnp.sum(fnp.cumsum(x, axis) ** 2)

    check(lambda x: 0.01 * ft.grad(energy)(x), CUBE, 1e-9)


@pytest.mark.parametrize("axis", [0, 1, 2, None])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "?"])
def test_places_of_extrema(dtype, axis):
    x = STRANGE if dtype == "f8" else drawn((3, 4, 5), dtype)

    def f(x):
        def step(i, places):
            low, high = fnp.argmin(x, axis), fnp.argmax(x, axis, keepdims=True)
            return places + fnp.sum(low.astype(float)) + 100 * fnp.sum(high.astype(float))

        return ft.fori_loop(0, 2, step, 0.0)

    assert_same(compiled(f, x)(x), f(x))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u2", "u8", "i8", "?"])
def test_places_of_extrema_in_lanes(dtype):
    shapes = [(2, 3, 1), (3, 5, 2), (4, 17), (3, 16), (2, 4, 37), (2, 67), (130,)]
    xs = [many_equal((6, *shape), dtype) for shape in shapes]

    def f(xs):
        def step(_, xs):
            axes = [(x, axis) for x in xs for axis in (-1, max(-2, -x.ndim))]
            return 0, [(fnp.argmax(x, axis), fnp.argmin(x, axis)) for x, axis in axes]

        return ft.scan(step, 0, xs)[1]

    axes = [(x, axis) for x in xs for axis in (-1, max(-2, 1 - x.ndim))]
    wanted = [(np.argmax(x, axis), np.argmin(x, axis)) for x, axis in axes]
    assert_same(compiled(f, xs)(xs), wanted)


def many_equal(shape, dtype):
    """Returns few different numbers, the first of which counts, zeros of both signs and NaN."""
    rng = np.random.default_rng(len(shape))
    x = rng.integers(0, 2 if dtype == "?" else 4, shape).astype(dtype)
    if x.dtype.kind == "f":
        x[1] -= 2
        x[rng.random(shape) < 0.1] = -0.0
        x[2][rng.random(shape[1:]) < 0.03] = np.nan
        x[3][rng.random(shape[1:]) < 0.4] = np.nan
        x[4], x[5] = np.nan, -np.inf
    return x


def test_integers_and_booleans_are_summed_in_their_own_way():
    x = (8 * CUBE).astype("i1")

    def step(x):
        return (fnp.cumsum(x, 1) + fnp.cumprod(x % 3, 0) + fnp.cumsum(x > 0, 2)).astype("i1")

    check(step, x)


FORMS = {
    "softmax": lambda x: nn.softmax(x, axis=0),
    "log_softmax": lambda x: nn.log_softmax(x[0, 0]) + x,
    "logsumexp": lambda x: x - fsc.special.logsumexp(x, axis=(0, 2), keepdims=True),
    "logsumexp of rows": lambda x: x - fsc.special.logsumexp(x, axis=2)[..., None],
    "std": lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True, ddof=1),
    "norm": lambda x: x / 1.5 + fnp.linalg.norm(x, axis=1)[:, None],
    "triangles": lambda x: fnp.tril(x, 1) - fnp.triu(x, -1) * 0.5,
    "flip": lambda x: fnp.flip(x, (0, 2)) * 0.5 + x,
    "backward": lambda x: x[::-1, :, ::-1] * 0.5 + x[:, ::-2][:, :1] + x[..., 3::-3][..., :1],
    "backward beside arrays": lambda x: x + x[::-1, np.array([0, 2, 2, 1])],
    "pad": lambda x: fnp.pad(x, ((1, 0), (0, 2), (3, 3)), constant_values=2)[:3, 2:, 2:7] * 0.5,
    "derivatives": lambda x: x - 0.1 * ft.grad(lambda x: fnp.sum(nn.softmax(x, axis=1) ** 2))(x),
}


@pytest.mark.parametrize(
    "x", [CUBE, STRANGE, CUBE.astype("f4"), 1e3 * CUBE], ids=["f8", "nan", "f4", "large"]
)
@pytest.mark.parametrize("name", FORMS)
def test_forms_of_any_axes(name, x):
    check(FORMS[name], x, 1e-4 if x.dtype == np.float32 else 1e-12)


def places(x):
    """Whole numbers from 0 to 2, which a program cannot know to be so."""
    return fnp.abs(fnp.real(x[:, 0, 0])).astype(int) * 0 + fnp.array([2, 0, 2])


FIRST, LAST = np.array([0, 0, 1]), np.array([4, 4, 2])
BY_ARRAYS = {
    "rows": lambda x: x + x[places(x)],
    "one axis of three": lambda x: x + x[:, places(x)][:, :1],
    "points": lambda x: x + fnp.sum(x[places(x), :, places(x)]),
    "a grid": lambda x: x + x[places(x)[:, None], fnp.array([0, 3]), 1:4:2][:, :1, :1],
    "set": lambda x: x.at[places(x)].set(x * 2),
    "set columns": lambda x: x.at[:, places(x), :2].set(x[:, :1, 3:]),
    "set apart": lambda x: x.at[places(x), :, 2].set(x[:, :, 1]),
    "added": lambda x: x.at[places(x), places(x)].add(x[:, 3] * 2),
    "added a number": lambda x: x.at[..., places(x)].add(1),
    "added to constant places": lambda x: x.at[FIRST, :, LAST].add(x[:, :, 0]),
    "scatter": lambda x: x.at[places(x)[:, None], np.array([1, 2])].add(x[:, :2]),
    "a diagonal": lambda x: x.at[:, :3, :3].add(fnp.diag(x[0, 0, :3])),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i8"])
@pytest.mark.parametrize("name", BY_ARRAYS)
def test_elements_by_arrays(name, dtype):
    x = drawn((3, 4, 5), dtype)
    check(BY_ARRAYS[name], x, 1e-4 if dtype == "f4" else 1e-12)


@pytest.mark.parametrize("name", ["multiply", "max", "min"])
def test_updates_by_arrays(name):
    check(lambda x: getattr(x.at[places(x)], name)(x[::-1] * 0.7), CUBE)


def test_gradients_by_arrays():
    def energy(x):
        return fnp.sum(x[places(x)] ** 2 * x) + fnp.sum(x[:, np.array([0, 0, 3])] ** 2)

    check(lambda x: x - 0.01 * ft.grad(energy)(x), CUBE)
    batch = np.stack([CUBE, 2 * CUBE])
    check(ft.vmap(lambda x: x - 0.01 * ft.grad(energy)(x)), batch)


def test_arrays_out_of_bounds():
    def f(x, i):
        return ft.fori_loop(0, 3, lambda k, x: x.at[i + k].add(1.0)[::-1], x)

    x, fine = np.zeros(5), np.array([0, 1])
    jitted = compiled(f, x, fine)
    assert_same(jitted(x, fine), f(x, fine))
    for bad in ([0, 3], [-6, 0]):
        with pytest.raises(IndexError, match="is out of bounds for axis 0 with size 5"):
            jitted(x, np.array(bad))
    assert_same(jitted(x, np.array([-5, 2])), f(x, np.array([-5, 2])))


def test_the_best_path():
    # Viterbi's, with the states that it goes through.
    def path(start, moves, seen):
        def ahead(score, likelihood):
            scores = score[:, None] + moves
            return fnp.max(scores, 0) + likelihood, fnp.argmax(scores, 0)

        def back(state, pointers):
            return pointers[state], pointers[state]

        score, pointers = ft.scan(ahead, start, seen)
        last = fnp.argmax(score)
        return score, ft.scan(back, last, pointers, reverse=True)[1]

    args = drawn((4,), "f8"), drawn((4, 4), "f8", 1), drawn((9, 4), "f8", 2)
    assert_same(compiled(path, *args, loops=2)(*args), path(*args))


@pytest.mark.parametrize("function", [nn.softmax, nn.log_softmax])
def test_no_elements(function):
    slope = ft.grad(lambda x: fnp.sum(function(x, axis=0)))

    def f(x):
        return ft.fori_loop(0, 2, lambda i, x: function(slope(x), axis=0), x)

    x = np.zeros((0, 3))
    jitted = ft.jit(f).compile(x)
    assert "compiling failed" not in jitted.explain()
    assert_same(jitted(x), x)
