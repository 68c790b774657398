"""Losses, pools and functions of halves at ties, zeros and infinities, as PyTorch 2.13 has them."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
import functensor.torch as torch
from functensor.torch.nn import functional as F

INF, NAN = float("inf"), float("nan")
HALVES = [torch.float16, torch.bfloat16]


def gradient(f, values, dtype=torch.float32):
    x = torch.tensor(values, dtype=dtype, requires_grad=True)
    f(x).sum().backward()
    return x.grad.tolist()


def pooled(pool, *arguments):
    return lambda x: pool(x.reshape(1, 1, *x.shape), *arguments)


# A function, an argument, and PyTorch's gradient of its sum.
GRADIENTS = [
    (pooled(F.adaptive_max_pool1d, 2), [0.0, 0.0, 0.0, 0.0], [1, 0, 1, 0]),
    (pooled(F.adaptive_max_pool1d, 3), [0.0, 0.0, 0.0, 0.0], [1, 1, 1, 0]),
    (pooled(F.adaptive_max_pool2d, 1), [[0.0, 0.0], [0.0, 0.0]], [[1, 0], [0, 0]]),
    (pooled(F.adaptive_max_pool2d, (None, 1)), [[0.0, 0.0], [0.0, 0.0]], [[1, 0], [1, 0]]),
    (pooled(F.lp_pool1d, 2, 2), [0.0, 0.0], [0, 0]),
    (lambda x: torch.nanmedian(x), [0.0, 0.0, NAN, 0.0], [1 / 3, 1 / 3, 0, 1 / 3]),
    (lambda x: F.smooth_l1_loss(x, torch.zeros(2), "sum"), [INF, -INF], [1, -1]),
    (lambda x: F.huber_loss(x, torch.zeros(2), "sum"), [INF, -INF], [1, -1]),
    (lambda x: F.hinge_embedding_loss(x, -torch.ones(1)), [1.0], [-1]),
    (lambda x: F.multi_margin_loss(x, torch.tensor([1]), margin=0.0), [[0.0, 0.0]], [[0, 0]]),
    (lambda x: F.binary_cross_entropy(x, torch.ones(1)), [1e-30], [-1e12]),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(GRADIENTS)))
def test_gradients(case):
    f, values, wanted = GRADIENTS[case]
    numpy.testing.assert_allclose(gradient(f, values), wanted, rtol=1e-6)


def test_errors_of_zero_have_a_second_derivative():
    zero = torch.zeros(1)
    for loss in (F.smooth_l1_loss, F.huber_loss):
        x = torch.zeros(1, requires_grad=True)
        (slope,) = torch.autograd.grad(loss(x, zero), x, create_graph=True)
        assert torch.autograd.grad(slope, x)[0].tolist() == [1]
    assert ft.grad(ft.grad(lambda x: ft.nn.huber(x, 0.0)))(0.0) == 1
    found = [ft.grad(lambda x: ft.nn.huber(x, 0.0))(x) for x in (-2.0, -1.0, 0.5, 1.0, 2.0)]
    assert found == [-1, -1, 0.5, 1, 1]


def test_the_slope_of_logit_is_infinite_at_the_ends():
    with numpy.errstate(divide="ignore", invalid="ignore"):
        assert gradient(torch.logit, [0.0, 0.5, 1.0]) == [INF, 4, INF]


def test_each_norm_of_a_cosine_has_its_own_limit():
    x, y = torch.tensor([[1e-8, 1e-8]]), torch.tensor([[1e-8, 0.0]])
    assert F.cosine_similarity(x, y).item() == pytest.approx(0.5**0.5, rel=1e-6)
    loss = F.cosine_embedding_loss(x, y, torch.tensor([1]))
    assert loss.item() == pytest.approx(0.9999, rel=1e-6)
    large = torch.full((1, 2), 300.0, dtype=torch.float16)
    assert F.cosine_similarity(large, large).item() == pytest.approx(1, rel=1e-3)


def test_nan_is_not_hidden_by_limits_and_targets():
    assert numpy.isnan(F.threshold(torch.tensor([NAN]), 0.5, 3.0).item())
    for target in (NAN, -0.5):
        assert numpy.isnan(F.kl_div(torch.tensor([-1.0]), torch.tensor([target])).item())
    assert F.kl_div(torch.tensor([-1.0]), torch.tensor([0.0])).item() == 0


def test_the_angle_of_a_negative_zero():
    assert torch.angle(torch.tensor([-0.0, 0.0, 1.0])).tolist() == [0, 0, 0]
    assert torch.angle(torch.tensor([-1.0])).item() == pytest.approx(numpy.pi)
    assert numpy.isnan(torch.angle(torch.tensor([NAN])).item())


def test_losses_in_half_precision():
    half = torch.float16
    losses = F.binary_cross_entropy(
        torch.tensor([0.0, 1.0, 0.5], dtype=half), torch.ones(3, dtype=half), reduction="none"
    )
    numpy.testing.assert_allclose(losses.tolist(), [100, 0, 0.6931], rtol=1e-3)
    near, far = torch.zeros(1, 2, dtype=half), torch.tensor([[0.5, 0.0]], dtype=half)
    found = gradient(lambda x: F.triplet_margin_loss(x, near, far), [[0.0, 0.0]], half)
    numpy.testing.assert_allclose(found, [[1.709, 0.7085]], rtol=1e-4)


def test_directions_of_short_vectors_in_half_precision():
    short = np.array([1e-6, 1e-6], "float16")
    numpy.testing.assert_allclose(ft.grad(np.linalg.norm)(short), [0.7071] * 2, rtol=0.05)
    assert ft.grad(np.linalg.norm)(np.zeros(2, "float16")).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", HALVES)
def test_dtypes_of_halves(dtype):
    x, counts = torch.ones(2, dtype=dtype), torch.tensor([3, 2])
    assert torch.ldexp(x, counts).dtype == dtype
    assert torch.ldexp(x[0], counts[0]).dtype == dtype
    assert torch.special.xlog1py(x, x).dtype == dtype
    # The number that is added is that of single precision.
    tiny = torch.full((2,), 1e-3, dtype=dtype)
    found = F.rms_norm(tiny, (2,))
    assert found.dtype == dtype
    numpy.testing.assert_allclose(found.tolist(), [0.9453] * 2, rtol=1e-2)


def test_laws_at_the_ends_of_their_support():
    laws, ends = torch.distributions, torch.tensor([0.0, 0.5, 1.0])
    assert laws.Uniform(0.0, 1.0).log_prob(ends).tolist() == [0, 0, -INF]
    relaxed = laws.RelaxedBernoulli(torch.tensor(0.7), torch.tensor(0.3))
    found = relaxed.log_prob(ends)
    numpy.testing.assert_allclose(found.tolist(), [26.6916, -0.531, 3.5787], rtol=1e-4)
    assert gradient(relaxed.log_prob, [0.0, 1.0]) == [0, 0]


def test_divergences_from_certain_outcomes():
    laws, certain = torch.distributions, torch.tensor([0.0, 1.0, 1.0, 0.0])
    chances = torch.tensor([0.3, 0.3, 1.0, 0.0])
    found = laws.kl_divergence(laws.Bernoulli(chances), laws.Bernoulli(certain))
    numpy.testing.assert_allclose(found.tolist(), [INF, INF, 0, 0], atol=1e-5)
    found = laws.kl_divergence(laws.Binomial(3, chances), laws.Binomial(3, certain))
    numpy.testing.assert_allclose(found.tolist(), [INF, INF, 0, 0], atol=1e-5)
