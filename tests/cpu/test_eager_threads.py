"""Work that the pool's threads share while no plan runs."""

import threading

import numpy as np
import pytest

import functensor as ft
from functensor import nn
from functensor.backends import blas_threads, side_work
from functensor.backends.cpu import blocks, where_and_extrema
from functensor.backends.cpu.plan.threads import eager, pool

pytestmark = pytest.mark.skipif(
    blas_threads.controlled() is None, reason="BLAS is none that can be kept to a thread"
)


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr(pool.threads, "number", 2)
    monkeypatch.setattr(eager, "balance", eager.Balance())


@pytest.fixture
def idle_pool(monkeypatch):
    """A pool whose helpers never begin."""
    made = pool.Pool()
    made.started = 100
    monkeypatch.setattr(pool, "pool", made)
    return made


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# -- errands


def test_a_helper_does_an_errand():
    threads = []
    errand = eager.send(lambda: threads.append(threading.current_thread()) or 3)
    begun = threading.Event()
    second = eager.send(begun.set)
    assert begun.wait(60)
    assert errand.result() == 3
    assert threads != [threading.current_thread()]
    second.result()


def test_the_sender_does_what_no_helper_has_begun(idle_pool):
    errand = eager.send(threading.current_thread)
    assert errand.result() is threading.current_thread()
    assert not hasattr(idle_pool.jobs.get(), "work")


def test_what_is_given_up_is_not_done(idle_pool):
    done = []
    errand = eager.send(lambda: done.append(1))
    errand.call_back()
    assert not hasattr(idle_pool.jobs.get(), "work")
    assert done == []


def test_few_errands_wait(idle_pool):
    sent = [eager.send(int) for _ in range(eager.MOST_WAITING + 2)]
    assert [errand is not None for errand in sent] == [True] * eager.MOST_WAITING + [False] * 2


def test_one_thread_sends_nothing(monkeypatch):
    monkeypatch.setattr(pool.threads, "number", 1)
    assert eager.send(int) is None


def test_an_error_of_an_errand_is_raised_by_its_result():
    begun = threading.Event()

    def fail():
        begun.set()
        raise ValueError("of an errand")

    errand = eager.send(fail)
    assert begun.wait(60)
    with pytest.raises(ValueError, match="of an errand"):
        errand.result()


def test_a_child_does_what_a_helper_of_its_parent_had_begun(monkeypatch):
    begun, ends = threading.Event(), threading.Event()
    calls = []

    def work():
        calls.append(threading.current_thread())
        begun.set()
        # The sender does it a second time, after the fork.
        return len(calls) > 1 or ends.wait(60)

    errand = eager.send(work)
    assert begun.wait(60)
    before = pool.pool
    # As `after_fork` does: the child has a pool without threads.
    monkeypatch.setattr(pool, "pool", pool.Pool())
    assert errand.result()
    assert calls[1] is threading.current_thread()
    ends.set()
    monkeypatch.setattr(pool, "pool", before)


# -- where sharing costs more than it saves


def test_sharing_rests_where_it_has_cost_time():
    balance = eager.Balance()
    balance.note(0.010)
    for _ in range(3):
        balance.note(-0.003)
        assert balance.pays()
    balance.note(-0.010)
    assert [balance.pays() for _ in range(eager.FEWEST_RESTED)].count(True) == 1
    assert balance.pays()
    assert balance.saved == 0


def test_sharing_rests_longer_each_time_until_it_saves():
    balance = eager.Balance()
    rests = []
    for seconds in [-0.01] * 6 + [0.01, -0.03]:
        balance.note(seconds)
        rests.append(balance.resting)
        while not balance.pays():
            pass
    assert rests == [200, 400, 800, 1600, 3200, 3200, 0, 200]


def test_work_that_rests_is_done_by_the_caller():
    eager.balance.resting = 3
    threads = set()
    eager.share_parts(lambda part: threads.add(threading.get_ident()), range(50))
    assert threads == {threading.get_ident()}
    assert eager.send(int) is None


# -- elementwise work in parts


@pytest.fixture
def small_parts(monkeypatch):
    """Has small arrays be computed in many parts, and returns a list of how many there were."""
    found = []

    def sharer(work, parts):
        found.append(len(parts))
        eager.share_parts(work, parts)

    monkeypatch.setattr(side_work, "SHARERS", [sharer])
    monkeypatch.setattr(side_work, "PART_ELEMENTS", 100)
    monkeypatch.setattr(side_work, "FEWEST_SHARED_ELEMENTS", 1024)
    monkeypatch.setattr(where_and_extrema, "FEWEST_SHARED_ELEMENTS", 1024)
    return found


def with_specials(x):
    flat = x.reshape(-1)
    flat[:7] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45]
    return x


LAYOUTS = {
    "C": lambda x: x,
    "channels last": lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "with gaps": lambda x: np.repeat(x, 2, -1)[..., ::2],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_relu_in_parts(layout, dtype, small_parts):
    x = LAYOUTS[layout](with_specials(normal(4, 8, 9, 5)).astype(dtype))
    g = LAYOUTS[layout](with_specials(normal(4, 8, 9, 5, seed=1)[::-1].copy()).astype(dtype))
    got, slope = nn.relu(x), ft.vjp(nn.relu, x)[1](g)[0]
    np.testing.assert_array_equal(got, np.maximum(x, 0))
    np.testing.assert_array_equal(slope, np.where(x > 0, g, 0))
    assert got.dtype == slope.dtype == dtype
    # `vjp` copies its arguments, which then have no gaps.
    assert small_parts == [15] * (2 if layout == "with gaps" else 3)


def test_operands_that_lie_otherwise_are_not_cut():
    x, y = normal(5, 4), normal(4, 5).T
    calls = []
    assert not side_work.by_flat_parts(lambda *parts: calls.append(parts), (x, y))
    assert not side_work.by_flat_parts(lambda *parts: calls.append(parts), (x, x[:1]))
    assert calls == []
    assert side_work.by_flat_parts(lambda *parts: calls.append(parts), (x.copy("F"), y))
    assert [x.shape for x in calls[0]] == [(20,), (20,)]


@pytest.mark.parametrize(
    "optimizer",
    [ft.optim.sgd(0.1), ft.optim.momentum(0.1), ft.optim.adam(0.1), ft.optim.adagrad(0.1)],
    ids=lambda x: x.name,
)
def test_updates_in_parts(optimizer, small_parts, monkeypatch):
    p, grads = normal(40, 50), [normal(40, 50, seed=i) for i in (1, 2)]

    def trained():
        params, state = p, optimizer.init(p)
        for g in grads:
            params, state = optimizer.update(params, state, g)
        return params, *state[2:]

    wanted = trained()
    assert small_parts == []
    monkeypatch.setattr("functensor.optim.optimizer.FEWEST_SHARED_ELEMENTS", 1024)
    for a, b in zip(trained(), wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    assert small_parts == [20, 20]


@pytest.mark.parametrize("number", [1, -1e9])
def test_a_number_beside_a_mask_that_is_used_again(number):
    x = with_specials(normal(5, 40, 40))
    mask = normal(40, 40, seed=1) > 0
    got = ft.numpy.where(mask, x, number)
    np.testing.assert_array_equal(got, np.where(mask, x, np.float32(number)))
    assert got.dtype == np.float32


@pytest.mark.parametrize("approximate", [True, False])
def test_gelu_in_shared_blocks(approximate, monkeypatch):
    x, g = with_specials(normal(5, 1000)), normal(5, 1000, seed=1)

    def both():
        out, pull = ft.vjp(lambda x: nn.gelu(x, approximate=approximate), x)
        return out, pull(g)[0]

    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 512)
    wanted = both()
    monkeypatch.setattr(blocks, "FEWEST_SHARED_ELEMENTS", 1024)
    found = []

    def sharer(work, parts):
        found.append(len(parts))
        eager.share_parts(work, parts)

    monkeypatch.setattr(blocks, "SHARERS", [sharer])
    for a, b in zip(both(), wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    assert found == [10, 10]


# -- stacks of products


def test_stacks_of_products_are_shared(monkeypatch):
    x, y = normal(4, 3, 64, 64), normal(4, 3, 64, 64, seed=1)
    shares = []
    share = eager.share_work
    monkeypatch.setattr(
        eager, "share_work", lambda work, number: shares.append(number) or share(work, number)
    )
    monkeypatch.setattr("functensor.backends.blas_calls.SMALLEST_BLAS_THREADED_WORK", 1 << 16)
    monkeypatch.setattr("functensor.backends.blas_calls.SMALLEST_SHARED_WORK", 1 << 20)
    control = blas_threads.controlled()
    before = control.number
    control.number = 2
    try:
        got = ft.numpy.matmul(x, y)
    finally:
        control.number = before
    np.testing.assert_array_equal(got, np.matmul(x, y))
    assert shares == [2]
