"""Names that PyTorch, JAX and NumPy have for what is called otherwise here."""

from __future__ import annotations

import sys
from collections.abc import Collection

from ..backends.errors.words import nearest
from ..primitives.core.missing_attributes import FOREIGN_ATTRIBUTES

__all__ = ["foreign_advice"]

RANDOM_KEY = "functensor.random.key(seed): random functions take a key"
GRADIENTS = "ft.grad(loss)(w); a ft.Tensor has .backward()"
TENSOR_LAYERS = "layers are functions of weights: functensor.nn.{}"
# The advice for a name, in whatever module it is asked for.
NAMES_INSTEAD: dict[str, str] = {
    # PyTorch
    **{
        name: FOREIGN_ATTRIBUTES[name]
        for name in ("gather", "index_select", "masked_fill", "numel", "unsqueeze")
    },
    "cat": "functensor.numpy.concatenate((x, y))",
    "hstack": "functensor.numpy.hstack",
    "vstack": "functensor.numpy.vstack",
    "clamp": "np.clip",
    "mm": "np.matmul, or x @ y",
    "bmm": "np.matmul, or x @ y",
    "mv": "np.matmul, or x @ y",
    "mul": "np.multiply, or x * y",
    "div": "np.divide, or x / y",
    "sub": "np.subtract, or x - y",
    "neg": "np.negative, or -x",
    "eq": "np.equal, or x == y",
    "ne": "np.not_equal, or x != y",
    "lt": "np.less, or x < y",
    "le": "np.less_equal, or x <= y",
    "gt": "np.greater, or x > y",
    "ge": "np.greater_equal, or x >= y",
    "permute": "np.transpose(x, axes)",
    "topk": "np.argsort, np.sort",
    "from_numpy": "np.asarray(x), or ft.tensor(x)",
    "as_tensor": "ft.tensor(x), or np.asarray(x)",
    "is_tensor": "isinstance(x, ft.Tensor)",
    **dict.fromkeys(("RandomState", "default_rng", "manual_seed", "seed"), RANDOM_KEY),
    "rand": "functensor.random.uniform(key, shape)",
    "randn": "functensor.random.normal(key, shape)",
    "randperm": "functensor.random.permutation(key, n)",
    "autograd": GRADIENTS,
    "backward": GRADIENTS,
    "inference_mode": "ft.no_grad()",
    "set_grad_enabled": "ft.no_grad(), ft.enable_grad()",
    "compile": "ft.jit(f)",
    "func": "ft.grad, ft.vmap, ft.jvp, ft.vjp, ft.jacrev and their kin",
    "cuda": 'ft.to_device(x, "cuda"), ft.devices()',
    "device": 'device names are strings: "cpu", "cuda:0"',
    "Module": "layers are functions of weights: functensor.nn",
    "Parameter": "ft.Tensor(data, requires_grad=True)",
    "Linear": TENSOR_LAYERS.format("linear(x, w, b)"),
    "Conv2d": TENSOR_LAYERS.format("conv(x, w)"),
    "LayerNorm": TENSOR_LAYERS.format("layer_norm"),
    "BatchNorm2d": TENSOR_LAYERS.format("batch_norm"),
    "Dropout": TENSOR_LAYERS.format("dropout"),
    "Embedding": TENSOR_LAYERS.format("embedding"),
    "ReLU": "functensor.nn.relu(x)",
    "GELU": "functensor.nn.gelu(x)",
    "Sigmoid": "functensor.nn.sigmoid(x)",
    "Tanh": "functensor.nn.tanh(x)",
    "Softmax": "functensor.nn.softmax(x)",
    "cross_entropy": "functensor.nn.softmax_cross_entropy(logits, labels)",
    "CrossEntropyLoss": "functensor.nn.softmax_cross_entropy(logits, labels)",
    "mse_loss": "functensor.nn.mse(prediction, target)",
    "MSELoss": "functensor.nn.mse(prediction, target)",
    "l1_loss": "functensor.nn.mae(prediction, target)",
    **{
        name: f"functensor.nn.{name}"
        for name in (
            *("relu", "gelu", "silu", "sigmoid", "softmax", "log_softmax", "softplus", "elu"),
            *("dropout", "layer_norm", "batch_norm", "linear", "embedding", "one_hot", "conv"),
        )
    },
    **{name: f"functensor.numpy.linalg.{name}" for name in ("norm", "inv", "solve", "svd", "det")},
    **{name: f"functensor.scipy.special.{name}" for name in ("gammaln", "digamma", "betaln")},
    "logsumexp": "functensor.nn.logsumexp, functensor.scipy.special.logsumexp",
    "DataLoader": "functensor.data.DataLoader, or functensor.torch.utils.data.DataLoader",
    "TensorDataset": "functensor.data.TensorDataset",
    "functional": "functensor.nn itself: its functions hold no state",
    "max_pool2d": "functensor.nn.max_pool",
    "avg_pool2d": "functensor.nn.avg_pool",
    "conv2d": "functensor.nn.conv",
    # JAX
    "lax": "functensor.control, functensor.numpy",
    "tree_util": "functensor.tree",
    "tree_map": "functensor.tree.map",
    "device_put": "ft.to_device(x, device)",
    "device_get": "numpy.asarray(x)",
    "block_until_ready": "x.block_until_ready()",
    "make_jaxpr": "ft.make_program(f)(x)",
    "pmap": "ft.vmap(f)",
    "jax": "functensor",
    "value_and_jacrev": "ft.jacrev(f, has_aux=True)",
    "ShapeDtypeStruct": "ft.ShapeDtype",
    "PRNGKey": "functensor.random.key(seed)",
    "apply_updates": "params, state = opt.update(params, state, grads)",
    # NumPy and others
    "elementwise_vjp": "ft.vjp",
    "value_and_gradient": "ft.value_and_grad",
    "gradient_function": "ft.grad",
}
# The modules in which a missing name is looked for, with their names in messages.
PUBLIC = {"functensor": "ft"} | {
    place: place
    for place in (
        *("functensor.numpy", "functensor.nn", "functensor.numpy.linalg"),
        *("functensor.scipy.special", "functensor.random"),
    )
}
# Functions of matrices by names that elsewhere are those of functions of elements.
MATRICES = {
    "invert": "inv", "power": "matrix_power", "transpose": "matrix_transpose", "exp": "expm",
    "log": "logm", "sqrt": "sqrtm",
}  # fmt: skip


def foreign_advice(module: str, name: str, known: Collection[str]) -> str:
    """Returns what to write in place of a name that a module does not have, or nothing.

    Args:
        module: the module's name.
        name: the name.
        known: the names that it has.
    """
    other = [
        f"{shown}.{name}"
        for place, shown in PUBLIC.items()
        if place != module and place in sys.modules and name in sys.modules[place].__all__
    ]
    matrix = MATRICES.get(name) if module.endswith(".linalg") else None
    if matrix in known:
        return f"did you mean {matrix!r}?"
    if other:
        return f"use {other[0]}"
    if name in NAMES_INSTEAD:
        advice = NAMES_INSTEAD[name]
        return advice if " are " in advice else f"use {advice}"
    namespaces = vars(sys.modules[module]).get("NAMESPACES", ())
    near = nearest(name, [*known, *namespaces])
    return f"did you mean {near!r}?" if near else ""
