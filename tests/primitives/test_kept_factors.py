"""Factors that solutions and determinants keep for their derivatives."""

from functools import partial

import numpy as np
import pytest
from support.native import missing
from support.native_loops import assert_same, compiled

import functensor as ft
import functensor.numpy as fnp
from functensor.backends import lapack_of_numpy
from functensor.backends.arrays import lapack
from functensor.primitives.linalg import by_factors
from functensor.testing import assert_allclose, check_grads

N = by_factors.FEWEST_KEPT_ROWS
known = pytest.mark.skipif(
    not lapack_of_numpy.has_lapack(np.dtype(float)), reason="NumPy's LAPACK is not known here"
)


def matrices(*stack, n=N, dtype="d", seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(*stack, n, n))
    if dtype in "FD":
        a = a + 1j * rng.normal(size=a.shape)
    # Rows in another order than that of their pivots.
    return (a / n + 2 * np.eye(n)[np.roll(range(n), 1)]).astype(dtype)


def solved(a, b):
    return fnp.sum(fnp.sin(fnp.real(fnp.linalg.solve(a, b))))


def of_slogdet(a):
    sign, logarithm = fnp.linalg.slogdet(a)
    return fnp.real(sign) * fnp.sum(logarithm) + fnp.imag(sign)


@pytest.fixture
def factorised(monkeypatch):
    """Returns the list of the shapes of matrices that are factorised."""
    shapes = []

    def noted(function):
        def call(a, *rest, **options):
            shapes.append(np.shape(a))
            return function(a, *rest, **options)

        return call

    monkeypatch.setattr(lapack_of_numpy, "lu_of_stack", noted(lapack_of_numpy.lu_of_stack))
    for name in ("solve", "inv", "det", "slogdet"):
        monkeypatch.setattr(np.linalg, name, noted(getattr(np.linalg, name)))
    return shapes


CASES = {
    "solve": (solved, lambda: (matrices(), matrices(seed=1)[:, :3])),
    "vector": (solved, lambda: (matrices(), matrices(seed=1)[0])),
    "stack": (solved, lambda: (matrices(2), matrices(2, seed=1)[..., :3])),
    "one for all": (solved, lambda: (matrices(), matrices(2, seed=1)[..., :3])),
    "slogdet": (of_slogdet, lambda: (matrices(),)),
    "det": (fnp.linalg.det, lambda: (matrices() / 2,)),
}


@known
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", CASES)
def test_a_value_and_its_gradient_factorise_a_matrix_once(name, jit, factorised):
    f, operands = CASES[name]
    with_grad = ft.value_and_grad(f, argnums=tuple(range(len(operands()))))
    if jit:
        with_grad = ft.jit(with_grad)
    with_grad(*operands())
    assert factorised == [operands()[0].shape]


@known
def test_products_with_hessians_take_the_same_factors(factorised):
    a, b = matrices(), matrices(seed=1)[:, :3]
    ft.jvp(ft.grad(solved, argnums=(0, 1)), (a, b), (b @ b.T, b))
    ft.vjp(ft.grad(solved), a, b)[1](a)
    ft.jvp(solved, (a, b), (a, b))
    assert factorised == [a.shape] * 3


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "policy",
    [None, ft.checkpoint_policies.everything_saveable, ft.checkpoint_policies.dots_saveable],
    ids=["none", "everything", "dots"],
)
@pytest.mark.parametrize("name", CASES)
def test_checkpoints_do_the_same_again(name, policy, jit):
    f, operands = CASES[name]
    grad = partial(ft.grad, argnums=tuple(range(len(operands()))))
    again = grad(ft.checkpoint(f, policy=policy))
    for got, wanted in zip((ft.jit(again) if jit else again)(*operands()), grad(f)(*operands())):
        np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-12)
    of_first = ft.grad(lambda a: ft.checkpoint(f, policy=policy)(a, *operands()[1:]))
    np.testing.assert_allclose(
        np.asarray(of_first(operands()[0])), np.asarray(grad(f)(*operands())[0]), rtol=1e-12
    )


@pytest.mark.parametrize("rows", [3, N])
@pytest.mark.parametrize("name", ["solve", "det", "slogdet"])
def test_policies_know_operations_by_their_names(name, rows):
    f, operands = CASES[name]
    given = [matrices(n=rows), *(x[:rows] for x in operands()[1:])]
    policy = ft.checkpoint_policies.save_only_these_primitives(name)
    again = ft.checkpoint(lambda *xs: fnp.sin(f(*xs)), policy=policy)
    (kept,) = [x for x in ft.saved_residuals(again, *given) if "by the policy" in x.source]
    assert f"output of {name}" in kept.source


@known
def test_batches_factorise_each_matrix_once(factorised):
    a, b = matrices(3), matrices(seed=1)[:, :3]
    ft.vmap(ft.grad(solved), in_axes=(0, None))(a, b)
    ft.grad(lambda a, b: fnp.sum(ft.vmap(solved, in_axes=(0, None))(a, b)))(a, b)
    assert factorised == [a.shape] * 2


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name, dtype):
    f, operands = CASES[name]
    operands = [x.astype(dtype) + (x * 0.3j if dtype in "FD" else 0) for x in operands()]
    operands = [x.astype(dtype) for x in operands]

    def real(*xs):
        return fnp.real(f(*xs))

    value, gradients = ft.value_and_grad(real, argnums=tuple(range(len(operands))))(*operands)
    # Without factors the rules take NumPy's functions.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_factors, "FEWEST_KEPT_ROWS", N + 1)
        rtol = 2e-4 if dtype in "fF" else 1e-10
        assert_allclose(value, real(*operands), rtol=rtol)
        others = ft.grad(real, argnums=tuple(range(len(operands))))(*operands)
        for own, other in zip(gradients, others, strict=True):
            assert own.dtype == other.dtype
            assert_allclose(own, other, rtol=rtol, atol=rtol * float(fnp.max(fnp.abs(other))))


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_every_order(name):
    f, operands = CASES[name]
    check_grads(f, operands(), order=2)


@known
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("stacks", [((), ()), ((2,), (2,)), ((), (2,)), ((2,), ()), ((2, 1), (3,))])
def test_systems_by_factors(stacks, dtype, transposed):
    a = matrices(*stacks[0], n=5, dtype=dtype)
    b = matrices(*stacks[1], n=5, dtype=dtype, seed=1)[..., :2]
    factors = lapack_of_numpy.lu_of_stack(a)
    found = lapack_of_numpy.solved_by_factors(factors, b, transposed=transposed)
    wanted = np.linalg.solve(a.mT if transposed else a, b)
    assert found.dtype == b.dtype
    assert_allclose(found, wanted, rtol=1e-4 if dtype in "fF" else 1e-11)


@known
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("unit_diagonal", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("stacks", [((), ()), ((2,), (2,)), ((), (2,)), ((2,), ()), ((2, 1), (3,))])
def test_systems_of_triangles(stacks, lower, transposed, unit_diagonal, order):
    a = np.asarray(matrices(*stacks[0], n=5) + 3 * np.eye(5), order=order)
    b = matrices(*stacks[1], n=5, seed=1)[..., :2]
    found = lapack_of_numpy.triangles_of_stack_solved(
        a, b, lower=lower, transposed=transposed, unit_diagonal=unit_diagonal
    )
    read = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        read = read * (1 - np.eye(5)) + np.eye(5)
    assert_allclose(found, np.linalg.solve(read.mT if transposed else read, b), rtol=1e-11)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_a_singular_matrix(jit):
    a, b = matrices(), np.ones(N)
    a[3] = 0
    slope = ft.jit(ft.grad(solved)) if jit else ft.grad(solved)
    with pytest.raises(np.linalg.LinAlgError, match="solve: singular matrix") as seen:
        slope(a, b)
    assert "solve" in seen.value.__notes__[0]
    assert "in kept_factors" not in str(seen.value.__notes__)
    sign, logarithm = ft.vjp(fnp.linalg.slogdet, a)[0]
    assert (float(sign), float(logarithm)) == (0, -np.inf)
    assert np.isnan(ft.grad(lambda a: fnp.linalg.slogdet(a)[1])(a)).all()
    # Its cofactors are those of the row of zeros.
    slope = np.array(ft.grad(fnp.linalg.det)(a))
    largest = np.abs(slope[3]).max()
    assert largest > 0
    assert_allclose(np.delete(slope, 3, 0), np.zeros((N - 1, N)), atol=1e-12 * largest)


@known
def test_tensors_factorise_a_matrix_once(factorised):
    a = ft.Tensor(matrices(), requires_grad=True)
    loss = fnp.sum(fnp.linalg.solve(a, np.ones(N)))
    loss.backward()
    assert factorised == [(N, N)]
    assert_allclose(a.grad, ft.grad(lambda a: fnp.sum(fnp.linalg.solve(a, np.ones(N))))(matrices()))
    factorised.clear()
    # Nothing is kept of what has no gradient.
    fnp.linalg.solve(ft.Tensor(matrices()), np.ones(N))
    assert factorised == [(N, N)]


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("number", [np.inf, -np.inf, 0.0])
def test_values_beside_derivatives_are_those_without(number, dtype):
    a = matrices(dtype=dtype)
    a[3, slice(None) if number == 0 else 2] = number
    with np.errstate(all="ignore"):
        for f in (fnp.linalg.det, fnp.linalg.slogdet):
            wanted, found = ft.tree.leaves(f(a)), ft.tree.leaves(ft.jvp(f, (a,), (a,))[0])
            for x, y in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(np.array(x), np.array(y))


def test_hooks_see_one_solution():
    seen = []
    hook = ft.hooks.FnHook(forward=lambda op, inputs, output: seen.append(op.name))
    with ft.hooks.use(hook):
        ft.grad(solved)(matrices(), np.ones(N))
    assert seen.count("solve") == 1
    assert "kept_factors" not in seen


def of_tensor(a):
    x = ft.Tensor(a, requires_grad=True)
    fnp.sum(fnp.linalg.slogdet(x)[1] * fnp.linalg.solve(x, np.ones(N))).backward()
    return x.grad


def of_both(a):
    return fnp.sum(fnp.linalg.slogdet(a)[1] * fnp.linalg.solve(a, np.ones(N)))


STACKED = np.stack([matrices(), matrices(seed=1)])
WAYS = {
    "grad": lambda: ft.grad(of_both)(STACKED[0]),
    "jvp": lambda: ft.jvp(of_both, (STACKED[0],), (STACKED[1],))[1],
    "vmap of grad": lambda: ft.vmap(ft.grad(of_both))(STACKED),
    "grad of vmap": lambda: ft.grad(lambda a: fnp.sum(ft.vmap(of_both)(a)))(STACKED),
    "jvp of grad": lambda: ft.jvp(ft.grad(of_both), (STACKED[0],), (STACKED[1],))[1],
    "checkpoint": lambda: ft.grad(ft.checkpoint(of_both))(STACKED[0]),
    "tensors": lambda: of_tensor(STACKED[0]),
}


@pytest.mark.parametrize("way", WAYS)
def test_hooks_see_cotangents_and_change_no_bits(way):
    wanted, seen = np.array(WAYS[way]()), []
    hooks = [
        ft.hooks.FnHook(forward=lambda op, inputs, output: None),
        ft.hooks.FnHook(backward=lambda op, gs, g: seen.append((op.name, len(gs)))),
        ft.hooks.FnHook(
            forward=lambda op, inputs, output: None, backward=lambda op, gs, g: None
        ),
    ]
    for some in ([hooks[0]], hooks[1:]):
        with ft.hooks.use(some[0]), ft.hooks.use(some[-1]):
            np.testing.assert_array_equal(np.array(WAYS[way]()), wanted)
    if way != "jvp":
        assert {("solve", 2), ("slogdet", 1)} <= set(seen)
    assert not any("factors" in name for name, _ in seen)


def test_cotangents_of_solutions_are_clipped():
    for way in (lambda f: f, ft.jit):
        clipped = way(ft.hooks.clip_gradients(of_both, "solve", max_value=1e-3))
        plain = ft.grad(lambda a: fnp.sum(fnp.linalg.slogdet(a)[1]))(STACKED[0])
        scale = fnp.sum(fnp.linalg.solve(STACKED[0], np.ones(N)))
        rest = ft.grad(clipped)(STACKED[0]) - scale * plain
        assert_allclose(fnp.max(abs(rest)), 1e-3, rtol=1e-9)


def test_triangles_without_other_libraries(monkeypatch):
    """Systems of triangles, and Cholesky's derivative with them, need NumPy alone."""
    monkeypatch.setattr(lapack, "_has_scipy", lambda: False)
    a = matrices(n=5) @ matrices(n=5).T
    own = [ft.grad(lambda a: fnp.sum(fnp.linalg.cholesky(a)))(x)
           for x in (a, np.stack([a] * 9))]
    monkeypatch.setattr(lapack_of_numpy, "has_lapack", lambda dtype: False)
    for found, x in zip(own, (a, np.stack([a] * 9)), strict=True):
        assert_allclose(found, ft.grad(lambda a: fnp.sum(fnp.linalg.cholesky(a)))(x), rtol=1e-11)
        assert_allclose(found, own[0] + np.zeros(x.shape), rtol=1e-11)


@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("name", ["solve", "slogdet"])
def test_in_a_loop_of_machine_code(name, dtype):
    f, operands = CASES[name]
    operands = [x.astype(dtype) for x in operands()]
    a, rest = operands[0], operands[1:]

    def sum_of_steps(x):
        def step(i, x):
            return x - 0.1 * ft.grad(lambda x: f(a * x, *rest))(x)

        return ft.fori_loop(0, 3, step, x)

    x = np.ones((), dtype)
    # Both ways solve systems of N rows in each of three steps, and no step makes errors larger.
    rtol = 2 * 3 * N * np.linalg.cond(a) * np.finfo(dtype).eps
    assert_same(compiled(sum_of_steps, x)(x), sum_of_steps(x).astype(dtype), rtol)
