"""Checks of data-parallel steps: means over processes are the gradients of the whole batch."""

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
import functensor.torch as torch
from functensor.primitives import gradient_buckets

RANK, SIZE = ft.distributed.rank(), ft.distributed.size()
data_parallel = ft.distributed.data_parallel
ROWS = 4 * SIZE


def drawn(*shape, dtype="float64", seed=0):
    return np.array(numpy.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype))


X, Y = drawn(ROWS, 5), drawn(ROWS, 3)


def own(x):
    """Returns this process's part of a batch."""
    length = len(x) // SIZE
    return x[RANK * length : (RANK + 1) * length]


def parameters():
    """Returns parameters of two dtypes, of which one has no influence."""
    return [
        {"b": drawn(7, dtype="float32"), "w": drawn(5, 7)},
        {"none": np.ones((0, 2)), "w": drawn(7, 3), "unused": np.ones(3)},
    ]


def loss(params, x, y):
    hidden = np.tanh(x @ params[0]["w"] + params[0]["b"])
    return np.mean((hidden @ params[1]["w"] - y) ** 2)


def assert_close(found, wanted, tolerance=1e-6):
    pairs = list(zip(ft.tree.leaves(found), ft.tree.leaves(wanted), strict=True))
    for x, y in pairs:
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        numpy.testing.assert_allclose(numpy.array(x), numpy.array(y), rtol=tolerance, atol=1e-7)
    assert not gradient_buckets._on_their_way


def check_means_are_those_of_the_whole_batch():
    wanted = ft.value_and_grad(loss)(parameters(), X, Y)
    for options in ({}, {"bucket_megabytes": 1e-5}, {"accumulate": 2}):
        both = data_parallel(ft.value_and_grad(loss), **options)
        assert_close(both(parameters(), own(X), own(Y)), wanted)


def check_means_in_jitted_steps():
    wanted = ft.value_and_grad(loss)(parameters(), X, Y)
    for options in ({}, {"bucket_megabytes": 1e-5}, {"accumulate": 2}):
        within = data_parallel(ft.jit(ft.value_and_grad(loss)), **options)
        around = ft.jit(data_parallel(ft.value_and_grad(loss), **options))
        # It takes a parameter that has no influence, too.
        inside = data_parallel(ft.value_and_grad(ft.jit(loss)), **options)
        for both in (within, around, inside):
            for _ in range(2):
                assert_close(both(parameters(), own(X), own(Y)), wanted)


def check_a_jitted_function_has_no_means_outside():
    gradient = ft.jit(ft.grad(loss))
    data_parallel(gradient)(parameters(), own(X), own(Y))
    wanted = ft.grad(loss)(parameters(), own(X), own(Y))
    assert_close(gradient(parameters(), own(X), own(Y)), wanted)


def check_buckets_begin_while_the_backward_pass_runs():
    """All exchanges but that of the first layer stand before the last product of the way back."""
    step = data_parallel(ft.grad(loss), bucket_megabytes=1e-5)
    names = [
        equation.primitive.name
        for equation in ft.make_program(step)(parameters(), own(X), own(Y)).equations
    ]
    last_product = len(names) - 1 - names[::-1].index("matmul")
    assert names[:last_product].count("begin_mean") == 3
    assert names.index("end_mean") > last_product


def check_a_gradient_that_comes_last_holds_up_no_other():
    """An embedding stands before layers by its name, and its gradient comes behind theirs."""

    def loss(params, x):
        for name in sorted(params)[1:]:
            x = np.tanh(x @ params[name])
        return np.sum(x)

    def whole(params, x):
        return loss(params, x @ params["embedding"])

    params = {"layer1": drawn(5, 5), "layer2": drawn(5, 5), "embedding": drawn(5, 5)}
    step = data_parallel(ft.grad(whole), bucket_megabytes=1e-5)
    names = [e.primitive.name for e in ft.make_program(step)(params, own(X)).equations]
    last_product = len(names) - 1 - names[::-1].index("matmul")
    assert names[:last_product].count("begin_mean") == 2
    wanted = ft.grad(whole)(params, X)
    assert_close(step(params, own(X)), ft.tree.map(lambda g: g / SIZE, wanted))


def check_a_gradient_that_fills_a_bucket_goes_alone():
    """Small ones go together, in the order in which the last of them comes."""

    def whole(params, x):
        for w, b in params:
            x = np.tanh(x @ w + b)
        return np.sum(x)

    params = [(drawn(5, 5), drawn(5)) for _ in range(3)]
    step = data_parallel(ft.grad(whole), bucket_megabytes=200 / 2**20)
    equations = ft.make_program(step)(params, own(X)).equations
    buckets = [e.operands for e in equations if e.primitive.name == "begin_mean"]
    shapes = [[x.type.shape for x in bucket] for bucket in buckets]
    assert shapes == [[(5, 5)], [(5, 5)], [(5,)] * 3, [(5, 5)]]
    wanted = ft.grad(whole)(params, X)
    assert_close(step(params, own(X)), ft.tree.map(lambda g: g / SIZE, wanted))


@ft.custom_vjp
def failing(x):
    return x


def fail(_, g):
    raise FloatingPointError("on the way back")


failing.defvjp(lambda x: (x, None), fail)


def check_a_pass_that_fails_leaves_nothing_on_its_way():
    """The last layer's gradient is on its way when the first layer's fails."""

    def of_failing(params, x, y):
        return loss([{**params[0], "w": failing(params[0]["w"])}, params[1]], x, y)

    for with_value in (ft.value_and_grad, ft.grad):
        step = data_parallel(with_value(of_failing), bucket_megabytes=1e-5)
        with pytest.raises(FloatingPointError):
            step(parameters(), own(X), own(Y))
        wanted = ft.grad(loss)(parameters(), X, Y)
        assert_close(data_parallel(ft.grad(loss))(parameters(), own(X), own(Y)), wanted)


@ft.extend.numpy_function
def failing_on_the_host(g):
    if Failing.now:
        raise FloatingPointError("on the way back")
    return g


class Failing:
    """Says whether a plan fails now, on its way back."""

    now = False


def check_a_plan_that_fails_leaves_nothing_on_its_way():
    @ft.custom_vjp
    def turned(x):
        return x

    turned.defvjp(lambda x: (x, None), lambda _, g: (failing_on_the_host(g),))

    def of_failing(params, x, y):
        return loss([{**params[0], "w": turned(params[0]["w"])}, params[1]], x, y)

    step = ft.jit(data_parallel(ft.grad(of_failing), bucket_megabytes=1e-5))
    wanted = ft.grad(loss)(parameters(), X, Y)
    for Failing.now in (False, True, True, False):
        if Failing.now:
            with pytest.raises(FloatingPointError):
                step(parameters(), own(X), own(Y))
            assert not gradient_buckets._on_their_way
        else:
            assert_close(step(parameters(), own(X), own(Y)), wanted)


def check_order_of_buckets_does_not_follow_from_control_flow():
    """A parameter that some processes do not use has a gradient of zeros there."""

    def loss(params, x):
        used = params["a"] if RANK % 2 else params["b"]
        return np.sum(used * x) + np.sum(params["c"] * x)

    params = {"a": drawn(3), "b": drawn(3), "c": drawn(3)}
    found = data_parallel(ft.grad(loss), bucket_megabytes=1e-5)(params, np.ones(3))
    for name, wanted in (("a", 0.5), ("b", 0.5), ("c", 1.0)):
        numpy.testing.assert_array_equal(found[name], numpy.full(3, wanted))


def check_the_first_process_stages_a_step_alone():
    """It looks at the program, and the others do not."""

    def twice(params, x, y):
        return 2.0 * loss(params[:2], x, y) + np.sum(params[2])

    params = [*parameters(), drawn(9)]
    step = ft.jit(data_parallel(ft.grad(twice), bucket_megabytes=1e-5))
    if RANK == 0:
        assert "begin_mean" in str(step.lower(params, own(X), own(Y)).program)
        ft.eval_shape(step, params, own(X), own(Y))
    assert_close(step(params, own(X), own(Y)), ft.grad(twice)(params, X, Y))


def check_training_reaches_the_losses_of_one_process():
    optimizer = ft.optim.adam(0.05)
    alone = optimizer.minimize(loss)
    for together in (
        data_parallel(optimizer.minimize(loss)), ft.jit(data_parallel(optimizer.minimize(loss)))
    ):
        params = whole = parameters()
        state = whole_state = optimizer.init(params)
        for _ in range(6):
            whole, whole_state = alone(whole, whole_state, X, Y)
            params, state = together(params, state, own(X), own(Y))
            numpy.testing.assert_allclose(float(state.loss), float(whole_state.loss), rtol=1e-6)
        assert_close(params, whole, 1e-5)


def check_a_run_of_the_same_seed_has_the_same_bits():
    def run():
        with ft.config.using(deterministic=True):
            optimizer = ft.optim.adam(0.05)
            step = ft.jit(data_parallel(optimizer.minimize(loss)))
            params, state = parameters(), optimizer.init(parameters())
            for _ in range(4):
                params, state = step(params, state, own(X), own(Y))
            return [numpy.array(x).tobytes() for x in ft.tree.leaves((params, state))]

    assert run() == run()


def check_processes_have_the_same_bits():
    optimizer = ft.optim.adam(0.05)
    step = data_parallel(optimizer.minimize(loss))
    params, _ = step(parameters(), optimizer.init(parameters()), own(X), own(Y))
    for x in ft.tree.leaves(params):
        first = ft.distributed.broadcast(x)
        assert numpy.array(first).tobytes() == numpy.array(x).tobytes()


def check_half_precision_and_complex_numbers():
    for dtype in ("float16", "complex128", "bfloat16"):
        w = drawn(3, 2).astype(dtype)

        def loss(w, x, dtype=dtype):
            out = np.astype(x, dtype) @ w
            return np.mean(np.real(out * np.conj(out)).astype("float32"))

        found = data_parallel(ft.grad(loss))(w, own(X)[:, :3])
        wanted = ft.grad(loss)(w, X[:, :3])
        assert found.dtype == wanted.dtype
        tolerance = 3e-2 if w.dtype.itemsize == 2 else 1e-12
        numpy.testing.assert_allclose(
            numpy.array(found.astype("complex128")), numpy.array(wanted.astype("complex128")),
            rtol=tolerance, atol=tolerance,
        )  # fmt: skip


def check_inner_derivatives_are_of_one_process():
    """A derivative within a function that is differentiated is no mean."""

    def loss(w, x):
        inner = ft.grad(lambda w: np.sum((w * x) ** 2))(w)
        return np.sum(inner**2)

    w = drawn(5)
    found = data_parallel(ft.value_and_grad(loss))(w, X[RANK])
    wanted = [ft.value_and_grad(loss)(w, X[i]) for i in range(SIZE)]
    assert_close(found[0], np.mean(np.array([value for value, _ in wanted])))
    assert_close(found[1], np.mean(np.array([g for _, g in wanted]), axis=0))


def check_derivatives_through_a_step():
    """A step has a derivative, through the mean of its gradients."""

    def step(rate, w, x):
        return np.sum((w - rate * ft.grad(lambda w: np.mean((x @ w) ** 2))(w)) ** 2)

    w = drawn(5)
    by_rate, by_w = ft.grad(data_parallel(step), argnums=(0, 1))(0.1, w, own(X))
    wanted = ft.grad(step, argnums=(0, 1))(0.1, w, X)
    assert_close(by_rate, wanted[0], 1e-9)
    # Within, each process has a ``w`` of its own, which changes the outputs of all.
    mesh, local = ft.distributed.mesh({"data": SIZE}), ft.distributed.P.local()
    mean = ft.distributed.spmd(lambda x: ft.pmean(x, "data"), mesh, local, ft.distributed.P())
    assert_close(mean(by_w), wanted[1], 1e-9)


def check_gradients_of_single_examples_are_refused():
    per_example = ft.vmap(ft.grad(loss), in_axes=(None, 0, 0))
    with pytest.raises(ValueError, match="single examples"):
        data_parallel(per_example)(parameters(), own(X)[:, None], own(Y)[:, None])


def check_batches_that_cannot_be_cut_are_refused():
    with pytest.raises(ValueError, match="accumulate=3 cuts the first axes"):
        data_parallel(ft.grad(loss), accumulate=3)(parameters(), own(X), own(Y))


def check_a_mesh_of_two_axes():
    """Means go over one axis; the other one is free for collectives within the step."""
    mesh = ft.distributed.mesh({"data": SIZE // 2, "model": 2})
    i, j = mesh.position["data"], mesh.position["model"]

    def loss(w, x):
        return np.mean(ft.psum(x @ w, "model") ** 2)

    w, rows = drawn(6), drawn(SIZE // 2, 3, 6)
    step = data_parallel(ft.grad(loss), mesh, "data")
    found = step(w[3 * j : 3 * j + 3], rows[i][:, 3 * j : 3 * j + 3])
    wanted = ft.grad(lambda w: np.mean((rows @ w) ** 2))(w)
    # The derivative within is that of the sum over the axis "model".
    assert_close(found, 2 * wanted[3 * j : 3 * j + 3])


def make_module(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3)
    )


def check_gradients_of_tensors_are_means():
    x, y = torch.tensor(X).float(), torch.tensor(Y).float()
    mean_square = torch.nn.functional.mse_loss
    whole = make_module(0)
    mean_square(whole(x), y).backward()
    for cap in (25.0, 1e-5):
        model = torch.nn.parallel.DistributedDataParallel(make_module(RANK), bucket_cap_mb=cap)
        mean_square(model(own(x)), own(y)).backward()
        assert_tensors_close(model, whole, 1.0)
        # Another pass adds to them.
        mean_square(model(own(x)), own(y)).backward()
        assert_tensors_close(model, whole, 2.0)


def check_gradients_of_tensors_are_accumulated():
    x, y = torch.tensor(X).float(), torch.tensor(Y).float()
    mean_square = torch.nn.functional.mse_loss
    whole = make_module(0)
    mean_square(whole(x), y).backward()
    model = torch.nn.parallel.DistributedDataParallel(make_module(0))
    half = len(own(X)) // 2
    with model.no_sync():
        (mean_square(model(own(x)[:half]), own(y)[:half]) / 2).backward()
    (mean_square(model(own(x)[half:]), own(y)[half:]) / 2).backward()
    assert_tensors_close(model, whole, 1.0)


def assert_tensors_close(model, whole, factor):
    for p, q in zip(model.parameters(), whole.parameters(), strict=True):
        numpy.testing.assert_allclose(
            p.grad.numpy(), factor * q.grad.numpy(), rtol=1e-5, atol=1e-7
        )
