"""Checks on four processes of errors that name others, and after which all go on.

With ``config.check_collectives`` all raise one that names who differs. Without it those that wait
raise one that names who does not come.
"""

import os
import threading

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.distributed import P, failures, mesh, spmd
from functensor.distributed.roll_call import roll_call
from functensor.distributed.watching import Watch
from functensor.errors import CollectiveError, DistributedError

GRID = {"data": 2, "model": 2}
RANK, SIZE = ft.distributed.rank(), ft.distributed.size()
WORLD = ft.distributed.info().comm
X = np.arange(16.0).reshape(4, 4)
SPEC = P("data", "model")
LINE = r"checks_of_the_switch\.py:\d+"


def names_two(call, lines=""):
    """Checks that a call raises an error which says that rank 2 alone does not come."""
    before = failures.Limit.seconds
    ft.distributed.set_timeout(1.5)
    try:
        with pytest.raises(DistributedError, match=rf"within 1.5 seconds: 2\n{lines}"):
            call()
    finally:
        ft.distributed.set_timeout(before)


def all_are_here():
    """Waits for all, by messages that no collective changes which others have begun."""
    for other in range(SIZE):
        WORLD.isend(None, other, tag=1)
    for other in range(SIZE):
        WORLD.recv(source=other, tag=1)


def check_a_rank_that_does_not_come_to_the_first_exchange_of_a_group():
    """Ranks 1 and 3 are another group. No check before this one makes either."""

    def total():
        group = mesh({"half": 2, "twin": SIZE // 2}).group(["half"], np.ones(1))
        return group.sum(np.ones(1))

    all_are_here()
    if RANK == 0:
        names_two(total)
    all_are_here()
    assert total() == 2.0


def raises(fun, *words, out_specs=SPEC, kind=CollectiveError):
    """Checks that all processes raise an error with some words, and go on together."""
    with ft.config.using(check_collectives=True):
        with pytest.raises(kind) as found:
            spmd(fun, mesh(GRID), SPEC, out_specs)(X)
        for text in words:
            assert found.match(text)
        # They still understand each other.
        out = spmd(lambda x: ft.psum(x, "data"), mesh(GRID), SPEC, P(None, "model"))(X)
        np.testing.assert_array_equal(np.asarray(out), X[:2] + X[2:])


def check_another_primitive():
    def one(x):
        y = ft.pmin(x, "model")
        return y + (ft.pmax(x, "data") if RANK == 2 else ft.psum(x, "data"))

    def two(x):
        return ft.psum(fnp.sum(x), "data" if RANK % 2 else "model") * x

    raises(
        one,
        rf"rank 2: pmax of float64\[2, 2\] over 'data' at \S*{LINE}, its collective 2   <- differs",
        rf"ranks 0, 1, 3: psum of float64\[2, 2\] over 'data' at \S*{LINE}, its collective 2",
    )
    raises(two, "over 'model' at", "over 'data' at")
    for change in (ft.jit, lambda f: ft.grad(lambda x: fnp.sum(f(x)))):
        raises(change(one), r"rank 2: pmax", rf"at \S*{LINE}")


def check_lines_of_plans():
    def one(x):
        y = ft.psum(x, "data")
        return y * (ft.pmin(x, "data") if RANK == 2 else ft.pmax(x, "data"))

    with pytest.raises(CollectiveError) as found, ft.config.using(check_collectives=True):
        spmd(one, mesh(GRID), SPEC, SPEC)(X)
    eager = str(found.value).partition("\n  at ")[0]
    with pytest.raises(CollectiveError) as found, ft.config.using(check_collectives=True):
        spmd(ft.jit(one), mesh(GRID), SPEC, SPEC)(X)
    assert str(found.value).partition("\n  at ")[0] == eager


def check_another_order():
    def one(x):
        if RANK == 1:
            b = ft.psum(x, "data")
            a = ft.psum(x * 2, "data")
        else:
            a = ft.psum(x * 2, "data")
            b = ft.psum(x, "data")
        return a - b

    raises(one, "rank 1: psum", "ranks 0, 2, 3: psum")
    raises(ft.jit(one), "rank 1: psum", "ranks 0, 2, 3: psum")


def check_other_shapes_dtypes_and_parameters():
    raises(
        lambda x: ft.psum(x[: 1 + (RANK == 3)], "data")[:1] * x,
        r"rank 3: psum of float64\[2, 2",
    )
    raises(
        lambda x: ft.psum(x.astype("float32") if RANK == 3 else x, "data") * x,
        "rank 3: psum of float32",
    )
    raises(
        lambda x: ft.ppermute(x, "data", [(0, 1)] if RANK else [(1, 0)]),
        r"rank 0: ppermute .*perm=\(\(1, 0\),\)",
    )


def check_one_call_too_many():
    def one(x):
        for _ in range(2 + (RANK == 0)):
            x = ft.psum(x, "data")
        return x

    raises(one, "rank 0: psum .* its collective 3", "ranks 1 to 3: the end of spmd of one after 2|"
           "ranks 1 to 3: all_gather")  # fmt: skip


def check_an_exception_on_one_process():
    def one(x):
        if RANK == 3:
            raise KeyError("lost")
        return ft.psum(x, "data")

    if RANK == 3:
        raises(one, "lost", kind=KeyError)
    else:
        raises(one, "rank 3: KeyError raised in spmd of one: 'lost'", "ranks 0 to 2: psum")


def check_outputs_that_are_not_the_same():
    def one(x):
        return ft.psum(x, "data") + (RANK == 1)

    raises(one, r"does not cut it along 'data', and is not the same", out_specs=P(None, "model"))
    raises(ft.jit(one), r"rank 3 has other values than rank 1", out_specs=P(None, "model"))
    # Rounding is no difference.
    with ft.config.using(check_collectives=True):
        near = spmd(lambda x: ft.psum(x, "data") * (1 + 1e-15 * RANK), mesh(GRID), SPEC,
                    P(None, "model"))  # fmt: skip
        assert np.allclose(np.asarray(near(X)), X[:2] + X[2:])


def check_arguments_that_are_not_the_same():
    def use(x, spec, out_spec):
        return spmd(fnp.sin, mesh(GRID), spec, out_spec)(x)

    with ft.config.using(check_collectives=True):
        words = r"an argument float64\[4, 4\] .* along 'data', 'model', .* rank 2 has other values"
        with pytest.raises(CollectiveError, match=words):
            use(X + (RANK == 2), P(), P())
        words = r"an argument float64\[2, 4\] .* along 'model', .* rank 3 has other .* than rank 2"
        with pytest.raises(CollectiveError, match=words):
            use(X + (RANK == 3), P("data"), P("data"))
        out = use(X * RANK, P.local(), P.local())
        np.testing.assert_array_equal(np.asarray(out), np.sin(X * RANK))


def check_staging_on_one_process():
    whole = spmd(lambda x: ft.psum(x, "data") * x, mesh(GRID), SPEC, SPEC)
    with ft.config.using(check_collectives=True):
        if RANK == 1:
            assert ft.eval_shape(whole, X).shape == X.shape
            ft.jit(whole).lower(X)
            ft.eval_shape(lambda x: spmd(fnp.sin, mesh(GRID), P(), P())(np.ones(2)) * x, X[0, :2])
        np.testing.assert_allclose(np.asarray(whole(X))[0], (X[0] + X[2]) * X[0])


def check_what_is_right():
    def one(x):
        return ft.psum(fnp.sin(x), "data") * ft.ppermute(x, "model", [(0, 1), (1, 0)])

    whole = spmd(one, mesh(GRID), SPEC, SPEC)
    uses = [whole, ft.jit(whole), ft.grad(lambda x: fnp.sum(whole(x)))]
    wanted = [np.asarray(use(X)) for use in uses]
    with ft.config.using(check_collectives=True):
        for use, known in zip(uses, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(use(X)), known)


def check_a_rank_that_does_not_come_to_a_roll_call():
    def call():
        roll_call(WORLD, range(SIZE), "roll call")

    all_are_here()
    if RANK != 2:
        names_two(call, "    ranks 0, 1, 3 wait for the roll call\n")
    all_are_here()
    call()


class Queue:
    """Work of MPI that goes on without the host, which blocks until it is done or given up."""

    def __init__(self):
        self.watch = Watch(failures.news())
        self.over = threading.Event()
        self.error = None
        self.watch.over(self.over.set, self.check)

    def check(self):
        if self.error is not None:
            raise self.error

    def read(self):
        """Queues a barrier, blocks, and looks whether there is a result."""
        request = WORLD.Ibarrier()

        def done():
            if request.Test():
                self.over.set()
            return self.over.is_set()

        self.watch.queued("sum", range(SIZE), done)
        self.over.wait()
        self.watch.check()


def check_a_rank_that_does_not_come_while_the_host_blocks():
    queue = Queue()
    all_are_here()
    if RANK != 2:
        names_two(queue.read)
        with pytest.raises(DistributedError):
            queue.watch.call("sum", range(SIZE), pytest.fail)
    all_are_here()
    if RANK == 2:
        # The others have come by then.
        queue.read()
    queue.watch.close()


def check_an_engine_that_fails_while_the_host_blocks():
    queue = Queue()
    if RANK != 2:
        queue.error = OSError("the link is down")
        with pytest.raises(DistributedError, match="sum of ranks 0 to 3 failed: OSError"):
            queue.read()
    all_are_here()
    if RANK == 2:
        queue.read()
    queue.watch.close()


def check_calls_that_fail_while_all_are_there():
    watch = Watch(failures.news())
    assert watch.call("sum", range(SIZE), max, 1, 2) == 2
    with pytest.raises(ZeroDivisionError):
        watch.call("sum", range(SIZE), divmod, 1, 0)
    watch.check()
    watch.close()


def check_the_end_of_a_child_process_is_no_end_of_its_rank():
    if RANK == 1 and hasattr(os, "fork"):
        child = os.fork()
        if not child:
            # What runs at the end of a program says nothing to the others.
            failures.leave("KeyError: in a child")
            os._exit(0)
        os.waitpid(child, 0)
    all_are_here()
    failures.news().check("sum")
    all_are_here()
