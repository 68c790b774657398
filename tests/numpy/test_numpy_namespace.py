"""functensor.numpy against NumPy: values, dtypes, lists, dispatch, derivatives, vmap."""

import inspect

import numpy as np
import pytest
from support.numpy_cases import BAD, RNG, B, C, F, I, M, N, S, T, V, W, same

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.primitive import Primitive
from functensor.primitives.core.registry import registry
from functensor.testing import assert_allclose, check_grads


def loop(f, *batches):
    """Returns what vmap has to give, by a Python loop."""
    results = [f(*(fnp.asarray(b[i]) for b in batches)) for i in range(len(batches[0]))]
    if isinstance(results[0], tuple | list):
        return [np.stack([np.asarray(r[i]) for r in results]) for i in range(len(results[0]))]
    return np.stack([np.asarray(r) for r in results])


# Each row: the function's name, its array arguments, and what follows them. The functions are
# those that this namespace makes out of primitives, and those whose declaration others rely on.
DIFFERENTIABLE = [
    ("append", (V, W), {}),
    ("append", (M, N), {"axis": 1}),
    ("average", (M,), {}),
    ("average", (M,), {"axis": 1, "keepdims": True}),
    ("average", (M, None, abs(N)), {}),
    ("average", (M, 0, abs(V[:3])), {}),
    ("column_stack", ((V, W),), {}),
    ("cross", (M[:, :3], N[:, :3]), {}),
    ("cross", (M[:, :3], N[0, :3]), {}),
    ("cumulative_prod", (V,), {}),
    ("cumulative_sum", (M,), {"axis": 0, "include_initial": True}),
    ("delete", (M, 1), {"axis": 0}),
    ("delete", (M, [0, -1]), {"axis": 1}),
    ("delete", (M, slice(None, None, 2)), {}),
    ("diag", (V,), {"k": 1}),
    ("diagflat", (M,), {}),
    ("diff", (V,), {}),
    ("diff", (T,), {"n": 2, "axis": 1}),
    ("diff", (M,), {"prepend": 0.0, "append": N[:, :2]}),
    ("dsplit", (T, 2), {}),
    ("dstack", ((V, W),), {}),
    ("ediff1d", (M,), {"to_end": 1.0, "to_begin": [2.0, 3.0]}),
    ("fliplr", (M,), {}),
    ("flipud", (M,), {}),
    ("float_power", (abs(M), 1.5), {}),
    ("geomspace", (1.5, 24.0), {"num": 5}),
    ("geomspace", (-8.0, -0.5, 4), {"endpoint": False}),
    ("hsplit", (M, [1, 3]), {}),
    ("insert", (V, 2, 7.0), {}),
    ("insert", (M, 1, V[:4]), {"axis": 0}),
    ("insert", (M, -1, N[:, :1]), {"axis": 1}),
    ("interp", (V, S, RNG.uniform(-2, 2, 6)), {}),
    ("interp", (3 * V, S, RNG.uniform(-2, 2, 6), 5.0, -5.0), {}),
    ("interp", (V, RNG.uniform(0, 3, 6), RNG.uniform(-2, 2, 6)), {"period": 3.0}),
    ("linspace", (1.5, 4.0), {"num": 7}),
    ("linspace", (M, N, 5), {"endpoint": False, "axis": -1}),
    ("linspace", (1.0, 2.0, 4), {"retstep": True}),
    ("logspace", (0.5, 1.5, 4), {"base": 2.0}),
    ("matrix_transpose", (T,), {}),
    ("mean", (T,), {"axis": (0, 2)}),
    ("meshgrid", (V, W), {}),
    ("meshgrid", (V, W, S), {"indexing": "ij", "sparse": True}),
    ("nan_to_num", (BAD,), {"nan": 3.0, "posinf": 4.0, "neginf": -4.0}),
    ("polyval", (V, M), {}),
    ("ptp", (M,), {"axis": 0, "keepdims": True}),
    ("rot90", (M,), {}),
    ("rot90", (T,), {"k": 3, "axes": (1, 2)}),
    ("rot90", (T,), {"k": -2, "axes": (2, 0)}),
    ("select", ([M > 1, M > 0], [M, N]), {"default": 2.0}),
    ("sinc", (M,), {}),
    ("sinc", (np.array([0.0, 1e-4, 1e-3, 0.01, 0.5, 1.0]),), {}),
    ("std", (M,), {}),
    ("std", (T,), {"axis": (0, -1), "ddof": 1, "keepdims": True}),
    ("trapezoid", (M,), {"dx": 0.5, "axis": 0}),
    ("trapezoid", (T, S[:4]), {}),
    ("unstack", (M,), {"axis": 1}),
    ("var", (T,), {"axis": 1, "correction": 1}),
    ("var", (M,), {"axis": -1, "keepdims": True}),
    ("vsplit", (T, 2), {}),
]
OTHERS = [
    ("allclose", (M, M + 1e-9), {}),
    ("argwhere", (I,), {}),
    ("array_equal", (M, M), {}),
    ("array_equal", (BAD, BAD), {"equal_nan": True}),
    ("array_equal", (M, V), {}),
    ("array_equiv", (M, M[None]), {}),
    ("array_equiv", (M, V), {}),
    ("average", (I,), {"axis": 0}),
    ("average", (M, 1, abs(V[:4])), {"returned": True}),
    ("average", (I,), {"returned": True}),
    ("bincount", (abs(I[0]),), {}),
    ("bincount", (abs(I[0]),), {"weights": V[:3], "minlength": 9}),
    ("copy", (M,), {}),
    ("diff", (B,), {}),
    ("digitize", (V, S), {}),
    ("digitize", (np.append(V, S), S[::-1]), {"right": True}),
    ("empty_like", (np.zeros((2, 3), "int8"),), {"shape": (2, 0)}),
    ("flatnonzero", (I,), {}),
    ("float_power", (abs(I), 2), {}),
    ("full_like", (I, 2.7), {}),
    ("full_like", (F, 2), {"dtype": "complex64"}),
    ("iscomplex", (C,), {}),
    ("isclose", (BAD, BAD), {}),
    ("isclose", (BAD, [1.0 + 1e-6, np.nan, np.inf, 0.0]), {"equal_nan": True}),
    ("isclose", (I, I + 1), {"rtol": 0.5}),
    ("isneginf", (BAD,), {}),
    ("isposinf", (BAD,), {}),
    ("isreal", (C,), {}),
    ("mean", (I,), {"axis": 1}),
    ("nan_to_num", (BAD.astype("float32"),), {}),
    ("nan_to_num", (BAD.astype(complex),), {"nan": 1.0}),
    ("nan_to_num", (I,), {}),
    ("nonzero", (I,), {}),
    ("ones_like", (B,), {}),
    ("polyval", ([1, 2, 3], I), {}),
    ("searchsorted", (S, V), {}),
    ("searchsorted", (S, S), {"side": "right"}),
    ("searchsorted", (V, W), {"sorter": np.argsort(V)}),
    ("searchsorted", (S, 0.1), {}),
    ("sinc", (I,), {}),
    ("std", (I,), {}),
    ("std", (F,), {"axis": 0}),
    ("unique", (I,), {}),
    ("unique", (I % 2,), {"return_index": True, "return_inverse": True, "return_counts": True}),
    ("unique", (np.array([[1, 2], [0, 1], [1, 2]]),), {"axis": 0, "return_counts": True}),
    ("unique", (BAD,), {}),
    ("unique_all", (I % 3,), {}),
    ("unique_counts", (I % 3,), {}),
    ("unique_inverse", (I % 3,), {}),
    ("var", (C,), {"axis": 0}),
    ("var", (F,), {"axis": 1}),
    ("var", (B,), {}),
    ("var", (M.astype("float16"),), {"axis": 1}),
    ("var", (I,), {"dtype": "float32"}),
    ("zeros_like", (C,), {}),
]
MADE = [
    ("arange", (5,), {}),
    ("arange", (1, 9, 3), {}),
    ("arange", (0.5, 3.0, 0.25), {"dtype": "float32"}),
    ("diag_indices", (3,), {"ndim": 3}),
    ("empty", ((2, 0),), {"dtype": int}),
    ("eye", (3, 4, 1), {"dtype": "int8"}),
    ("full", ((2, 3), 5), {}),
    ("full", (3, [1.0, 2.0, 3.0]), {"dtype": "float32"}),
    ("identity", (3,), {}),
    ("indices", ((2, 3),), {}),
    ("indices", ((2, 3),), {"sparse": True, "dtype": "int32"}),
    ("ix_", ([0, 2], [True, False, True]), {}),
    ("linspace", (1, 10, 4), {"dtype": int}),
    ("logspace", (0, 3, 4), {}),
    ("geomspace", (1, 1000, 4), {}),
    ("ones", ((2, 3), "int32"), {}),
    ("tri", (3, 4, -1), {"dtype": bool}),
    ("tril_indices", (4, 1, 3), {}),
    ("triu_indices", (4,), {"k": -1}),
    ("zeros", (4,), {}),
    ("zeros", ((2, 3),), {"dtype": "complex64"}),
]


def titles(rows):
    return [f"{name}-{i}" for i, (name, _, _) in enumerate(rows)]


def wrapped(x):
    """Returns arguments with NumPy's arrays and floats as ours, in lists and tuples too."""
    if isinstance(x, np.ndarray | float):
        return fnp.asarray(x)
    return type(x)(map(wrapped, x)) if isinstance(x, tuple | list) else x


def arrays_in(args):
    """Returns the inexact arrays among arguments, in lists too, and a way to put others there."""
    flat, treedef = ft.tree.flatten(args)
    places = [
        i
        for i, leaf in enumerate(flat)
        if isinstance(leaf, np.ndarray | float) and np.asarray(leaf).dtype.kind == "f"
    ]

    def put(values):
        leaves = list(flat)
        for i, value in zip(places, values, strict=True):
            leaves[i] = value
        return treedef.unflatten(leaves)

    return [np.asarray(flat[i]) for i in places], put


def function_of(name, args, kwargs):
    """Returns the function of a row's inexact arrays, and those arrays."""
    values, put = arrays_in(args)
    return (lambda *xs: getattr(fnp, name)(*put(xs), **kwargs)), values


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    DIFFERENTIABLE + OTHERS + MADE,
    ids=titles(DIFFERENTIABLE + OTHERS + MADE),
)
def test_value_and_dtype_are_those_of_numpy(name, args, kwargs):
    wanted = getattr(np, name)(*args, **kwargs)
    function = getattr(fnp, name)
    same(function(*args, **kwargs), wanted)
    same(function(*wrapped(args), **kwargs), wanted)


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    DIFFERENTIABLE + OTHERS,
    ids=titles(DIFFERENTIABLE + OTHERS),
)
def test_lists_are_arrays(name, args, kwargs):
    listed = [a.tolist() if isinstance(a, np.ndarray) and a.dtype.char in "dl" else a for a in args]
    try:
        wanted = getattr(np, name)(*listed, **kwargs)
    except AttributeError:  # a list has no ndim
        wanted = getattr(np, name)(*args, **kwargs)
    same(getattr(fnp, name)(*listed, **kwargs), wanted)


@pytest.mark.parametrize(("name", "args", "kwargs"), DIFFERENTIABLE, ids=titles(DIFFERENTIABLE))
def test_numpys_own_function_of_our_arrays_is_ours(name, args, kwargs):
    same(getattr(np, name)(*wrapped(args), **kwargs), getattr(np, name)(*args, **kwargs))
    values, put = arrays_in(args)
    made = ft.make_program(lambda *xs: getattr(np, name)(*put(xs), **kwargs))(*values)
    assert made.equations


@pytest.mark.parametrize(("name", "args", "kwargs"), DIFFERENTIABLE, ids=titles(DIFFERENTIABLE))
def test_derivatives_to_order_two(name, args, kwargs):
    if args[0] is BAD:
        args = (np.where(np.isfinite(BAD), BAD, 0.5),)
    check_grads(*function_of(name, args, kwargs), order=2)


@pytest.mark.parametrize(("name", "args", "kwargs"), DIFFERENTIABLE, ids=titles(DIFFERENTIABLE))
def test_vmap_is_the_loop(name, args, kwargs):
    function, values = function_of(name, args, kwargs)
    batches = [np.stack([v, v + 0.01]) for v in values]
    got, wanted = ft.vmap(function)(*batches), loop(function, *batches)
    for one, other in zip(ft.tree.leaves(got), ft.tree.leaves(wanted), strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "args", "kwargs"), DIFFERENTIABLE, ids=titles(DIFFERENTIABLE))
def test_shapes_and_dtypes_are_known_beforehand(name, args, kwargs):
    function, values = function_of(name, args, kwargs)
    known = ft.tree.leaves(ft.eval_shape(function, *values))
    for shape, out in zip(known, ft.tree.leaves(function(*values)), strict=True):
        assert (shape.shape, shape.dtype) == (out.shape, out.dtype)


# -- the namespace


def test_primitives_are_there_as_they_are():
    primitives = {p.name for p in registry if hasattr(fnp, p.name)}
    assert len(primitives) > 90
    # The namespace fft has a primitive's name.
    for name in primitives - {"index", "fft"}:
        assert inspect.unwrap(getattr(fnp, name)) is getattr(registry, name), name


def test_all_names_what_there_is():
    assert len(set(fnp.__all__)) == len(fnp.__all__)
    for name in fnp.__all__:
        getattr(fnp, name)  # some are imported when they are first used
    public = {
        name
        for name, value in vars(fnp).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    machinery = {"LATE_NAMES", "NAMESPACES", "TYPE_CHECKING", "annotations", "import_module"}
    standard = {"__array_api_version__", "__array_namespace_info__"}
    assert public - machinery == set(fnp.__all__) - standard


def test_every_name_means_the_same_in_numpy():
    beyond = {"erf", "erfc", "logsumexp"}
    # Versions of NumPy without them are newer than versions with them.
    beyond |= {name for name in ("in1d", "row_stack") if not hasattr(np, name)}
    results = {"UniqueAllResult", "UniqueCountsResult", "UniqueInverseResult"}
    assert {name for name in fnp.__all__ if not hasattr(np, name)} == beyond | results


def test_positional_parameters_are_in_numpys_order():
    """NumPy's functions of several arguments are called by position; ours must agree."""
    for name in fnp.__all__:
        ours, theirs = getattr(fnp, name), getattr(np, name, None)
        if isinstance(ours, Primitive) or not inspect.isfunction(ours) or theirs is None:
            continue
        try:
            known = list(inspect.signature(theirs).parameters.values())
        except (TypeError, ValueError):
            continue
        gone = {"out", "order", "subok", "like", "casting", "stable"}
        by_position = [
            p.name
            for p in known
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in gone
        ]
        mine = [
            p.name
            for p in inspect.signature(ours).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in gone
        ]
        if mine != by_position and len(mine) == len(by_position):
            mine, by_position = mine[1:], by_position[1:]
        common = min(len(mine), len(by_position))
        if name not in ("arange", "array", "zeros_like", "ones_like", "empty_like", "full_like"):
            assert [m for m in mine[:common] if m in by_position] == [
                n for n in by_position if n in mine[:common]
            ], name


ALIASES = {
    "absolute": "abs",
    "acos": "arccos",
    "acosh": "arccosh",
    "amax": "max",
    "amin": "min",
    "around": "round",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_not": "invert",
    "bitwise_right_shift": "right_shift",
    "concat": "concatenate",
    "conjugate": "conj",
    "degrees": "rad2deg",
    "fix": "trunc",
    "mod": "remainder",
    "permute_dims": "transpose",
    "pow": "power",
    "radians": "deg2rad",
    "true_divide": "divide",
}


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_are_the_same_function(alias):
    assert getattr(fnp, alias) is getattr(fnp, ALIASES[alias])


@pytest.mark.parametrize("name", ["amax", "amin", "around", "degrees", "radians", "fabs", "fix"])
def test_numpys_functions_of_second_names_differentiate(name):
    g = ft.grad(lambda x: fnp.sum(getattr(np, name)(x)))(V)
    assert g.shape == V.shape


def test_dtypes_constants_and_their_questions():
    assert fnp.float32 is np.float32
    assert fnp.bool is np.bool_
    assert fnp.dtype("f4") == fnp.float32
    assert (fnp.pi, fnp.e, fnp.inf, fnp.newaxis) == (np.pi, np.e, np.inf, None)
    assert np.isnan(fnp.nan)
    assert isinstance(fnp.ones(2), fnp.ndarray)
    x = fnp.ones(2, "float32")
    assert fnp.result_type(x, 1.0) == np.float32
    assert fnp.result_type(x, np.float64(1)) == np.float64
    assert fnp.result_type(x, "complex64", fnp.arange(2)) == np.complex128
    assert np.result_type(x, 1.0) == np.float32
    assert fnp.promote_types("int32", "float32") == np.float64
    assert fnp.can_cast(x, "float64") is True
    assert fnp.can_cast("float64", "float32", "same_kind") is True
    assert fnp.finfo(x).eps == np.finfo("float32").eps
    assert fnp.iinfo(fnp.arange(2)).max == 2**63 - 1
    assert fnp.isdtype(x.dtype, "real floating")
    assert fnp.issubdtype(x.dtype, fnp.floating)
    assert (fnp.shape(x), fnp.ndim([[1]]), fnp.size(M), fnp.size(M, (0, 1))) == ((2,), 2, 12, 12)
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((2,), 1, 2)
    assert fnp.iscomplexobj(fnp.asarray(C))
    assert fnp.isrealobj(1.0)
    assert fnp.isscalar(np.float32(1))


def test_questions_about_tracers_need_no_values():
    def f(x):
        assert np.shape(x) == fnp.shape(x) == (4,)
        assert np.ndim(x) == 1
        assert np.result_type(x, 1.0) == np.float64
        assert not np.iscomplexobj(x)
        return fnp.zeros_like(x) + np.ones_like(x)

    same(ft.vmap(f)(M), np.ones((3, 4)))


def test_every_public_function_has_a_doctest():
    for name in fnp.__all__:
        value = getattr(fnp, name)
        if inspect.isfunction(value) and value.__module__.startswith("functensor"):
            assert ">>>" in value.__doc__, name
