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


# Workloads by name: the data, and the dtype in which parameters and floats are.
WORKLOADS: dict[str, tuple[Callable[[np.random.Generator], Problem], str]] = {
    "scalar-ops": (scalar_ops_data, "float32"),
    "mlp-small": (mlp_small_data, "float32"),
    "cnn": (lambda rng: cnn_problem(rng, partial(normal, rng), 128), "float32"),
    "elementwise": (elementwise_data, "float32"),
    "mlp-large": (mlp_large_data, "float32"),
    "gpt": (gpt_data, "float32"),
    "gpt-bf16": (gpt_data, "bfloat16"),
}


class GpuLosses(NumpyLosses):
    """The losses that differ in size from those of CPUs; mixed into those of a library."""

    heads, blocks = HEADS, BLOCKS

    def of(self, workload: str) -> Loss:
        """Returns the loss of a workload."""
        losses = {"mlp-small": self.mlp, "mlp-large": self.mlp, "cnn": self.cnn, "gpt": self.gpt}
        losses |= {"scalar-ops": self.scalar_ops, "elementwise": self.elementwise}
        return losses[workload]

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
    """Returns the loss with its gradient, a list of the parameters alone, and the batch."""
    import functensor as ft

    ft.config.matmul_precision = "tf32"
    loss_and_grad = ft.value_and_grad(functensor_losses().of(problem.workload))
    held = [ft.tree.map(partial(on_gpu, dtype), problem.params)]
    return loss_and_grad, held, [on_gpu(dtype, x) for x in problem.batch]


def functensor_step(problem: Problem, dtype: str) -> Step:
    """Returns one eager step in functensor, which returns the loss."""
    import functensor as ft

    loss_and_grad, held, batch = functensor_parts(problem, dtype)
    if problem.kind != "train":
        return lambda: loss_and_grad(held[0])[0]
    adam = ft.optim.adam(LEARNING_RATE)
    held.append(adam.init(held[0]))

    def step() -> Any:
        loss, grads = loss_and_grad(held[0], *batch)
        held[:] = adam.update(*held, grads)
        return loss

    return step


def functensor_jit_step(problem: Problem, dtype: str) -> Step:
    """Returns one step in functensor, jitted as a whole and compiled."""
    import functensor as ft

    loss_and_grad, held, batch = functensor_parts(problem, dtype)
    if problem.kind != "train":
        compiled = ft.jit(loss_and_grad)
        compiled.compile(held[0])
        return lambda: compiled(held[0])[0]
    adam = ft.optim.adam(LEARNING_RATE)
    held.append(adam.init(held[0]))

    def update(params: Any, state: Any, *batch: Any) -> Any:
        loss, grads = loss_and_grad(params, *batch)
        return *adam.update(params, state, grads), loss

    stepped = ft.jit(update, donate_argnums=(0, 1))
    stepped.compile(*held, *batch)

    def step() -> Any:
        *held[:], loss = stepped(*held, *batch)
        return loss

    return step


# PyTorch


def torch_losses() -> GpuLosses:
    """Returns the losses in PyTorch."""
    from benchmarks.peers import torch_peer

    class Losses(GpuLosses, torch_peer.Losses):
        pass

    return Losses()


def torch_step(problem: Problem, dtype: str, fused: bool = False) -> Step:
    """Returns one eager step in PyTorch, with Adam's foreach or fused implementation."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True

    def placed(name: str, x: NumpyArray) -> Any:
        weight = name.endswith("_w") and x.ndim == 2
        there = torch.from_numpy(np.ascontiguousarray(x.T) if weight else x).cuda()
        return there.to(getattr(torch, dtype)) if there.dtype == torch.float32 else there

    loss = torch_losses().of(problem.workload)
    arrays = problem.params if isinstance(problem.params, dict) else {"x": problem.params}
    params = {name: placed(name, x).requires_grad_() for name, x in arrays.items()}
    batch = [placed("", x) for x in problem.batch]
    if problem.kind != "train":

        def gradient() -> Any:
            value = loss(params["x"])
            torch.autograd.grad(value, list(params.values()))
            return value.detach()

        return gradient
    adam = torch.optim.Adam(params.values(), lr=LEARNING_RATE, fused=fused or None)

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

    loss_and_grad = jax.value_and_grad(jax_losses().of(problem.workload))
    held = [jax.tree.map(placed, problem.params)]
    batch = [placed(x) for x in problem.batch]
    if problem.kind != "train":
        compiled = jax.jit(loss_and_grad)
        return lambda: compiled(held[0])[0]

    def update(params: Any, state: Any) -> Any:
        loss, grads = loss_and_grad(params, *batch)
        params, state = jax_peer.adam_update(params, state, grads)
        return params, state, loss

    stepped = jax.jit(update, donate_argnums=(0, 1))
    # A step gives its state away, in which others may have a part.
    held.append(jax.tree.map(jnp.copy, jax_peer.adam_init(held[0])))

    def step() -> Any:
        *held[:], loss = stepped(*held)
        return loss

    return step


PEERS: dict[str, Callable[[Problem, str], Step]] = {
    "functensor": functensor_step,
    "functensor-jit": functensor_jit_step,
    "torch": torch_step,
    "torch-fused": lambda problem, dtype: torch_step(problem, dtype, fused=True),
    "jax-jit": jax_step,
}
