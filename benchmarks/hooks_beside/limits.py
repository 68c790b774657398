"""What a library cannot do in a mode; each function shows it, and fails if it can."""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call"

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import functensor as ft
import functensor.numpy as np


def message(run: Callable[[], Any], kind: type[Exception]) -> str:
    """Returns the first sentence of the error that is raised."""
    try:
        run()
    except kind as error:
        return f"`{type(error).__name__}`: {str(error).splitlines()[0].partition('. ')[0]}"
    raise AssertionError("nothing was raised")


def torch_values_under_vmap() -> str:
    """A module hook gets values without storage."""
    seen: list[Any] = []
    layer = nn.Linear(3, 3)
    layer.register_forward_hook(lambda module, inputs, out: seen.append(out.numpy()))
    return message(lambda: torch.func.vmap(layer)(torch.ones(2, 3)), RuntimeError)


def torch_module_backward_under_func() -> str:
    """A module's backward hook is refused by torch.func."""
    layer = nn.Linear(3, 3)
    layer.register_full_backward_hook(lambda module, ins, outs: None)
    return message(lambda: torch.func.grad(lambda x: layer(x).sum())(torch.ones(3)), RuntimeError)


def torch_saved_tensors_under_func() -> str:
    """Hooks on saved tensors are refused by torch.func."""

    def run() -> None:
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            torch.func.grad(lambda x: torch.sin(x).sum())(torch.ones(3))

    return message(run, RuntimeError)


def torch_mode_sees_batches() -> str:
    """A dispatch mode sees a batched operation; it knows of no example."""

    class Looking(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            seen.append(tuple(out.shape))
            return out

    seen: list[tuple[int, ...]] = []
    x = torch.ones(2, 3)
    with Looking():
        torch.func.vmap(torch.tanh)(x)
    assert seen == [(2, 3)], seen
    return "the mode sees one operation of shape (2, 3), and nothing says that 2 is the batch"


def root_loss(x: Any) -> Any:
    """A value whose derivative is zero times infinity where x is zero."""
    root = jnp.sqrt(x)
    return jnp.where(x > 0, root, 0).sum()


def jax_debug_nans_backward() -> str:
    """debug_nans names a primitive of the derivative, and no line."""
    gradient = jax.jit(jax.grad(root_loss))
    # JAX prints a line of its own.
    with jax.debug_nans(True), redirect_stdout(StringIO()):
        try:
            jax.block_until_ready(gradient(jnp.zeros(3)))
        except FloatingPointError as error:
            shown = "".join(traceback.format_exception(error))
            assert "jnp.sqrt(x)" not in shown, shown
            return f"`{error}`, without the line of the `sqrt`, which `checkify` shows"
    raise AssertionError("nothing was raised")


def jax_callback_under_grad() -> str:
    """debug.callback sees nothing of the way back."""
    seen: list[Any] = []

    def f(x: Any) -> Any:
        y = jnp.sin(x)
        jax.debug.callback(lambda value: seen.append(float(value)), y)
        return y * y

    jax.block_until_ready(jax.grad(f)(0.5))
    jax.effects_barrier()
    assert len(seen) == 1, seen
    return "it is called once, forward; cotangents need a `custom_vjp` of the user's"


def jax_memory_of_scopes() -> str:
    """A compiled function tells how much memory it takes in all."""
    analysis = jax.jit(lambda x: jnp.tanh(x @ x)).lower(jnp.ones((64, 64))).compile()
    told = [name for name in dir(analysis.memory_analysis()) if name.endswith("_in_bytes")]
    assert told
    assert not any("scope" in name for name in told), told
    return f"`memory_analysis()` has {len(told)} totals and nothing by scope"


def functensor_under_vmap() -> str:
    """Under vmap, functensor's hooks have no plain value."""
    seen: list[Any] = []
    hook = ft.hooks.FnHook(forward=lambda op, inputs, out: seen.append((out.shape, op.batch_size)))
    with ft.hooks.use(hook):
        ft.vmap(np.tanh)(np.ones((2, 3)))
    assert seen == [((3,), 2)], seen
    return "the hook sees one operation of shape (3,) and `op.batch_size` 2; a tracer, no number"


LIMITS: dict[str, Callable[[], str]] = {
    "PyTorch: a module hook reads a value under `vmap`": torch_values_under_vmap,
    "PyTorch: a module's backward hook under `torch.func.grad`": torch_module_backward_under_func,
    "PyTorch: `saved_tensors_hooks` under `torch.func.grad`": torch_saved_tensors_under_func,
    "PyTorch: `TorchDispatchMode` around `vmap`": torch_mode_sees_batches,
    "JAX: `debug_nans` in a jitted gradient": jax_debug_nans_backward,
    "JAX: `debug.callback` under `grad`": jax_callback_under_grad,
    "JAX: memory per scope": jax_memory_of_scopes,
    "functensor: a hook under `vmap`": functensor_under_vmap,
}
