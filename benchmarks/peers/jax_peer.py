"""The workloads in JAX, op by op (`EAGER`) and compiled as a whole (`JIT`)."""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call"

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.peers.functional import Function, Library, identity
from benchmarks.peers.numpy_losses import NumpyLosses, adam


class Losses(NumpyLosses):
    """The losses in JAX."""

    np = jnp
    relu = staticmethod(jax.nn.relu)
    gelu = staticmethod(functools.partial(jax.nn.gelu, approximate=True))
    softmax = staticmethod(jax.nn.softmax)

    @staticmethod
    def cross_entropies(logits: Any, labels: Any) -> Any:
        """The cross entropy of integer labels, each."""
        chosen = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
        return jax.nn.logsumexp(logits, axis=-1) - chosen

    @staticmethod
    def conv(x: Any, w: Any) -> Any:
        """A convolution without padding."""
        return lax.conv(x, w, (1, 1), "VALID")

    @staticmethod
    def max_pool(x: Any) -> Any:
        """The largest of each 2 x 2 elements."""
        window = (1, 1, 2, 2)
        return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")


# Programs compute in float64, which JAX has to be asked for.
IMPORTS = {
    r"import functensor\.numpy as np": "import jax\n"
    'jax.config.update("jax_enable_x64", True)\n'
    "import jax.numpy as np",
    r"import functensor as ft": "import jax as ft",
    r"from functensor import sparse": "",
    r"from functensor import (.*)": r"from jax import \1",
    r"from functensor\.scipy\.integrate import odeint": "from jax.experimental.ode import odeint",
    r"from functensor\.scipy\.optimize import minimize": "",
    r"from functensor\.scipy(.*)": r"from jax.scipy\1",
}
LOSSES = Losses()
adam_init, adam_update = adam(jnp, jnp.asarray(0))


def address(array: Any) -> int:
    """The address of an array's elements."""
    return int(array.unsafe_buffer_pointer())


def hessian_product(f: Function, x: Any, vector: Any, *batch: Any) -> Any:
    """The Hessian of f at x times a vector, forward over reverse."""
    return jax.jvp(lambda x: jax.grad(f)(x, *batch), (x,), (vector,))[1]


def library(compile: Function, donating: Function | None) -> Library:
    """JAX's side of the cases."""
    return Library(
        package="jax",
        losses=LOSSES.by_workload(),
        asarray=jnp.asarray,
        grad=jax.grad,
        value_and_grad=jax.value_and_grad,
        hessian=jax.hessian,
        per_example=functools.partial(jax.vmap, in_axes=(None, 0, 0)),
        adam_init=adam_init,
        adam_update=adam_update,
        compile=compile,
        donating=donating,
        address=address,
        wait=jax.block_until_ready,
        imports=IMPORTS,
        hessian_product=hessian_product,
    )


EAGER = library(identity, None)
JIT = library(jax.jit, functools.partial(jax.jit, donate_argnums=(0, 1)))
