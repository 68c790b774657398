"""The namespace as the array API standard and NumPy 2 have it: signatures, refusals, inspection."""

import inspect
import re
from operator import attrgetter

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.errors import DeviceError, ImmutableArrayError, ShapeError
from functensor.primitives.core.primitive import Unary
from functensor.testing import check_grads

V = np.array([1.5, 0.5])
M = np.array([[1.0, 2.0], [3.0, 4.0]])


# -- inspection


def test_the_namespace_tells_of_itself():
    info = fnp.__array_namespace_info__()
    assert fnp.__array_api_version__ == "2025.12"
    for edition in ("2024.12", "2025.12"):
        assert fnp.ones(2).__array_namespace__(api_version=edition) is fnp
    assert info.devices() == ("cpu",) == (info.default_device(),)
    assert fnp.ones(2).device in info.devices()
    assert info.capabilities()["boolean indexing"] is True
    assert info.capabilities()["data-dependent shapes"] is True
    assert info.default_dtypes()["real floating"] == fnp.zeros(1).dtype
    assert info.default_dtypes(device="cpu")["integral"] == fnp.asarray([1]).dtype
    assert info.default_dtypes()["indexing"] == fnp.argmax(V).dtype
    assert list(info.dtypes(kind="unsigned integer")) == ["uint8", "uint16", "uint32", "uint64"]
    mixed = info.dtypes(kind=("bool", "complex floating"))
    assert list(mixed) == ["bool", "complex64", "complex128"]
    assert set(info.dtypes()) == {"bool", *info.dtypes(kind="numeric")}
    assert info.dtypes()["float32"] == np.float32
    with pytest.raises(DeviceError, match="'tpu'"):
        info.dtypes(device="tpu")
    with pytest.raises(ValueError, match="there is no kind 'real'; there are bool"):
        info.dtypes(kind="real")


def test_limits_of_dtypes_are_weak_numbers():
    for name in ("float16", "float32", "float64", "complex64"):
        known, limits = np.finfo(name), fnp.finfo(name)
        for field in ("eps", "max", "min", "smallest_normal", "tiny"):
            assert type(getattr(limits, field)) is float
            assert getattr(limits, field) == getattr(known, field)
        assert (limits.bits, limits.dtype) == (known.bits, known.dtype)
    x = fnp.ones(2, "float32")
    assert (x * fnp.finfo(x).eps).dtype == np.float32
    assert "float32" in repr(fnp.finfo(x))


def test_what_the_edition_of_2025_has_is_there():
    x = fnp.asarray([[1.0, 2.0, 3.0]])
    for arrays in (
        fnp.meshgrid(x[0], x[0]),
        fnp.meshgrid(x[0], x[0], sparse=True),
        fnp.meshgrid(),
        fnp.broadcast_arrays(x, x[0]),
        fnp.broadcast_arrays(),
    ):
        assert type(arrays) is tuple
    assert fnp.expand_dims(x, (0, -1)).shape == (1, 1, 3, 1)
    assert fnp.permute_dims(x, (-1, 0)).shape == (3, 1)
    assert fnp.searchsorted(x[0], 2.5) == 2
    assert fnp.broadcast_shapes((2, 1), (3,)) == (2, 3)
    assert fnp.broadcast_shapes() == ()
    assert fnp.isin(x, 2.0, invert=True).tolist() == [[True, False, True]]
    assert fnp.isin(2, x)
    values, vectors = fnp.linalg.eig(fnp.eye(2))
    assert (values.dtype, vectors.shape) == (np.complex128, (2, 2))
    assert fnp.linalg.eigvals(fnp.eye(2)).tolist() == [1.0, 1.0]
    assert fnp.clip(fnp.ones(2, "float32"), 0, 1.5).dtype == np.float32
    with np.errstate(all="ignore"):
        assert fnp.sqrt(fnp.asarray(complex(np.nan, np.inf))) == complex(np.inf, np.inf)


# -- signatures

# Names that NumPy spells otherwise, or that are about what arrays here are not.
OTHER_NAMES = {
    "arange": {"start_or_stop"},
    "array": {"ndmax", "subok"},
    "imag": {"val"},
    "real": {"val"},
    "asanyarray": {"copy"},
    "einsum_path": {"einsum_call"},
    "row_stack": {"casting"},
}
FORMATTING = {"array2string", "array_repr", "array_str", "fromstring"}


def functions():
    for name in fnp.__all__:
        theirs = getattr(np, name, None)
        is_function = callable(theirs) and not isinstance(theirs, type | np.ufunc)
        if is_function and name not in FORMATTING and tells_signature(theirs):
            yield name


def tells_signature(function):
    """Says whether NumPy's function, which may be written in C, has a signature to compare."""
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", [*functions()])
def test_signatures_are_numpys(name):
    """Every argument of NumPy's has its name and, where it goes by position, its place."""
    theirs = inspect.signature(getattr(np, name)).parameters.values()
    ours = inspect.signature(getattr(fnp, name)).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in ours):
        return
    named = {p.name for p in theirs if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    missing = named - {p.name for p in ours} - {"like"} - OTHER_NAMES.get(name, set())
    assert not missing
    if name in OTHER_NAMES or name == "clip":  # whose limits are named as in the standard
        return
    by_place = [
        [p.name for p in side if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for side in (ours, theirs)
    ]
    assert by_place[0][: len(by_place[1])] == by_place[1]


def has_out(function):
    if isinstance(function, np.ufunc) or not callable(function) or isinstance(function, type):
        return isinstance(function, np.ufunc)
    try:
        return "out" in inspect.signature(function).parameters
    except ValueError:
        return "out=" in function.__doc__.split("\n\n")[0]


def with_out():
    for prefix in ("", "linalg.", "fft."):
        ours, theirs = (attrgetter(prefix[:-1])(m) if prefix else m for m in (fnp, np))
        for name in ours.__all__:
            if any(has_out(getattr(module, name, None)) for module in (ours, theirs)):
                yield prefix + name


ARGUMENTS = {"choose": ([0, 1], [V, V]), "compress": ([True, False], V), "einsum": ("i,i", V, V)}
ARGUMENTS |= dict.fromkeys(("concatenate", "stack", "concat"), ([V, V],))
ARGUMENTS |= dict.fromkeys(("quantile", "percentile", "nanquantile", "nanpercentile"), (V, 0.5))
ARGUMENTS |= {"take": (V, 0), "clip": (V, 0.0, 1.0), "trace": (M,), "matmul": (M, M)}
ARGUMENTS |= {"linalg.multi_dot": ([M, M],), "matvec": (M, V), "vecmat": (V, M)}


@pytest.mark.parametrize("name", [*with_out()])
def test_out_is_refused_with_the_reason(name):
    function = attrgetter(name)(fnp)
    arguments = ARGUMENTS.get(name)
    if arguments is None:
        required = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        arguments = (V,) * len(required)
    module = f"np.{name}".rpartition(".")[0]
    fix = rf"fix: y = {re.escape(module)}\.\w+\(\.\.\.\) without out="
    with pytest.raises(ImmutableArrayError, match=rf"out= is .* immutable(.|\n)*{fix}"):
        function(*arguments, out=np.zeros(2))


@pytest.mark.parametrize("name", ["modf", "frexp", "divmod"])
def test_out_of_several_results(name):
    function, arguments = getattr(fnp, name), (V, V)[: 1 + (name == "divmod")]
    for mine, other in zip(
        function(*arguments, out=(None, None)), getattr(np, name)(*arguments), strict=True
    ):
        np.testing.assert_array_equal(mine, other)
    with pytest.raises(ImmutableArrayError, match=f"{name}: out= is tuple"):
        function(*arguments, out=(np.zeros(2), None))
    with pytest.raises(ImmutableArrayError, match=f"{name}: where="):
        function(*arguments, where=V > 1)


def test_refusals_are_told_in_full():
    with pytest.raises(ImmutableArrayError) as caught:
        fnp.sin(V, out=fnp.zeros(2))
    text = str(caught.value)
    assert text.startswith("sin: out= is float64[2], but arrays are immutable")
    assert re.search(r"at .*test_array_api\.py:\d+", text)
    assert "fix: y = np.sin(...) without out=, and use y" in text
    with pytest.raises(ImmutableArrayError, match=r"fix: np\.where\(condition, np\.add\(\.\.\."):
        ft.grad(lambda x: fnp.add(x, 1.0, where=x > 0).sum())(V)
    with pytest.raises(ImmutableArrayError, match="add: out="):
        fnp.add(V, V, V)
    with pytest.raises(TypeError, match=r"^functensor\.numpy\.count_nonzero\(\) has no argument"):
        fnp.count_nonzero(V, where=V > 0)


@pytest.mark.parametrize(
    ("name", "method", "arguments", "options"),
    [
        ("add", "reduce", (M,), {}),
        ("add", "reduce", (M,), {"axis": None, "keepdims": True, "dtype": "float32"}),
        ("multiply", "reduce", (M, 1), {"where": M > 1, "initial": 2.0}),
        ("maximum", "reduce", (M,), {"axis": -1}),
        ("logaddexp", "reduce", (M,), {"axis": (0, 1)}),
        ("logical_and", "reduce", (M > 1,), {}),
        ("add", "accumulate", (M,), {"axis": 1}),
        ("minimum", "accumulate", (M,), {}),
        ("subtract", "outer", (V, M), {}),
        ("power", "outer", (V, V), {}),
    ],
)
def test_ufuncs_have_methods(name, method, arguments, options):
    wanted = getattr(getattr(np, name), method)(*arguments, **options)
    call = getattr(getattr(fnp, name), method)
    got = call(*arguments, **options)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(got, wanted, rtol=1e-12 if got.dtype != "float32" else 1e-6)
    if got.dtype.kind == "f":
        check_grads(lambda *xs: call(*xs, *arguments[len(xs) :], **options), (arguments[0],))
    np.testing.assert_allclose(call(arguments[0].tolist(), *arguments[1:], **options), got)


def test_methods_of_ufuncs_that_are_not_there():
    with pytest.raises(ImmutableArrayError, match=r"add\.reduce: out= is float64\[2\]"):
        fnp.add.reduce(M, out=V)
    with pytest.raises(ImmutableArrayError, match=r"add\.at would write into its first argument"):
        fnp.add.at(V, [0], 1.0)


def test_ufuncs_take_a_dtype():
    x = fnp.asarray(V)
    assert fnp.sin(x, dtype="float32").dtype == np.float32
    assert fnp.add(1, 2, dtype="float32").dtype == np.float32
    assert fnp.equal(x, 1.5, dtype=bool).tolist() == [True, False]
    assert np.exp(x, dtype=np.float32).dtype == np.float32
    assert fnp.sin(x, None, True).dtype == np.float64
    assert fnp.sign(x, dtype="float32").dtype == np.float32
    assert fnp.add(x, 1, dtype=int, casting="unsafe").tolist() == [2, 1]
    assert ft.grad(lambda x: fnp.sum(fnp.square(x, dtype="float32")))(V).dtype == np.float64
    with pytest.raises(TypeError, match="add: dtype=int64 does not hold the operands' float64"):
        fnp.add(x, 1, dtype=int)
    with pytest.raises(TypeError, match="isnan: no result of operands has dtype float64"):
        fnp.isnan(x, dtype=float)


# -- reductions of some elements


def test_reductions_of_what_is_not_there():
    with np.errstate(all="raise"):
        out = fnp.mean(M, axis=0, where=np.array([[True, False], [True, False]]))
        assert np.isnan(out.tolist()[1])
        assert np.isnan(fnp.var(M, where=False).item())
    assert fnp.max(np.zeros((0, 3)), axis=0, initial=2.0).tolist() == [2.0, 2.0, 2.0]
    assert fnp.sum(np.int8([1, 2]), initial=3).dtype == np.sum(np.int8([1, 2]), initial=3).dtype
    assert ft.grad(lambda c: fnp.sum(V, initial=c))(2.0) == 1.0
    with pytest.raises(ShapeError, match=r"max: over no elements, of shape \(0, 3\)"):
        fnp.max(np.zeros((0, 3)), axis=0)
    with pytest.raises(ShapeError, match="argmin: over no elements"):
        ft.vmap(fnp.argmin)(np.zeros((2, 0)))
    assert fnp.max(np.zeros((0, 3)), axis=1).shape == (0,)
    with pytest.raises(ValueError, match="max: with where= there may be no elements at all"):
        fnp.max(V, where=V > 1)
    with pytest.raises(ShapeError, match=r"sum: where= of shape \(3, 2\) does not broadcast"):
        fnp.sum(V, where=np.ones((3, 2), bool))
    with pytest.raises(TypeError, match="has no argument 'initial'"):
        fnp.argmax(V, initial=1)


def test_a_product_with_an_infinite_factor_has_a_tangent():
    x, t = np.array([np.inf, 2.0, 3.0]), np.array([1.0, 0.0, 0.0])
    assert ft.jvp(fnp.prod, (x,), (t,))[1] == 6.0
    assert ft.grad(fnp.prod)(x).tolist() == [6.0, np.inf, np.inf]


# -- lists that hold traced values, wherever NumPy takes arrays

LISTS = {
    "add": lambda x: fnp.add(V, [x, x * x]),
    "where": lambda x: fnp.where([True, False], V, [x, 2 * x]),
    "where condition": lambda x: fnp.where([x > 0, x < 0], [x, x], [1.0, x]),
    "clip": lambda x: fnp.clip(V, [0.6 * x, x], 9.0),
    "dot": lambda x: fnp.dot(V, [x, 3 * x]),
    "dot of nested": lambda x: fnp.dot([[x, 1.0], [2.0, x]], V),
    "einsum": lambda x: fnp.einsum("ij,j", [[x, 0.0], [1.0, x]], [x, 1.0]),
    "concatenate": lambda x: fnp.concatenate([[x, 1.0], V, [2 * x]]),
    "concatenate nested": lambda x: fnp.concatenate([[[x, 1.0]], M]),
    "expand_dims": lambda x: fnp.expand_dims([x, x], 0) * V,
    "pad": lambda x: fnp.pad([x, 2.0], 1, mode="edge"),
    "pad value": lambda x: fnp.pad(V, 1, constant_values=[x, 2 * x]),
    "diag": lambda x: fnp.diag([x, x * x]) * M,
    "kron": lambda x: fnp.kron(V, (x, 2.0)),
    "tensordot": lambda x: fnp.tensordot(V, (x, x), 1),
    "take_along_axis": lambda x: fnp.take_along_axis((x, 2 * x), np.array([1, 1]), 0),
    "full": lambda x: fnp.full((2, 2), [x, 2 * x]),
    "var": lambda x: fnp.var([x, x * x, 1.0]),
    "sum by keyword": lambda x: fnp.sum(a=[x, x]),
    "cumsum by keyword": lambda x: fnp.cumsum(a=[x, x * x], axis=0),
    "rot90": lambda x: fnp.rot90([[x, 1.0], [2.0, x]]) * M,
    "split": lambda x: fnp.split((x, 2.0), 2)[0],
    "tile": lambda x: fnp.tile([x, 1.0], 2),
    "broadcast_arrays": lambda x: fnp.broadcast_arrays((x, 2.0), M)[0] * M,
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_hold_traced_values(name):
    def total(x):
        return fnp.sum(LISTS[name](x))

    step = 1e-6
    difference = (total(0.7 + step) - total(0.7 - step)) / (2 * step)
    np.testing.assert_allclose(ft.grad(total)(0.7), difference, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ft.jacfwd(total)(0.7), difference, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ft.vmap(total)(np.array([0.7]))[0], total(0.7), rtol=1e-12)


def test_tuples_are_arrays_and_no_shapes():
    assert fnp.expand_dims((1.0, 2.0, 3.0), 0).shape == (1, 3)
    assert fnp.dot((1.0, 2.0, 3.0), (1.0, 1.0, 1.0)) == 6.0
    assert fnp.squeeze(((1.0, 2.0),)).shape == (2,)
    assert fnp.take_along_axis((3.0, 4.0), (1, 0), 0).tolist() == [4.0, 3.0]


# -- values where NumPy's are not the standard's


def test_complex_expm1_is_exp_minus_one_at_infinity():
    x = np.array([complex(np.inf, 0), complex(-np.inf, np.inf), complex(np.nan, 0), 1e-20 + 0j])
    out = np.asarray(fnp.expm1(x))
    assert out[0] == complex(np.inf, 0)
    assert out[1].real == -1
    assert np.isnan(out[2].real)
    assert out[2].imag == 0
    assert out[3] == 1e-20
    assert not np.signbit(np.asarray(fnp.expm1(complex(-0.0, 0.0))).real)


COMPLEX_ZEROS = np.array([complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)])
SIGNED = (
    *("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cos", "cosh", "exp", "log1p"),
    *("negative", "reciprocal", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "expm1"),
)


def signs(z):
    """Returns the signs of both parts of the elements."""
    z = np.asarray(z)
    return np.stack([np.signbit(z.real), np.signbit(z.imag)])


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", SIGNED)
def test_zeros_of_both_signs(name, dtype):
    z, f = COMPLEX_ZEROS.astype(dtype), getattr(fnp, name)
    wanted = getattr(np, name)(z)
    if name == "expm1":
        # Of -0 NumPy has -0; the standard says +0, and that conjugates give conjugates.
        wanted.real = 0.0
    for found in (f(fnp.asarray(z)), ft.jit(f)(z), fnp.stack([f(fnp.asarray(x)) for x in z])):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(signs(found), signs(wanted))


def test_sorting_downwards_keeps_the_order_of_equal_elements():
    x = np.array([2, 1, 2, 3, 1] * 5)
    order = np.asarray(fnp.argsort(x, descending=True))
    np.testing.assert_array_equal(x[order], np.sort(x)[::-1])
    same = x[order][1:] == x[order][:-1]
    assert (np.diff(order)[same] > 0).all()
    upwards = np.asarray(fnp.argsort(x))
    assert (np.diff(upwards)[np.diff(x[upwards]) == 0] > 0).all()


def test_real_functions_refuse_complex_numbers():
    with pytest.raises(TypeError, match=r"fabs takes real numbers, not complex128\[1\]"):
        fnp.fabs(np.array([1j]))
    with pytest.raises(TypeError, match="isposinf: complex infinities have no sign"):
        fnp.isposinf(np.array([1j]))
    assert fnp.fabs(np.int8([-3])).dtype == np.fabs(np.int8([-3])).dtype


def test_casts_are_those_that_casting_allows():
    with pytest.raises(TypeError, match="stack: float64 is not cast to int64 by casting='same"):
        fnp.stack([V, V], dtype=int)
    assert fnp.concatenate([V, V], dtype=int, casting="unsafe").tolist() == [1, 0, 1, 0]


def test_memory_is_exchanged():
    x = fnp.ones(3)
    assert x.__dlpack_device__() == (1, 0)
    for copy in (None, True, False):
        shared = fnp.from_dlpack(np.arange(3.0), copy=copy, device="cpu")
        assert shared.tolist() == [0.0, 1.0, 2.0]
        assert type(x.__dlpack__(copy=copy)).__name__ == "PyCapsule"
    assert x.to_device("cpu") is x
    with pytest.raises(DeviceError, match="'tpu'"):
        fnp.astype(x, "float32", device="tpu")


def test_functions_of_one_operand_keep_to_the_short_way():
    """Whatever options there are, a primitive is called with its operand alone."""
    assert Unary.__call__.__code__.co_posonlyargcount == 2
    assert Unary.__call__.__code__.co_kwonlyargcount == 0
