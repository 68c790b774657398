"""Evenly spaced numbers and differences, over all combinations of keywords: NumPy's, jitted too."""

import itertools
import warnings
from functools import partial
from itertools import islice

import numpy as np
import pytest
from support.long_forms import sized

import functensor as ft
import functensor.numpy as fnp

RNG = np.random.default_rng(0)
X, M, Z = RNG.normal(size=5), RNG.normal(size=(3, 4)), RNG.normal(size=4) + 1j
ENDS = [(1, 4), (4.0, 1.0), (2.0, 2.0), (X[:2], 4.0), (X[:2], X[:3, None]), (1 + 1j, 2.0)]
ENDS += [(np.float32(1), np.float32(3)), (np.array([1, 2]), 9), (X[:0], 1.0), (np.nan, 1.0)]
POSITIVE = [(1, 4), (4.0, 1.0), (np.array([1.0, 2.0]), 9.0), (-1.0, -8.0), (1j, 8j)]
ARRAYS = [X, M, Z, np.arange(5), X > 0, X[:1], X[:0], np.arange(4, dtype="uint8")]
ARRAYS += [X.astype("float32")]
pytestmark = pytest.mark.long
# One in so many calls is made, and one in so many of these is jitted.
STRIDE = sized(5, 1)
SHARE = sized(7, 1)


def options(**choices):
    """Returns every combination of keywords."""
    return [dict(zip(choices, chosen)) for chosen in itertools.product(*choices.values())]


def differences():
    """Returns calls of diff, what is put in front and behind included."""
    for a in ARRAYS:
        extras = [1.0, np.float64(2), RNG.normal(size=(*a.shape[:-1], 2))]
        for keywords in options(n=(0, 1, 2, 7), axis=(-1, 0)):
            yield (a,), keywords
            for extra in extras:
                yield (a,), {**keywords, "prepend": extra}
                yield (a,), {**keywords, "append": extra, "prepend": extra}


def slopes():
    """Returns calls of gradient, with distances of all kinds that NumPy does not cast."""
    for f in [X, M, Z, np.arange(5), np.arange(5, dtype="uint8"), X.astype("float32"), X[:2]]:
        for keywords in options(axis=(None, 0, (-1,)), edge_order=(1, 2)):
            n = f.shape[-1 if keywords["axis"] == (-1,) else 0]
            places = [(), (2,), (0.5,), (np.float32(2),), (np.sort(RNG.normal(size=n)),)]
            places += [(np.arange(n) ** 2,), (np.arange(n, dtype="uint8"),)]
            if f.dtype.kind == "c":
                places += [(RNG.normal(size=n) + 1j * np.arange(n),)]
            for place in places:
                yield (f, *place), keywords


def angles():
    for p in [9 * X, 6 * M, np.array([0, 90, 350, 10]), np.array([0, 3, -3], "int8"), X[:0]]:
        for keywords in options(discont=(None, 1.0, 10), period=(2 * np.pi, 4, 5, 360)):
            yield (p,), keywords


def interpolations():
    places, whole = np.sort(X), np.arange(3)
    for x in (X, 0.3, M, np.array([-9.0, 9.0, np.nan, np.inf]), 1, np.float32(0.2)):
        for table in ((places, X), (places, X * 1j), (whole, whole), (X[:1], X[:1])):
            for keywords in options(left=(None, -5.0), right=(None, 7), period=(None, 2.0)):
                yield (x, *table), keywords


SPACED = {"num": (0, 1, 5), "endpoint": (True, False), "dtype": (None, int, "float32")}
FAMILIES = {
    "linspace": itertools.product(ENDS, options(**SPACED, retstep=(False, True), axis=(0, -1))),
    "logspace": itertools.product(ENDS, options(**SPACED, base=(10.0, 2, np.array(3.0)))),
    "geomspace": itertools.product(POSITIVE, options(**SPACED, axis=(0, -1))),
    "arange": itertools.product(
        [(3,), (0,), (-2,), (1, 4), (4, 1), (1.0, 2.0, 0.3), (5, 0, -2), (2.5,), (np.int8(3),),
         (np.float32(1), 3), (1, None), (0, 3, np.inf)],
        options(dtype=(None, int, "float32", complex)),
    ),
    "diff": differences(),
    "gradient": slopes(),
    "unwrap": angles(),
    "interp": interpolations(),
    "ediff1d": itertools.product(
        [(X,), (M,), (Z,)], options(to_end=(None, 1, [1, 2]), to_begin=(None, 3, [1, 2, 3]))
    ),
}  # fmt: skip


def outcome(function, args, keywords):
    """Returns what a call returns, as a list of NumPy's arrays, or None where it raises."""
    try:
        out = function(*args, **keywords)
    except (ArithmeticError, IndexError, TypeError, ValueError):
        return None
    return [np.asarray(x) for x in (out if isinstance(out, tuple | list) else [out])]


def jitted(function, *args, **keywords):
    """Calls a function jitted, with its arrays and floating-point numbers as arguments."""
    given = [i for i, x in enumerate(args) if isinstance(x, np.ndarray | float)]

    def inner(*values):
        own = dict(zip(given, values, strict=True))
        return function(*[own.get(i, x) for i, x in enumerate(args)], **keywords)

    return ft.jit(inner)(*[args[i] for i in given])


@pytest.mark.parametrize("name", FAMILIES)
def test_combinations_of_keywords_are_numpys(name):
    ours, theirs = getattr(fnp, name), getattr(np, name)
    for number, (args, keywords) in enumerate(islice(FAMILIES[name], 0, None, STRIDE)):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = outcome(theirs, args, keywords)
            found = [outcome(ours, args, keywords)]
            if wanted is not None and name != "arange" and number % SHARE == 0:
                found.append(outcome(partial(jitted, ours), args, keywords))
        for got in found:
            said = f"{name}{args} {keywords}: {got}, not {wanted}"
            if wanted is None:
                assert got is None, said
                continue
            assert got is not None, said
            assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in wanted], said
            for x, y in zip(got, wanted, strict=True):
                rtol = 1e-5 if x.dtype.itemsize <= 4 else 1e-12
                np.testing.assert_allclose(x, y, rtol, rtol, err_msg=said)


def test_a_complex_distance_stays_complex():
    places = np.array([0.0, 1.0 + 1j, 3.0 + 2j, 4.0j])
    got = fnp.gradient(X[:4], places)
    np.testing.assert_allclose(got, np.gradient(X[:4] + 0j, places), rtol=1e-12)
    np.testing.assert_allclose(fnp.gradient(X, 2j), np.gradient(X) / 2j, rtol=1e-12)


@pytest.mark.parametrize("num", [0, 1])
def test_less_than_two_numbers_have_no_step(num):
    for form in (lambda f: f, ft.jit):
        step = form(lambda a: fnp.linspace(a, 4.0, num, retstep=True)[1])(1.0)
        assert (np.isnan(step), step.shape, step.dtype) == (True, (), np.float64)
