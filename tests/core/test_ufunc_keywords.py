"""Ufuncs and their methods, over all functions of NumPy and all keywords: NumPy's, or refused."""

import itertools

import numpy as np
import pytest
from support.counted import lines_run
from support.long_forms import thinned

import functensor as ft
import functensor.numpy as fnp
from functensor.testing import check_grads

RNG = np.random.default_rng(0)
ARRAYS = {
    "floats": RNG.normal(size=(3, 4)),
    "integers": RNG.integers(1, 5, (3, 4)),
    "bytes": RNG.integers(1, 4, (2, 3)).astype("uint8"),
    "booleans": RNG.random((3, 4)) > 0.4,
    "singles": RNG.normal(size=4).astype("float32"),
    "complex": RNG.normal(size=(2, 3)) + 1j,
    "number": np.array(-2.0),
    "none": np.zeros((0, 3)),
}
UFUNCS = [name for name in sorted(dir(np)) if isinstance(getattr(np, name), np.ufunc)]
UFUNCS = [name for name in UFUNCS if hasattr(fnp, name)]
BINARY = [name for name in UFUNCS if (u := getattr(np, name)).nin == 2 and u.nout == 1]
BINARY = [name for name in BINARY if not getattr(np, name).signature]
# NumPy's vector instructions for powers and arctan2 give other numbers along a row than one call
# after the other, as those of ldexp in single precision do; `lcm` takes one axis there.
ODD = {"arctan2", "atan2", "pow", "power", "ldexp", "lcm"}
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"),
    # A method is staged anew for each ufunc.
    pytest.mark.filterwarnings("ignore::functensor.errors.RetraceWarning"),
]


def calls(x):
    """Returns the methods with all their keywords."""
    mask = np.arange(x.size).reshape(x.shape) % 3 > 0
    kinds = [{}, {"dtype": "float32"}, {"dtype": int}, {"dtype": bool}]
    for axis, keep, kind, initial, where in itertools.product(
        (0, -1, None, (0, 1), ()), (False, True), kinds, ({}, {"initial": 2}), ({}, {"where": mask})
    ):
        yield "reduce", {"axis": axis, "keepdims": keep, **kind, **initial, **where}
    for axis, kind in itertools.product((0, -1), kinds):
        yield "accumulate", {"axis": axis, **kind}
        for indices in ([0, 2, 1], [0], []):
            yield "reduceat", {"indices": indices, "axis": axis, **kind}


def outcome(function, *args, **keywords):
    """Returns a result, or None where it is refused."""
    try:
        return np.asarray(function(*args, **keywords))
    except (ArithmeticError, IndexError, TypeError, ValueError):
        return None


def assert_numpys(got, wanted, said):
    assert (got is None) == (wanted is None), said
    if wanted is not None:
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), said
        rtol = {1: 0, 2: 5e-3, 4: 1e-5}.get(wanted.dtype.itemsize, 1e-12)
        np.testing.assert_allclose(got, wanted, rtol, rtol, err_msg=said)


@pytest.mark.parametrize("name", [name for name in BINARY if name not in ODD])
def test_methods_with_all_keywords_are_numpys(name):
    ours, theirs = getattr(fnp, name), getattr(np, name)
    made = [(kind, *call) for kind, x in ARRAYS.items() for call in calls(x)]
    for kind, method, keywords in made[len(name) % 5 :: 5]:
        x = ARRAYS[kind]
        said = f"{name}.{method}({kind}, {keywords})"
        wanted = outcome(getattr(theirs, method), x, **keywords)
        assert_numpys(outcome(getattr(ours, method), x, **keywords), wanted, said)


@pytest.mark.parametrize("name", sorted(ODD - {"ldexp", "lcm"}))
def test_methods_that_care_about_the_order_go_from_the_first_to_the_last(name):
    f, x = getattr(np, name), np.abs(ARRAYS["floats"])
    steps = list(itertools.accumulate(x.T, f))
    np.testing.assert_allclose(getattr(fnp, name).reduce(x, axis=1), steps[-1], 1e-12)
    np.testing.assert_allclose(getattr(fnp, name).accumulate(x, axis=1), np.stack(steps, 1), 1e-12)
    wanted = [f(x[0], x[1]), x[2], f(x[1], x[2])]
    np.testing.assert_allclose(getattr(fnp, name).reduceat(x, [0, 2, 1]), wanted, 1e-12)


@pytest.mark.parametrize("name", BINARY)
def test_methods_are_those_of_numpys_ufuncs_on_arrays(name):
    ours, theirs, x = getattr(fnp, name), getattr(np, name), ARRAYS["integers"]
    for method, keywords in (("reduce", {"axis": 1}), ("accumulate", {}), ("outer", {"B": x[0]})):
        args = (x, keywords.pop("B")) if method == "outer" else (x,)
        wanted = outcome(getattr(ours, method), *args, **keywords)
        got = outcome(getattr(theirs, method), *map(fnp.asarray, args), **keywords)
        assert_numpys(got, wanted, f"{name}.{method}")
        if wanted is not None:
            form = getattr(ours, method)
            assert_numpys(np.asarray(ft.jit(form)(*args)) if not keywords else got, wanted, name)


KEYWORDS = {
    "order": ["K", "C", "F", "A", "X"],
    "subok": [True, False],
    "casting": ["no", "equiv", "safe", "same_kind", "unsafe", "other"],
    "dtype": [float, "float32", int, bool, complex],
    "signature": ["d->d", "dd->d", "ff->f", "ll->l", "dd->?", "x", (None, None, "f")],
    "axis": [0],
    "axes": [[0, 0, 0]],
    "keepdims": [True],
    "extobj": [[]],
    "nonsense": [1],
}


# NumPy's functions of elements have these neither; what is said names them.
REFUSED = ("axis", "axes", "keepdims", "extobj", "nonsense")


@pytest.mark.parametrize(
    "name", [name for name in UFUNCS if type(getattr(fnp, name)).__name__ in ("Unary", "Binary")]
)
def test_calls_with_all_keywords_are_numpys_or_say_what_is_wrong(name):
    if getattr(np, name).signature is None:
        for keyword in (*KEYWORDS, "sig"):
            check_keyword(name, keyword)


def check_keyword(name, keyword):
    ours, theirs = getattr(fnp, name), getattr(np, name)
    for value in KEYWORDS.get(keyword, KEYWORDS["signature"]):
        for x in (ARRAYS["integers"], ARRAYS["singles"]):
            args = (x,) * theirs.nin
            wanted = outcome(theirs, *args, **{keyword: value})
            if keyword in REFUSED:
                with pytest.raises(TypeError, match=keyword):
                    ours(*args, **{keyword: value})
                continue
            got = outcome(ours, *args, **{keyword: value})
            said = f"{name}({x.dtype}, {keyword}={value!r})"
            if got is None and keyword in ("dtype", "casting"):
                # A result in a dtype that does not hold the operands is left to astype.
                continue
            if wanted is not None:
                assert_numpys(got, wanted, said)


X, Y = RNG.normal(size=(3, 4, 5)), RNG.normal(size=(4, 3, 5))
PRODUCTS = [
    ("matmul", (X, Y), {"axes": [(0, 1), (0, 1), (0, 1)]}),
    ("matmul", (X, Y), {"axes": [(0, 2), (2, 1), (-2, -1)]}),
    ("matmul", (X, X), {"axes": [(0, 1), (1, 0), (1, 2)], "dtype": "float32"}),
    ("matmul", (X, X), {"axes": [(0, 1), (1, 0)]}),
    ("matmul", (X, X), {"axis": 0}),
    ("matmul", (X[0], X[0].T), {"signature": "dd->d"}),
    ("vecdot", (X, X), {"axis": 1}),
    ("vecdot", (X, X), {"axis": 0, "keepdims": True}),
    ("vecdot", (X, X), {"axes": [0, 0, ()]}),
    ("vecdot", (X, X[0].T[0]), {"axes": [1, 0]}),
    ("matvec", (X, X[0, :, 0]), {"axes": [(2, 1), 0, 0]}),
    ("vecmat", (X[:, 0, 0], X), {"axes": [0, (0, 2), -1]}),
]


@pytest.mark.parametrize(("name", "args", "keywords"), PRODUCTS)
def test_axes_of_products_are_numpys(name, args, keywords):
    wanted = outcome(getattr(np, name), *args, **keywords)
    for form in (lambda f: f, ft.jit):
        got = outcome(form(lambda *xs: getattr(fnp, name)(*xs, **keywords)), *args)
        assert_numpys(got, wanted, name)
    if wanted is not None:
        assert_numpys(outcome(getattr(np, name), *map(fnp.asarray, args), **keywords), wanted, name)


@pytest.mark.parametrize("name", ["subtract", "divide", "hypot", "fmax", "logaddexp2", "multiply"])
def test_methods_differentiate(name):
    x = np.abs(X[:, :, 0]) + 0.5
    mask = np.arange(12).reshape(3, 4) % 3 > 0
    ufunc = getattr(fnp, name)
    for f in (
        lambda x: ufunc.reduce(x, axis=1, initial=0.7, where=mask),
        lambda x: ufunc.accumulate(x, axis=1),
        lambda x: ufunc.reduceat(x, [0, 2, 1]),
    ):
        check_grads(f, (fnp.asarray(x),), order=2)
        np.testing.assert_allclose(ft.vmap(f)(x[None])[0], f(x), rtol=1e-12)
        np.testing.assert_allclose(ft.jit(f)(x), f(x), rtol=1e-12)


def test_what_has_no_meaning_is_refused_with_its_reason():
    with pytest.raises(ValueError, match=r"sin.reduce: only a function of two operands"):
        fnp.sin.reduce(X)
    with pytest.raises(RuntimeError, match=r"matmul puts no two elements together"):
        fnp.matmul.reduce(X)
    with pytest.raises(ValueError, match=r"subtract.reduce: what it returns depends on the order"):
        fnp.subtract.reduce(X, axis=(0, 1))
    with pytest.raises(ValueError, match=r"maximum.reduce: with where= .* initial="):
        fnp.maximum.reduce(X, where=X > 0)
    with pytest.raises(TypeError, match=r"add: axis= is not there: np.add.reduce has axis="):
        fnp.add(X, X, axis=0)
    with pytest.raises(TypeError, match=r"signature=, sig= and dtype= say the same"):
        fnp.add(X, X, signature="dd->d", dtype=float)


NUMBERS = (-1, 2, 1.5, 2j)
DTYPES = ("bool", "int8", "uint8", "int64", "float32", "float64", "complex64", "complex128")


CASTS = [
    pytest.param(name, casting, id=f"{name}-{casting}")
    for name in BINARY
    if type(getattr(fnp, name)).__name__ == "Binary"
    for casting in KEYWORDS["casting"]
]


# Six castings: with one in five each ufunc has one or two, and the next ufunc has others.
@pytest.mark.parametrize(("name", "casting"), thinned(CASTS, every=5))
def test_pythons_numbers_are_cast_as_numpy_does(name, casting):
    ours, theirs = getattr(fnp, name), getattr(np, name)
    for kind, number, turned in itertools.product(DTYPES, NUMBERS, (False, True)):
        x = np.ones(2, kind)
        args = (number, x) if turned else (x, number)
        said = f"{name}({args}, casting={casting!r})"
        wanted = outcome(theirs, *args, casting=casting)
        got = outcome(ours, *args, casting=casting)
        assert_numpys(got, wanted, said)


def test_pythons_numbers_are_cast_in_loops_by_name():
    for casting in KEYWORDS["casting"]:
        for args in itertools.product((-1, 1.5, *(np.ones(2, kind) for kind in DTYPES)), (2, 0.5)):
            got = outcome(fnp.add, *args, signature="dd->d", casting=casting)
            wanted = outcome(np.add, *args, signature="dd->d", casting=casting)
            assert_numpys(got, wanted, f"{args}, {casting}")


@pytest.mark.parametrize("name", ["add", "maximum", "minimum", "logaddexp"])
def test_plain_reductions_cost_little_more_than_those_they_are(name):
    ours, theirs = getattr(fnp, name), getattr(np, name)
    x = fnp.asarray(ARRAYS["floats"])
    sums = {"add": fnp.sum, "maximum": fnp.max, "minimum": fnp.min}
    inner = sums.get(name, lambda x, axis: ft.scipy.special.logsumexp(x, axis))
    for call in (lambda: theirs.reduce(x), lambda: ours.reduce(x), lambda: ours.reduce(x, axis=-1)):
        call(), inner(x, 0)  # what is remembered
        assert lines_run(call) <= lines_run(lambda: inner(x, 0)) + 60
    # In another dtype, over all axes: no more than a few operations.
    ours.reduce(x, axis=None)
    assert lines_run(lambda: ours.reduce(x, axis=None)) <= lines_run(lambda: inner(x, None)) + 120


@pytest.mark.parametrize("name", ["divmod", "float_power"])
def test_outer_of_functions_that_are_no_primitives(name):
    ours, theirs = getattr(fnp, name), getattr(np, name)

    def protocol(x, y):
        return theirs.outer(fnp.asarray(x), fnp.asarray(y))

    for x, y in (("floats", "singles"), ("integers", "bytes"), ("number", "singles")):
        x, y = np.abs(ARRAYS[x]), ARRAYS[y]
        for form in (ours.outer, ft.jit(ours.outer), protocol):
            for got, wanted in zip(listed(form(x, y)), listed(theirs.outer(x, y)), strict=True):
                assert_numpys(np.asarray(got), wanted, name)
    with pytest.raises(ft.errors.ImmutableArrayError, match=rf"{name}\.outer: out="):
        ours.outer(x, y, out=fnp.ones((4, 4)))
    assert not {"reduce", "accumulate", "reduceat"} & set(vars(fnp.divmod))


def listed(results):
    """Returns the results of a function, of which there may be several."""
    return results if isinstance(results, tuple) else (results,)
