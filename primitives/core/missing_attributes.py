"""Attributes that PyTorch's tensors or JAX's arrays have and arrays do not: what to write instead.

`hasattr` and `dir` do not find them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ...backends.errors.tracebacks import tidy

__all__ = ["FOREIGN_ATTRIBUTES", "ForeignName", "ForeignNames"]

GRADIENT = "gradients are of functions: ft.grad(loss)(w); an ft.Tensor has it"
FOREIGN_ATTRIBUTES = {
    **dict.fromkeys(("backward", "grad", "requires_grad", "requires_grad_"), GRADIENT),
    **dict.fromkeys(("retain_grad", "zero_grad"), GRADIENT),
    **{name: f"np.{name}(x)" for name in ("cos", "exp", "log", "sin", "sqrt", "tanh")},
    "detach": "ft.stop_gradient(x), or ft.value(x) for the plain value",
    "clone": "arrays are immutable: x itself, or x.copy()",
    "numpy": "numpy.asarray(x)",
    "cpu": 'ft.to_device(x, "cpu")',
    "cuda": 'ft.to_device(x, "cuda")',
    "to": 'x.astype(dtype), ft.to_device(x, "cuda")',
    "float": "x.astype(np.float32)",
    "double": "x.astype(np.float64)",
    "half": "x.astype(np.float16)",
    "long": "x.astype(np.int64)",
    "int": "x.astype(np.int32)",
    "bool": "x.astype(bool)",
    "type": "x.astype(dtype), x.dtype",
    "dim": "x.ndim",
    "numel": "x.size",
    "permute": "x.transpose(*axes)",
    "unsqueeze": "np.expand_dims(x, axis)",
    "expand": "np.broadcast_to(x, shape)",
    "masked_fill": "np.where(mask, value, x)",
    "index_select": "np.take(x, indices, axis)",
    "gather": "np.take_along_axis(x, indices, axis)",
    "clamp": "x.clip(low, high)",
    "abs": "np.abs(x), or abs(x)",
    "pow": "x ** y",
    "matmul": "x @ y",
    "mm": "x @ y",
    "add_": "arrays are immutable: x = x + y",
    "mul_": "arrays are immutable: x = x * y",
    "sub_": "arrays are immutable: x = x - y",
    "zero_": "arrays are immutable: x = np.zeros_like(x)",
    "fill_": "arrays are immutable: x = np.full_like(x, value)",
    "sigmoid": "functensor.nn.sigmoid(x)",
    "softmax": "functensor.nn.softmax(x, axis)",
    "relu": "functensor.nn.relu(x)",
    "norm": "np.linalg.norm(x)",
    "median": "np.median(x)",
    "contiguous": "x: how elements lie in memory is open",
}


class ForeignName:
    """An attribute that raises ``AttributeError`` with what to write in its place."""

    __slots__ = ("fix", "name")

    def __init__(self, name: str, fix: str) -> None:
        self.name = name
        self.fix = fix

    def __get__(self, x: Any, owner: type) -> NoReturn:
        kind = owner.__name__
        try:
            raise AttributeError(f"{kind!r} object has no attribute {self.name!r}: {self.fix}")
        except AttributeError as error:
            tidy(error)
            raise


class ForeignNames:
    """The base of arrays that has these names."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        kinds = type(self).__mro__
        found = {n: next(vars(k)[n] for k in kinds if n in vars(k)) for n in FOREIGN_ATTRIBUTES}
        return [n for n in object.__dir__(self) if type(found.get(n)) is not ForeignName]


for _name, _fix in FOREIGN_ATTRIBUTES.items():
    setattr(ForeignNames, _name, ForeignName(_name, _fix))
