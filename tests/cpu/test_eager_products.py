"""Products outside of plans: their parts have the same bits whoever computes them."""

import threading
import time

import numpy as np
import pytest

import functensor.numpy as fnp
from functensor.backends import blas_calls, blas_threads
from functensor.backends.cpu.plan.threads import eager_products, pool
from functensor.backends.cpu.plan.threads.balance import MOST_LOST, Balance
from functensor.backends.native import desk, machine, product_parts, team

pytestmark = pytest.mark.skipif(
    blas_threads.controlled() is None, reason="BLAS is none that can be kept to a thread"
)
needs_code = pytest.mark.skipif(not machine.compiles_here(), reason=machine.why_not())


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    control = blas_threads.controlled()
    before = control._get()
    control._set(2)
    monkeypatch.setattr(pool.threads, "number", 2)
    monkeypatch.setattr(eager_products, "layouts", {})
    monkeypatch.setattr(eager_products, "balance", Balance())
    yield
    control._set(before)


def normal(*shape, dtype="float32"):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


def assert_rounded(found, x, y):
    """Checks a product against one in double precision: the bounds of sums in any order.

    N. Higham, "Accuracy and stability of numerical algorithms", 2002, sections 3.1 and 3.6.
    """
    is_complex = found.dtype.kind == "c"
    wide = "c16" if is_complex else "f8"
    terms = x.shape[-1] + 2 * is_complex
    units = np.finfo(found.dtype).eps + np.finfo(wide).eps
    bound = terms * units * (np.abs(x).astype("f8") @ np.abs(y).astype("f8"))
    assert (np.abs(found - x.astype(wide) @ y.astype(wide)) <= bound).all()


def heads(length, width):
    """Returns a stack of matrices as attention has it: rows lie apart."""
    return normal(2, length, 4, width).transpose(0, 2, 1, 3)


OPERANDS = [
    (normal(512, 128), normal(128, 384)),
    (normal(128, 512).T, normal(128, 384)),
    (normal(512, 128), normal(384, 128).T),
    (normal(40, 700), normal(700, 500)),
    (normal(517, 130)[:, 1:-1], normal(128, 391)),
    (normal(300, 200, dtype="float64"), normal(200, 300, dtype="float64")),
    (heads(128, 32), heads(128, 32).swapaxes(-1, -2)),
    (heads(128, 32).swapaxes(-1, -2), heads(128, 32)),
    (normal(3, 256, 256), normal(3, 256, 256)),
]


def described(operands):
    return "-".join(f"{x.shape}{x.dtype.char}" for x in operands)


@needs_code
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("operands", OPERANDS, ids=described)
def test_machine_code_computes_the_bits_of_the_pool(operands, number):
    x, y = operands
    run = product_parts.multiplier(x.dtype.char)
    layout = eager_products.ProductLayout(x, y)
    layout._by_team._times_alone += [0.0] * eager_products.CALLS_ALONE * (number - 1)
    with blas_threads.alone():
        wanted = layout.by_pool(x, y)
        for _ in range(20):
            np.testing.assert_array_equal(layout.by_code(run, x, y), wanted)
        if x.ndim > 2:
            np.testing.assert_array_equal(wanted, np.matmul(x, y))
    assert_rounded(wanted, x, y)


@needs_code
def test_products_run_by_machine_code_once_it_is_there(monkeypatch):
    found = eager_products.Multipliers()
    monkeypatch.setattr(eager_products, "multipliers", found)
    x, y = map(fnp.asarray, OPERANDS[0])
    first = np.asarray(x @ y)
    assert found._job.wait(60)
    assert found._job.error is None
    run, calls = found.found["f"], []
    found.found["f"] = lambda *given: (calls.append(1), run(*given))
    np.testing.assert_array_equal(x @ y, first)
    assert calls == [1]


def test_without_machine_code_the_pool_shares_them(monkeypatch):
    monkeypatch.setattr(product_parts, "multiplier", lambda char: None)
    found = eager_products.Multipliers()
    monkeypatch.setattr(eager_products, "multipliers", found)
    for x, y in OPERANDS:
        wanted = np.asarray(fnp.asarray(x) @ fnp.asarray(y))
        assert found._job.wait(60)
        np.testing.assert_array_equal(fnp.asarray(x) @ fnp.asarray(y), wanted)
    assert found.found == {"f": None, "d": None}


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (normal(1, 1 << 14)[:, ::2], normal(1 << 13, 1 << 11)),
        (normal(4096, 64)[::2, ::2], normal(32, 512)),
        (normal(600, 600).astype(">f4"), normal(600, 600).astype(">f4")),
        (normal(4097, 2, 3), normal(4097, 3, 2)),
    ],
    ids=["a row", "elements apart", "other bytes", "many matrices"],
)
def test_what_blas_does_not_take_is_left_to_numpy(x, y):
    assert eager_products.ProductLayout(x, y).numbers is None
    with blas_threads.alone():
        np.testing.assert_allclose(eager_products.product_in_parts(x, y), x @ y, 1e-3, 1e-3)


@needs_code
def test_what_lies_between_addresses_of_numbers_is_left_to_numpy(monkeypatch):
    found = eager_products.Multipliers()
    found.found["f"] = lambda *given: 1 / 0
    monkeypatch.setattr(eager_products, "multipliers", found)
    memory = np.zeros(4 * 256 * 256 + 1, np.uint8)
    x = memory[1:].view(np.float32).reshape(256, 256)
    x[...] = normal(256, 256)
    y = normal(256, 300)
    with blas_threads.alone():
        np.testing.assert_allclose(eager_products.product_in_parts(x, y), x @ y, 1e-4, 1e-4)
        with pytest.raises(ZeroDivisionError):
            eager_products.product_in_parts(x.copy(), y)


@needs_code
def test_numbers_that_overflow_are_told_of():
    run = product_parts.multiplier("f")
    x = np.full((256, 256), 1e30, np.float32)
    y = x.copy()
    layout = eager_products.ProductLayout(x, y)
    for number in (1, 2):
        layout._by_team._times_alone[:] = [1.0] * eager_products.CALLS_ALONE * (number - 1)
        with blas_threads.alone():
            assert layout.by_code(run, x, y) is None
            with np.errstate(all="ignore"):
                assert np.isinf(layout.by_code(run, x, y)).all()
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="matmul"):
        fnp.asarray(x) @ fnp.asarray(y)


@needs_code
def test_a_matrix_times_itself_is_left_to_numpy():
    # NumPy computes half of ``x @ x.T``, and mirrors it.
    x = normal(4, 128, 64)
    layout = eager_products.ProductLayout(x, x.swapaxes(1, 2))
    with blas_threads.alone():
        assert layout.by_code(product_parts.multiplier("f"), x, x.swapaxes(1, 2)) is None
    fresh = fnp.asarray(x)
    np.testing.assert_array_equal(fresh @ fresh.mT, x @ x.swapaxes(1, 2))


@pytest.mark.parametrize(
    ("x", "y", "wanted"),
    [
        ((16, 128, 32), (16, 32, 128), True),
        ((15, 128, 32), (15, 32, 128), False),
        ((4, 4, 128, 32), (4, 4, 32, 128), True),
        ((16, 128, 32), (1, 32, 128), False),
        ((16, 128, 32), (4, 4, 32, 128), False),
        ((1, 256, 256), (1, 256, 256), False),
    ],
)
def test_stacks_are_shared_where_their_products_are_worth_it(x, y, wanted):
    assert blas_calls.is_stack_in_parts(x, y, blas_calls.work_of(x, y)) == wanted


@needs_code
def test_the_pool_calls_helpers_away_from_machine_code(monkeypatch):
    team.server()
    own = team.TeamOfPieces.taken(helped=False)
    own.show()
    called, met = [], threading.Barrier(2)

    def work():
        called.append(int(desk.desk[desk.CALLED_AWAY // 8]))
        met.wait(30)

    # A helper that looks is one that is said to look; it may fall asleep at any moment.
    monkeypatch.setattr(pool, "awake", lambda: 1)
    pool.call_helpers(team.serve_teams, 1)
    pool.share(work, 2)
    assert called == [1, 1]
    assert not desk.desk[desk.CALLED_AWAY // 8]
    own.give_back()


@needs_code
def test_a_team_leaves_the_desk_with_the_last_helper(monkeypatch):
    own = team.TeamOfPieces.taken(helped=False)
    monkeypatch.setattr(team, "server", lambda: lambda desk: None)
    for helpers, stays in ((1, True), (0, False)):
        own.show()
        monkeypatch.setattr(team, "awake", lambda helpers=helpers: helpers)
        team.serve_teams()
        assert desk.has_pieces() == stays
    own.give_back()


@needs_code
def test_helpers_find_no_product_that_is_measured_on_one_thread(monkeypatch):
    monkeypatch.setattr(eager_products, "call_helpers", lambda *given: None)
    met = []

    def run(memory):
        met.append(memory.ctypes.data == int(desk.desk[desk.PLACE_OF_PIECES // 8]))

    for number in (2, 1, 2):
        eager_products.multiplied(run, (), number)
    assert met == [True, False, True]
    # The number of helpers stays: one may still look, and counts itself out.
    desk.desk[desk.PLACE_OF_PIECES // 8] = 0


def test_sharing_rests_longer_each_time_it_has_cost_time():
    balance, most = Balance(), MOST_LOST
    now, rests = 100.0, []
    for _ in range(9):
        balance.add(-0.6 * most, now)
        assert balance.rests_until <= now
        balance.add(-0.6 * most, now)
        rests.append(round(balance.rests_until - now, 6))
        now = balance.rests_until
    assert rests == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 6.4, 6.4]
    # What is saved pays for one long wait, and for no more.
    for _ in range(30):
        balance.add(0.1 * most, now)
    balance.add(-1.9 * most, now)
    assert balance.rests_until == now
    balance.add(-1.9 * most, now)
    assert round(balance.rests_until - now, 6) == 0.1


@needs_code
def test_the_first_products_are_measured_on_one_thread(monkeypatch):
    numbers = []
    monkeypatch.setattr(
        eager_products, "multiplied", lambda run, operands, number: numbers.append(number)
    )
    x, y = OPERANDS[0]
    layout = eager_products.ProductLayout(x, y)
    for _ in range(5):
        layout.by_code(None, x, y)
    eager_products.balance.rests_until = float("inf")
    layout.by_code(None, x, y)
    assert numbers == [1, 1, 1, 2, 2, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize(
    "shapes",
    [
        *[((60_000, 50), (50,)), ((50,), (50, 60_000)), ((2000, 1500), (1500,))],
        *[((1500,), (1500, 2000)), ((4, 1500, 1500), (1500,)), ((1500,), (2, 1500, 1500))],
        *[((240, 240), (4, 240, 240)), ((4, 240, 240), (1, 240, 240)), ((3_000_000,),) * 2],
    ],
    ids=str,
)
def test_large_products_of_all_kinds(shapes, dtype):
    x, y = (normal(*shape, dtype=dtype) for shape in shapes)
    wanted = x @ y
    for _ in range(3):
        got = np.asarray(fnp.asarray(x) @ fnp.asarray(y))
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        assert_rounded(got, x, y)


@needs_code
def test_helpers_take_the_last_parts_first():
    text = """
    define void @note(ptr %places, i64 %number) {
      %count = load i64, ptr %places
      %next = add i64 %count, 1
      store i64 %next, ptr %places
      %above = add i64 %number, 1
      %place = getelementptr i64, ptr %places, i64 %above
      store i64 %next, ptr %place
      ret void
    }"""
    code = machine.machine_code(text, ["note"])
    order = np.zeros(6, np.int64)
    # Helpers of the tests before look for work for a while, and would take some of this.
    while desk.awake():
        time.sleep(0.001)
    own = team.TeamOfPieces.taken(helped=False)
    own.memory[team.FUNCTION // 8] = code.address("note")
    own.memory[team.ARGUMENTS_PLACE // 8] = order.ctypes.data
    own.memory[team.FINISHED // 8] = 0
    own.memory[0] = 5 << 16
    own.show()
    team.serve_teams()
    assert order.tolist() == [5, 5, 4, 3, 2, 1]
    assert own.memory[team.FINISHED // 8] == 5
    own.memory[0] = 0
    own.give_back()
    # The number of helpers stays: one may still look, and counts itself out.
    desk.desk[desk.PLACE_OF_PIECES // 8] = 0


def test_calls_at_once_are_measured_once():
    measured = eager_products.MeasuredTeam()
    number = eager_products.CALLS_ALONE + 2
    barrier = threading.Barrier(number)
    waiting = [
        threading.Thread(target=measured, args=(lambda memory: barrier.wait(60), ()))
        for _ in range(number)
    ]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    measured(lambda memory: None, ())
    assert len(measured._times_alone) == number
