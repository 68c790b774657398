"""Checks on four processes of programs that Hypothesis draws, against nested ``vmap``.

The process of rank 0 draws and tells the others; where any of them finds a difference all stop,
and the draw is made smaller.
"""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mpi4py import MPI
from support.long_forms import sized
from support.meshes import assert_same

import functensor as ft
import functensor.numpy as fnp
from functensor.distributed import P

COMM = MPI.COMM_WORLD.Dup()
GRID = {"data": 2, "model": 2}
SPEC = P("data", "model")
X = np.cos(np.arange(32.0)).reshape(4, 8)
Y = np.sin(np.arange(32.0)).reshape(4, 8) + 0.3
AXES = ["data", "model", ("data", "model"), ("model", "data")]
PAIRS = [[(0, 1), (1, 0)], [(0, 1)], [(1, 1), (0, 0)], []]

# Of arrays of shape (2, 4), with an axis's name and a number.
ONE = {
    "sin": lambda x, axis, n: fnp.sin(x),
    "tanh": lambda x, axis, n: fnp.tanh(x * (n + 1)),
    "scaled": lambda x, axis, n: x * [0.0, 1.0, -2.0, 0.5][n],
    "psum": lambda x, axis, n: ft.psum(x, axis) * 0.3,
    "pmean": lambda x, axis, n: ft.pmean(x, axis),
    "pmax": lambda x, axis, n: ft.pmax(x, axis),
    "pmin": lambda x, axis, n: ft.pmin(x, axis),
    "ppermute": lambda x, axis, n: ft.ppermute(x, first(axis), PAIRS[n]),
    "all_gather": lambda x, axis, n: fnp.mean(ft.all_gather(x, axis, axis=n % 3), n % 3),
    "tiled": lambda x, axis, n: ft.all_gather(x, axis, axis=n % 2, tiled=True)[:2, -4:],
    "psum_scatter": lambda x, axis, n: ft.psum_scatter(
        fnp.concatenate([x, x * 0.5], n % 2), first(axis), scatter_dimension=n % 2, tiled=True
    ),
    "all_to_all": lambda x, axis, n: ft.all_to_all(
        x, first(axis), n % 2, n // 2, tiled=True
    ).reshape(2, 4),
    "index": lambda x, axis, n: x * (ft.axis_index(axis) + 0.5),
    "checkpoint": lambda x, axis, n: ft.checkpoint(lambda y: fnp.sin(ft.psum(y, axis)) * y)(x),
    "jit": lambda x, axis, n: ft.jit(lambda y: fnp.cos(ft.pmean(y, axis)) * y)(x),
    "vmap": lambda x, axis, n: ft.vmap(lambda row: row * ft.psum(row[0], axis), n % 2, n // 2)(
        x
    ).reshape(2, 4),
    "scan": lambda x, axis, n: ft.scan(
        lambda c, row: (fnp.sin(c + ft.psum(row, axis)), c * row), x[0], x
    )[1],
    "grad": lambda x, axis, n: ft.grad(lambda y: fnp.sum(fnp.sin(y) * ft.psum(y, axis)))(x),
    "row": lambda x, axis, n: x[n % 2] + 0 * x,
}
TWO = {"add": fnp.add, "multiply": fnp.multiply, "maximum": fnp.maximum,
       "matmul": lambda x, y: x @ y.T @ y}  # fmt: skip


def first(axis):
    return axis if isinstance(axis, str) else axis[0]


def total(f):
    return lambda *args: fnp.sum(fnp.sin(f(*args)))


USES = {
    "value": lambda f: f,
    "jit": ft.jit,
    "grad": lambda f: ft.grad(total(f), (0, 1)),
    "jit of grad": lambda f: ft.jit(ft.grad(total(f), (0, 1))),
    "jvp": lambda f: lambda x, y: ft.jvp(f, (x, y), (y, x)),
    "twice": lambda f: ft.grad(lambda x, y: fnp.sum(ft.grad(total(f))(x, y) ** 2)),
    "vmap": lambda f: lambda x, y: ft.vmap(f)(fnp.stack([x, y]), fnp.stack([y, x])),
}

places = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.sampled_from(sorted(ONE)), places, st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.sampled_from(sorted(TWO)), places, places),
)
draws = st.tuples(
    st.lists(steps, min_size=1, max_size=sized(5, 8)),
    st.sampled_from(sorted(USES)),
    st.sampled_from(["value", "jit", "grad"]),
)


def function_of(program):
    """Returns the function of one process that a drawn program is of."""

    def fun(x, y):
        values = [x, y]
        for name, *numbers in program:
            if name in ONE:
                i, axis, n = numbers
                values.append(ONE[name](values[-1 - i % len(values)], AXES[axis], n))
            else:
                values.append(TWO[name](*[values[-1 - i % len(values)] for i in numbers]))
        return values[-1] + 0.1 * values[-2]

    return fun


def outcome(program, use, within):
    """Returns the error that a drawn program ends with on this process; None if it is right."""
    fun = function_of(program)
    changed = {"value": fun, "jit": ft.jit(fun), "grad": ft.grad(total(fun))}[within]
    tolerance = {"rtol": 1e-8, "atol": 1e-8}

    def run(f, x, y):
        return USES[use](f)(x, y)

    try:
        # A process that differs is found before others wait for it.
        with ft.config.using(check_collectives=True):
            assert_same(run, changed, GRID, (SPEC, SPEC), SPEC, X, Y, **tolerance)
    except Exception as error:
        return error
    return None


def check_random_programs():
    if COMM.rank:
        while (drawn := COMM.bcast(None)) is not None:
            COMM.allgather(repr(outcome(*drawn)))
        return

    @settings(
        max_examples=sized(15, 40), deadline=None, database=None, derandomize=sized(True, False),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(draws)
    def agrees(drawn):
        COMM.bcast(drawn)
        own = outcome(*drawn)
        found = COMM.allgather(repr(own))
        if own is not None:
            raise own
        assert found == ["None"] * COMM.size, found

    try:
        agrees()
    finally:
        COMM.bcast(None)
