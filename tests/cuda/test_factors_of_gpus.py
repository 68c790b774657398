"""Factors that GPUs keep for several systems; SciPy's LAPACK stands for cuSOLVER where none is."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg
from support.leaf_kernels import Buffer

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.linalg import by_factors

pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
N = by_factors.FEWEST_KEPT_ROWS
EPS = {"f": 1e-4, "d": 1e-11, "F": 1e-4, "D": 1e-11}


def matrices(*shape, dtype="d", seed=0):
    """Returns matrices whose rows are in another order than that of their pivots."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    if dtype in "FD":
        x = x + 1j * rng.normal(size=shape)
    n = shape[-1]
    return (x / n + 2 * np.eye(*shape[-2:])[np.roll(range(shape[-2]), 1)]).astype(dtype)


class OnTheCpu:
    """NumPy in CuPy's place."""

    linalg, nan = np.linalg, np.nan

    @staticmethod
    def empty(shape, dtype):
        """Returns memory of its own, as CuPy's is."""
        return Buffer(shape, dtype)

    def __getattr__(self, name):
        def call(*args, **options):
            found = getattr(np, name)(*args, **options)
            return found.view(Buffer) if isinstance(found, np.ndarray) else found

        return call


def seen(address, dtype, *shape):
    """Returns a matrix in memory whose columns lie one behind the other."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    held = (ctypes.c_char * count).from_address(address)
    return np.frombuffer(held, dtype).reshape(shape[::-1]).T


class Lapack:
    """The functions of cuSOLVER and cuBLAS by SciPy's, on the CPU's memory."""

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)

    @staticmethod
    def handles():
        return 1, 2

    def room(self, handle, rows, columns, a, step):
        return 1

    def factorise(self, handle, rows, columns, a, step, work, swaps, info):
        assert (handle, rows, step) == (1, columns, columns)
        matrix = seen(a, self.dtype, rows, columns)
        (getrf,) = scipy.linalg.get_lapack_funcs(("getrf",), (matrix,))
        matrix[...], found, _ = getrf(matrix)
        seen(swaps, "i4", columns)[...] = found + 1

    def solve(self, handle, turned, n, columns, a, step, swaps, b, b_step, info):
        assert (handle, step, b_step) == (1, n, n)
        right = seen(b, self.dtype, n, columns)
        (getrs,) = scipy.linalg.get_lapack_funcs(("getrs",), (right,))
        own = seen(swaps, "i4", n) - 1
        right[...], _ = getrs(seen(a, self.dtype, n, n), own, right, trans=turned)

    def factorise_all(self, handle, n, places, step, swaps, info, count):
        assert handle == 2
        for i, place in enumerate(seen(places, np.uintp, count)):
            self.factorise(1, n, n, int(place), step, 0, swaps + 4 * n * i, 0)

    def solve_all(
        self, handle, turned, n, columns, places, step, swaps, rows, row_step, info, count
    ):
        assert handle == 2
        pairs = zip(seen(places, np.uintp, count), seen(rows, np.uintp, count), strict=True)
        for i, (a, b) in enumerate(pairs):
            own = swaps + 4 * n * i
            self.solve(1, turned, n, columns, int(a), step, own, int(b), row_step, 0)


@pytest.fixture
def module(monkeypatch):
    """The functions of GPUs, on the CPU."""
    from functensor.backends.cuda.cublas import kept_factors, linear_algebra

    monkeypatch.setattr(kept_factors, "Solvers", Lapack)
    for part in (kept_factors, linear_algebra):
        monkeypatch.setattr(part, "cupy", OnTheCpu())
    return SimpleNamespace(
        kept=kept_factors.kept_factors,
        solve=linear_algebra.solve_by_factors,
        slogdet=linear_algebra.slogdet_by_factors,
        det=linear_algebra.det_by_factors,
        are_known=kept_factors.are_known,
    )


def close(found, wanted, dtype):
    assert found.shape == wanted.shape
    np.testing.assert_allclose(np.asarray(found), wanted, EPS[dtype], EPS[dtype])


STACKS = [
    ((5, 5), (5, 2)),
    ((3, 4, 4), (3, 4, 2)),
    ((2, 1, 3, 3), (2, 4, 3, 1)),
    ((4, 4), (2, 3, 4, 1)),
    ((1, 4, 4), (3, 4, 2)),
]


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("a", "b"), STACKS)
def test_systems_are_solved_by_factors(module, a, b, transposed, dtype):
    x, y = matrices(*a, dtype=dtype), matrices(*b, dtype=dtype, seed=1)
    factors = module.kept(x.view(Buffer), strict=True)
    assert factors.shape == (*a[:-2], a[-1] + 1, a[-1])
    # Nothing is factorised again.
    broken = np.full_like(x, np.nan).view(Buffer)
    found = module.solve(factors, broken, y.view(Buffer), strict=True, transposed=transposed)
    close(found, np.linalg.solve(x.swapaxes(-1, -2) if transposed else x, y), dtype)
    sign, logarithm = np.linalg.slogdet(x)
    close(module.slogdet(factors, broken), np.stack([sign, logarithm], -1).astype(x.dtype), dtype)
    close(module.det(factors, broken), np.linalg.det(x), dtype)


def test_arrays_that_were_not_made_here_have_no_factors(module):
    x = matrices(2, 4, 4)
    factors = module.kept(x.view(Buffer), strict=True)
    assert module.are_known(factors)
    assert module.are_known(factors[:, None])
    assert not module.are_known(factors.copy())
    assert not module.are_known(factors[:, :4, :3])
    y = matrices(2, 4, 1, seed=1)
    found = module.solve(
        np.zeros_like(factors), x.view(Buffer), y.view(Buffer), strict=True, transposed=False
    )
    close(found, np.linalg.solve(x, y), "d")
    place = id(factors)
    from functensor.backends.cuda.cublas import kept_factors

    assert place in kept_factors._factors_made
    del factors
    assert place not in kept_factors._factors_made


def test_singular_matrices_among_others_have_nan_alone(module):
    x = np.stack([np.zeros((3, 3)), 2 * np.eye(3)])
    factors = module.kept(x.view(Buffer), strict=False)
    with np.errstate(all="ignore"):
        found = module.solve(
            factors, x.view(Buffer), np.ones((2, 3, 1)).view(Buffer), strict=False, transposed=True
        )
    close(found, np.stack([np.full((3, 1), np.nan), np.full((3, 1), 0.5)]), "d")
    close(module.det(factors, x.view(Buffer)), np.array([0.0, 8.0]), "d")


def test_matrices_that_libraries_do_not_know_have_none(module):
    assert not module.are_known(module.kept(np.ones((2, 2), "f2").view(Buffer), strict=True))
    assert module.kept(np.ones((0, 2, 2)).view(Buffer), strict=True).shape == (0, 3, 2)


# On a GPU


def solved(a, b):
    return fnp.sum(fnp.sin(fnp.real(fnp.linalg.solve(a, b))))


def of_slogdet(a, b):
    sign, logarithm = fnp.linalg.slogdet(a)
    return fnp.sum(fnp.real(sign) * logarithm)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("stack", [(), (3,)], ids=str)
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("function", [solved, of_slogdet])
def test_a_value_and_its_gradient_factorise_once(monkeypatch, function, jit, stack, dtype):
    from functensor.backends.cuda.cublas import kept_factors

    known = []
    found_of = kept_factors.solved_of_factors
    from functensor.backends.cuda.cublas import linear_algebra

    def noted(factors, b, *, transposed):
        known.append(transposed)
        return found_of(factors, b, transposed=transposed)

    monkeypatch.setattr(linear_algebra, "solved_of_factors", noted)
    a, b = matrices(*stack, N, N, dtype=dtype), matrices(*stack, N, 3, dtype=dtype, seed=1)
    f = ft.value_and_grad(function, argnums=0)
    wanted = f(a, b)
    there = [ft.to_device(x, "cuda") for x in (a, b)]
    call = ft.jit(f) if jit else f
    if jit:
        call.compile(*there)
    for _ in range(4 if jit else 1):
        found = call(*there)
    assert len(known) >= 1
    for x, y in zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True):
        close(np.asarray(ft.to_device(x, "cpu")), np.asarray(y), dtype)


@pytest.mark.gpu
def test_singular_matrices_on_a_gpu():
    from functensor.primitives.core.registry import registry as ops

    x = ft.to_device(np.stack([np.ones((3, 3)), 2 * np.eye(3)]), "cuda")
    factors = ops["kept_factors"].bind((x,), {"strict": False})
    eye = ft.to_device(np.eye(3), "cuda")
    for transposed in (False, True):
        params = {"strict": False, "transposed": transposed}
        got = ops["solve_by_factors"].bind((factors, x, eye), params)
        wanted = np.stack([np.full((3, 3), np.nan), np.eye(3) / 2])
        close(np.asarray(ft.to_device(got, "cpu")), wanted, "d")
