"""Rarer dtypes, infinities and places between pixels: values are those of PyTorch 2.13."""

import numpy
import pytest

import functensor as ft
import functensor.torch as torch
from functensor.torch import nn
from functensor.torch.nn import functional as F

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
def test_powers_of_booleans_are_int64(wrap):
    found = wrap(lambda x: x**2)(torch.tensor([True, False]))
    assert found.dtype == torch.int64
    assert found.tolist() == [1, 0]
    assert (torch.tensor([True]) ** torch.tensor([2], dtype=torch.int16)).dtype == torch.int16


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32])
def test_integers_to_negative_powers_are_refused(dtype):
    with pytest.raises(RuntimeError, match="integers to negative powers"):
        torch.ones(2, dtype=dtype) ** -1


def test_logarithms_of_sums_of_complex_exponentials():
    a = torch.tensor([1 + 2j, -3 + 0.5j], dtype=torch.complex128, requires_grad=True)
    b = torch.tensor([0.5 - 1j, -3 + 0.5j], dtype=torch.complex128, requires_grad=True)
    found = torch.logaddexp(a, b)
    wanted = [0.10499301432446873 + 1.7889591478473275j, -2.3068528194400546 + 0.5j]
    assert found.tolist() == pytest.approx(wanted, rel=1e-14)
    (found.real.sum() + 2 * found.imag.sum()).backward()
    to_a = [3.418386529636726 + 4.2734429062001045j, 0.5 + 1j]
    assert a.grad.tolist() == pytest.approx(to_a, rel=1e-14)
    to_b = [-2.418386529636726 - 2.273442906200104j, 0.5 + 1j]
    assert b.grad.tolist() == pytest.approx(to_b, rel=1e-14)
    nothing = torch.tensor([complex(-INF, 0)])
    assert torch.logaddexp(nothing, nothing).tolist() == nothing.tolist()
    assert torch.logaddexp(nothing, torch.tensor([1j])).tolist() == [1j]
    assert torch.logaddexp(torch.tensor([1.0]), nothing).tolist() == [1]
    x = torch.tensor([1 + 2j, -3 + 0.5j, 0j], dtype=torch.complex128)
    total = 0.9151419802983605 + 1.6058485875248312j
    sums = [1 + 2j, 1.001461191194629 + 1.9817559060822776j, total]
    assert torch.logcumsumexp(x, 0).tolist() == pytest.approx(sums, rel=1e-14)
    assert torch.logsumexp(x, 0).item() == pytest.approx(total, rel=1e-14)
    assert x.logsumexp(0, keepdim=True).shape == (1,)


IMAGE = [[[[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]]]]
POINTS = [[-1.0, -1.0], [1.0, 0.5], [1.0, 1.0], [0.5, 0.25], [0.0, 0.5]]
# Samples, and the gradients of their sum by the points.
SAMPLES = {
    ("nearest", "zeros"): ([1, 32, 32, 32, 16], [[0, 0]] * 5),
    ("nearest", "border"): ([1, 32, 32, 32, 16], [[0, 0]] * 5),
    ("bilinear", "zeros"): (
        [1, 25, 32, 16.125, 12.5], [[1, 3.5], [-25, 14], [-32, -16], [10.75, 10.5], [12.5, 7]],
    ),
    ("bilinear", "border"): (
        [1, 25, 32, 16.125, 12.5], [[0, 0], [0, 14], [0, 0], [10.75, 10.5], [12.5, 7]],
    ),
    ("bilinear", "reflection"): (
        [1, 25, 32, 16.125, 12.5], [[0, 0], [0, 14], [0, 0], [10.75, 10.5], [12.5, 7]],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("mode", "padding"), SAMPLES)
def test_sampled_images_at_their_ends(mode, padding):
    grid = torch.tensor([[POINTS]], requires_grad=True)
    found = F.grid_sample(torch.tensor(IMAGE), grid, mode, padding, align_corners=True)
    found.sum().backward()
    values, gradients = SAMPLES[mode, padding]
    assert found.flatten().tolist() == values
    assert grid.grad[0, 0].tolist() == gradients


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
def test_images_are_sampled_at_nan(wrap):
    grid = torch.tensor([[[[NAN, 0.0], [0.0, NAN], [INF, 0.0]]]])
    for mode in ("nearest", "bilinear"):
        for padding, wanted in (("zeros", 0), ("border", 1)):

            def sample(image, grid, mode=mode, padding=padding):
                return F.grid_sample(image, grid, mode, padding, align_corners=True)

            with numpy.errstate(invalid="ignore"):
                found = wrap(sample)(torch.ones(1, 1, 2, 3), grid).flatten().tolist()
            if (mode, padding) == ("bilinear", "zeros"):
                wanted = NAN
            assert found == pytest.approx([wanted, wanted, wanted], nan_ok=True)


@pytest.mark.parametrize("norm", [torch.linalg.vector_norm, torch.norm])
def test_counts_of_elements_have_a_gradient_of_zeros(norm):
    x = torch.tensor([1.0, -2.0, 0.0, NAN], requires_grad=True)
    count = norm(x, 0)
    count.backward()
    assert count.item() == 3
    assert count.dtype == torch.float32
    assert x.grad.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("t0", "average"), [(0, 1.8625), (1e6, 1.8499425)])
def test_asgd_keeps_what_an_infinite_gradient_made_infinite(t0, average):
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.ASGD([p], lr=0.1, t0=t0)
    for g in ([0.5, 0.25], [INF, 1.0], [0.5, 0.25]):
        p.grad = torch.tensor(g)
        with numpy.errstate(invalid="ignore"):
            optimizer.step()
    assert p.tolist() == pytest.approx([-INF, 1.8499425], rel=1e-6)
    mean = optimizer.state[p]["ax"].tolist()
    assert mean == pytest.approx([NAN if t0 == 0 else -INF, average], rel=1e-4, nan_ok=True)


def test_the_logistic_function_of_complex_numbers():
    for name in ("complex64", "complex128"):
        dtype = getattr(torch, name)
        x = torch.tensor([1 - 2j, -3 + 0.5j, -800 + 1j, 800 + 1j], dtype=dtype, requires_grad=True)
        exact = 1 / (1 + numpy.exp(-numpy.array([1 - 2j, -3 + 0.5j])))
        tolerance = {"rtol": 1e-6 if name == "complex64" else 1e-14}
        for f in (torch.sigmoid, torch.special.expit, F.sigmoid, nn.Sigmoid()):
            found = f(x)
            assert found.dtype == dtype
            numpy.testing.assert_allclose(found[:2].detach().numpy(), exact, **tolerance)
            assert found[2:].tolist() == [0, 1]
        for f in (F.silu, nn.SiLU()):
            found = f(x)[:2].detach().numpy()
            numpy.testing.assert_allclose(found, exact * x[:2].detach().numpy(), **tolerance)
        torch.sigmoid(x).real.sum().backward()
        slopes = numpy.conj(exact * (1 - exact))
        numpy.testing.assert_allclose(x.grad[:2].numpy(), slopes, rtol=2 * tolerance["rtol"])


def test_functions_of_no_elements():
    nothing = torch.tensor([], requires_grad=True)
    for f in (torch.median, torch.nanmedian):
        found = f(nothing)
        assert found.item() != found.item()
        found.backward()
        assert nothing.grad.shape == (0,)
    assert torch.unique_consecutive(nothing).tolist() == []
    values, inverse, counts = torch.unique_consecutive(torch.zeros(2, 0), True, True)
    assert (values.tolist(), inverse.shape, counts.tolist()) == ([], (2, 0), [])
    assert torch.histc(nothing.detach(), 4).tolist() == [0, 0, 0, 0]


def test_functions_of_tensors_without_axes():
    one = torch.tensor(3.0)
    assert one.nonzero().shape == torch.nonzero(one).shape == (1, 0)
    assert one.argsort().tolist() == torch.argsort(one).tolist() == 0
    assert one.argsort().dtype == torch.int64


def test_rarer_arguments_of_counts_and_places():
    found = torch.repeat_interleave(torch.tensor([1, 0, 2]))
    assert isinstance(found, torch.Tensor)
    assert (found.tolist(), found.dtype) == ([0, 2, 2], torch.int64)
    places = torch.unravel_index(torch.tensor([1, 7], dtype=torch.uint8), (5, 300))
    assert [x.tolist() for x in places] == [[0, 0], [1, 7]]
    assert {x.dtype for x in places} == {torch.int64}
    counts, edges = torch.histogram(torch.tensor([0.0, 1.0]))
    assert (counts.shape, edges.shape, counts.sum().item()) == ((100,), (101,), 2)
    x = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    assert torch.isin(x, torch.tensor([2, 3])).tolist() == [False, True]
    assert torch.isin(x, 1).tolist() == [True, False]


def test_ranges_have_the_precision_of_their_dtype():
    for bounds in ((0, 1, 0.1), (torch.tensor(0.1, dtype=torch.float64), 1, 0.3)):
        found = torch.arange(*bounds, dtype=torch.float64)
        assert found.tolist() == numpy.arange(*map(float, bounds)).tolist()
        assert torch.arange(*bounds).dtype == torch.float32
    large = torch.arange(2.0**24 + 1, 2**24 + 4, dtype=torch.int64)
    assert large.tolist() == [16777217, 16777218, 16777219]
    assert torch.arange(3).dtype == torch.int64


def test_the_nuclear_norm_by_norm():
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0]], dtype=torch.float64, requires_grad=True)
    wanted = numpy.linalg.norm(x.detach().numpy(), "nuc")
    assert torch.norm(x, "nuc").item() == pytest.approx(wanted, rel=1e-14)
    assert x.norm(p="nuc").item() == pytest.approx(wanted, rel=1e-14)
    stack = torch.stack([x, 2 * x])
    found = torch.norm(stack, "nuc", dim=(1, 2), keepdim=True)
    assert found.shape == (2, 1, 1)
    assert found.flatten().tolist() == pytest.approx([wanted, 2 * wanted], rel=1e-14)
