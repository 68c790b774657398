"""Solutions of equations and minima: values, implicit derivatives, batches, errors."""

import numpy
import pytest
import scipy.optimize

import functensor as ft
import functensor.numpy as np
from functensor.backends import optional_modules
from functensor.custom.root import from_vector, to_vector
from functensor.primitives.core.errors import MissingRuleError, RuleResultError
from functensor.scipy.optimize import Bounds, OptimizeResult, minimize, root
from functensor.testing import assert_allclose, check_grads

METHODS = [
    "CG", "BFGS", "Newton-CG", "L-BFGS-B", "TNC", "SLSQP", "trust-constr", "trust-ncg",
    "trust-exact", "trust-krylov", "dogleg", "Nelder-Mead", "Powell", "COBYLA",
]


def newton(f, x):
    for _ in range(8):
        x = x - f(x) / ft.grad(f)(x)
    return x


def square_root(a):
    return ft.custom_root(lambda x: x * x - a, 1.5, newton)


def bowl(x, a):
    """A convex function of a tree, with its minimum in no simple place."""
    return np.sum(np.cosh(x["w"] - a)) + (x["b"] * a - 1) ** 2 + 0.3 * np.sum(x["w"]) * x["b"]


START = {"w": numpy.zeros(2), "b": numpy.array(0.5)}


# custom_root


def test_all_orders_of_a_root_in_all_modes():
    exact = [2.0, 0.25, -1 / 32, 3 / 256]
    assert_allclose(square_root(4.0), exact[0])
    grad, tangent = ft.grad(square_root), lambda a: ft.jvp(square_root, (a,), (1.0,))[1]
    for first in (grad, tangent):
        assert_allclose(first(4.0), exact[1])
        for second in (ft.grad(first), lambda a, f=first: ft.jvp(f, (a,), (1.0,))[1]):
            assert_allclose(second(4.0), exact[2])
            assert_allclose(ft.grad(second)(4.0), exact[3])


def test_roots_in_batches_and_in_programs():
    a = np.array([4.0, 9.0])
    assert_allclose(ft.vmap(square_root)(a), numpy.array([2.0, 3.0]))
    assert_allclose(ft.vmap(ft.grad(square_root))(a), numpy.array([1 / 4, 1 / 6]))
    of_batch = ft.grad(lambda a: ft.vmap(square_root)(a).sum())
    assert_allclose(of_batch(a), numpy.array([1 / 4, 1 / 6]))
    program = ft.make_program(ft.vmap(ft.grad(square_root)))(a)
    assert_allclose(program(a + 7), 0.5 / numpy.sqrt(numpy.array([11.0, 16.0])))


def test_trees_and_an_iterative_tangent_solve():
    matrix = numpy.array([[3.0, 1.0], [1.0, 2.0]])

    def conjugate_gradients(g, y):
        """Stops at once where there is nothing to solve, and could not be differentiated there."""
        x = {"u": np.zeros(2)}
        residual = direction = y["u"]
        for _ in range(2):
            size = residual @ residual
            if float(ft.value(size)) < 1e-30:
                break
            image = g({"u": direction})["u"]
            step = size / (direction @ image)
            x = {"u": x["u"] + step * direction}
            residual = residual - step * image
            direction = residual + (residual @ residual) / size * direction
        return x

    def solution(b):
        def f(x):
            return {"u": matrix @ x["u"] + x["u"] ** 3 - b}

        def solve(f, x):
            for _ in range(20):
                jacobian = ft.jacfwd(lambda u: f({"u": u})["u"])(x["u"])
                x = {"u": x["u"] - np.linalg.solve(jacobian, f(x)["u"])}
            return x

        return ft.custom_root(f, {"u": np.ones(2)}, solve, conjugate_gradients)["u"]

    check_grads(solution, (numpy.array([1.0, -2.0]),), order=2)


def test_extras_have_no_derivative():
    def solve(f, x):
        return newton(f, x), {"steps": 8, "last": f(x)}

    def with_aux(a):
        return ft.custom_root(lambda x: x * x - a, 1.5, solve, has_aux=True)

    x, aux = with_aux(4.0)
    assert_allclose(x, 2.0)
    assert (int(aux["steps"]), float(aux["last"])) == (8, -1.75)
    assert_allclose(ft.grad(lambda a: with_aux(a)[0] + with_aux(a)[1]["last"])(4.0), 0.25)


def test_roots_of_complex_functions():
    def solution(a):
        return ft.custom_root(
            lambda z: z * z - a,
            1 + 1j,
            lambda f, z: [z := z - f(z) / ft.grad(f, holomorphic=True)(z) for _ in range(8)][-1],
        )

    assert_allclose(solution(2j), 1 + 1j, rtol=1e-12)
    got = ft.grad(solution, holomorphic=True)(2j)
    assert_allclose(got, 0.5 / (1 + 1j), rtol=1e-12)
    # The two parts of a function that is not holomorphic are solved for together.

    def linear_root(f, z):
        a = -f(0j)
        return (4 * a - 2 * np.conj(a)) / 3

    check_grads(
        lambda a: ft.custom_root(lambda z: z + 0.5 * np.conj(z) - a, 0j, linear_root),
        (1 - 2j,),
        order=2,
    )


def test_a_function_that_uses_the_traced_value_through_a_transformation():
    def solution(a):
        return ft.custom_root(ft.grad(lambda x: 0.25 * x**4 - a * x), 1.5, newton)

    check_grads(solution, (8.0,), order=2)


@pytest.mark.parametrize(
    ("f", "solve", "tangent_solve", "words"),
    [
        (lambda x: (x, x), lambda f, x: x, None, "custom_root: f returned"),
        (lambda x: x, lambda f, x: np.ones(3), None, r"solve returned .* of shapes \[\(3,\)\]"),
        (lambda x: x, lambda f, x: x, lambda g, y: np.ones(3), "tangent_solve returned"),
    ],
)
def test_what_does_not_fit_the_guess(f, solve, tangent_solve, words):
    with pytest.raises(RuleResultError, match=words):
        ft.grad(lambda a: ft.custom_root(lambda x: tree_times(f(x), a), 1.0, solve, tangent_solve))(
            2.0
        )


def tree_times(x, a):
    return ft.tree.map(lambda v: v * a, x)


def test_vectors_of_leaves():
    leaves = [np.ones(2, "float32"), np.array([[1 + 2j]])]
    vector = to_vector(leaves)
    assert_allclose(vector, numpy.array([1.0, 1.0, 1.0, 2.0]))
    back = from_vector(vector, [ft.ShapeDtype(x.shape, x.dtype) for x in leaves])
    assert_allclose(back, leaves)
    assert to_vector([]).shape == (0,)


# minimize


@pytest.mark.parametrize("method", METHODS)
def test_every_solver_finds_the_minimum(method):
    def loss(x):
        return np.sum(np.cosh(x["w"] - np.arange(2.0))) + np.cosh(x["b"] + 1)

    options = {"maxiter": 4000, "tol": None} if method == "COBYLA" else {}
    result = minimize(loss, START, method=method, tol=1e-8, options=options or None)
    assert bool(result.success), result.message
    accuracy = 1e-3 if method in ("Nelder-Mead", "Powell", "COBYLA") else 1e-4
    assert_allclose(result.x["w"], numpy.array([0.0, 1.0]), atol=accuracy)
    assert_allclose(result.x["b"], numpy.array(-1.0), atol=accuracy)
    assert_allclose(result.fun, loss(result.x), rtol=1e-12)
    assert ("jac" in result) == (method not in ("Nelder-Mead", "Powell", "COBYLA"))


def test_results_are_those_of_scipy():
    x0 = [1.3, 0.7, 0.8, 1.9]

    def rosen(x):
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    for method in ("BFGS", "L-BFGS-B", "Newton-CG"):
        wanted = scipy.optimize.minimize(
            scipy.optimize.rosen,
            x0,
            method=method,
            jac=scipy.optimize.rosen_der,
            hess=scipy.optimize.rosen_hess if method == "Newton-CG" else None,
        )
        got = minimize(rosen, numpy.array(x0), method=method)
        assert_allclose(got.x, wanted.x, atol=1e-5)
        assert abs(int(got.nit) - wanted.nit) <= 1
        assert got.message == wanted.message


def test_dtypes_and_structure_are_those_of_the_guess():
    x0 = {"w": numpy.zeros(2, "float32"), "b": numpy.float32(0.5)}
    result = minimize(bowl, x0, (0.7,), method="L-BFGS-B")
    assert {key: leaf.dtype for key, leaf in result.x.items()} == {"w": np.float32, "b": np.float32}
    assert result.fun.dtype == np.float32
    wanted = minimize(bowl, START, (0.7,)).x["w"].astype("float32")
    # Near its minimum a function changes by less than single precision tells: half of the digits.
    assert_allclose(result.x["w"], wanted, rtol=np.sqrt(np.finfo("f4").eps))
    assert minimize(lambda x: (x - 1) ** 2, 3).x.dtype == np.float64


def test_a_solution_differentiates():
    def solution(a, tol=1e-11):
        return minimize(bowl, START, (a,), tol=tol, method="Newton-CG").x

    check_grads(lambda a: solution(a)["w"] * solution(a)["b"], (0.7,), order=2, rtol=1e-5)

    def closed(a):
        return minimize(lambda x: bowl(x, a), START, tol=1e-9).x["b"]

    check_grads(closed, (0.7,), order=1, rtol=1e-5)
    # At a minimum its value changes only as the function does.
    value = ft.grad(lambda a: minimize(bowl, START, (a,), tol=1e-9).fun)(0.7)
    assert_allclose(value, ft.grad(bowl, 1)(solution(0.7), 0.7), rtol=1e-7)


def test_guesses_have_no_derivative_and_problems_nest():
    assert_allclose(ft.grad(lambda a: minimize(lambda x: (x - 1) ** 2, a).x)(2.0), 0.0)
    assert_allclose(ft.grad(lambda a: root(lambda x: x - 1, a).x)(2.0), 0.0)

    def inner(a):
        return minimize(lambda x: (x - a) ** 2 + x**2, 0.0).x

    assert_allclose(minimize(lambda a: (inner(a) - 1) ** 2, 0.5).x, 2.0, rtol=1e-6)


def test_batches_of_minima():
    a = np.array([0.7, 0.9, 1.1])
    results = ft.vmap(lambda a: minimize(bowl, START, (a,), tol=1e-9))(a)
    rows = [minimize(bowl, START, (v,), tol=1e-9) for v in a]
    assert isinstance(results, OptimizeResult)
    assert results.x["w"].shape == (3, 2)
    assert_allclose(results.fun, np.stack([row.fun for row in rows]))
    assert results.success.tolist() == [True] * 3
    assert_allclose(results.nit, np.stack([row.nit for row in rows]))

    def end(a):
        return minimize(bowl, START, (a,), tol=1e-9).x["b"]

    wanted = np.stack([ft.grad(end)(v) for v in a])
    assert_allclose(ft.vmap(ft.grad(end))(a), wanted, rtol=1e-7)
    assert_allclose(ft.grad(lambda a: ft.vmap(end)(a).sum())(a), wanted, rtol=1e-7)
    assert ft.vmap(end)(a[:0]).shape == (0,)
    nested = ft.vmap(ft.vmap(end))(np.stack([a, a[::-1]]))
    assert_allclose(nested[1], ft.vmap(end)(a)[::-1])
    program = ft.make_program(ft.grad(end))(0.7)
    assert_allclose(program(0.9), wanted[1], rtol=1e-7)


def test_bounds_and_what_they_hold():
    a = numpy.array([1.0, 3.0])

    def distance(x, a):
        return np.sum((x - a) ** 2)

    for bounds in ([(0, 2), (None, 2)], scipy.optimize.Bounds(0, 2), Bounds(numpy.zeros(2), 2.0)):
        for method in (None, "TNC", "trust-constr"):
            result = minimize(distance, numpy.zeros(2), (a,), bounds=bounds, method=method)
            # The barrier of trust-constr ends before the bound; the others reach it.
            off = 1e-3 if method == "trust-constr" else 1e-6
            assert_allclose(result.x, numpy.array([1.0, 2.0]), atol=off)

    def held(a):
        return minimize(distance, numpy.zeros(2), (a,), bounds=Bounds(0, 2)).x

    for jacobian in (ft.jacfwd(held), ft.jacrev(held)):
        assert_allclose(jacobian(a), numpy.diag([1.0, 0.0]))
    tree_bounds = Bounds({"w": 0.0, "b": -1.0}, {"w": numpy.inf, "b": 0.25})
    result = minimize(bowl, START, (0.7,), bounds=tree_bounds)
    assert_allclose(result.x["b"], 0.25)
    assert_allclose(result.x["w"], numpy.full(2, 0.7 - numpy.arcsinh(0.075)), rtol=1e-4)


def test_constraints():
    constraints = {"type": "eq", "fun": lambda x, total: x["u"].sum() - total, "args": (1.0,)}
    result = minimize(lambda x: (x["u"] ** 2).sum(), {"u": numpy.ones(4)}, constraints=constraints)
    assert_allclose(result.x["u"], numpy.full(4, 0.25), rtol=1e-6)
    both = [
        {"type": "ineq", "fun": lambda x: x[0] - 0.5},
        {"type": "ineq", "fun": lambda x: {"a": x - 0.1}},
    ]
    # An interior point comes no nearer to constraints that bind: SciPy's own reaches 7.4e-4.
    for method, nearest in (("SLSQP", 1e-12), ("trust-constr", 1e-3)):
        result = minimize(lambda x: (x**2).sum(), numpy.ones(2), constraints=both, method=method)
        assert_allclose(result.x, numpy.array([0.5, 0.1]), rtol=0.0, atol=nearest)
    with pytest.raises(MissingRuleError, match="no derivative of minimize with constraints"):
        ft.grad(
            lambda a: minimize(lambda x: a * (x**2).sum(), numpy.ones(2), constraints=both).x[0]
        )(1.0)


def test_complex_unknowns():
    def distance(z, a):
        return np.sum(np.abs(z - a * (1 + 2j)) ** 2)

    for method in ("BFGS", "Newton-CG", "trust-exact"):
        result = minimize(distance, 0j, (2.0,), method=method)
        assert_allclose(result.x, 2 + 4j, rtol=1e-6)
    _, tangent = ft.jvp(lambda a: minimize(distance, 0j, (a,)).x, (2.0,), (1.0,))
    assert_allclose(tangent, 1 + 2j)


def test_derivatives_that_are_given():
    def both(x, a):
        return np.sum((x - a) ** 2), 2 * (x - a)

    a = numpy.array([1.0, 2.0])
    start = numpy.zeros(2)
    assert_allclose(minimize(both, start, (a,), jac=True).x, a, rtol=1e-6)
    assert_allclose(ft.jacrev(lambda a: minimize(both, start, (a,), jac=True).x)(a), numpy.eye(2))
    calls = []

    def gradient(x, a):
        calls.append(x)
        return 2 * (x - a)

    given = {
        "jac": gradient,
        "hess": lambda x, a: 2 * numpy.eye(2),
        "hessp": lambda x, p, a: 2 * p,
    }
    assert_allclose(minimize(lambda x, a: both(x, a)[0], start, (a,), **given).x, a, rtol=1e-6)
    assert calls
    for key, method in (("hess", "trust-exact"), ("hess", "Newton-CG"), ("hessp", "Newton-CG")):
        got = minimize(
            lambda x, a: both(x, a)[0], start, (a,), method=method, **{key: given[key]}
        )
        assert_allclose(got.x, a, rtol=1e-6)


def test_callbacks_get_trees():
    seen = []
    minimize(bowl, START, (0.7,), callback=seen.append)
    assert seen[0].keys() == START.keys()
    assert isinstance(seen[0]["w"], ft.Array)
    results = []

    def note(intermediate_result):
        results.append(intermediate_result)
        raise StopIteration

    result = minimize(bowl, START, (0.7,), callback=note)
    assert results[0].x["w"].shape == (2,)
    assert not bool(result.success)


def test_results_are_read_by_key_and_by_attribute():
    result = minimize(lambda x: x**2, 1.0)
    assert result["x"] is result.x
    assert "nfev" in dir(result)
    with pytest.raises(AttributeError, match="the result has no 'hess'; it has x, fun, jac"):
        result.hess  # noqa: B018


def test_scipy_is_an_extra(monkeypatch):
    def missing(module):
        raise ImportError(module)

    monkeypatch.setattr(optional_modules, "import_module", missing)
    missing_extra = optional_modules.MissingExtraError
    with pytest.raises(missing_extra, match=r"pip install 'functensor\[scipy\]'"):
        minimize(lambda x: x**2, 1.0)


# root


def coupled(x, p):
    return {"b": x["a"] ** 2 - p, "c": (x["b"] - x["a"]) * np.ones(1)}


def test_roots_of_trees():
    start = {"a": 1.0, "b": numpy.ones(1)}
    for method in ("hybr", "lm", "krylov", "broyden1"):
        result = root(coupled, start, (2.0,), method=method, tol=1e-9)
        assert bool(result.success)
        assert_allclose(result.x["b"], numpy.full(1, numpy.sqrt(2)), rtol=1e-6)
        assert_allclose(result.fun["b"], 0.0, atol=1e-6)
    assert int(root(coupled, start, (2.0,)).njev) == 1
    assert "njev" not in root(coupled, start, (2.0,), method="krylov")
    check_grads(lambda p: root(coupled, start, (p,), tol=1e-13).x["b"], (2.0,), order=2, rtol=1e-6)
    p = np.array([2.0, 3.0])
    got = ft.vmap(ft.grad(lambda p: root(coupled, start, (p,)).x["a"]))(p)
    assert_allclose(got, 0.5 / np.sqrt(p), rtol=1e-7)
    assert_allclose(root(coupled, start, (2.0,), jac=False).x["a"], numpy.sqrt(2), rtol=1e-6)


def test_more_equations_than_unknowns_are_fitted_but_not_differentiated():
    data = numpy.array([1.0, 2.0, 3.5])

    def misfit(x, scale):
        return x * scale - data

    result = root(misfit, 1.0, (2.0,), method="lm")
    assert_allclose(result.x, data.mean() / 2, rtol=1e-7)
    with pytest.raises(MissingRuleError, match="a root of 3 equations for 1 unknowns"):
        ft.grad(lambda scale: root(misfit, 1.0, (scale,), method="lm").x)(2.0)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: minimize(lambda x: x, numpy.ones(2)), TypeError, "not a real scalar"),
        (lambda: minimize(lambda x: x * 1j, 1.0), TypeError, "returned complex128"),
        (lambda: minimize(lambda x: None, 1.0), TypeError, "returned NoneType"),
        (
            lambda: minimize(bowl, START, (1.0,), bounds=[(0, 1)]),
            ValueError,
            r"Bounds\(lower tree, upper tree\) is for trees",
        ),
        (
            lambda: minimize(lambda z: np.abs(z) ** 2, 1j, bounds=Bounds(0, 1)),
            TypeError,
            "complex numbers have no order",
        ),
        (
            lambda: minimize(lambda x: x**2, 1.0, constraints=[lambda x: x]),
            TypeError,
            "is not a dict",
        ),
        (lambda: minimize(lambda x: x**2, 1.0, method="x"), ValueError, "Unknown solver x"),
    ],
)
def test_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
