"""The workloads that GPUs are measured with, as users of each library would write them."""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.case import NumpyArray, Problem
from benchmarks.data import LAYER_NORM_EPSILON, LEARNING_RATE, cnn_problem, dense_layers, gpt_params
from benchmarks.peers.numpy_losses import NumpyLosses, Params

Loss = Callable[..., Any]
Step = Callable[[], Any]

BLOCKS, WIDTH, HEADS, VOCABULARY = 4, 768, 12, 50257
BATCH, TOKENS = 8, 1024
LARGE, LAYERS = 4096, 4
LEAVES = 100
MOST_STEPS_BEFORE_A_PLAN = 200
# Rows whose step returns the gradient alone, and one that has gradients already.
GRADIENTS_ALONE = frozenset({"elementwise-grad", "cross-entropy"})
UPDATE = "adam-100"


# The data, in float32


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> NumpyArray:
    """Returns normal numbers."""
    return rng.standard_normal(shape, np.float32) * np.float32(scale)


def scalar_ops_data(rng: np.random.Generator) -> Problem:
    """Ten floats, on which the map has a fixed point."""
    return Problem("scalar-ops", "gradient", rng.uniform(0.7, 1.5, 10).astype(np.float32))


def elementwise_data(rng: np.random.Generator) -> Problem:
    """64 Mi floats."""
    return Problem("elementwise", "gradient", normal(rng, 64 * 2**20))


def mlp_data(rng: np.random.Generator, name: str, widths: list[int], batch: int) -> Problem:
    """A perceptron of layers between widths."""
    sizes = {f"dense{i}": pair for i, pair in enumerate(pairwise(widths))}
    params = dense_layers(partial(normal, rng), **sizes)
    images, labels = normal(rng, batch, widths[0]), rng.integers(0, widths[-1], batch)
    return Problem(name, "train", params, (images, labels))


def gpt_data(rng: np.random.Generator) -> Problem:
    """Four blocks, 768 wide, 8 x 1024 tokens."""
    params = gpt_params(partial(normal, rng), BLOCKS, WIDTH, VOCABULARY, TOKENS, 0.02)
    params = {k: v * np.float32(0.5) if k.endswith("_w") else v for k, v in params.items()}
    text = rng.integers(0, VOCABULARY, (BATCH, TOKENS + 1))
    return Problem("gpt", "train", params, (text[:, :-1].copy(), text[:, 1:].copy()))


def mlp_small_data(rng: np.random.Generator) -> Problem:
    """784-128-128-10, batch 64."""
    return mlp_data(rng, "mlp-small", [784, 128, 128, 10], 64)


def mlp_large_data(rng: np.random.Generator) -> Problem:
    """Four layers of 4096 x 4096, batch 4096."""
    return mlp_data(rng, "mlp-large", [LARGE] * (LAYERS + 1), LARGE)


def gpt_body_data(rng: np.random.Generator) -> Problem:
    """The same blocks without embeddings and head, on an array."""
    whole = gpt_params(partial(normal, rng), BLOCKS, WIDTH, 2, 1, 0.02)
    outside = "embedding", "position", "head_w", "head_b"
    params = {k: v * np.float32(0.5) for k, v in whole.items() if k not in outside}
    return Problem("gpt-body", "train", params, (normal(rng, BATCH, TOKENS, WIDTH),))


def elementwise_grad_data(rng: np.random.Generator) -> Problem:
    """64 Mi floats, of which the gradient alone is wanted."""
    return Problem("elementwise-grad", "gradient", normal(rng, 64 * 2**20))


def cross_entropy_data(rng: np.random.Generator) -> Problem:
    """Logits of 8192 tokens, of which some are the same."""
    rows = BATCH * TOKENS
    logits = np.tile(normal(rng, 64, VOCABULARY), (rows // 64, 1))
    return Problem("cross-entropy", "gradient", logits, (rng.integers(0, VOCABULARY, rows),))


def adam_data(rng: np.random.Generator) -> Problem:
    """100 leaves of 1 Mi floats; their gradients are the batch."""
    one = normal(rng, 1024, 1024)
    params = {f"leaf{i:02}": one * np.float32(0.01 * i) for i in range(LEAVES)}
    return Problem("adam-100", "train", params, (one,) * LEAVES)


# Workloads by name: the data, and the dtype in which parameters and floats are.
WORKLOADS: dict[str, tuple[Callable[[np.random.Generator], Problem], str]] = {
    "scalar-ops": (scalar_ops_data, "float32"),
    "mlp-small": (mlp_small_data, "float32"),
    "cnn": (lambda rng: cnn_problem(rng, partial(normal, rng), 128), "float32"),
    "elementwise": (elementwise_data, "float32"),
    "mlp-large": (mlp_large_data, "float32"),
    "gpt": (gpt_data, "float32"),
    "gpt-bf16": (gpt_data, "bfloat16"),
    "gpt-body": (gpt_body_data, "float32"),
    "gpt-body-bf16": (gpt_body_data, "bfloat16"),
    "elementwise-grad": (elementwise_grad_data, "float32"),
    "adam-100": (adam_data, "float32"),
    "cross-entropy": (cross_entropy_data, "float32"),
}


class GpuLosses(NumpyLosses):
    """The losses that differ in size from those of CPUs; mixed into those of a library."""

    heads, blocks = HEADS, BLOCKS

    def of(self, workload: str) -> Loss:
        """Returns the loss of a workload."""
        losses = {"mlp-small": self.mlp, "mlp-large": self.mlp, "cnn": self.cnn, "gpt": self.gpt}
        losses |= {"scalar-ops": self.scalar_ops, "elementwise": self.elementwise}
        losses |= {"elementwise-grad": self.elementwise, "cross-entropy": self.cross_entropy}
        return {**losses, "gpt-body": self.gpt_body, UPDATE: self.unused}[workload]

    def unused(self, params: Params, *gradients: Any) -> Any:
        """Stands for the loss where gradients are given."""
        raise NotImplementedError

    def gpt_body(self, params: Params, x: Any) -> Any:
        """Blocks of a transformer, and the mean square of what they return."""
        for block in (f"block{index}" for index in range(self.blocks)):
            x = x + self.attention(params, block, self.norm(params, f"{block}_norm1", x), None)
            hidden = self.dense(params, f"{block}_up", self.norm(params, f"{block}_norm2", x))
            x = x + self.dense(params, f"{block}_down", self.gelu(hidden))
        return self.np.mean(self.np.square(self.norm(params, "norm", x)))

    def mlp(self, params: Params, images: Any, labels: Any) -> Any:
        """A perceptron of as many layers as there are parameters for."""
        x, layers = images, len(params) // 2
        for i in range(layers):
            x = self.dense(params, f"dense{i}", x)
            x = self.relu(x) if i < layers - 1 else x
        return self.cross_entropy(x, labels)


# functensor


def functensor_losses() -> GpuLosses:
    """Returns the losses by functensor's own functions of networks."""
    import functensor.numpy as fnp
    from benchmarks.peers import functensor_peer
    from functensor import nn

    class Losses(GpuLosses, functensor_peer.Losses):
        embedded = staticmethod(nn.embedding)

        def dense(self, params: Params, name: str, x: Any, activation: Any = None) -> Any:
            return nn.linear(x, params[f"{name}_w"], params[f"{name}_b"], activation)

        def convolved(self, params: Params, name: str, x: Any) -> Any:
            return nn.conv(x, params[f"{name}_w"], params[f"{name}_b"])

        def norm(self, params: Params, name: str, x: Any) -> Any:
            scale, bias = params[f"{name}_scale"], params[f"{name}_bias"]
            return nn.layer_norm(x, scale, bias, LAYER_NORM_EPSILON)

        def mlp(self, params: Params, images: Any, labels: Any) -> Any:
            x, layers = images, len(params) // 2
            for i in range(layers):
                x = self.dense(params, f"dense{i}", x, nn.relu if i < layers - 1 else None)
            return self.cross_entropy(x, labels)

        def cnn(self, params: Params, images: Any, labels: Any) -> Any:
            x = images
            for layer in ("conv1", "conv2"):
                x = nn.relu(self.convolved(params, layer, x))
            x = nn.max_pool(x, 2).reshape(len(x), -1)
            x = self.dense(params, "dense1", x, nn.relu)
            return self.cross_entropy(self.dense(params, "dense2", x), labels)

        def attention(self, params: Params, name: str, x: Any, causal: Any) -> Any:
            batch, tokens, width = x.shape
            shape = (batch, tokens, self.heads, width // self.heads)
            query, key, value = (
                part.reshape(shape).transpose(0, 2, 1, 3)
                for part in fnp.split(self.dense(params, f"{name}_qkv", x), 3, axis=-1)
            )
            mixed = nn.attention(query, key, value, causal=True)
            mixed = mixed.transpose(0, 2, 1, 3).reshape(x.shape)
            return self.dense(params, f"{name}_out", mixed)

    return Losses()


def on_gpu(dtype: str, x: NumpyArray) -> Any:
    """Returns an array on the GPU; one of float32 in a dtype."""
    import functensor as ft

    if dtype == "bfloat16" and x.dtype == np.float32:
        import ml_dtypes

        x = x.astype(ml_dtypes.bfloat16)
    return ft.to_device(x, "cuda")


def functensor_parts(problem: Problem, dtype: str) -> tuple[Any, list[Any], list[Any]]:
    """Returns the loss with its gradient, a list of the parameters alone, and the batch.

    The gradient alone stands in the loss's place, too, where it alone is wanted.
    """
    import functensor as ft

    ft.config.matmul_precision = "tf32"
    loss = functensor_losses().of(problem.workload)
    loss_and_grad = differentiated(problem, ft.value_and_grad(loss), ft.grad(loss))
    held = [ft.tree.map(partial(on_gpu, dtype), problem.params)]
    return loss_and_grad, held, [on_gpu(dtype, x) for x in problem.batch]


def differentiated(problem: Problem, value_and_grad: Loss, grad: Loss) -> Loss:
    """Returns what gives the loss of a workload and its gradient, or what stands for them."""
    if problem.workload == UPDATE:

        def given(params: Params, *gradients: Any) -> Any:
            return None, dict(zip(params, gradients, strict=True))

        return given
    if problem.workload in GRADIENTS_ALONE:
        return lambda x, *batch: (grad(x, *batch), None)
    return value_and_grad


def figure(loss: Any, params: Params) -> Any:
    """Returns the loss; the first of the new parameters where there is none."""
    return next(iter(params.values())) if loss is None else loss


def functensor_step(problem: Problem, dtype: str) -> Step:
    """Returns one eager step in functensor, which returns the loss."""
    import functensor as ft

    loss_and_grad, held, batch = functensor_parts(problem, dtype)
    if problem.kind != "train":
        return lambda: loss_and_grad(held[0], *batch)[0]
    adam = ft.optim.adam(LEARNING_RATE)
    held.append(adam.init(held[0]))

    def step() -> Any:
        loss, grads = loss_and_grad(held[0], *batch)
        held[:] = adam.update(*held, grads)
        return figure(loss, held[0])

    return step


def functensor_jitted(problem: Problem, dtype: str) -> tuple[Any, Step, Step]:
    """Returns the jitted step, what makes its plan at once, and what runs it."""
    import functensor as ft

    loss_and_grad, held, batch = functensor_parts(problem, dtype)
    if problem.kind != "train":
        compiled = ft.jit(loss_and_grad)
        return (
            compiled,
            lambda: compiled.compile(held[0], *batch),
            lambda: compiled(held[0], *batch)[0],
        )
    adam = ft.optim.adam(LEARNING_RATE)
    held.append(adam.init(held[0]))

    def update(params: Any, state: Any, *batch: Any) -> Any:
        loss, grads = loss_and_grad(params, *batch)
        return *adam.update(params, state, grads), loss

    stepped = ft.jit(update, donate_argnums=(0, 1))

    def step() -> Any:
        *held[:], loss = stepped(*held, *batch)
        return figure(loss, held[0])

    return stepped, lambda: stepped.compile(*held, *batch), step


def functensor_jit_step(problem: Problem, dtype: str) -> Step:
    """Returns one step in functensor, jitted as a whole and compiled."""
    _, compile_it, step = functensor_jitted(problem, dtype)
    compile_it()
    return step


# PyTorch


def torch_losses() -> GpuLosses:
    """Returns the losses in PyTorch."""
    from benchmarks.peers import torch_peer

    class Losses(GpuLosses, torch_peer.Losses):
        pass

    return Losses()


def torch_step(
    problem: Problem, dtype: str, fused: bool = False, compiled: bool = False
) -> Step:
    """Returns one step in PyTorch, with Adam's foreach or fused implementation.

    The loss is eager, or compiled by `torch.compile`.
    """
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True

    def placed(name: str, x: NumpyArray) -> Any:
        weight = name.endswith("_w") and x.ndim == 2
        there = torch.from_numpy(np.ascontiguousarray(x.T) if weight else x).cuda()
        return there.to(getattr(torch, dtype)) if there.dtype == torch.float32 else there

    loss = torch_losses().of(problem.workload)
    if compiled:
        loss = torch.compile(loss)
    arrays = problem.params if isinstance(problem.params, dict) else {"x": problem.params}
    params = {name: placed(name, x).requires_grad_() for name, x in arrays.items()}
    batch = [placed("", x) for x in problem.batch]
    if problem.kind != "train":

        def gradient() -> Any:
            value = loss(params["x"], *batch)
            (grad,) = torch.autograd.grad(value, list(params.values()))
            return grad if problem.workload in GRADIENTS_ALONE else value.detach()

        return gradient
    adam = torch.optim.Adam(params.values(), lr=LEARNING_RATE, fused=fused or None)

    if problem.workload == UPDATE:
        for x, grad in zip(params.values(), batch, strict=True):
            x.grad = grad

        def update() -> Any:
            adam.step()
            return figure(None, params)

        return update

    def step() -> Any:
        adam.zero_grad()
        value = loss(params, *batch)
        value.backward()
        adam.step()
        return value.detach()

    return step


# JAX


def jax_losses() -> GpuLosses:
    """Returns the losses in JAX."""
    import jax
    import jax.numpy as jnp

    from benchmarks.peers import jax_peer

    class Losses(GpuLosses, jax_peer.Losses):
        def attention(self, params: Params, name: str, x: Any, causal: Any) -> Any:
            batch, tokens, width = x.shape
            parts = jnp.split(self.dense(params, f"{name}_qkv", x), 3, axis=-1)
            shape = (batch, tokens, self.heads, width // self.heads)
            heads = [part.reshape(shape) for part in parts]
            mixed = jax.nn.dot_product_attention(*heads, is_causal=True)
            return self.dense(params, f"{name}_out", mixed.reshape(x.shape))

    return Losses()


def jax_step(problem: Problem, dtype: str) -> Step:
    """Returns one step in JAX, compiled as a whole."""
    import jax
    import jax.numpy as jnp

    from benchmarks.peers import jax_peer

    jax.config.update("jax_default_matmul_precision", "tensorfloat32")

    def placed(x: NumpyArray) -> Any:
        return jnp.asarray(x, dtype if x.dtype == np.float32 else None)

    loss = jax_losses().of(problem.workload)
    loss_and_grad = differentiated(problem, jax.value_and_grad(loss), jax.grad(loss))
    held = [jax.tree.map(placed, problem.params)]
    batch = [placed(x) for x in problem.batch]
    if problem.kind != "train":
        compiled = jax.jit(loss_and_grad)
        return lambda: compiled(held[0], *batch)[0]

    def update(params: Any, state: Any, *batch: Any) -> Any:
        loss, grads = loss_and_grad(params, *batch)
        params, state = jax_peer.adam_update(params, state, grads)
        return params, state, loss

    stepped = jax.jit(update, donate_argnums=(0, 1))
    # A step gives its state away, in which others may have a part.
    held.append(jax.tree.map(jnp.copy, jax_peer.adam_init(held[0])))

    def step() -> Any:
        *held[:], loss = stepped(*held, *batch)
        return figure(loss, held[0])

    return step


def functensor_benchmark_step(problem: Problem, dtype: str) -> Step:
    """Returns the eager step with ``ft.config.benchmark``, once its backward pass has a plan."""
    import functensor as ft
    from functensor.jitting.backward_plans import met_graphs

    step = functensor_step(problem, dtype)

    def allowed() -> Any:
        with ft.config.using(benchmark=True):
            return step()

    met_graphs.clear()
    for _ in range(MOST_STEPS_BEFORE_A_PLAN):
        allowed()
        graphs = [graph for alike in met_graphs.values() for graph in alike.graphs]
        for graph in graphs:
            if graph.job is not None:
                graph.job.wait()
        if graphs and all(graph.settled for graph in graphs):
            break
    # From the parameters with which all peers begin.
    step = functensor_step(problem, dtype)
    return allowed


PEERS: dict[str, Callable[[Problem, str], Step]] = {
    "functensor": functensor_step,
    "functensor-benchmark": functensor_benchmark_step,
    "functensor-jit": functensor_jit_step,
    "torch": torch_step,
    "torch-fused": lambda problem, dtype: torch_step(problem, dtype, fused=True),
    "torch-compile": lambda problem, dtype: torch_step(problem, dtype, True, True),
    "jax-jit": jax_step,
}
