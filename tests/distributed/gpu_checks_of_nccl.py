"""Checks on a process for each GPU: collectives over NCCL against nested ``vmap`` on the CPU."""

import ml_dtypes
import numpy as np
import pytest
from support.meshes import assert_close

import functensor as ft
import functensor.numpy as fnp
from functensor.distributed import P, mesh, spmd

INFO = ft.distributed.initialize(device="cuda")
COUNT, RANK = INFO.size, INFO.rank
LINE = {"i": COUNT}
RING = [(i, (i + 1) % COUNT) for i in range(COUNT)]
X = np.cos(np.arange(COUNT * COUNT * 6.0)).reshape(COUNT * COUNT, 6) + 0.3
# Functions of a part of shape (COUNT, 6), which return one of the same shape.
FUNCTIONS = {
    "psum": lambda x: x * ft.psum(fnp.sin(x), "i"),
    "pmean": lambda x: (x - ft.pmean(x, "i")) ** 2,
    "pmax": lambda x: fnp.exp(x - ft.pmax(x, "i")) * ft.pmin(x, "i"),
    "all_gather": lambda x: fnp.sum(fnp.sin(ft.all_gather(x, "i", axis=1)), 1) * x,
    "psum_scatter": lambda x: x * ft.psum_scatter(fnp.sin(x), "i"),
    "psum_scatter_tiled": lambda x: x * ft.psum_scatter(
        fnp.concatenate([x] * COUNT, 0), "i", tiled=True
    ),
    "ppermute": lambda x: ft.ppermute(fnp.sin(x), "i", RING) * x,
    "ppermute_some": lambda x: ft.ppermute(x * x, "i", RING[:1]) * x + x,
    "all_to_all": lambda x: ft.all_to_all(fnp.sin(x), "i", 0, 1).T * x,
    "axis_index": lambda x: x * (ft.axis_index("i") + 1.0),
    "several": lambda x: ft.psum(
        fnp.tanh(ft.ppermute(x, "i", RING) @ (x.T @ ft.pmean(x, "i"))), "i"
    ),
}  # fmt: skip
# Graphs are recorded after some calls of a plan, which another thread makes.
CALLS = 8


def total(f):
    return lambda x: fnp.sum(fnp.sin(f(x)))


def over_functions(use):
    """Compares what is done with functions, of arrays on GPUs, with the same on the CPU."""
    for fun in FUNCTIONS.values():
        whole = spmd(fun, mesh(LINE), P("i"), P("i"))
        wanted = use(spmd(fun, mesh(LINE, emulated=True), P("i"), P("i")))(X)
        out = use(whole)(ft.to_device(X, "cuda"))
        assert out.device == INFO.device
        assert_close(ft.to_device(out, "cpu"), wanted, rtol=1e-9, atol=1e-10)


def check_devices():
    assert INFO.device == f"cuda:{INFO.local_rank}"
    assert INFO.engines == ("MPI", "NCCL")


def check_values_and_derivatives():
    over_functions(lambda f: f)
    over_functions(lambda f: ft.grad(total(f)))
    over_functions(lambda f: ft.grad(lambda x: fnp.sum(ft.grad(total(f))(x) ** 2)))
    over_functions(lambda f: lambda x: ft.jvp(f, (x,), (x,))[1])


def check_plans_and_graphs():
    def often(f):
        jitted = ft.jit(f)

        def calls(x):
            for _ in range(CALLS):
                jitted(x)
            jitted.compile(x)
            for _ in range(CALLS):
                out = jitted(x)
            return out

        return calls

    over_functions(often)
    over_functions(lambda f: often(ft.grad(total(f))))


def check_plans_of_some_processes():
    """Some processes run graphs and others run operation by operation."""

    def one(x):
        y = fnp.tanh(x @ ft.psum(x.T @ x, "i"))
        return ft.ppermute(y, "i", RING) * ft.pmean(fnp.sum(y * x), "i")

    step = ft.jit(spmd(one, mesh(LINE), P("i"), P("i")))
    wanted = spmd(one, mesh(LINE, emulated=True), P("i"), P("i"))(X)
    x = ft.to_device(X, "cuda")
    for call in range(3 * CALLS):
        assert_close(ft.to_device(step(x), "cpu"), wanted, rtol=1e-9)
        if call == CALLS and RANK == 0:
            step.compile(x)


def check_dtypes():
    for dtype in (*"?bhilBHILefdFD", ml_dtypes.bfloat16):
        x = (np.arange(COUNT * 5) % 7).reshape(COUNT, 5).astype(dtype)
        real = x.dtype.kind != "c"
        mine = ft.to_device(x, "cuda")

        def moved(part, real=real):
            part = part[0]
            rows = ft.all_gather(part, "i")
            out = [ft.ppermute(part, "i", RING), ft.all_to_all(rows, "i", 0, 0)[0], rows[-1]]
            return out + ([ft.pmax(part, "i"), ft.pmin(part, "i")] if real else [])

        out = spmd(moved, mesh(LINE), P("i"), P.local())(mine)
        wanted = [x[RANK - 1], x[RANK], x[-1]] + ([x.max(0), x.min(0)] if real else [])
        for got, known in zip(out, wanted, strict=True):
            assert got.dtype == known.dtype
            np.testing.assert_array_equal(np.asarray(ft.to_device(got, "cpu")), known)
        if x.dtype.kind == "b":
            continue
        summed = spmd(lambda part: ft.psum(part[0], "i"), mesh(LINE), P("i"), P())(mine)
        assert summed.dtype == x.dtype
        got = np.asarray(ft.to_device(summed, "cpu"))
        np.testing.assert_array_equal(got.astype("D"), x.astype("D").sum(0))


def check_not_a_number():
    x = np.tile(np.array([1.0, np.nan, -np.inf, np.inf]), (COUNT, 1))
    x[0, 0] = np.nan
    for fun, name in ((ft.pmax, "max"), (ft.pmin, "min")):
        one = spmd(lambda part, fun=fun: fun(part[0], "i"), mesh(LINE), P("i"), P.local())
        out = np.asarray(ft.to_device(one(ft.to_device(x, "cuda")), "cpu"))
        assert np.isnan(out[:2]).all(), name
        assert list(out[2:]) == [-np.inf, np.inf]


def check_means_beside_the_stream():
    import cupy

    group = mesh(LINE).group(["i"], cupy.zeros(1))
    pending = [group.begin_mean(cupy.full(1000, float(RANK + i)), i % 2 == 0) for i in range(4)]
    for i, mean_of_all in enumerate(pending):
        assert cupy.allclose(mean_of_all.result(), (COUNT - 1) / 2 + i)


def check_the_switch():
    with ft.config.using(check_collectives=True):
        over_functions(lambda f: ft.jit(f))
    x = ft.to_device(X, "cuda")

    def one(x):
        return ft.psum(x if RANK else x[:1], "i")[:1] * x

    with (
        ft.config.using(check_collectives=True),
        pytest.raises(ft.errors.CollectiveError, match=r"rank 0: psum of float64\[1, 6\]"),
    ):
        spmd(one, mesh(LINE), P("i"), P("i"))(x)
