"""Values and gradients at the edges of domains, as PyTorch 2.13 gives them unless said."""

import numpy
import pytest

import functensor as ft
import functensor.torch as torch
from functensor.torch import nn
from functensor.torch.nn import functional as F


def gradient(f, values):
    x = torch.tensor(values, requires_grad=True)
    f(x).sum().backward()
    return x.grad.tolist()


INF, NAN = float("inf"), float("nan")

# A function, an argument, and PyTorch's gradient of its sum.
GRADIENTS = [
    (lambda x: x.clamp(0, 1), [0.0, 1.0, 2.0], [1, 1, 0]),
    (lambda x: x.clamp(min=0), [0.0, -1.0], [1, 0]),
    (F.relu6, [0.0, 3.0, 6.0], [0, 1, 0]),
    (F.hardswish, [-3.0, 3.0, 4.0], [0, 1, 1]),
    (lambda x: x.max(0).values, [0.0, 0.0, 0.0], [1, 0, 0]),
    (lambda x: x.min(0).values, [0.0, 0.0], [1, 0]),
    *((f, [-1.5, 0.0, 0.7], [0, 0, 0]) for f in (
        torch.round, torch.floor, torch.ceil, torch.trunc, torch.fix, torch.sign, torch.sgn,
        lambda x: x.round(decimals=1), lambda x: (1 * x).floor_(), lambda x: x.detach() + x.trunc(),
        lambda x: torch.div(x, 0.7, rounding_mode="floor"),
        lambda x: torch.div(2.0, x + 2, rounding_mode="trunc"),
    )),
    (lambda x: torch.fmax(x, torch.tensor([1.0, 1.0, NAN])), [1.0, 2.0, 1.0], [1, 1, 1]),
    (lambda x: torch.fmax(x, torch.tensor([1.0])), [NAN, 0.5, 1.0], [0, 0, 1]),
    (lambda x: torch.fmin(torch.tensor([1.0, 1.0, NAN]), x), [1.0, 2.0, 1.0], [0, 0, 1]),
    (lambda x: F.margin_ranking_loss(x, torch.zeros(2), torch.ones(2)), [0.0, 0.0], [-0.5, -0.5]),
]


@pytest.mark.parametrize("case", range(len(GRADIENTS)))
def test_gradients_at_ties_and_limits(case):
    f, values, wanted = GRADIENTS[case]
    assert gradient(f, values) == wanted


def test_flat_steps_give_zeros_to_all_operands():
    x = torch.tensor([[1.0], [2.0]], requires_grad=True)
    y = torch.tensor([0.5, 0.3, 0.2], requires_grad=True)
    torch.div(x, y, rounding_mode="floor").sum().backward()
    assert x.grad.tolist() == [[0], [0]]
    assert y.grad.tolist() == [0, 0, 0]
    (g,) = torch.autograd.grad((x.floor() * x).sum(), x, create_graph=True)
    assert g.tolist() == [[1], [2]]
    (again,) = torch.autograd.grad(g.sum(), x)
    assert again.tolist() == [[0], [0]]


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "f",
    [
        torch.linalg.cholesky, torch.cholesky, lambda a: torch.cholesky(a, upper=True),
        lambda a: torch.linalg.cholesky_ex(a).L, lambda a: torch.linalg.cholesky(a, upper=True),
        torch.linalg.eigvalsh, lambda a: torch.linalg.eigvalsh(a, UPLO="U"),
        lambda a: torch.linalg.eigh(a)[1].abs(),
        lambda a: torch.distributions.MultivariateNormal(torch.zeros(2), a).scale_tril,
    ],
)  # fmt: skip
def test_both_triangles_of_a_matrix_have_their_half_of_a_gradient(f, wrap):
    a = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=torch.float64, requires_grad=True)

    def loss(a):
        found = f(a)
        return (found * torch.arange(1.0, 1 + found.numel()).reshape(found.shape)).sum()

    value = wrap(loss)(a)
    value.backward()
    step = 1e-6
    moved = a.detach() + step * torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    with torch.no_grad():
        assert a.grad[0, 1] == a.grad[1, 0] != 0
        change = (loss(moved) - value).item() / step
        assert 2 * a.grad[0, 1].item() == pytest.approx(change, rel=1e-4)
        # Values are those of one triangle, as before.
        assert value.item() == loss(a.detach()).item()


@pytest.mark.parametrize("unread", [7.0, NAN, INF, 1e30])
@pytest.mark.parametrize("upper", [False, True])
def test_the_other_triangle_is_not_read(upper, unread):
    good = torch.tensor([[4.0, 1.0], [1.0, 3.0]], requires_grad=True)
    values = torch.tensor([[4.0, 1.0], [unread, 3.0]])
    a = (values if upper else values.mT).clone().requires_grad_()
    for f in (
        lambda x: torch.linalg.cholesky(x, upper=upper),
        lambda x: torch.linalg.eigvalsh(x, UPLO="LU"[upper]),
    ):
        a.grad = good.grad = None
        found, wanted = f(a), f(good)
        assert found.tolist() == wanted.tolist()
        (found * torch.arange(2.0)).sum().backward()
        (wanted * torch.arange(2.0)).sum().backward()
        assert a.grad.tolist() == good.grad.tolist()
        assert a.grad[0, 1] == a.grad[1, 0] != 0


def test_complex_numbers_keep_infinities_and_signs_of_zeros():
    real = torch.tensor([INF, 1.0, -0.0, NAN, -INF])
    imag = torch.tensor([INF, -INF, -0.0, INF, NAN])
    jitted = ft.jit(torch.complex)
    jitted.compile(real, imag)
    pairs = torch.stack([real, imag], -1)
    for z in (torch.complex(real, imag), jitted(real, imag), torch.view_as_complex(pairs)):
        assert z.dtype == torch.complex64
        assert torch.complex(real.double(), imag.double()).dtype == torch.complex128
        for part, wanted in ((z.real, real), (z.imag, imag)):
            numpy.testing.assert_array_equal(part.numpy(), wanted.numpy())
            assert torch.signbit(part).tolist() == torch.signbit(wanted).tolist()


def test_parts_of_complex_numbers_are_real():
    """An imaginary part of theirs would be lost."""
    for real, imag in ((1j, 1.0), (1.0, 1j)):
        with pytest.raises(TypeError, match="imaginary parts, which are real"):
            torch.complex(torch.tensor([real]), torch.tensor([imag]))


def test_parts_are_assigned():
    x = torch.tensor([1 + 2j, 3.0], requires_grad=True)
    part = torch.tensor([INF, 2.0], requires_grad=True)
    z = x * 1
    z.real = part
    assert z.tolist() == [complex(INF, 2), 2]
    (z.real * 2 + z.imag * 3).sum().backward()
    assert x.grad.tolist() == [3j, 3j]
    assert part.grad.tolist() == [2, 2]
    z = torch.ones(2, dtype=torch.complex64)
    z[1:].imag = 5
    assert z.tolist() == [1, 1 + 5j]
    real = torch.ones(2)
    real.real = torch.tensor([5.0, 6.0])
    assert real.tolist() == [5, 6]
    with pytest.raises(RuntimeError, match=r"x\.imag = y of a tensor of float32"):
        real.imag = torch.ones(2)


@pytest.mark.parametrize("name", ["div_", "divide_"])
def test_quotients_in_place_are_rounded(name):
    for mode, wanted in (("floor", [8, -18]), ("trunc", [8, -17]), (None, [8.75, -17.5])):
        x = torch.tensor([3.5, -7.0], requires_grad=True)
        y = x * 2
        assert getattr(y, name)(torch.tensor(0.8), rounding_mode=mode) is y
        numpy.testing.assert_allclose(y.detach(), wanted, rtol=1e-6)
        y.sum().backward()
        numpy.testing.assert_allclose(x.grad, 2.5 if mode is None else 0, rtol=1e-6)
    whole = torch.tensor([7, -7])
    assert getattr(whole, name)(2, rounding_mode="floor").tolist() == [3, -4]
    with pytest.raises(ValueError, match="rounding_mode is None, 'trunc' or 'floor', not 'up'"):
        getattr(whole, name)(2, rounding_mode="up")


def test_the_spherical_bessel_function_ends_at_zero():
    f = torch.special.spherical_bessel_j0
    assert f(torch.tensor([INF, -INF, 0.0])).tolist() == [0, 0, 1]
    assert f(torch.tensor([1.0], dtype=torch.float16)).dtype == torch.float16
    assert gradient(f, [INF, -INF, 0.0]) == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_sign_of_no_number_is_zero(dtype):
    x = torch.tensor([NAN, -2.0, INF, -0.0], dtype=dtype)
    for sign in (torch.sign, torch.sgn, torch.Tensor.sign, torch.Tensor.sign_):
        found = sign(x.clone())
        assert found.dtype == dtype
        assert found.float().tolist() == [0, -1, 1, 0]


def test_cross_entropy_of_probabilities_zero_and_one():
    right = torch.tensor([0.0, 1.0, 1.0])
    found = gradient(lambda x: F.binary_cross_entropy(x, right), [0.0, 1.0, 0.5])
    # The derivatives as they are; PyTorch has 0 at both ends.
    numpy.testing.assert_allclose(found, [1 / 3, -1 / 3, -2 / 3], rtol=1e-6)
    wrong = torch.tensor([1.0, 0.0])
    found = gradient(lambda x: F.binary_cross_entropy(x, wrong), [0.0, 1.0])
    numpy.testing.assert_allclose(found, [-5e11, 5e11], rtol=1e-6)


def test_rows_that_do_not_count_may_be_infinite():
    x = torch.tensor([[-INF, 0.0], [1.0, 2.0]], requires_grad=True)
    loss = F.cross_entropy(x, torch.tensor([0, 1]), ignore_index=0)
    loss.backward()
    assert loss.item() == pytest.approx(0.31326, rel=1e-4)
    assert x.grad[0].tolist() == [0, 0]
    y = torch.ones(2, 3, requires_grad=True)
    with pytest.warns(RuntimeWarning, match="invalid value"):
        F.cross_entropy(y, torch.tensor([1, 1]), ignore_index=1).backward()
    assert y.grad.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_nan_is_not_hidden():
    assert numpy.isnan(F.hardshrink(torch.tensor([NAN])).item())
    assert numpy.isnan(F.softshrink(torch.tensor([NAN])).item())


def test_dtypes_of_small_and_unsigned_integers():
    small = torch.tensor([3, 20], dtype=torch.uint8)
    for total in (small.sum(), torch.cumsum(small, 0), torch.prod(small), small.sum(0)):
        assert total.dtype == torch.int64
    assert (small.sum() - 30).item() == -7
    assert small.exp().dtype == torch.float32
    assert small.exp()[1].item() == pytest.approx(4.85165195e8)
    assert torch.sqrt(torch.tensor([True])).dtype == torch.float32


def test_dtypes_of_mixed_kinds():
    single, double = torch.ones(2), torch.ones(2, dtype=torch.float64)
    assert torch.cat([single, torch.arange(2)]).dtype == torch.float32
    assert torch.stack([single, torch.arange(2)]).dtype == torch.float32
    assert torch.cat([torch.arange(2), double]).dtype == torch.float64
    assert (double * torch.ones(2, dtype=torch.complex64)).dtype == torch.complex128
    assert (single * torch.ones(2, dtype=torch.complex64)).dtype == torch.complex64


def test_an_empty_batch_leaves_statistics():
    layer = nn.BatchNorm1d(3)
    layer(torch.zeros(0, 3))
    assert layer.running_mean.tolist() == [0, 0, 0]
    assert layer.running_var.tolist() == [1, 1, 1]


def test_backward_hooks_of_a_first_layer():
    layer, seen = nn.Linear(2, 3), []
    layer.register_full_backward_hook(lambda m, by_in, by_out: seen.append((by_in, len(by_out))))
    layer(torch.ones(2)).sum().backward()
    assert seen == [((None,), 1)]
    assert layer.weight.grad.tolist() == [[1, 1]] * 3


def test_draws_within_vmap():
    x = torch.zeros(3, 9)
    with pytest.raises(RuntimeError, match="within vmap, the same ones for all examples"):
        ft.vmap(lambda x: x + torch.rand(9))(x)
    same = torch.func.vmap(lambda x: x + torch.rand(9), randomness="same")(x)
    assert torch.equal(same[0], same[2])
    apart = torch.func.vmap(lambda x: x + torch.rand(9), randomness="different")(x)
    assert not torch.equal(apart[0], apart[2])
    with pytest.raises(ValueError, match="not 'some'"):
        torch.func.vmap(lambda x: x, randomness="some")


def test_recording_is_switched_at_once():
    x = torch.ones(2, requires_grad=True)
    try:
        torch.set_grad_enabled(False)
        assert not (x * 2).requires_grad
    finally:
        torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()

    @torch.set_grad_enabled(False)
    def doubled(x):
        return x * 2

    assert torch.is_grad_enabled()
    assert not doubled(x).requires_grad


def test_relu_in_place():
    x = torch.tensor([-1.0, 2.0])
    assert F.relu(x, inplace=True) is x
    assert x.tolist() == [0, 2]


def test_the_last_offset_of_bags_may_be_their_end():
    table = torch.tensor([[1.0], [2.0], [4.0]])
    numbers, starts = torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 3])
    bags = torch.nn.functional.embedding_bag(numbers, table, starts, include_last_offset=True)
    assert bags.tolist() == [[1.0], [3.0]]


def test_gradients_of_rows_are_divided_by_how_often_they_are_taken():
    table = torch.ones(3, 1, requires_grad=True)
    numbers = torch.tensor([0, 1, 1, 1])
    torch.nn.functional.embedding(numbers, table, scale_grad_by_freq=True).sum().backward()
    assert table.grad.tolist() == [[1.0], [1.0], [0.0]]


# Items of a list, and the dtype of a tensor of them.
MIXED = [
    ([torch.tensor(1.0), 2], torch.float32),
    ([torch.tensor(1), 2.5], torch.float32),
    ([[torch.tensor(1.0)], [2]], torch.float32),
    ([torch.tensor(1.0, dtype=torch.float16), 2], torch.float16),
    ([torch.tensor(1.0, dtype=torch.float64), torch.tensor(2.0)], torch.float64),
    ([torch.tensor(1.0), 1j], torch.complex64),
    ([1.5, torch.tensor(1)], torch.float32),
    ([True, torch.tensor(1, dtype=torch.int8)], torch.int8),
    ([numpy.float32(1), 2], torch.float32),
    ([numpy.float64(1), 2.0], torch.float64),
    ([numpy.int8(1), 2.5], torch.float32),
    ([[], []], torch.float32),
    ([1, True], torch.int64),
]


@pytest.mark.parametrize("case", range(len(MIXED)))
def test_dtypes_of_lists_of_numbers_and_tensors(case):
    items, dtype = MIXED[case]
    assert torch.tensor(items).dtype == dtype


def test_integers_without_axes_do_not_widen_others():
    numbers = {name: torch.tensor(3, dtype=getattr(torch, name)) for name in ("int8", "int32")}
    small = torch.tensor([1, 2], dtype=torch.uint8)
    for number in numbers.values():
        for found in (small + number, number * small, torch.maximum(small, number)):
            assert found.dtype == torch.uint8
        assert torch.where(small > 1, small, number).dtype == torch.uint8
        assert torch.result_type(small, number) == torch.uint8
    assert (torch.tensor([1], dtype=torch.int16) + numbers["int32"]).dtype == torch.int16
    assert (small[0] + numbers["int32"]).dtype == torch.int32
    assert (small.float() + numbers["int32"]).dtype == torch.float32
    # Indices are of another dtype than what they are indices of.
    assert small.index_add(0, torch.tensor([0]), small[:1]).dtype == torch.uint8


def test_halves_beside_integers_stay_halves():
    half, whole = torch.ones(2, dtype=torch.float16), torch.tensor([1, 2])
    assert torch.xlogy(half, whole).dtype == torch.float16
    assert torch.xlogy(whole, half).dtype == torch.float16
    assert torch.xlogy(half, torch.tensor(2.0)).dtype == torch.float16


def test_medians_along_an_axis_show_nan():
    x = torch.tensor([[1.0, NAN, 3.0], [3.0, 1.0, 2.0]])
    values, places = torch.median(x, 1)
    numpy.testing.assert_array_equal(values, [NAN, 2.0])
    assert places.tolist() == [1, 2]
    assert x.median(1, keepdim=True).indices.tolist() == [[1], [2]]
    y = torch.tensor([[3.0, 2.0], [1.0, 4.0]], requires_grad=True)
    y.median(0).values.sum().backward()
    assert y.grad.tolist() == [[0, 1], [1, 0]]


def test_each_nan_is_unique():
    found, counts = torch.unique(torch.tensor([1.0, NAN, NAN, 1.0]), return_counts=True)
    numpy.testing.assert_array_equal(found, [1.0, NAN, NAN])
    assert counts.tolist() == [2, 1, 1]


def test_poisson_has_the_dtype_of_the_means():
    assert torch.poisson(torch.ones(2)).dtype == torch.float32
    assert torch.poisson(torch.ones(2, dtype=torch.float64)).dtype == torch.float64


def test_variances_of_halves_do_not_overflow():
    x = torch.tensor([[300.0], [-300.0]], dtype=torch.float16)
    assert F.batch_norm(x, None, None, training=True).tolist() == [[1], [-1]]
    assert F.batch_norm(x, None, None, training=True).dtype == torch.float16
    layer = nn.BatchNorm1d(1).half()
    assert layer(x).tolist() == [[1], [-1]]
    assert layer.running_mean.dtype == layer.running_var.dtype == torch.float16
    assert F.instance_norm(x.reshape(1, 1, 2)).tolist() == [[[1, -1]]]
    found, statistics = ft.nn.batch_norm(numpy.array([[300.0], [-300.0]], "float16"))
    assert found.tolist() == [[1], [-1]]
    assert {found.dtype, *(each.dtype for each in statistics)} == {numpy.dtype("float16")}


def test_histograms_of_matrices_are_weighted():
    x, weight = torch.tensor([[0.5, 1.5], [0.2, 1.0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = torch.histogram(x, torch.tensor([0.0, 1.0, 2.0]), weight=weight)
    assert found.hist.tolist() == [4, 6]


def test_parts_of_singular_value_decompositions_have_names():
    x = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    for found in (torch.svd(x), x.svd()):
        assert found.S.tolist() == [2, 1]
        numpy.testing.assert_allclose(found.U @ torch.diag(found.S) @ found.V.mT, x, atol=1e-6)


def test_complex_numbers_are_drawn_in_both_parts():
    torch.manual_seed(0)
    x = torch.zeros(20_000, dtype=torch.complex64)
    for part in (x.normal_(3, 2).real, x.imag):
        assert part.mean().item() == pytest.approx(3, abs=0.05)
        assert part.var().item() == pytest.approx(2, abs=0.1)
    for part in (x.uniform_(1, 3).real, x.imag):
        assert part.min().item() >= 1
        assert part.max().item() < 3
        assert part.mean().item() == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("bool", 1), ("uint8", 255), ("int16", 2**15 - 1), ("int32", 2**31 - 1),
        ("int64", 2**63 - 1), ("float16", 2**11), ("bfloat16", 2**8), ("float32", 2**24),
    ],
)  # fmt: skip
def test_random_integers_are_those_that_the_dtype_has(name, most):
    torch.manual_seed(0)
    found = torch.zeros(4000, dtype=getattr(torch, name)).random_().double()
    assert 0.99 * most < found.max().item() <= most
    assert found.min().item() < 0.01 * most + 1
    assert found.mean().item() == pytest.approx(most / 2, rel=0.05)


@pytest.mark.parametrize("spacing", [1, 2.0])
def test_central_differences_do_not_look_at_the_middle(spacing):
    x = torch.tensor([1.0, NAN, 3.0, INF, 7.0], requires_grad=True)
    (found,) = torch.gradient(x, spacing=spacing)
    numpy.testing.assert_array_equal(found.detach().numpy() * spacing, [NAN, 1, NAN, 2, -INF])


def test_what_distributions_tell_of_themselves_are_tensors():
    one = torch.ones(2)
    laws = torch.distributions
    for law in (laws.Exponential(one), laws.HalfNormal(one), laws.HalfCauchy(one),
                laws.Geometric(one / 2), laws.Independent(laws.HalfNormal(one), 1)):  # fmt: skip
        assert isinstance(law.mode, torch.Tensor)
        assert law.mode.tolist() == [0, 0]
    none = laws.transforms.ComposeTransform([])
    assert isinstance(none.log_abs_det_jacobian(one, one), torch.Tensor)
