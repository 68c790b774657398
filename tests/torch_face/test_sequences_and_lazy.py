"""Packed sequences give what each sequence gives alone; lazy modules what plain ones give."""

import numpy as np
import pytest

import functensor.torch as torch
from functensor.torch import nn
from functensor.torch.nn.utils import rnn

LENGTHS = (2, 5, 3)


def sequences():
    torch.manual_seed(3)
    return [torch.randn(n, 4, requires_grad=True) for n in LENGTHS]


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("both", [False, True])
def test_packed_sequences_give_what_each_gives_alone(kind, both):
    module = kind(4, 3, num_layers=2, bidirectional=both)
    xs = sequences()
    alone = [module(x) for x in xs]
    packed, last = module(rnn.pack_sequence(xs, enforce_sorted=False))
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True)
    assert lengths.tolist() == list(LENGTHS)
    for i, (out, end) in enumerate(alone):
        np.testing.assert_allclose(padded[i, : LENGTHS[i]].detach(), out.detach(), atol=1e-6)
        assert not padded[i, LENGTHS[i] :].detach().abs().sum().item()
        for ours, own in zip(pairs(last), pairs(end)):
            np.testing.assert_allclose(ours[:, i].detach(), own.detach(), atol=1e-6)
    first = torch.autograd.grad(padded.sin().sum(), xs)
    second = torch.autograd.grad(sum(out.sin().sum() for out, _ in alone), xs)
    for a, b in zip(first, second):
        np.testing.assert_allclose(a, b, atol=1e-6)


def pairs(states):
    """Returns states as a tuple, which those of LSTM are."""
    return states if isinstance(states, tuple) else (states,)


def test_packed_states_come_in_the_order_of_the_sequences():
    module = nn.GRU(4, 3)
    xs = sequences()
    begin = torch.randn(1, 3, 3)
    packed = rnn.pack_sequence(xs, enforce_sorted=False)
    _, last = module(packed, begin)
    for i, x in enumerate(xs):
        np.testing.assert_allclose(
            last[:, i].detach(), module(x, begin[:, i])[1].detach(), atol=1e-6
        )


def test_lengths_that_rise_are_an_error():
    with pytest.raises(RuntimeError, match="enforce_sorted=False"):
        rnn.pack_padded_sequence(torch.ones(3, 2, 1), [1, 3])
    with pytest.raises(RuntimeError, match="positive"):
        rnn.pack_padded_sequence(torch.ones(3, 2, 1), [3, 0])


@pytest.mark.parametrize(
    ("lazy", "plain", "shape"),
    [
        (lambda: nn.LazyLinear(3), lambda: nn.Linear(5, 3), (2, 5)),
        (lambda: nn.LazyConv1d(3, 2), lambda: nn.Conv1d(5, 3, 2), (2, 5, 4)),
        (lambda: nn.LazyConv2d(3, 2, bias=False), lambda: nn.Conv2d(5, 3, 2, bias=False),
         (2, 5, 4, 4)),
        (lambda: nn.LazyConvTranspose1d(3, 2), lambda: nn.ConvTranspose1d(5, 3, 2), (2, 5, 4)),
        (lambda: nn.LazyBatchNorm1d(), lambda: nn.BatchNorm1d(5), (3, 5)),
        (lambda: nn.LazyInstanceNorm1d(), lambda: nn.InstanceNorm1d(5), (2, 5, 4)),
    ],
)  # fmt: skip
def test_lazy_modules_learn_the_number_of_their_inputs(lazy, plain, shape):
    x = torch.randn(*shape)
    torch.manual_seed(0)
    module = nn.Sequential(lazy())
    seen = []
    module[0].register_forward_hook(lambda *_: seen.append(1))
    assert list(module.parameters()) == []
    first = module(x)
    torch.manual_seed(0)
    own = plain()
    np.testing.assert_array_equal(first.detach(), own(x).detach())
    assert list(module[0].state_dict()) == list(own.state_dict())
    assert seen == [1]
    module(x)
    assert repr(module[0]) == f"Lazy{own!r}"


def test_data_parallel_is_the_module_itself():
    inner = nn.Linear(2, 1)
    outer = nn.DataParallel(inner)
    x = torch.ones(3, 2)
    assert (outer(x) == inner(x)).all()
    assert list(outer.state_dict()) == ["module.weight", "module.bias"]
    with pytest.raises(ValueError, match="one device"):
        nn.DataParallel(inner, [0, 1])


def test_gradients_are_clipped_by_a_known_norm():
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    (x * x / 2).sum().backward()
    total = nn.utils.get_total_norm([x.grad])
    nn.utils.clip_grads_with_norm_([x], 1.0, total)
    np.testing.assert_allclose(x.grad, [0.6, 0.8], rtol=1e-5)


def test_shapes_change_in_place():
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 2
    assert y.unsqueeze_(0) is y
    assert y.shape == (1, 2, 3)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad, np.full((2, 3), 2))
    with pytest.raises(RuntimeError, match="leaf"):
        x.squeeze_()
    z = torch.ones(2, 3)
    view = z[0]
    z.t_()[0, 0] = 5.0
    assert (z.shape, view.shape, view.tolist()) == ((3, 2), (3,), [5.0, 1.0, 1.0])


def test_settings_are_those_of_the_library():
    assert torch.get_float32_matmul_precision() == "highest"
    try:
        torch.set_float32_matmul_precision("high")
        assert torch.get_float32_matmul_precision() == "high"
        torch.use_deterministic_algorithms(True)
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.use_deterministic_algorithms(False)
    with pytest.raises(ValueError, match="highest"):
        torch.set_float32_matmul_precision("low")
    torch.set_default_device("cpu")
    assert str(torch.get_default_device()) == "cpu"


def test_control_of_flow_takes_operands():
    x = torch.tensor(3.0)
    assert torch.cond(x > 2, lambda y: y * 2, lambda y: y, (x,)).item() == 6
    (found,) = torch.while_loop(lambda y: y < 20, lambda y: (y * 2,), (x,))
    assert found.item() == 24


def test_printed_digits_are_set():
    with np.printoptions():
        torch.set_printoptions(precision=2)
        assert "1.23" in repr(torch.tensor([1.23456]))
        assert "1.234" not in repr(torch.tensor([1.23456]))
        torch.set_printoptions(profile="default")
        assert "1.2346" in repr(torch.tensor([1.23456]))


def test_draws_in_place_have_their_laws():
    torch.manual_seed(0)
    chances = torch.full((20000,), 0.3)
    assert abs(chances.bernoulli().mean().item() - 0.3) < 0.02
    assert abs(torch.zeros(20001).cauchy_(2, 3).median().item() - 2) < 0.15
    logs = torch.zeros(20000).log_normal_(1, 0.5).log()
    assert abs(logs.mean().item() - 1) < 0.02
    assert abs(logs.std().item() - 0.5) < 0.02
    trials = torch.zeros(20000).geometric_(0.25)
    assert abs(trials.mean().item() - 4) < 0.1
    assert trials.min().item() == 1
