"""A world of one process, what launchers say, and what is missing."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from support.processes import mpirun

import functensor as ft
import functensor.numpy as fnp
from functensor.distributed import P, gpu_choice, mesh, spmd
from functensor.distributed.checking import first_other
from functensor.distributed.launched import launched_processes
from functensor.distributed.ordered_integers import from_ordered, to_ordered

X = np.arange(6.0).reshape(2, 3)


def run(*lines, **environment):
    """Runs a program of some lines in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env={**os.environ, **environment}, capture_output=True, text=True,
    )  # fmt: skip


def test_one_process_is_a_world():
    info = ft.distributed.initialize()
    assert info is ft.distributed.info() is ft.distributed.initialize()
    assert (info.rank, info.size, info.local_rank, info.local_size) == (0, 1, 0, 1)
    assert info.engines == ()
    assert "mpi4py.MPI" not in run(
        "import functensor as ft, sys", "ft.distributed.info()", "print([*sys.modules])"
    ).stdout


def test_collectives_of_one_process():
    def one(x):
        y = ft.psum(x, "data") + ft.pmean(x, ("data", "model")) + ft.pmax(x, "model")
        y = y + ft.all_gather(x, "data")[0] + ft.all_gather(x, "model", axis=1, tiled=True)
        y = y + ft.psum_scatter(x[None], "data") + ft.all_to_all(x[None], "data", 0, 2)[..., 0]
        return y + ft.ppermute(x, "data", [(0, 0)]) + ft.ppermute(x, "data", []) + (
            ft.axis_index("data")
        )

    alone = mesh({"data": -1, "model": 1})
    whole = spmd(one, alone, P("data", "model"), P("data", "model"))
    np.testing.assert_array_equal(np.asarray(whole(X)), 8 * X)
    np.testing.assert_array_equal(np.asarray(ft.jit(whole)(X)), 8 * X)
    got = ft.grad(lambda x: fnp.sum(whole(x) * x))(X)
    np.testing.assert_array_equal(np.asarray(got), 16 * X)
    with ft.config.using(check_collectives=True):
        np.testing.assert_array_equal(np.asarray(whole(X)), 8 * X)


@pytest.mark.parametrize("name", ["psum", "pmax", "all_gather"])
def test_results_of_plans_keep_their_numbers(name):
    """A process alone gets its operand back, which may lie in the memory of a plan."""
    one = spmd(lambda x: getattr(ft, name)(fnp.sin(x), "data"), mesh({"data": 1}), P(), P.local())
    jitted = ft.jit(one)
    jitted(X)
    first = jitted(X)
    jitted(X + 1)
    np.testing.assert_array_equal(np.asarray(first), np.asarray(one(X)))


def test_tensors_stay_tensors():
    whole = spmd(lambda w, x: ft.psum((x @ w).sum(), "data"), mesh({"data": 1}), P(), P())
    w = ft.tensor(X[0], requires_grad=True)
    out = whole(w, ft.tensor(X))
    assert isinstance(out, ft.Tensor)
    out.backward()
    np.testing.assert_array_equal(w.grad.numpy(), X.sum(0))


def test_an_emulated_mesh_needs_no_others():
    grid = mesh({"data": 2, "model": 3}, emulated=True)
    places = spmd(
        lambda: (fnp.asarray(ft.axis_index("data")), fnp.asarray(ft.axis_index("model"))),
        grid, P(), (P.local(), P.local()),
    )  # fmt: skip
    assert [int(place) for place in places()] == [0, 0]
    total = spmd(lambda x: ft.psum(fnp.sum(x), ("data", "model")), grid, P("data", "model"), P())
    assert float(total(X)) == X.sum()
    with pytest.raises(ValueError, match=r"for 6 processes, and the program runs on 1"):
        mesh({"data": 2, "model": 3})


@pytest.mark.parametrize("shape", [4, ["data"], {"data": "4"}, {"data": 2.0, "model": None}])
def test_a_mesh_that_is_no_dict_of_lengths_is_refused_with_right_code(shape):
    with pytest.raises(TypeError, match=r"shape is a dict of whole numbers") as caught:
        mesh(shape)
    what, line, fix = str(caught.value).split("\n")
    assert what.endswith(f"not {shape!r}")
    assert "test_world.py:" in line
    assert fix.startswith('  fix: mesh({"data": 4})')


@pytest.mark.parametrize("name", [None, ("a", "b"), ()])
def test_a_name_that_specs_take_for_something_else_is_refused(name):
    with pytest.raises(ValueError, match="is no name of an axis"):
        mesh({name: -1})


def test_lengths_of_a_mesh_may_be_integers_of_numpy():
    assert mesh({"data": np.int64(4)}, emulated=True) is mesh({"data": 4}, emulated=True)


@pytest.mark.parametrize("emulated", [False, True])
def test_a_mesh_in_one_process_refuses_as_processes_do(emulated):
    length = 3 if emulated else 1
    grid = mesh({"data": length}, emulated=emulated)

    spec = P("data")

    def call(*args, fun=lambda x: x, in_specs=spec, out_specs=spec):
        return spmd(fun, grid, in_specs, out_specs)(*args)

    for given in (
        lambda: call(X, in_specs=P("data", None, None)), lambda: call(1.0),
        lambda: call(X[0], out_specs=P("data", None)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"is for \d axes, and an array float.* has \d"):
            given()
    with pytest.raises(TypeError, match=r"P\('data'\) cuts 'a', which is no array"):
        call("a")
    with pytest.raises(ValueError, match=r"runs within another"):
        call(X[0], fun=lambda x: call(x))
    with pytest.raises(ValueError, match=r"  fix: in_specs=P\('data'\)"):
        call(X, in_specs=P("model"))
    if emulated:
        with pytest.raises(ValueError, match=r"axis 0 .* into 3 parts, and has length 2"):
            call(X)


@pytest.mark.parametrize("emulated", [False, True])
def test_numbers_and_tensors_are_given_as_they_are(emulated):
    grid = mesh({"data": 1}, emulated=emulated)
    scaled = spmd(lambda x, by: x * by, grid, (P("data"), P()), P("data"))
    assert scaled(X.astype("f"), 2.0).dtype == np.float32
    x = ft.tensor(X, requires_grad=True)
    scaled(x, 2.0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full_like(X, 2.0))


def test_nothing_sent_is_zero_whatever_was_there():
    sent = spmd(lambda x: ft.ppermute(x, "data", []), mesh({"data": 1}), P("data"), P("data"))
    np.testing.assert_array_equal(np.asarray(sent(np.array([np.inf, np.nan, 1.0]))), np.zeros(3))


def test_launchers():
    assert launched_processes({"PMI_SIZE": "4"})[0] == 4
    assert launched_processes({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}) == (1, "")
    assert launched_processes({"SLURM_STEP_NUM_TASKS": "8"}) == (8, "srun")
    assert launched_processes({"OMPI_COMM_WORLD_SIZE": "1"}) == (1, "")


def test_without_mpi_nothing_is_silent():
    block = "import sys; sys.modules['mpi4py'] = sys.modules['mpi4py.MPI'] = None"
    start = "import functensor as ft; ft.distributed.initialize()"
    done = run(block, start, OMPI_COMM_WORLD_SIZE="2")
    assert done.returncode
    for words in ("Open MPI started 2 processes", "functensor[mpi]", "MissingExtraError"):
        assert words in done.stderr
    assert not run(block, start).returncode


@pytest.mark.skipif(mpirun() is None, reason="there is no mpirun")
def test_another_mpi_than_the_launchers_is_an_error():
    pytest.importorskip("mpi4py")
    done = run("import functensor as ft; ft.distributed.initialize()", OMPI_COMM_WORLD_SIZE="2")
    assert "Open MPI started 2 processes, but MPI finds 1" in done.stderr


@pytest.mark.parametrize("device", ["cpu", None])
@pytest.mark.parametrize("other", ["- big", "c big"])
def test_processes_of_all_hosts_choose_one_kind_of_device(device, other, monkeypatch):
    """Processes would wait for each other for ever, some by NCCL and some by MPI."""
    told = []

    def gathered(comm, words, what, length=64):
        told.append(comm)
        return [*comm, words]

    monkeypatch.setattr(gpu_choice, "gathered_words", gathered)
    monkeypatch.setattr(gpu_choice, "gethostname", lambda: "here")
    monkeypatch.setattr(gpu_choice, "_count_gpus", lambda wanted: 0)
    assert gpu_choice.own_device([other], [], device) == "cpu"
    with pytest.raises(RuntimeError, match="do not all compute on GPUs") as seen:
        gpu_choice.own_device(["+ big", "+ wide", "+ big", other], [], device)
    assert "3 have a GPU (big, wide), " in str(seen.value)
    own = "ask for the CPU" if device else "find none"
    assert f"{own} (" in str(seen.value)
    assert "here" in str(seen.value)
    assert told.count([]) == 2


def test_processes_of_a_host_have_a_gpu_each():
    with pytest.raises(RuntimeError, match="3 processes on one host would share 2 GPUs"):
        gpu_choice.check_buses(["0000:18", "0000:2A", "0000:18"])


def test_what_is_asked_for_too_late_or_wrongly():
    start = "import functensor as ft"
    done = run(start, "ft.distributed.info()", "ft.distributed.initialize(device='cuda')")
    assert "was called before" in done.stderr
    done = run(start, "ft.distributed.initialize(device='tpu')")
    assert "device is 'cpu' or 'cuda', not 'tpu'" in done.stderr


def test_printing(capsys):
    ft.distributed.print_once("a", 1, sep="-")
    assert capsys.readouterr().out == "a-1\n"


@pytest.mark.parametrize("dtype", ["e", "f", "d", "bfloat16"])
def test_integers_in_the_order_of_floats(dtype):
    dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = np.array([np.nan, np.inf, 3.5, 1e-7, 0.0, -0.0, -1e-7, -2.0, -np.inf]).astype(dtype)
    for nan_last in (True, False):
        ordered = to_ordered(np, x, nan_last)
        back = from_ordered(np, ordered, x.dtype)
        assert back.dtype == x.dtype
        np.testing.assert_array_equal(back.astype(float), x.astype(float))
        assert (np.diff(ordered[1:].astype(float)) <= 0).all()
        assert (ordered[0] == ordered.max()) is np.bool_(nan_last)
        assert (ordered[0] == ordered.min()) is not np.bool_(nan_last)


def test_specs():
    assert P("a", None, ("b", "c")) == P("a", (), ("b", "c")) != P.local("a", None, ("b", "c"))
    assert hash(P("a")) == hash(P("a"))
    assert (repr(P()), repr(P.local("a", None))) == ("P()", "P.local('a', None)")
    assert P("a", ("b", "c")).names() == ("a", "b", "c")


@pytest.mark.parametrize("emulated", [False, True])
@pytest.mark.parametrize("number", [2, 2.5, True, 2j])
def test_traced_numbers_give_way_to_the_dtypes_of_arrays(number, emulated):
    def plain(s, x):
        return s * x, s * 2 + x

    x = np.ones(3, "float32")
    own = spmd(plain, mesh({"data": 1}, emulated=emulated), P(), P())
    ways = {
        "jit": lambda fun: ft.jit(fun)(number, x),
        "jit of grad": lambda fun: ft.jit(
            ft.value_and_grad(lambda x, s: fnp.sum(fnp.real(fun(s, x)[0])))
        )(x, number),
        "jvp of s": lambda fun: ft.jvp(lambda s: fun(s, x)[0], (2.5,), (1.0,)),
        "vmap of jit": lambda fun: ft.vmap(ft.jit(fun), (None, 0))(number, x),
    }
    for name, way in ways.items():
        wanted, found = map(ft.tree.leaves, (way(plain), way(own)))
        assert [x.dtype for x in found] == [x.dtype for x in wanted], name
        for got, good in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(good))


def test_meshes_and_axes_survive_pickling():
    import pickle

    alone = mesh({"data": 1})
    assert pickle.loads(pickle.dumps(alone)) is alone
    emulated = mesh({"data": 4}, emulated=True)
    assert pickle.loads(pickle.dumps(emulated)) is emulated
    program = ft.make_program(spmd(lambda x: ft.psum(x, "data"), alone, P(), P()))(X)
    again = pickle.loads(pickle.dumps(program))
    np.testing.assert_array_equal(np.asarray(again(X)), X)


def test_optimizers_that_cannot_be_spread():
    import functensor.torch as torch

    of_tensors = torch.optim.Adam([torch.ones(1, requires_grad=True)])
    for optimizer, words in ((of_tensors, "Adam"), (ft.optim.adam, "function"), (3, "int")):
        with pytest.raises(TypeError, match=f"sharded: the optimizer is a {words}, no pure one"):
            ft.distributed.sharded(optimizer)


def test_sizes_that_do_not_fit():
    with pytest.raises(TypeError, match="integer"):
        ft.distributed.data_parallel(np.sum, accumulate=1.5)
    for size, error, text in (
        ("25", TypeError, "bucket_megabytes is a number, not '25'"),
        (-1, ValueError, "bucket_megabytes is -1, it must be finite, and 0 or more"),
        (float("inf"), ValueError, "bucket_megabytes is inf"),
    ):
        with pytest.raises(error, match=f"data_parallel: {text}"):
            ft.distributed.data_parallel(np.sum, bucket_megabytes=size)
        with pytest.raises(error, match=f"sharded: {text}"):
            ft.distributed.sharded(ft.optim.sgd(0.1), bucket_megabytes=size)


def test_axes_that_do_not_fit():
    alone = mesh({"data": 1})
    with pytest.raises(NameError, match=r"no axis named 'rows' here.*mesh\(\{'rows': -1\}\)"):
        spmd(lambda x: ft.psum(x, "rows"), alone, P(), P())(X)
    spread = ft.distributed.sharded(ft.optim.sgd(0.1), "rows", stage=3)
    for use in (spread.shard, lambda x: ft.distributed.gather(x, "rows"),
                lambda x: spread.minimize(fnp.sum)(x, None),
                ft.distributed.data_parallel(ft.grad(fnp.sum), axis="rows")):
        with pytest.raises(ValueError, match="no axis 'rows': its axes are 'data'"):
            spmd(use, alone, P(), P())(X)
    cut = ft.distributed.Shard(fnp.ones(3), (2, 3), 2, 0)
    with pytest.raises(ValueError, match=r"of 2 shards of float64.*not cut along axis='data'"):
        ft.distributed.gather([cut])


def test_meshes_that_processes_do_not_fill():
    for shape, words in (
        ({"data": -1, "model": 2}, "a multiple of 2 processes, and the program runs on 1"),
        ({"data": 3}, "for 3 processes, and the program runs on 1"),
    ):
        with pytest.raises(ValueError, match=words) as seen:
            mesh(shape)
        # The right code that it shows is right.
        text = str(seen.value).partition("in one process: ")[2].partition("\n")[0]
        assert eval(text, {"mesh": mesh}).emulated
    with pytest.raises(ValueError, match="lengths of an emulated mesh are positive"):
        mesh({"data": -1}, emulated=True)
    with pytest.raises(ValueError, match="lengths, of which one may be -1, are positive"):
        mesh({"data": -1, "model": -1})


def test_what_is_not_rounded_is_compared_exactly():
    keys = np.array([[1, 2**62], [1, 2**62], [1, 2**62 + 1]])
    for rows in (keys, keys.astype(np.uint64), keys % 2 == 1):
        assert first_other(rows) == 2
        assert first_other(rows[:2]) is None
        assert first_other(rows[:, :0]) is None
    halves = np.array([[1.0, 2.0], [1.01, 2.0], [1.5, 2.0]])
    for dtype in ("float16", ml_dtypes.bfloat16, "complex64"):
        assert first_other(halves[:2].astype(dtype)) is (1 if dtype == "complex64" else None)
        assert first_other(halves.astype(dtype)) == (1 if dtype == "complex64" else 2)
