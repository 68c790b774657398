"""Values that PyTorch refuses, on the CPU: each raises, and says which one."""

import math

import pytest

import functensor as ft
import functensor.torch as torch
from functensor.torch.nn import functional as F
from functensor.torch.nn.utils import get_total_norm as total_norm

PLACES = torch.tensor([[-1, 1]])
MASK = torch.tensor([0, 1])
X = torch.zeros(2, 3)


def one_cycle(**options):
    optimizer = torch.optim.SGD([torch.ones(1)], lr=0.1, momentum=0.9)
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, **options)


def step_decay(**options):
    return torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(1)], lr=0.1), 2, **options)


REFUSED = [
    (lambda: F.embedding(PLACES, X), IndexError, "embedding: the index -1 is negative"),
    (lambda: torch.gather(X, 1, PLACES), IndexError, "index: the index -1 is negative"),
    (lambda: X.scatter(1, PLACES, 1.0), IndexError, "index: the index -1 is negative"),
    (lambda: X.index_select(1, PLACES[0]), IndexError, "index_select: the index -1 is negative"),
    (lambda: X.index_add(1, PLACES[0], X[:, :2]), IndexError, "index: the index -1 is negative"),
    (lambda: F.embedding(torch.tensor([5]), X), IndexError, "5"),
    (lambda: F.cross_entropy(X, torch.tensor([0, 3])), IndexError, "3"),
    (lambda: F.one_hot(PLACES), RuntimeError, "a class is at least 0, and finite"),
    (lambda: F.one_hot(MASK, 1), RuntimeError, "a class is from 0 to 0, not from 0 to 1"),
    (lambda: X.masked_fill(PLACES, 1.0), RuntimeError, "a mask is of booleans, not int64"),
    (lambda: X[0, :2].masked_select(MASK), RuntimeError, "a mask is of booleans, not int64"),
    (lambda: torch.where(MASK, 1.0, 0.0), RuntimeError, "a mask is of booleans, not int64"),
    (lambda: torch.multinomial(torch.tensor([-1.0, 2.0]), 1), RuntimeError, "weight is at least 0"),
    (lambda: torch.multinomial(torch.tensor([float("nan")]), 1), RuntimeError, "from nan to nan"),
    (lambda: torch.bernoulli(torch.tensor([1.5])), RuntimeError, "a probability is from 0 to 1"),
    (lambda: torch.normal(0.0, -1.0, (2,)), RuntimeError, "std is at least 0, not -1.0"),
    (lambda: torch.normal(X, X - 1), RuntimeError, "std is at least 0"),
    (lambda: X.clone().bernoulli_(2.0), RuntimeError, "probability is at least 0 and at most 1"),
    (lambda: X.clone().bernoulli_(X - 1), RuntimeError, "probability is at least 0 and at most 1"),
    (lambda: X.clone().normal_(0, -1), RuntimeError, "x.normal_(): std is at least 0, not -1"),
    (lambda: X.clone().uniform_(1, 0), RuntimeError, "x.uniform_(): the end is at least 1, not 0"),
    (lambda: X.clone().exponential_(-1), RuntimeError, "the rate is above 0, not -1"),
    (lambda: X.clone().geometric_(0.0), RuntimeError, "p is above 0 and at most 1, not 0.0"),
    (lambda: X.clone().cauchy_(0, math.nan), RuntimeError, "sigma is above 0, not nan"),
    (lambda: X.clone().log_normal_(0, 0), RuntimeError, "std is above 0, not 0"),
    (lambda: torch.poisson(X - 1), RuntimeError, "poisson: a rate is at least 0"),
    (lambda: MASK.clone().uniform_(), RuntimeError, "x.uniform_() gives real numbers, which int64"),
    (lambda: MASK.bool().normal_(), RuntimeError, "x.normal_() gives real numbers, which bool"),
    (lambda: X.cfloat().exponential_(), RuntimeError, "gives real numbers, which complex64"),
    (lambda: torch.randint(0, 300, (2,), dtype=torch.uint8), RuntimeError, "uint8 has not all"),
    (lambda: MASK.byte().random_(-1, 2), RuntimeError, "uint8 has not all integers from -1 to 1"),
    (lambda: F.binary_cross_entropy(X + 1.5, X), RuntimeError, "a probability is from 0 to 1"),
    (lambda: X.repeat(2), RuntimeError, "repeat(2): a number for each of 2 axes"),
    (lambda: torch.range(0, math.inf), RuntimeError, "no steps of 1 lead from 0 to inf"),
    (lambda: one_cycle(total_steps=0), ValueError, "total_steps is 0: it must be a positive"),
    (lambda: one_cycle(total_steps=2.5), ValueError, "total_steps is 2.5: it must be a positive"),
    (lambda: one_cycle(epochs=3, steps_per_epoch=0), ValueError, "steps_per_epoch is 0"),
    (lambda: one_cycle(total_steps=5, last_epoch=2), KeyError, "a group has no 'initial_lr'"),
    (lambda: step_decay(last_epoch=2), KeyError, "StepLR: last_epoch is 2, and a group has no"),
    (lambda: one_cycle(total_steps=5, pct_start=2.0), ValueError, "pct_start is 2.0"),
    (lambda: torch.optim.Adam([X], betas=(0.9, 2)), ValueError, "Adam: betas[1] is 2: it must"),
    (lambda: torch.optim.RMSprop([X], alpha=2), ValueError, "RMSprop: alpha is 2: it must"),
    (lambda: torch.optim.Adadelta([X], rho=2), ValueError, "Adadelta: rho is 2: it must"),
    (lambda: torch.optim.LBFGS([X], lr=-1), ValueError, "LBFGS: lr is -1: it must"),
    (lambda: torch.optim.Rprop([X], etas=(2, 3)), ValueError, "Rprop: etas[0] is 2: it must"),
    (lambda: torch.optim.Adafactor([X], beta2_decay=1), ValueError, "beta2_decay is 1: it must"),
    (lambda: torch.optim.Muon([X], ns_steps=200), ValueError, "Muon: ns_steps is 200: it must"),
    (lambda: torch.nn.init.eye_(X[0]), ValueError, "eye_: a weight of shape (3,); it fills"),
    (lambda: torch.nn.init.dirac_(X), ValueError, "it fills those of 3 to 5"),
    (lambda: torch.nn.init.dirac_(X.view(2, 3, 1), 4), ValueError, "2 outputs are no 4 groups"),
    (lambda: torch.nn.init.orthogonal_(X[0]), ValueError, "it fills those of 2 or more"),
    (lambda: torch.nn.init.sparse_(X[0], 0.1), ValueError, "it fills those of 2 axes alone"),
    (lambda: total_norm([X + math.inf], 2, True), RuntimeError, "the total norm is inf"),
    (lambda: total_norm([X, X[:0]], math.inf), RuntimeError, "has no norm inf"),
    (lambda: total_norm([X[:0]], -1), RuntimeError, "has no norm -1.0"),
    (lambda: torch.__version__ < 2.1, TypeError, "not supported"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused(case):
    call, error, text = REFUSED[case]
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_weights_of_zero_are_never_drawn():
    weights = torch.tensor([0.0, 1.0, 0.0, 3.0])
    assert set(torch.multinomial(weights, 50, replacement=True).tolist()) <= {1, 3}
    assert sorted(torch.multinomial(weights, 2).tolist()) == [1, 3]


def test_values_that_are_not_known_are_not_looked_at():
    table = torch.arange(3.0)
    found = ft.jit(lambda i: F.embedding(i, table.view(3, 1)))(torch.tensor([2, 0]))
    assert found.tolist() == [[2], [0]]
    picked = ft.vmap(lambda i: torch.gather(table, 0, i.view(1)))(torch.tensor([1, 2]))
    assert picked.tolist() == [[1], [2]]


def row(*shape):
    return torch.arange(float(math.prod(shape))).reshape(shape)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda: F.interpolate(row(1, 1, 4), 8, mode="nearest", align_corners=True)),
        (ValueError, lambda: F.interpolate(row(1, 1, 4), 8, mode="area", align_corners=False)),
        (NotImplementedError, lambda: F.interpolate(row(1, 1, 4), 8, mode="bilinear")),
        (NotImplementedError, lambda: F.interpolate(row(1, 1, 4, 4), 8, mode="trilinear")),
        (ValueError, lambda: F.multi_margin_loss(row(2, 3), torch.tensor([0, 1]), p=3)),
        (ValueError, lambda: F.gaussian_nll_loss(row(2), row(2), -row(2))),
        (ValueError, lambda: torch.nn.RNNCell(2, 2, nonlinearity="GRU")),
        (RuntimeError, lambda: row(4).as_strided((2,), (-1,), 3)),
    ],
)
def test_layers_refuse_what_pytorch_refuses(error, call):
    with pytest.raises(error):
        call()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_the_root_of_a_negative_sum_is_no_number():
    pooled = F.lp_pool1d(torch.tensor([[-2.0, 1.0, 2.0, 1.0]]), 3.0, 2)
    assert math.isnan(pooled[0, 0].item())
    assert pooled[0, 1].item() == pytest.approx(9 ** (1 / 3))
