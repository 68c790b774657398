"""The workloads in HIPS autograd."""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
from autograd.scipy.special import logsumexp

from benchmarks.peers.functional import Library
from benchmarks.peers.numpy_losses import NumpyLosses, adam


class Losses(NumpyLosses):
    """The losses in autograd, which has no functions of networks."""

    np = anp

    @staticmethod
    def relu(x: Any) -> Any:
        """The positive part."""
        return anp.maximum(x, 0.0)

    @staticmethod
    def gelu(x: Any) -> Any:
        """The tanh approximation of GELU."""
        return 0.5 * x * (1 + anp.tanh(float(np.sqrt(2 / np.pi)) * (x + 0.044715 * x * x * x)))

    @staticmethod
    def softmax(x: Any, axis: int) -> Any:
        """Exponentials that add up to one along an axis."""
        return anp.exp(x - logsumexp(x, axis=axis, keepdims=True))

    @staticmethod
    def cross_entropies(logits: Any, labels: Any) -> Any:
        """The cross entropy of integer labels, each."""
        rows = logits.reshape(-1, logits.shape[-1])
        columns = labels.reshape(-1)
        return logsumexp(rows, axis=-1) - rows[np.arange(columns.size), columns]


# Arguments of an equation are a tuple in autograd, as in SciPy.
IMPORTS = {
    r"import functensor\.numpy as np": "import autograd.numpy as np",
    r"import functensor as ft": "import autograd as ft",
    r"from functensor import sparse": "",
    r"from functensor import (.*)": r"from autograd import \1",
    r"from functensor\.scipy\.integrate import odeint": "from autograd.builtins import tuple\n"
    "from autograd.scipy import integrate\n"
    "def odeint(f, start, times, *arguments):\n"
    "    return integrate.odeint(f, start, times, tuple(arguments))",
    r"from functensor\.scipy\.optimize import minimize": "",
    r"from functensor\.scipy(.*)": r"from autograd.scipy\1",
}
adam_init, adam_update = adam(np, 0)
PEER = Library(
    package="autograd",
    losses=Losses().by_workload(),
    asarray=np.asarray,
    grad=autograd.grad,
    value_and_grad=autograd.value_and_grad,
    hessian=autograd.hessian,
    per_example=None,
    adam_init=adam_init,
    adam_update=adam_update,
    imports=IMPORTS,
)
