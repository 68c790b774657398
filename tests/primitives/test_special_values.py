"""Functions of NaN, infinities, zeros of both signs, subnormals and the largest numbers.

Functions agree with NumPy's or SciPy's, evaluated, jitted and mapped, down to which elements are
NaN and which zeros are negative.
"""

from functools import partial

import numpy as np
import pytest
import scipy.special
from support.registry_cases import reference_of

import functensor as ft
import functensor.numpy as fnp
import functensor.scipy.special  # which declares primitives of its own
from functensor.primitives.core.registry import registry

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    # Each test jits functions of its own.
    pytest.mark.filterwarnings("ignore::functensor.errors.RetraceWarning"),
]

# So many elements are more than one block.
BLOCKS = 70_000
FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["bool", "int8", "int32", "int64", "uint8", "uint64"]


def special(dtype):
    """Returns what a dtype has at its ends, and a few ordinary numbers."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        negative = [-1, -3] if dtype.kind == "i" else []
        return np.array([limits.min, limits.max, 0, 1, 2, 7, *negative], dtype)
    limits = np.finfo(dtype)
    tiny = [limits.smallest_subnormal, -limits.smallest_subnormal, limits.tiny]
    rest = [np.nan, np.inf, -np.inf, 0.0, -0.0, limits.max, limits.min, 1, -1, 2, -1.25, 0.5]
    return np.array([*tiny, *rest], dtype)


def pairs(dtype):
    return [x.ravel() for x in np.meshgrid(special(dtype), special(dtype))]


def assert_same(got, wanted, rtol=0.0, signs=True):
    """The same numbers, NaN in the same places, and zeros of the same sign."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=0)
    if signs and got.dtype.kind == "f":
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(wanted)[number])


def ways(f):
    """A function evaluated, jitted, jitted where it is shared out in blocks, and mapped."""

    def in_blocks(*xs):
        count = BLOCKS // xs[0].size
        return ft.jit(f)(*[np.tile(x, count) for x in xs])[: xs[0].size]

    return {"eager": f, "jit": ft.jit(f), "blocks": in_blocks, "vmap": ft.vmap(f)}


# -- division with remainder


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("name", ["floor_divide", "mod", "remainder", "fmod", "divmod"])
def test_division_with_remainder_is_numpys(name, dtype):
    x, y = pairs(dtype)
    wanted = getattr(np, name)(x, y)
    ours = getattr(fnp, name)
    if name == "divmod":
        ours, wanted = (lambda x, y: fnp.stack(fnp.divmod(x, y), -1)), np.stack(wanted, -1)
    for way in ways(ours).values():
        assert_same(way(x, y), wanted)


def test_operators_divide_as_numpys():
    x = fnp.asarray([np.inf, -1.2, 7.5])
    assert_same(x // np.inf, np.array([np.nan, -1.0, 0.0]))
    assert_same(ft.jit(lambda x: x // 2.0)(x), np.array([np.nan, -1.0, 3.0]))
    assert_same(x % np.inf, np.array([np.nan, np.inf, 7.5]))


# -- every elementwise primitive

# References that are no reference at these values: they are NaN, or raise, where a limit exists;
# or the sign of the zero is nowhere fixed.
NO_REFERENCE = {
    "erfcx_integral", "exceeds", "gamma_density", "gammainc_grad", "gelu", "gelu_grad",
    "gelu_unit_grad", "log_ndtr_gap", "log_ndtr_grad", "log_ratio", "modified_bessel",
    "relu_grad", "side_ratio", "sigmoid_grad", "silu", "silu_grad",
    "softplus_grad",
}  # fmt: skip
# Of 0.0 and -0.0 the array module takes either, by how many there are; so does `maximum`.
EITHER_ZERO = {"fmax", "fmin", "maximum", "minimum", "relu", "relu_biased"}


def elementwise():
    for primitive in registry:
        if getattr(primitive, "family", "") != "elementwise":
            continue
        operands = primitive.samples[0].operands
        real = all(operand.domain.kind not in "ib" for operand in operands)
        # References by integration have no value at the ends.
        real = real and primitive.name != "gamma_moment"
        if real and len(operands) <= 2 and set(primitive.dtypes) & set("fd"):
            yield primitive


@pytest.mark.parametrize("primitive", list(elementwise()), ids=lambda p: p.name)
def test_elementwise_primitives_at_special_values(primitive):
    signs = primitive.name not in EITHER_ZERO
    arity = len(primitive.samples[0].operands)
    params = primitive.samples[-1].params
    for char in sorted(set(primitive.dtypes) & set("fd")):
        operands = [special(char)] if arity == 1 else pairs(char)
        rtol = 2e-5 if char == "f" else 1e-12
        eager, *others = ways(lambda *xs: primitive.bind(xs, params)).values()
        out = eager(*operands)
        reference = reference_of(primitive)
        if reference is not None and primitive.name not in NO_REFERENCE:
            with np.errstate(all="ignore"):
                assert_same(out, reference(*operands, **params), rtol, signs)
        for way in others:
            assert_same(way(*operands), out, rtol, signs)


def test_every_exception_is_one():
    names = {primitive.name for primitive in elementwise()}
    assert names >= NO_REFERENCE | EITHER_ZERO


# -- SciPy's functions of one and two numbers

# SciPy's results there are no answers: of parameters that are nearly no number at all, it casts
# them to integers, or looks for a quantile without finding it.
NO_ANSWER = {
    "boxcox": lambda x, y: (np.abs(y) < 1e-19) & ((x == 0) | np.isinf(x)),
    "boxcox1p": lambda x, y: (np.abs(y) < 1e-19) & ((x == -1) | np.isinf(x)),
    "inv_boxcox1p": lambda x, y: (np.abs(y) < 1e-19) & (y != 0),
    "pdtr": lambda x, y: np.isnan(x),
    "pdtrc": lambda x, y: np.isnan(x),
    "pdtri": lambda x, y: (x < 0) & (x > -1),
    "stdtrit": lambda x, y: (y < 1e-9) | (x < 1e-9) | (y == 0.5),
}
UFUNCS = [
    name
    for name in functensor.scipy.special.__all__
    if isinstance(u := getattr(scipy.special, name, None), np.ufunc) and u.nin < 3 and u.nout == 1
    # SciPy counts up to the order, which takes long here.
    and name != "yn"
]


@pytest.mark.parametrize("name", UFUNCS)
def test_special_functions_are_scipys_at_special_values(name):
    ours, theirs = getattr(functensor.scipy.special, name), getattr(scipy.special, name)
    for char, rtol in (("d", 1e-9), ("f", 3e-4)):
        limits = np.finfo(char)
        tiny, huge = limits.tiny, limits.max / 4
        rest = [0.0, -0.0, 1, -1, 0.5, 2, -2.5, 3, 700, np.inf, -np.inf, np.nan]
        values = np.array([tiny, -tiny, huge, -huge, *rest], char)
        operands = [values]
        if theirs.nin == 2:
            operands = [x.ravel() for x in np.meshgrid(values, values)]
        wanted = theirs(*operands)
        # A limit may be better than SciPy's NaN of numbers.
        of_nan = np.any([np.isnan(x) for x in operands], axis=0)
        fixed = ~np.isnan(wanted) | of_nan
        if name in NO_ANSWER:
            fixed &= ~NO_ANSWER[name](*operands)
        eager = np.asarray(ours(*operands))
        np.testing.assert_allclose(eager[fixed], wanted[fixed], rtol, atol=limits.tiny)
        np.testing.assert_allclose(ft.jit(lambda *xs: ours(*xs))(*operands), eager, rtol)


def complex_values():
    parts = [0.0, -0.0, 1e-3, 1, -1, 3, -3, 30, -30, np.inf, -np.inf, np.nan]
    out = np.empty((len(parts), len(parts)), complex)
    out.real, out.imag = np.meshgrid(parts, parts)
    return out.ravel()


@pytest.mark.parametrize(
    "name", [n for n in UFUNCS if any(t[:2] == "D-" for t in getattr(scipy.special, n).types)]
)
def test_complex_functions_are_scipys_at_special_values(name):
    ours, theirs = getattr(functensor.scipy.special, name), getattr(scipy.special, name)
    z = complex_values()
    wanted = theirs(z)
    fixed = ~np.isnan(wanted.real) & ~np.isnan(wanted.imag)
    got = np.asarray(ours(z))
    for part in ("real", "imag"):
        found, known = getattr(got, part)[fixed], getattr(wanted, part)[fixed]
        np.testing.assert_allclose(found, known, 1e-9, 1e-300)
    np.testing.assert_allclose(ft.jit(lambda z: ours(z))(z), got)


@pytest.mark.parametrize("exponent", [0.5, 2, -1.0])
def test_a_single_exponent_of_float_power_is_no_root(exponent):
    x = np.array([-np.inf, -0.0, -1.0, 4.0])
    wanted = np.float_power(x, exponent)
    for way in ways(lambda x: fnp.float_power(x, exponent)).values():
        assert_same(way(x), wanted)
    for one, known in zip(x, wanted, strict=True):
        assert_same(fnp.float_power(one, exponent), known)
        assert_same(ft.jit(fnp.float_power)(one, exponent), known)


# -- what orders and searches: NaN stands behind all numbers

NAN = np.nan
SORTED = {
    "float": np.array([-np.inf, -1.0, 0.0, 2.0, 2.0, np.inf, NAN, NAN]),
    "numbers": np.array([-1.0, 0.0, 2.0]),
    "integers": np.array([-1, 0, 2, 2]),
    "complex": np.sort(
        np.array([1, 1j, 2 - 1j, complex(1, NAN), complex(NAN, 1), complex(NAN, NAN), 1 + 1j])
    ),
}
SOUGHT = np.array([NAN, -np.inf, np.inf, 2.0, -3.0, 0.0, -0.0, 0.5])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", SORTED)
def test_places_of_nan(kind, side):
    a, v = SORTED[kind], SOUGHT
    if kind == "complex":
        v = np.concatenate([a, [complex(2, NAN), complex(NAN, 0.5), 0, 3, complex(NAN, -1)]])
    wanted = np.searchsorted(a, v, side)
    for way in ways(lambda v: fnp.searchsorted(a, v, side)).values():
        np.testing.assert_array_equal(way(v), wanted)
    got = ft.vmap(lambda a: fnp.searchsorted(a, v, side))(np.stack([a, a]))
    np.testing.assert_array_equal(got, [wanted, wanted])
    if kind != "complex":
        for bins in (SORTED["numbers"], SORTED["numbers"][::-1]):
            wanted = np.digitize(v, bins, side == "left")
            for way in ways(partial(fnp.digitize, bins=bins, right=side == "left")).values():
                np.testing.assert_array_equal(way(v), wanted)


ORDERING = {
    "sort": lambda np, x: np.sort(x),
    "argsort": lambda np, x: np.argsort(x, stable=True),
    "partition": lambda np, x: np.sort(np.partition(x, 3)[:4]),
    "max": lambda np, x: np.max(x),
    "min": lambda np, x: np.min(x),
    "argmax": lambda np, x: np.argmax(x),
    "argmin": lambda np, x: np.argmin(x),
    "nanmax": lambda np, x: np.nanmax(x),
    "nanargmin": lambda np, x: np.nanargmin(x),
    "median": lambda np, x: np.median(x),
    "nanmedian": lambda np, x: np.nanmedian(x),
    "quantile": lambda np, x: np.quantile(x, 0.3),
    "nanpercentile": lambda np, x: np.nanpercentile(x, 60.0),
    "ptp": lambda np, x: np.ptp(x),
    "maximum.accumulate": lambda np, x: np.maximum.accumulate(x),
    "isin": lambda np, x: np.isin(x, np.asarray([1.0, NAN, 2.0])),
    "clip": lambda np, x: np.clip(x, 0.0, 1.0),
    "lexsort": lambda np, x: np.lexsort((x, np.flip(x))),
    "interp": lambda np, x: np.interp(x, np.asarray([0.0, 1.0]), np.asarray([2.0, 3.0])),
    "cumulative_sum": lambda np, x: np.cumsum(x),
    "nan_to_num": lambda np, x: np.nan_to_num(x),
    "sign": lambda np, x: np.sign(x),
    "unwrap": lambda np, x: np.unwrap(x),
}


@pytest.mark.parametrize("name", ORDERING)
def test_functions_that_order_numbers_among_nan(name):
    x = np.array([2.0, NAN, -np.inf, 0.5, -0.0, NAN, 1.0, 0.0])
    wanted = ORDERING[name](np, x)
    call = lambda x: ORDERING[name](fnp, x)  # noqa: E731
    np.testing.assert_array_equal(call(x), wanted)
    np.testing.assert_array_equal(ft.jit(call)(x), wanted)
    np.testing.assert_array_equal(ft.vmap(call)(np.stack([x, x[::-1]]))[0], wanted)


# -- convolution of a batch


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_sequences_of_a_batch_are_each_their_own(name, mode):
    rng = np.random.default_rng(3)
    batches = [
        (rng.random((3, 7)) < 0.5, rng.random((3, 4)) < 0.5),
        (rng.integers(-9, 9, (3, 4)), rng.integers(0, 99, (3, 7), "uint8")),
        (rng.normal(size=(3, 7)), np.array([[1.0, NAN, 2.0], [0.5, 0, np.inf], [1, 2, 3]])),
        (rng.normal(size=(3, 2)) + 1j, rng.normal(size=(3, 4)) * 1j),
    ]
    for a, v in batches:
        wanted = np.stack([getattr(np, name)(*row, mode) for row in zip(a, v)])
        assert_same(ft.vmap(lambda a, v: getattr(fnp, name)(a, v, mode))(a, v), wanted, 1e-12,
                    signs=False)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("last", [1.0, np.inf, np.nan])
def test_recurrences_have_the_values_of_their_steps(last, reverse):
    # Products of two factors overflow or are zero, those of factors and values are not.
    a = np.array([1.0, 1e-200, 1e-200, np.inf, 1e200, 1e200, 1.0, 1.0])
    b = np.array([1.0, 1.0, 1.0, 1.0, 1e-300, 1e-300, 0.0, last])
    wanted, h = np.zeros(8), 0.0
    for i in range(8)[::-1] if reverse else range(8):
        wanted[i] = h = b[i] + a[i] * h
    rows = [fnp.asarray(np.stack([x, np.full(8, 0.5)])) for x in (a, b)]
    got = np.asarray(registry.linear_recurrence(*rows, axis=1, reverse=reverse))
    np.testing.assert_array_equal(got[0], wanted)
    small = np.array([1e-300, 0.0, 0.0, 0.0])
    large = np.array([1.0, 1e200, 1e200, 1e-200])
    got = registry.linear_recurrence(large, small, reverse=False)
    np.testing.assert_allclose(got, [1e-300, 1e-100, 1e100, 1e-100])
