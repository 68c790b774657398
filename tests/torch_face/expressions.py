"""Expressions that mean the same in PyTorch and in its names here, as strings.

Names: ``f`` a float32 vector, ``m`` a matrix, ``p`` a matrix of positive numbers, ``q`` of numbers
between 0 and 1, ``c`` three axes, ``d`` doubles, ``i`` and ``j`` integers, ``b`` booleans, ``z`` a
number, ``s`` a positive definite matrix, ``h`` half precision, ``w`` complex numbers.
"""

from itertools import product
from pathlib import Path

import numpy as np

__all__ = ["DIFFERENT", "EXPRESSIONS", "outcomes", "values"]


def values(module):
    """Returns the operands by their names, as tensors of PyTorch or of functensor."""
    rng = np.random.default_rng(7)
    arrays = {
        "f": rng.normal(size=4).astype("f4"),
        "g": rng.normal(size=4).astype("f4"),
        "m": rng.normal(size=(3, 4)).astype("f4"),
        "n": rng.normal(size=(4, 5)).astype("f4"),
        "p": rng.uniform(0.5, 3, size=(3, 4)).astype("f4"),
        "q": rng.uniform(0.05, 0.95, size=(3, 4)).astype("f4"),
        "c": rng.normal(size=(2, 3, 4)).astype("f4"),
        "d": rng.normal(size=(3, 4)),
        "i": rng.integers(-5, 6, size=(3, 4)),
        "j": rng.integers(1, 5, size=(3, 4)).astype("i4"),
        "k": rng.permutation(12).reshape(3, 4),
        "b": rng.integers(0, 2, size=(3, 4)).astype(bool),
        "z": np.float32(1.5),
        "s": (lambda a: a @ a.T + 3 * np.eye(3))(rng.normal(size=(3, 3))).astype("f4"),
        "h": rng.normal(size=(3, 4)).astype("f2"),
        "w": (rng.normal(size=3) + 1j * rng.normal(size=3)).astype("c8"),
        "x": np.array([1.0, np.nan, -np.inf, np.inf, 0.0, -0.0], "f4"),
    }
    return {
        "torch": module,
        **{
            name: module.tensor(a.tolist(), dtype=getattr(module, a.dtype.name))
            for name, a in arrays.items()
        },
    }


UNARY = [
    "abs", "absolute", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "ceil", "cos",
    "cosh", "deg2rad", "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fix", "floor",
    "frac", "i0", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "lgamma", "log",
    "log10", "log1p", "log2", "logical_not", "neg", "negative", "positive", "rad2deg",
    "reciprocal", "relu", "round", "rsqrt", "sgn", "sigmoid", "sign", "signbit", "sin", "sinc",
    "sinh", "sqrt", "square", "tan", "tanh", "trunc", "logit", "nan_to_num", "arccos", "arcsin",
    "arctan", "arcsinh", "arccosh", "arctanh",
]  # fmt: skip
BINARY = [
    "add", "sub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "maximum",
    "minimum", "fmax", "fmin", "atan2", "hypot", "copysign", "eq", "ne", "lt", "le", "gt", "ge",
    "logical_and", "logical_or", "logical_xor", "subtract", "multiply", "divide", "greater",
    "greater_equal", "less", "less_equal", "not_equal", "arctan2",
]  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">="]
REDUCTIONS = [
    "sum", "mean", "prod", "std", "var", "max", "min", "argmax", "argmin", "all", "any", "amax",
    "amin", "logsumexp", "median", "nansum", "count_nonzero",
]  # fmt: skip


def every():
    """Yields all expressions, one by one."""
    for name in UNARY:
        for x in ("p",) if name in ("acosh", "arccosh") else ("f", "q", "p", "d", "z"):
            yield f"torch.{name}({x})"
            yield f"{x}.{name}()"
        if name != "frac":
            yield f"torch.{name}(i)"
    for name in ["abs", "sin", "exp", "sqrt", "neg", "reciprocal", "square", "tanh", "log"]:
        yield f"torch.{name}(x)"
        yield f"torch.{name}(w)"
    pairs = [("m", "p"), ("m", "f"), ("d", "m"), ("m", "torch.tensor(2)"), ("p", "z"), ("i", "j"),
             ("m", "j")]  # fmt: skip
    for name, (a, b) in product(BINARY, pairs):
        if name != "hypot" or a != "i":
            yield f"torch.{name}({a}, {b})"
            yield f"{a}.{name}({b})"
    for op in OPERATORS:
        pairs = [("p", "q"), ("p", "f.abs()"), ("d", "p"), ("p", "2"), ("p", "0.5"), ("2", "p"),
                 ("i", "j"), ("i", "2"), ("j", "i.abs()"), ("z", "p"), ("p", "z"), ("h", "2"),
                 ("h", "p"), ("j", "2.5"), ("i", "z")]  # fmt: skip
        for a, b in pairs:
            # Neither divides integers by zero alike.
            if op not in ("//", "%") or b != "i.abs()":
                yield f"{a} {op} {b}"
    for a, b in (("b", "b"), ("b", "~b"), ("i", "j"), ("i", "3")):
        for op in ["&", "|", "^"]:
            yield f"{a} {op} {b}"
    yield from ("i << 2", "i >> 1", "~i", "~b", "-i", "+f", "abs(f)", "f @ f", "m @ n", "c @ n")
    for name, dim, keep in product(REDUCTIONS, (None, 0, 1, -1), (False, True)):
        if dim is None:
            if not keep and name not in ("logsumexp", "amax", "amin"):
                yield f"torch.{name}(m)"
                yield f"m.{name}()"
            continue
        more = "" if name == "count_nonzero" else f", keepdim={keep}"
        yield f"torch.{name}(m, {dim}{more})"
        yield f"m.{name}({dim}{more})"
        yield f"torch.{name}(c, dim={dim}{more})"
    for name in ["sum", "prod", "all", "any", "argmax", "argmin", "max", "min", "amax"]:
        yield f"torch.{name}(i, dim=1)"
        yield f"i.{name}(dim=0)"
    for name in ["sum", "mean", "std", "var", "amax", "amin", "logsumexp"]:
        yield f"torch.{name}(c, dim=(0, 2))"
        yield f"c.{name}((0, 1), keepdim=True)"
    yield from Path(__file__).with_suffix(".txt").read_text().split()


EXPRESSIONS = sorted(set(every()))

# Expressions whose results differ from PyTorch's, and why.
DIFFERENT = {
    "h ** p": "the gradient takes the logarithm of a half in half precision, PyTorch's in single"
}


def outcomes(module, expression, derive=True):
    """Returns the arrays that an expression gives, and the gradients of their weighted sum.

    The matrix ``s`` is symmetric: the gradient by it counts as the same, made symmetric.
    """
    names = values(module)
    leaves = [x.requires_grad_() for key, x in names.items() if key in "fgmnpqcdsz"]
    found = [x for x in flat(eval(expression, dict(names))) if x is not None]
    results = [array(x) for x in found]
    if not derive:
        return results, []
    weighted = sum(x.sum() for x in leaves) * 0
    for x in found:
        if getattr(x, "requires_grad", False) and x.dtype in (module.float32, module.float64):
            weights = module.cos(module.arange(x.numel(), dtype=module.float64)).to(x.dtype)
            weighted = weighted + (x.reshape(-1) * weights).sum()
    grads = [array(g) for g in module.autograd.grad(weighted, leaves)]
    return results, [g + g.T if g.shape == (3, 3) else g for g in grads]


def flat(x):
    """Returns what tuples and lists hold, one behind the other."""
    return [y for each in x for y in flat(each)] if isinstance(x, tuple | list) else [x]


def array(x):
    """Returns a tensor, or a number, as an array."""
    if not hasattr(x, "detach"):
        # Numbers, shapes and dtypes; whatever holds elements is a tensor.
        assert not hasattr(x, "device") or isinstance(x, np.ndarray | np.generic), type(x)
        return np.asarray(x)
    x = x.detach().cpu()
    return np.asarray(x.resolve_conj().resolve_neg() if hasattr(x, "resolve_neg") else x)
