"""Small products that a loop of Python leaves become one."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pass_cases import body, close, operations, run, same, staged

import functensor as ft
import functensor.numpy as np
from functensor.passes.batch_matmuls import LARGEST_JOINED_PRODUCT, joined_products
from functensor.passes.dead_code import dead_code
from functensor.passes.kernel_forms import kernel_forms
from functensor.passes.pipeline import optimized
from functensor.passes.simplify import algebra
from functensor.primitives.core.primitive_like import Call
from functensor.programs.program import Equation


def joined(program):
    return dead_code(algebra(dead_code(joined_products(program))))


def whole(*shape, seed=0, dtype="float32"):
    """Returns whole numbers, whose sums of products are exact in every order."""
    return numpy.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def recurrent(p, x):
    """Returns the loss of a network with a loop of Python over the middle axis."""
    h = np.zeros((x.shape[0], p[1].shape[0]), x.dtype)
    for i in range(x.shape[1]):
        h = np.tanh(x[:, i] @ p[0] + h @ p[1] + p[2])
    return np.sum(h**2)


def test_a_sum_of_products_is_a_product_of_what_is_joined():
    xs, ys = [whole(2, 3, seed=i) for i in range(4)], [whole(2, 4, seed=i) for i in range(4, 8)]

    def fun(xs, ys):
        first, *rest = [x.T @ y for x, y in zip(xs, ys, strict=True)]
        return sum(rest, start=first)

    program = staged(fun, xs, ys)
    less = joined(program)
    assert body(less) == [
        "i: float32[8,3] = concatenate(d, c, b, a, axis=0)",
        "j: float32[3,8] = transpose(i, axes=(1, 0))",
        "k: float32[8,4] = concatenate(h, g, f, e, axis=0)",
        "l: float32[3,4] = matmul(j, k)",
        "return l",
    ]
    same(program, less, [*xs, *ys])


def test_a_sum_may_begin_with_zero():
    xs = [whole(2, 3, seed=i) for i in range(4)]
    program = staged(lambda *xs: sum(x.T @ x for x in xs), *xs)
    less = optimized(program)
    assert operations(less) == ["concatenate", "transpose", "matmul", "add"]
    same(program, less, xs)


def test_other_terms_are_added_to_it():
    def fun(xs, w, rest):
        total = rest
        for x in xs:
            total = total + np.sum(x, axis=0)
        for x in xs:
            total = total + np.sum(x * 2, axis=0)
        return total + w

    values = [[whole(2, 3, seed=i) for i in range(3)], whole(3), whole(3, seed=4)]
    program = staged(fun, *values)
    less = joined(program)
    assert operations(less) == ["multiply"] * 3 + ["concatenate", "sum", "add", "add"]
    same(program, less, [*values[0], *values[1:]])


def test_what_is_needed_besides_or_is_large_or_few_stays():
    xs = [whole(2, 3, seed=i) for i in range(4)]

    def total(products):
        return products[0] + products[1] + products[2] + products[3]

    large = [ft.ShapeDtype((1024, 1024), "float32")] * 4
    for fun, operands in (
        (lambda *xs: total([x.T @ x for x in xs[:3]] + [xs[3][0, 0] * np.ones((3, 3), "f4")]), xs),
        (lambda *xs: (lambda ps: (total(ps), ps))([x.T @ x for x in xs]), xs),
        (lambda *xs: total([x @ x for x in xs]), large),
        (lambda *xs: total([x.T @ x for x in xs]), [x.astype("int64") for x in xs]),
        (lambda *xs: total([x * x for x in xs]), xs),
    ):
        program = staged(fun, *operands)
        assert operations(joined_products(program)) == operations(program)
    assert large[0].size * 1024 > LARGEST_JOINED_PRODUCT


def test_partial_sums_that_are_needed_split_the_chain():
    def fun(*xs):
        half = xs[0].T @ xs[0] + xs[1].T @ xs[1] + xs[2].T @ xs[2] + xs[3].T @ xs[3]
        return half, half + xs[4].T @ xs[4]

    values = [whole(2, 3, seed=i) for i in range(5)]
    program = staged(fun, *values)
    less = joined(program)
    assert operations(less).count("matmul") == 2
    same(program, less, values)


def test_long_sums_are_joined_piece_by_piece(monkeypatch):
    values = [whole(2, 3, seed=i) for i in range(12)]
    program = staged(lambda *xs: sum(x.T @ x for x in xs[1:]) + xs[0].T @ xs[0], *values)
    # Twelve elements a term: six of them are more than this.
    monkeypatch.setattr("functensor.passes.batch_matmuls.LARGEST_KEPT_ELEMENTS", 70)
    less = optimized(program)
    assert operations(less).count("matmul") == 2
    assert operations(less).count("concatenate") == 2
    same(program, less, values)


def test_calls_without_outputs_and_constants_of_all_kinds_pass():
    class Nothing(Call):
        name = "nothing"

        def bind(self, operands):
            return []

    program = staged(
        lambda *xs: sum(x.T @ x for x in xs) + numpy.ones((3, 3), "f4") @ numpy.ones((3, 3), "f4"),
        *[whole(2, 3, seed=i) for i in range(4)],
    )
    call = Equation(Nothing(), [1.0], {}, [])
    program = program.with_equations([call, *program.equations])
    assert operations(joined_products(program))[0] == "nothing"
    assert operations(optimized(program)).count("matmul") == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_products_of_slices_are_slices_of_a_product(axis):
    def fun(x, w):
        slices = [x[i] if axis == 0 else x[:, i] for i in range(4)]
        return [np.exp(y) @ w if i == 2 else y @ w for i, y in enumerate(slices)]

    shape = [3, 3, 3]
    shape[axis] = 4
    values = [whole(*shape), whole(3, 2)]
    program = staged(lambda x, w: [(x[i] if axis == 0 else x[:, i]) @ w for i in range(4)], *values)
    less = joined(program)
    moved = ["transpose"] if axis else []
    assert operations(less) == [*moved, "reshape", "matmul", "reshape", *["index"] * 4]
    same(program, less, values)
    # Three of four, with another product between them.
    few = staged(fun, *values)
    assert operations(joined_products(few)) == operations(few)


def test_a_row_that_is_added_to_all_slices_is_added_once():
    def fun(x, w, b, h):
        for i in range(5):
            h = np.square(h @ w + x[:, i] @ w + b)
        return h

    values = [whole(2, 5, 3), whole(3, 3), whole(3), whole(2, 3)]
    program = staged(fun, *values)
    less = joined(program)
    assert operations(less).count("add") == 6
    values = [numpy.sign(x) for x in values]
    same(program, less, [x.astype("float32") for x in values])
    # Two steps of five, another row in one, and one that makes the result larger.
    for rows in ([0, 1], [0, 1, 2, 2, 2]):
        def other(x, w, b, c, rows=rows):
            products = [x[:, i] @ w for i in range(5)]
            return [np.sin(p) + (p + p) + (c if i in rows else b) for i, p in enumerate(products)]

        program = staged(other, values[0], values[1], values[2], values[2])
        same(program, dead_code(joined_products(program)), [*values[:3], values[2]])


def test_slices_of_a_long_array_that_are_few_stay():
    program = staged(lambda x, w: [x[i] @ w for i in range(4)], whole(20, 2, 3), whole(3, 2))
    assert joined_products(program) is program


def test_negative_and_repeated_places_count_once():
    values = [whole(4, 2, 3), whole(3, 2)]
    program = staged(lambda x, w: [x[i] @ w for i in (0, -4, 0, 1, -3)], *values)
    assert joined_products(program) is program
    program = staged(lambda x, w: [x[i] @ w for i in (-1, 0, 2, -1, 1)], *values)
    assert operations(joined(program)).count("matmul") == 1
    same(program, joined(program), values)


def test_slices_side_by_side_are_a_reshape():
    program = staged(lambda x: np.concatenate([x[:, i] for i in range(3)]), whole(2, 3, 4))
    less = dead_code(algebra(program))
    assert operations(less) == ["transpose", "reshape"]
    same(program, less, [whole(2, 3, 4)])
    for order in ((0, 2, 1), (0, 1), (0, 1, 2, 2)):
        program = staged(lambda x, o=order: np.concatenate([x[:, i] for i in o]), whole(2, 3, 4))
        assert algebra(program) is program


def test_the_gradient_of_a_loop_has_one_product_a_step_and_direction():
    steps = 6
    p = [whole(3, 5) / 8, whole(5, 5) / 8, whole(5) / 8]
    values = [p, whole(2, steps, 3) / 4]
    program = staged(ft.value_and_grad(recurrent), *values)
    less = optimized(program)
    # Forward one a step; backward one between two steps; three for all steps together.
    assert operations(less).count("matmul") == steps + steps - 1 + 3
    assert operations(program).count("matmul") == 2 * steps + 3 * steps - 1
    flat = [*p, values[1]]
    for got, wanted in zip(run(less, flat), run(program, flat), strict=True):
        close(got, wanted, 16)


@given(st.data())
def test_random_sums_of_products_are_exact(data):
    rows = st.integers(1, 3)
    kinds = data.draw(st.lists(st.sampled_from("pqsuc"), min_size=3, max_size=12))
    n = 3
    values = [whole(data.draw(rows), n, seed=i, dtype="float64") for i in range(len(kinds))]
    shared = data.draw(st.sets(st.integers(0, len(kinds) - 1), max_size=2))

    def fun(*xs):
        terms = []
        for kind, x in zip(kinds, xs, strict=True):
            terms.append(
                {
                    "p": lambda x=x: x.T @ x,
                    "q": lambda x=x: np.swapaxes(x, 0, 1) @ (x + 1),
                    "s": lambda x=x: np.broadcast_to(np.sum(x, axis=0), (n, n)),
                    "u": lambda x=x: x[0] * np.ones((n, n)),
                    "c": lambda x=x: numpy.ones((n, x.shape[0])) @ x,
                }[kind]()
            )
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total, [terms[i] for i in shared]

    program = staged(fun, *values)
    same(program, joined(program), values)
    same(program, optimized(program), values)


@pytest.mark.parametrize("bias", [False, True])
def test_slices_times_what_is_a_sum_of_products_itself(bias):
    x, a, b, h, row = (whole(*s) for s in ((6, 2, 3), (4, 3, 3), (4, 3, 5), (6, 2, 5), (5,)))

    def fun(x, a, b, h, row):
        w = a[0] @ b[0] + a[1] @ b[1] + a[2] @ b[2] + a[3] @ b[3]
        return [x[i] @ w + h[i] + row if bias else x[i] @ w + h[i] for i in range(6)]

    program = staged(fun, x, a, b, h, row)
    less = optimized(program)
    assert operations(less).count("matmul") == 2
    assert operations(less).count("add") == 6 + bias
    same(program, less, [x, a, b, h, row])


def test_a_loss_at_weights_moved_along_their_gradient():
    x, *p = [np.asarray(whole(*s) / 8) for s in ((2, 6, 3), (3, 5), (5, 5), (5,))]

    def ahead(p, x):
        slope = ft.grad(recurrent)(p, x)
        return recurrent([w + g for w, g in zip(p, slope, strict=True)], x)

    numpy.testing.assert_allclose(ft.jit(ahead)(p, x), ahead(p, x), rtol=1e-4)


def test_products_with_a_common_factor_are_one_in_kernels():
    x, y = numpy.linspace(-1, 1, 12).reshape(4, 3), numpy.array([0.0, 1.0, 1.0, 0.0])

    def loss(w, y):
        terms = np.maximum(x @ w, 0) - (x @ w) * y + np.log1p(np.exp(-np.abs(x @ w)))
        return np.mean(terms) + np.sum((x @ w) ** 2)

    slope, w = ft.grad(loss), numpy.array([0.5, -1.0, 2.0])
    forms = kernel_forms(optimized(ft.make_program(slope)(w, y)))
    # One forward, and one with the sum of all cotangents.
    assert [e.primitive.name for e in forms.equations].count("matmul") == 2
    numpy.testing.assert_allclose(forms.run([w, y])[0], slope(w, y), rtol=1e-12)


@pytest.mark.parametrize("dtypes", ["lb", "l?", "df", "lf", "ee"])
def test_products_whose_factors_have_few_bits_are_not_joined(dtypes):
    x = (numpy.arange(6).reshape(2, 3) * (0.01 if dtypes == "ee" else 1)).astype(dtypes[0])
    largest = {"b": 100, "?": 1, "f": 1 / 3, "e": 60000}[dtypes[1]]
    y = numpy.full((3, 4), largest).astype(dtypes[1])
    z = numpy.full((3, 4), largest / 3).astype(dtypes[1])

    def f(x, y, z):
        return x @ y + x @ z

    out = ft.jit(f).compile(x, y, z)(x, y, z)
    # A unit in the last place of float16, and a few of float64.
    rtol = 1e-3 if dtypes == "ee" else 1e-15
    numpy.testing.assert_allclose(out, x @ y + x @ z, rtol=rtol)


def test_a_product_that_is_used_again_stays():
    x, w, v = numpy.ones((2, 3)), numpy.ones((3, 4)), numpy.ones((3, 4))

    def f(w, v):
        first = x @ w
        return first + x @ v, first

    forms = kernel_forms(optimized(ft.make_program(f)(w, v)))
    assert [e.primitive.name for e in forms.equations].count("matmul") == 2
