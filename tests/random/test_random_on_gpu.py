"""Random numbers on a GPU: those of the CPU, made where arrays are made."""

import numpy
import pytest
from support.error_cases import check

import functensor as ft
import functensor.numpy as np
from functensor import nn, random
from functensor.backends import DeviceError

pytestmark = pytest.mark.gpu

KEY = random.key(42)
A = [1.0, 2.0, 30.0]
MATRIX = [[2.0, 0.5], [0.5, 1.0]]

DRAWS = {
    "bits": lambda: random.bits(KEY, (3,), "uint8"),
    "uniform": lambda: random.uniform(KEY, (3,)),
    "uniform between": lambda: random.uniform(KEY, (3,), minval=-1.0, maxval=A),
    "uniform float32": lambda: random.uniform(KEY, (2, 3), "float32"),
    "normal": lambda: random.normal(KEY, (5,)),
    "normal float16": lambda: random.normal(KEY, (5,), "float16"),
    "normal complex": lambda: random.normal(KEY, (5,), complex),
    "truncated_normal": lambda: random.truncated_normal(KEY, -1.0, A),
    "exponential": lambda: random.exponential(KEY, (3,)),
    "gumbel": lambda: random.gumbel(KEY, (3,)),
    "logistic": lambda: random.logistic(KEY, (3,)),
    "laplace": lambda: random.laplace(KEY, (3,)),
    "cauchy": lambda: random.cauchy(KEY, (3,)),
    "maxwell": lambda: random.maxwell(KEY, (3,)),
    "pareto": lambda: random.pareto(KEY, A),
    "rayleigh": lambda: random.rayleigh(KEY, A),
    "weibull_min": lambda: random.weibull_min(KEY, 1.0, A),
    "lognormal": lambda: random.lognormal(KEY, [0.1, 0.2]),
    "triangular": lambda: random.triangular(KEY, 0.0, 0.5, A),
    "bernoulli": lambda: random.bernoulli(KEY, [0.1, 0.5]),
    "bernoulli of a number": lambda: random.bernoulli(KEY, 0.5, (4,)),
    "rademacher": lambda: random.rademacher(KEY, (4,)),
    "randint": lambda: random.randint(KEY, (5,), -3, 9),
    "randint of arrays": lambda: random.randint(KEY, (2,), [1, 2], [5, 6]),
    "categorical": lambda: random.categorical(KEY, A),
    "poisson": lambda: random.poisson(KEY, A),
    "binomial": lambda: random.binomial(KEY, 10, [0.1, 0.5, 0.9]),
    "binomial of many": lambda: random.binomial(KEY, 1000, [0.1, 0.5, 0.9]),
    "geometric": lambda: random.geometric(KEY, 0.3, (4,)),
    "multinomial": lambda: random.multinomial(KEY, 10, [0.2, 0.3, 0.5]),
    "loggamma": lambda: random.loggamma(KEY, A),
    "gamma": lambda: random.gamma(KEY, 0.5, (40,)),
    "beta": lambda: random.beta(KEY, A, 2.0),
    "dirichlet": lambda: random.dirichlet(KEY, A),
    "chisquare": lambda: random.chisquare(KEY, 4.0, (3,)),
    "f": lambda: random.f(KEY, 4.0, 5.0, (3,)),
    "student_t": lambda: random.student_t(KEY, 4.0, (3,)),
    "multivariate_normal": lambda: random.multivariate_normal(KEY, [0.0, 1.0], MATRIX),
    "orthogonal": lambda: random.orthogonal(KEY, 3),
    "permutation": lambda: random.permutation(KEY, 5),
    "permutation of rows": lambda: random.permutation(KEY, np.asarray(MATRIX)),
    "permutation of each": lambda: random.permutation(KEY, np.asarray(MATRIX), independent=True),
    "choice": lambda: random.choice(KEY, 5, (3,)),
    "choice by chances": lambda: random.choice(KEY, A, (3,), p=[0.2, 0.3, 0.5]),
    "choice without replacement": lambda: random.choice(KEY, A, (2,), False, [0.2, 0.3, 0.5]),
    "dropout": lambda: nn.dropout(KEY, np.ones(9), 0.5),
    "dropout at a learned rate": lambda: nn.dropout(KEY, np.ones(9), np.asarray(0.5)),
    "derivative of gamma": lambda: ft.grad(lambda a: random.gamma(KEY, a, (3,)).sum())(
        np.asarray(2.0)
    ),
    "vmap": lambda: ft.vmap(lambda k: random.normal(k, (3,)))(random.split(KEY, 3)),
    "vmap of gamma": lambda: ft.vmap(lambda k, a: random.gamma(k, a, (3,)))(
        random.split(KEY, 3), np.asarray(A)
    ),
    "staged": lambda: ft.make_program(lambda k: random.normal(k, (3,)))(KEY)(KEY),
    "initial weights": lambda: nn.init.he_normal()(KEY, (3, 2)),
    "initial zeros": lambda: nn.init.zeros(KEY, (3,)),
    "one hot": lambda: nn.one_hot([2, 0], 3),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_numbers_of_the_cpu(name):
    here = DRAWS[name]()
    with ft.default_device("cuda"):
        there = DRAWS[name]()
    assert there.device == "cuda:0"
    assert there.dtype == here.dtype
    # Bits are the same; the last digits of logarithms and cosines are each library's.
    rtol = 2e-3 if here.dtype == "float16" else 1e-6 if here.dtype == "float32" else 1e-9
    numpy.testing.assert_allclose(
        numpy.asarray(ft.to_device(there, "cpu")), numpy.asarray(here), rtol=rtol
    )


def test_keys_stay_on_the_host():
    with ft.default_device("cuda"):
        made = [random.split(KEY, 3), random.fold_in(KEY, 7), random.KeyStream(0)()]
        assert [k.device for k in made] == ["cpu"] * 3
        assert made[0].tolist() == random.split(KEY, 3).tolist()
        step = np.asarray(7)
        assert step.device == "cuda:0"
        folded = random.fold_in(KEY, step)
        assert folded.tolist() == made[1].tolist()
        assert random.normal(folded, (2,)).device == "cuda:0"


def test_14_a_parameter_elsewhere():
    rate = np.asarray(A)

    def draw():
        with ft.default_device("cuda"):
            return random.poisson(KEY, rate)

    check(
        DeviceError,
        draw,
        "poisson: a parameter float64[3] is on cpu, but numbers are drawn on cuda:0",
        'with ft.default_device("cpu"): ..., or ft.to_device(x, "cuda:0")',
        14,
    )
    there = ft.to_device(rate, "cuda")
    with pytest.raises(DeviceError, match="numbers are drawn on cpu"):
        random.gamma(KEY, there)
    with ft.default_device("cuda"):
        assert random.gamma(KEY, there).device == "cuda:0"
        assert random.gamma(KEY, rate[0], (2,)).device == "cuda:0"
