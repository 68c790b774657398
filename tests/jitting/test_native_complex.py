"""Machine code of complex numbers: values, NaN, infinities and the signs of zeros of eager mode."""

import numpy as np
import pytest
import support.registry_cases as cases
from core.test_primitives import PRIMITIVES
from support.native import missing

import functensor as ft
import functensor.numpy as fnp
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.native.segments import with_segments
from functensor.jitting.tiers import native_program
from functensor.passes.kernel_forms import kernel_forms
from functensor.passes.pipeline import optimized
from functensor.primitives.core.registry import registry
from functensor.testing import assert_allclose

pytestmark = [
    pytest.mark.skipif(bool(missing), reason=missing),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::functensor.jitting.retraces.RetraceWarning"),
]
DTYPES = ("complex64", "complex128")
MOVING = {"index", "reshape", "stop_gradient", "transpose"}
# Functions of complex numbers that NumPy computes between kernels.
LEFT_TO_NUMPY = {
    *("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "complex_erf"),
    *("complex_erfc", "complex_erfcx", "complex_erfi", "complex_ndtr", "digamma"),
    *("euclidean_norm", "faddeeva", "gamma", "log1p", "loggamma", "polygamma", "power", "prod"),
    *("rgamma", "xlog1py", "xlogy"),
}


def fused(call, *args):
    """Returns the program of a function as machine code takes it."""
    return native_program(ft.make_program(call)(*args))


def compiled(call, *args, **options):
    """Returns a jitted function, all of whose work is machine code."""
    with ft.config.using(check_programs=True):
        jitted = ft.jit(call, **options).compile(*args)
    left = {e.primitive.name for e in with_segments(fused(call, *args)).equations}
    assert left <= {"native", "fused", *MOVING}, left
    assert jitted.explain().endswith("runs as machine code"), jitted.explain()
    return jitted


def leaves(found, wanted):
    """Returns paths, results and what they should be."""
    paths = ft.tree.leaves_with_path(wanted)
    names = [ft.tree.keystr(path) for path, _ in paths]
    return zip(names, ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True)


def assert_same(found, wanted, name="", places=8):
    """Asserts that numbers differ by rounding alone, in units in the last place of their size."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind == "b":
        np.testing.assert_array_equal(found, wanted, name)
        return
    size = np.where(np.isfinite(wanted), np.abs(wanted), 0)
    for x, y in ((found.real, wanted.real), (found.imag, wanted.imag)):
        finite = np.isfinite(y)
        np.testing.assert_array_equal(x[~finite], y[~finite], name)
        limits = np.finfo(wanted.dtype)
        near = np.where(size > 0, size, np.abs(y))[finite] * limits.eps * places
        error = np.abs(x[finite] - y[finite])
        assert (error <= near + 2 * limits.smallest_subnormal).all(), (name, error.max())
        zeros = finite & (x == 0) & (y == 0)
        np.testing.assert_array_equal(np.signbit(x)[zeros], np.signbit(y)[zeros], name)


def drawn(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


# -- functions of elements

PARTS = {
    **{
        name: getattr(fnp, name)
        for name in (
            *("abs", "angle", "conj", "imag", "isfinite", "isinf", "isnan", "logical_not"),
            *("negative", "real", "reciprocal", "sign", "sqrt", "square"),
        )
    },
    "angle in degrees": lambda z: fnp.angle(z, deg=True),
    "astype bool": lambda z: fnp.astype(z, bool),
    "astype complex128": lambda z: fnp.astype(z * 2, "complex128"),
    "astype complex64": lambda z: fnp.astype(z * 2, "complex64"),
    "numbers": lambda z: 2.5 / (z * 1j + 2) / 3,
    "powers": lambda z: [z**3, z**-3.0, z**0.5, z**5, z**-1, z**-2],
    "one_less_square": registry["one_less_square"],
}
FUNCTIONS = {
    name: getattr(fnp, name)
    for name in (
        *("cos", "cosh", "exp", "exp2", "expm1", "log", "log10", "log2", "sin", "sinh", "sqrt"),
        *("tan", "tanh"),
    )
}
PAIRS = {
    **{
        name: getattr(fnp, name)
        for name in (
            *("add", "divide", "equal", "greater", "greater_equal", "less", "less_equal"),
            *("logical_and", "logical_or", "logical_xor", "multiply", "not_equal", "subtract"),
        )
    },
    "a real number and a complex one": lambda x, y: [fnp.real(x) * y, y / fnp.imag(x)],
    "where": lambda x, y: fnp.where(fnp.real(x) > fnp.imag(y), x, y),
    "where of complex numbers": lambda x, y: fnp.where(x, y, 0),
    "tanh_grad": registry["tanh_grad"],
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, -1e30, 0.5, -2.5]


def special_numbers(dtype):
    z = np.empty((len(SPECIAL), len(SPECIAL)), dtype)
    z.real, z.imag = np.meshgrid(SPECIAL, SPECIAL)
    return z.reshape(-1)


def numbers_of_all_sizes(dtype):
    """Numbers about 1, near the circle of that size, of all sizes, and where exp overflows."""
    rng = np.random.default_rng(1)
    count, highest = 3000, np.log(float(np.finfo(dtype).max))

    def wide(low, high):
        return rng.choice([-1.0, 1.0], count) * np.exp(rng.uniform(low, high, count))

    turn = np.exp(1j * rng.uniform(-np.pi, np.pi, count))
    parts = [
        drawn(count, "complex128"),
        turn * (1 + rng.normal(0, 1e-3, count) * 10.0 ** -rng.integers(0, 8, count)),
        wide(-30, 30) + 1j * wide(-30, 30),
        wide(-1.05 * highest, highest) + 1j * wide(-1.05 * highest, highest),
        rng.uniform(-2 * highest, 2 * highest, count) + 1j * wide(-highest, 3),
        wide(-highest, 3) + 1j * rng.uniform(-2 * highest, 2 * highest, count),
    ]
    return np.concatenate(parts).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("functions", [PARTS, FUNCTIONS], ids=["parts", "functions"])
def test_functions_are_those_of_eager_mode(functions, dtype):
    z = np.concatenate([special_numbers(dtype), numbers_of_all_sizes(dtype)])

    def every(z):
        return {name: function(z) for name, function in functions.items()}

    for name, found, wanted in leaves(compiled(every, z)(z), every(fnp.asarray(z))):
        assert_same(found, wanted, name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_two_numbers_are_those_of_eager_mode(dtype):
    z = special_numbers(dtype)
    x, y = (np.ravel(v) for v in np.meshgrid(z, z))
    some = numbers_of_all_sizes(dtype)
    x, y = np.concatenate([x, some]), np.concatenate([y, some[::-1]])

    def every(x, y):
        return {name: function(x, y) for name, function in PAIRS.items()}

    wanted = every(fnp.asarray(x), fnp.asarray(y))
    for name, found, right in leaves(compiled(every, x, y)(x, y), wanted):
        assert_same(found, right, name)


COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
SPECIAL_FLOATS = (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan)
REAL_NUMBERS = {
    "bool": [False, True],
    "int32": [-3, 0, 1, 2],
    "uint8": [0, 1, 255],
    **dict.fromkeys(("float16", "float32", "float64"), SPECIAL_FLOATS),
}


@pytest.mark.filterwarnings("error::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("dtype", REAL_NUMBERS)
@pytest.mark.parametrize("number", [1 + 2j, 1 + 0j, 1 - 0.5j, complex(1, np.nan), complex(0, -0.0)])
def test_real_arrays_beside_complex_numbers_of_python(dtype, number):
    x = np.array(REAL_NUMBERS[dtype], dtype)

    def every(x):
        names = *COMPARISONS, "logical_and", "logical_or", "logical_xor"
        both = {name: getattr(fnp, name)(x, number) for name in names}
        return both | {f"{name} backwards": getattr(fnp, name)(number, x) for name in names}

    for name, found, wanted in leaves(compiled(every, x)(x), every(fnp.asarray(x))):
        assert_same(found, wanted, name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_are_three_units_in_the_last_place_off_at_most(dtype):
    z = numbers_of_all_sizes(dtype)
    names = [n for n in FUNCTIONS if n not in ("exp2", "expm1")]
    wide = np.dtype("complex128" if dtype == "complex64" else np.clongdouble)
    limits = np.finfo(dtype)
    if np.finfo(wide).eps >= limits.eps:
        pytest.skip("NumPy has no wider complex numbers here")
    jitted = compiled(lambda z: [getattr(fnp, name)(z) for name in names], z)
    for name, found in zip(names, map(np.asarray, jitted(z)), strict=True):
        wanted = getattr(np, name)(z.astype(wide))
        sound = np.isfinite(wanted.astype(dtype))
        assert (np.isfinite(found) == sound).all(), name
        bound = 3 * limits.eps * np.abs(wanted[sound]) + 2 * limits.smallest_subnormal
        assert (np.abs(found[sound] - wanted[sound]) <= bound).all(), name


def test_other_functions_of_the_registry_are_machine_code():
    native = get_backend("numpy").is_native
    left = set()
    for name in PRIMITIVES:
        primitive = registry[name]
        if "D" not in primitive.dtypes or primitive.family not in ("elementwise", "reduction"):
            continue
        for sample in primitive.samples:
            operands = cases.operands_of(primitive, sample, "D")
            if operands and all(x.size for x in operands):
                program = optimized(ft.make_program(cases.applied(primitive, sample))(*operands))
                equations = kernel_forms(program).equations
                left |= {e.primitive.name for e in equations if not native(e)}
    assert left <= LEFT_TO_NUMPY, left


# -- sums, products and moves

AXES = [None, 0, 1, 2, (0, 1), (1, 2), (0, 2)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("special", [False, True])
def test_sums_means_and_variances(axis, special, dtype):
    z = drawn((6, 5, 17), dtype)
    if special:
        z[0, 0, 0], z[1, 1, 1], z[4, :, 2] = np.inf, complex(1, np.inf), np.nan
        z[2], z[3] = 0, complex(-0.0, -0.0)

    def every(z):
        total = fnp.sum(z, axis=axis, keepdims=True)
        return [
            fnp.sum(z, axis=axis),
            fnp.sum(z * fnp.conj(z) + 1, axis=axis),
            fnp.sum(fnp.abs(z) ** 2, axis=axis),
            total + (z - total),
            fnp.var(z, axis=axis, ddof=1),
            fnp.mean(z, axis=axis, keepdims=True) + z,
        ]

    with ft.config.using(check_programs=True):
        jitted = ft.jit(every).compile(z)
    assert jitted.explain().endswith("runs as machine code")
    for found, wanted in zip(jitted(z), every(fnp.asarray(z)), strict=True):
        assert_same(found, wanted, places=200)


@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_that_threads_share(dtype):
    z, w = drawn((1300, 401), dtype), drawn(401, dtype, 1)

    def every(z, w):
        rows = fnp.sum(z * w, axis=1)
        return fnp.exp(z) * w, rows, fnp.sum(fnp.conj(z), axis=0), fnp.mean(z * z)

    jitted = ft.jit(every).compile(z, w)
    for found, wanted in zip(jitted(z, w), every(fnp.asarray(z), fnp.asarray(w)), strict=True):
        assert_allclose(found, wanted, rtol=1e-4 if dtype == "complex64" else 1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_and_moves(dtype):
    matrix, vector, column = drawn((90, 6), dtype), drawn(6, dtype, 1), drawn(90, dtype, 2)

    def every(matrix, vector, column):
        return [
            fnp.abs(matrix @ vector + 1),
            (column * 2)[None, :] * matrix.T,
            column[:, None] @ vector[None],
            (matrix * vector).T + 1j,
            fnp.broadcast_to(column[:, None], (90, 6)) * matrix,
            fnp.exp(matrix.reshape(30, 3, 6) * 1j).reshape(90, 6) - vector,
        ]

    with ft.config.using(check_programs=True):
        jitted = ft.jit(every).compile(matrix, vector, column)
    wanted = every(*map(fnp.asarray, (matrix, vector, column)))
    for found, right in zip(jitted(matrix, vector, column), wanted, strict=True):
        assert_same(found, right, places=100)
    for other in (np.asfortranarray(matrix), np.repeat(matrix, 2, 1)[:, ::2], matrix[::-1][::-1]):
        assert_allclose(jitted(other, vector, column), wanted)
    bytes_before = np.frombuffer(b"\0" + matrix.tobytes(), np.uint8)[1:]
    unaligned = bytes_before.view(dtype).reshape(matrix.shape)
    assert not unaligned.flags.aligned
    assert_allclose(jitted(unaligned, vector, column), wanted)


def test_matrices_are_multiplied_with_vectors_by_machine_code():
    matrix, vector = drawn((400, 5), "complex64"), drawn(5, "complex64", 1)
    call = compiled(lambda a, x: fnp.exp(a @ x) * 2, matrix, vector)
    assert_same(call(matrix, vector), np.exp(matrix @ vector) * 2, places=100)


def test_forms_that_kernels_fuse():
    z = drawn((3, 4), "complex64")

    def names(call):
        equation = fused(call, z).equations[-1]
        return [e.primitive.name for e in equation.primitive.program.equations]

    assert names(lambda z: fnp.mean(z, axis=1)) == ["sum", "divide"]
    assert names(lambda z: fnp.var(z, axis=1)) == [
        *("sum", "divide", "subtract", "real", "imag", "square", "square", "add", "sum", "divide"),
    ]
    assert names(lambda z: z[:, :1] @ z[:1]) == ["multiply", "add"]


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 8, 9, 64, 1000])
def test_lengths_that_fill_no_lanes(length):
    z = drawn(length, "complex64")

    def f(z):
        return fnp.sum(z * z), fnp.abs(z) > 1, fnp.exp(z), fnp.conj(z)[::-1]

    assert_allclose(ft.jit(f).compile(z)(z), f(fnp.asarray(z)))


@pytest.mark.parametrize("dtype", [">c8", ">c16"])
def test_bytes_in_the_other_order(dtype):
    z = drawn((3, 4), dtype)

    def f(z):
        return z * 2j + 1, fnp.sum(z, axis=0), fnp.abs(z)

    assert_allclose(ft.jit(f).compile(z)(z), f(fnp.asarray(z)))


def test_numbers_and_arrays_without_axes():
    def f(z, s):
        total = fnp.sum(z * s)
        return total, z / total, s * 2

    z = drawn(5, "complex64")
    for s in (2.0, 1j, np.complex64(3j), np.asarray(4.0 + 1j), np.float32(0.5)):
        jitted = ft.jit(f).compile(z, s)
        assert_allclose(jitted(z, s), f(fnp.asarray(z), s))


# -- memory and derivatives


def test_donated_memory_holds_the_results():
    def step(psi, phase):
        return [x * phase - x / 3 for x in psi]

    psi, phase = [fnp.asarray(drawn((50, 3), "complex128", seed)) for seed in (1, 2)], drawn(3, "D")
    jitted = compiled(step, psi, phase, donate_argnums=0)
    taken = [x + 0 for x in psi]
    places = [np.asarray(x).ctypes.data for x in taken]
    new = jitted(taken, phase)
    assert [np.asarray(x).ctypes.data for x in new] == places
    assert_allclose(new, step(psi, phase))


def test_donated_memory_of_parts_that_change_places():
    z = fnp.asarray(drawn(100, "complex64"))
    swap = compiled(lambda z: fnp.imag(z) + fnp.real(z) * 1j, z, donate_argnums=0)
    assert_same(swap(z + 0), np.asarray(z).imag + np.asarray(z).real * 1j)


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_of_a_wave(dtype):
    x = np.linspace(0, 1, 300, dtype=np.dtype(dtype).type(0).real.dtype)
    a, k = drawn(12, dtype), np.arange(12, dtype=x.dtype)

    def energy(a, k):
        wave = fnp.sum(a[:, None] * fnp.exp(1j * k[:, None] * x[None]), axis=0)
        return fnp.sum(fnp.abs(wave) ** 2) + fnp.sum(fnp.real(fnp.conj(a) * fnp.tanh(a)))

    both = ft.value_and_grad(energy, argnums=(0, 1))
    jitted = ft.jit(both).compile(a, k)
    assert jitted.explain().endswith("runs as machine code")
    assert_allclose(jitted(a, k), both(a, k), rtol=1e-4 if dtype == "complex64" else 1e-11)
