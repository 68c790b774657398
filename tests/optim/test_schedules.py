"""Schedules: equal to Optax's for numbers, arrays, traced steps and a batch of rates."""

import numpy
import pytest
from optim.schedule_table import RECORD, SCHEDULES, STEPS

import functensor as ft
import functensor.numpy as np
from functensor import optim

with numpy.load(RECORD) as file:
    RECORDED = dict(zip(SCHEDULES, file["rows"], strict=True))


def schedule_of(line):
    return eval(line.split(" | ")[0], vars(optim))


def test_every_schedule_is_in_the_table():
    ours = "\n".join(SCHEDULES)
    assert all(name in ours for name in optim.schedules.__all__)


@pytest.mark.parametrize("line", SCHEDULES)
def test_values_are_optaxs(line):
    rate, wanted = schedule_of(line), RECORDED[line]
    # Optax keeps some of its constants in single precision.
    close = {"rtol": 1e-6, "atol": 1e-8}
    found = [rate(step) for step in range(STEPS)]
    assert {type(x) for x in found} == {float}
    numpy.testing.assert_allclose(found, wanted, **close)
    traced = ft.jit(ft.vmap(lambda step: 0.0 * step + rate(step)))(np.arange(STEPS))
    numpy.testing.assert_allclose(traced, found, rtol=1e-12, atol=1e-15)
    numpy.testing.assert_allclose(rate(np.asarray(9)), found[9], rtol=1e-12)


def test_a_schedule_of_batched_rates_within_jit():
    def last(peak):
        opt = optim.sgd(optim.warm_up_cosine(peak, 3, 9))
        x = np.zeros(2)
        state = opt.init(x)

        def body(i, carry):
            return opt.update(*carry, np.ones(2))

        return ft.fori_loop(0, 5, body, (x, state))[0]

    rate = optim.warm_up_cosine(1.0, 3, 9)
    wanted = -sum(rate(step) for step in range(5)) * numpy.ones(2)
    peaks = np.array([1.0, 2.0])
    found = ft.jit(ft.vmap(last))(peaks)
    numpy.testing.assert_allclose(found, [wanted, 2 * wanted], rtol=1e-12)


def test_wrong_counts_are_named():
    with pytest.raises(ValueError, match="cosine_decay: steps is 0, it must be positive"):
        optim.cosine_decay(0.1, 0)
    for rise in (1.0, 1.2):
        with pytest.raises(ValueError, match=r"one_cycle: falling is (0|-2), it must be pos"):
            optim.one_cycle(1.0, 10, rise)
    with pytest.raises(ValueError, match="warm_up_cosine: falling is -1"):
        optim.warm_up_cosine(0.1, 5, 4)
    with pytest.raises(ValueError, match="way is 'round'; it is one of constant, linear, cosine"):
        optim.piecewise_rate(0.1, {3: 0.5}, way="round")
