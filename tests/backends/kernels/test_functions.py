"""The formulas of functions, against mpmath: no error is larger than one unit of the last place.

2,000 points a function and dtype by default. With ``FUNCTENSOR_LONG_TESTS=1`` the C library's long
double finds the worst of 100,000, which mpmath then has the last word on.
"""

import mpmath as mp
import numpy as np
import pytest
import scipy.special
from support.function_points import (
    any_bits,
    between,
    errors,
    exact,
    in_long_double,
    mixed,
    near,
    near_multiples_of_half_pi,
    positive,
    scales,
    subnormal,
)
from support.long_forms import sized

from functensor.backends.kernels.arithmetic import computed
from functensor.backends.kernels.functions import FORMULAS, expanded
from functensor.backends.kernels.functions.formulas import OF_TWO
from functensor.backends.kernels.operations import KERNEL_FUNCTIONS, KERNEL_OPERATIONS

POINTS = sized(2000, 100_000)
DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
# The arguments about which a float's exponential overflows, and becomes subnormal and zero.
LOG_LIMITS = {4: (-103.97, -87.33, 88.73), 8: (-745.14, -708.39, 709.79)}


def exponents(rng, n, dtype):
    """Arguments of exponentials, from results of zero to infinite ones."""
    low, tiny, high = LOG_LIMITS[np.dtype(dtype).itemsize]
    share = n // 2
    return np.concatenate([rng.uniform(low, high, n - share), rng.uniform(low, tiny, share)])


def binary_exponents(rng, n, dtype):
    """The same to the base of 2."""
    return exponents(rng, n, dtype) / np.log(2)


def decaying(rng, n, dtype):
    """Arguments of ``erfc`` whose results are small, and subnormal."""
    low, tiny, _ = LOG_LIMITS[np.dtype(dtype).itemsize]
    return np.sqrt(rng.uniform(-tiny / 2, -low, n))


SMALL = scales(1e-6, 1)
AROUND_ZERO = mixed(SMALL, any_bits, subnormal)
ANGLES = mixed(
    between(-10, 10),
    scales(1e-6, 1e5),
    near_multiples_of_half_pi(1e5),
    near_multiples_of_half_pi(1e9),
    AROUND_ZERO,
)


def powers(rng, n, dtype):
    """Bases of all sizes, and exponents for results of zero to infinite ones."""
    base = np.abs(any_bits(rng, n, dtype))
    base = np.where(base == 1, dtype.type(2), base)
    return base, (exponents(rng, n, dtype) / np.log(base.astype(np.float64))).astype(dtype)


def powers_near_one(rng, n, dtype):
    """Bases about 1, and as large exponents as there are results."""
    base = 1 + scales(1e-6, 0.5)(rng, n, dtype).astype(dtype)
    return base, (exponents(rng, n, dtype) / np.log(base.astype(np.float64))).astype(dtype)


def usual_powers(rng, n, dtype):
    """Bases and exponents of a few units, some negative bases with whole exponents."""
    base = rng.uniform(0, 10, n).astype(dtype)
    exponent = rng.uniform(-5, 5, n).astype(dtype)
    whole = rng.integers(0, 2, n) == 1
    exponent[whole] = rng.integers(-20, 20, whole.sum())
    base[whole] *= rng.choice([-1, 1], whole.sum()).astype(dtype)
    return base, exponent


def quotients(rng, n, dtype):
    """Coordinates of points around the origin, near and far, and near the axes."""
    y, x = (scales(1e-6, 1e6)(rng, n, dtype).astype(dtype) for _ in range(2))
    share = n // 3
    y[:share], x[:share] = any_bits(rng, share, dtype), any_bits(rng, share, dtype)
    return y, x


def sides(rng, n, dtype):
    """Lengths of all sizes, of which none vanishes beside the other."""
    size = np.abs(any_bits(rng, n, dtype)) / 4
    return size, (size * rng.uniform(0, 4, len(size))).astype(dtype)


def multiples(rng, n, dtype):
    """Numbers near multiples of others, of few and of very many."""
    y = scales(1e-6, 1e6)(rng, n, dtype).astype(dtype)
    count = np.trunc(np.exp(rng.uniform(0, np.log(2) * (np.finfo(dtype).nmant + 4), n)))
    x = (count * y).astype(dtype)
    return x + np.spacing(x) * rng.integers(-2, 3, n).astype(dtype), y


def paired(*kinds):
    """From all of these pairs alike."""

    def points(rng, n, dtype):
        share = -(-n // len(kinds))
        with np.errstate(all="ignore"):
            parts = [kind(rng, share, np.dtype(dtype)) for kind in kinds]
        return tuple(np.concatenate(part)[:n].astype(dtype) for part in zip(*parts))

    return points


DOMAINS = {
    "arccos": mixed(between(-1, 1), SMALL, near([-1, -0.5, 0.5, 1], 50), subnormal),
    "arccosh": mixed(near([1], 1000), between(1, 3), positive(scales(1, 1e6)), positive(any_bits)),
    "arcsin": mixed(between(-1, 1), SMALL, near([-1, -0.5, 0.5, 1], 50), subnormal),
    "arcsinh": mixed(between(-3, 3), scales(1e-6, 1e6), AROUND_ZERO),
    "arctan": mixed(between(-3, 3), scales(1e-6, 1e6), near([-1, 1]), AROUND_ZERO),
    "arctanh": mixed(between(-1, 1), SMALL, near([-1, 1], 1000), subnormal),
    "arctan2": paired(quotients),
    "power": paired(powers, powers_near_one, usual_powers),
    "cbrt": mixed(between(-8, 8), near([-8, -1, 1, 8, 27, 0.125]), any_bits, subnormal),
    "cos": ANGLES,
    "cosh": mixed(between(-3, 3), exponents, AROUND_ZERO),
    "erf": mixed(between(-1, 1), between(-6, 6), AROUND_ZERO),
    "erfc": mixed(between(-1, 1), between(-6, 6), between(0, 9), decaying, AROUND_ZERO),
    "exp": mixed(between(-1, 1), between(-20, 20), exponents, AROUND_ZERO),
    "exp2": mixed(between(-1, 1), between(-20, 20), binary_exponents, AROUND_ZERO),
    "expm1": mixed(between(-1, 1), between(-40, 40), exponents, AROUND_ZERO),
    "fmod": paired(quotients, multiples),
    "hypot": paired(quotients, sides, multiples),
    "log": mixed(between(0, 3), near([1], 1000), positive(any_bits), positive(subnormal)),
    "log10": mixed(between(0, 3), near([1], 1000), positive(any_bits), positive(subnormal)),
    "log1p": mixed(between(-1, 3), SMALL, positive(any_bits), near([-1, 0, 1]), subnormal),
    "log2": mixed(between(0, 3), near([1], 1000), positive(any_bits), positive(subnormal)),
    "sin": ANGLES,
    "sinh": mixed(between(-3, 3), exponents, AROUND_ZERO),
    "tan": ANGLES,
    "tanh": mixed(between(-1, 1), between(-20, 20), AROUND_ZERO),
}
REFERENCES = {
    "arccos": mp.acos, "arccosh": mp.acosh, "arcsin": mp.asin, "arcsinh": mp.asinh,
    "arctan": mp.atan, "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "arctan2": mp.atan2, "arctanh": mp.atanh, "exp2": lambda x: mp.mpf(2) ** x,
    "log2": lambda x: mp.log(x, 2), "power": mp.power,
    "hypot": mp.hypot,
    "fmod": lambda x, y: mp.sign(x) * mp.fmod(abs(x), abs(y)),
    # mpmath takes no larger numbers; the results are 0 and 2 long before.
    "erfc": lambda x: mp.erfc(max(min(x, 1000), -1000)),
    **{
        name: getattr(mp, name)
        for name in (
            "cos", "cosh", "erf", "exp", "expm1", "log", "log10", "log1p",
            "sin", "sinh", "tan", "tanh",
        )
    },
}  # fmt: skip

# Functions that NumPy has for numbers of 64 bits: their errors are below a thousandth of float64's
# last place.
IN_LONG_DOUBLE = REFERENCES.keys() - {"erf", "erfc"} if np.finfo(np.longdouble).nmant >= 63 else ()
BY_MPMATH = 2000

# Where functions are not real, or infinite: other tests have these numbers.
INSIDE = {
    "arccos": lambda x: abs(x) <= 1,
    "arccosh": lambda x: x >= 1,
    "arcsin": lambda x: abs(x) <= 1,
    "arctanh": lambda x: abs(x) < 1,
    "log": lambda x: x > 0,
    "log10": lambda x: x > 0,
    "log1p": lambda x: x > -1,
    "log2": lambda x: x > 0,
}


def drawn(name, dtype, n):
    """Points of a function's domain."""
    found = DOMAINS[name](np.random.default_rng(11), n, dtype)
    operands = found if isinstance(found, tuple) else (found,)
    inside = np.all([np.isfinite(x) for x in operands], axis=0)
    if name in INSIDE:
        inside &= INSIDE[name](operands[0])
    return [x[inside].astype(dtype) for x in operands]


def evaluated(name, operands, dtype):
    """The value of a formula."""
    graph, result = expanded(name, dtype)
    return node_values(graph, operands)[result]


def node_values(graph, operands):
    """The values of all nodes, operation by operation."""
    values = {}
    for node in graph.nodes:
        if node.operation == "input":
            values[node] = operands[node.detail]
        elif node.operation == "constant":
            values[node] = node.detail
        else:
            given = [values[x] for x in node.operands]
            values[node] = computed(node.operation, given, node.dtype, node.detail)
    return values


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", sorted(DOMAINS))
def test_the_error_is_at_most_one_ulp(name, dtype):
    operands = drawn(name, dtype, POINTS)
    assert len(operands[0]) > POINTS / 3
    found = evaluated(name, operands, dtype)
    assert found.dtype == dtype
    if name in IN_LONG_DOUBLE and len(found) > BY_MPMATH:
        # mpmath has the last word on those that seem worst, and on as many others.
        error = errors(found, in_long_double(getattr(np, name), operands))
        others = np.random.default_rng(12).choice(len(found), BY_MPMATH // 2)
        chosen = np.concatenate([np.argsort(error)[-BY_MPMATH // 2 :], others])
        found, operands = found[chosen], [x[chosen] for x in operands]
    error = errors(found, exact(REFERENCES[name], operands))
    worst = np.argmax(error)
    assert error[worst] <= 1, [float(x[worst]) for x in operands]


def test_errors_are_counted_in_the_last_place():
    for dtype in DTYPES:
        limits = np.finfo(dtype)
        numbers = [1, 1.5, 3, 1e-3, limits.max, limits.tiny, limits.smallest_subnormal]
        x = np.array(numbers, dtype)
        reference = exact(lambda number: number, [x])
        assert errors(x, reference).tolist() == [0] * len(x)
        with np.errstate(over="ignore"):
            above = np.nextafter(x, dtype.type(np.inf))
        assert errors(above, reference).tolist() == [1] * len(x)
        assert np.isnan(errors(x * dtype.type(np.nan), reference)).all()
    assert errors(np.array([np.inf, 1.0]), exact(mp.exp, [np.array([1e4, 1e4])])).tolist() == [
        0, np.inf,
    ]  # fmt: skip


SPECIAL = [
    np.nan, np.inf, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 10.0, 100.0, 200.5, 1000.0, 1e30,
    1e-30, 2.0**24 + 1, 2.0**53 - 1, 2.0**53,
]  # fmt: skip


def special_numbers(dtype):
    """Numbers at limits of a dtype and of domains, and negative ones."""
    limits, one = np.finfo(dtype), dtype.type(1)
    ends = [limits.max, limits.tiny, limits.smallest_subnormal, 3 * limits.smallest_subnormal]
    sides = [np.nextafter(one, dtype.type(2)), np.nextafter(one, dtype.type(0))]
    found = np.array([*SPECIAL, *ends, *sides], dtype)
    return np.concatenate([found, -found])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", sorted(KERNEL_FUNCTIONS))
def test_special_values_are_those_of_numpy(name, dtype):
    x = special_numbers(dtype)
    operands = map(np.ravel, np.meshgrid(x, x)) if name in OF_TWO else [x]
    operands = list(operands)
    with np.errstate(all="ignore"):
        wanted = (getattr(np, name, None) or getattr(scipy.special, name))(*operands)
    found = evaluated(name, operands, dtype)
    special = ~np.isfinite(wanted) | (wanted == 0) | ~np.isfinite(found) | (found == 0)
    np.testing.assert_array_equal(found[special], wanted[special])
    zeros = wanted == 0
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))
    usual = ~special
    with np.errstate(over="ignore"):
        step = np.spacing(np.abs(wanted[usual]))
        distance = np.abs(found[usual] - wanted[usual]) / step
    assert np.nanmax(distance) <= 4  # of which NumPy's own functions may take three


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_exponentials_far_below_take_no_slow_product(name, dtype):
    # A product that is rounded to 0 takes a processor ten times as long as a product of zeros.
    graph, result = expanded(name, dtype)
    values = node_values(graph, [np.array([-2100, -1e4, -1e9, -np.inf], dtype)])
    assert not values[result].any()
    products = [x for x in graph.nodes if x.operation == "multiply"]
    assert result in products
    for x in products:
        of_zeros = values[x.operands[0]] == 0
        for y in x.operands[1:]:
            of_zeros = of_zeros | (values[y] == 0)
        assert ((values[x] != 0) | of_zeros).all()


def test_every_function_has_a_formula_of_elementary_operations():
    assert set(FORMULAS) == KERNEL_FUNCTIONS
    assert set(DOMAINS) == KERNEL_FUNCTIONS
    elementary = {*KERNEL_OPERATIONS, "fma", "cast", "bits", "library", "input", "constant"}
    for name in FORMULAS:
        for dtype in DTYPES:
            graph, result = expanded(name, dtype)
            assert result.dtype == dtype
            assert {node.operation for node in graph.nodes} <= elementary
            assert expanded(name, dtype) == (graph, result)
            for node in graph.nodes:
                if node.operation not in ("select", "bits", "cast", "library"):
                    assert len({x.dtype for x in node.operands}) <= 1
                elif node.operation == "select":
                    assert node.operands[1].dtype == node.operands[2].dtype


def test_only_large_angles_and_quotients_need_the_library():
    for name in FORMULAS:
        graph, _ = expanded(name, DTYPES[0])
        calls = [node.detail for node in graph.nodes if node.operation == "library"]
        assert calls == ([name] if name in ("cos", "fmod", "sin", "tan") else [])
