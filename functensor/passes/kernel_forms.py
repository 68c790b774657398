"""Primitives in the forms that kernels fuse: outer products, parts of results, means."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..backends.arrays.philox import WORD_VALUES
from ..primitives.core.registry import registry
from ..programs.program import Equation, Operand, Program, Variable, type_of, used
from .attention_forms import attention_by_products, part_of_attention_grad
from .common_subexpressions import common_subexpressions
from .constants import constant_key
from .dead_code import dead_code
from .fusion import MOST_PARTIAL_ELEMENTS
from .rewriter import RewriteRule, Rewritten, Sweep, behind, swept
from .single_forms import SINGLE_FORMS

__all__ = ["kernel_forms"]

# Powers by so many halves are computed by a root: within two units in the last place.
HALVES_BY_ROOT = frozenset({-3, -1, 3, 5})
# BLAS computes products of shorter vectors in the time of a hand-off.
SHORTEST_SUMMED_DOT = 1 << 16
# The most rows and columns of a triangle whose numbers a program keeps.
MOST_COMPARED_PLACES = 1 << 20


def kernel_forms(program: Program) -> Program:
    """Returns a program whose equations are in the forms that kernels fuse with others.

    Args:
        program: any program; the one itself is returned where nothing changes.

    >>> import functensor as ft, functensor.numpy as np
    >>> program = ft.make_program(lambda x: x[:, None] @ x[None])(np.ones(2))
    >>> print(kernel_forms(program).equations[-2].primitive.name)
    multiply
    """
    better = swept(swept(program, SINGLE_FORMS), KERNEL_FORMS)
    return program if better is program else dead_code(common_subexpressions(better))


def _outer_product(sweep: Sweep, equation: Equation) -> Rewritten:
    """A product that sums over one place is elementwise; as all sums, it begins with zero."""
    x, y = map(type_of, equation.operands)
    if min(x.ndim, y.ndim) < 2 or x.shape[-1] != 1:
        return None
    if x.dtype.char not in "fdFD" or y.dtype != x.dtype:
        return None
    product = sweep.add("multiply", equation.operands, {}, equation)
    return sweep.add("add", [product, 0.0], {}, equation)


@behind("matmul")
def _common_factor(sweep: Sweep, equation: Equation) -> Rewritten:
    """A sum of two products with a common factor is one product, of a sum.

    Where a loss has ``x @ w`` in several places, its gradient has a product for each of them. Sums
    of integers of few bits, of truth values and of float16 would be others than those of products.
    """
    products = [sweep.maker(x, "matmul") for x in equation.operands]
    if None in products or any(sweep.uses.get(x, 0) != 1 for x in used(equation.operands)):
        return None
    pairs = [*zip(*[product.operands for product in products if product is not None], strict=True)]
    alike = [constant_key(x) == constant_key(y) for x, y in pairs]
    if alike not in ([True, False], [False, True]):
        return None
    number = alike.index(False)
    known, other = map(type_of, pairs[number])
    if known != other or known.dtype.char not in "fdFD":
        return None
    if known.dtype != equation.outputs[0].type.dtype:
        return None
    factors: list[Operand] = [x for x, _ in pairs]
    factors[number] = sweep.add("add", pairs[number], {}, equation)
    return equation.by(registry["matmul"], factors, {})


def _long_dot(sweep: Sweep, equation: Equation) -> Rewritten:
    """A product of long vectors is a sum of products, whose blocks threads share."""
    x, y = map(type_of, equation.operands)
    if x.shape != y.shape or x.ndim != 1 or x.size < SHORTEST_SUMMED_DOT:
        return None
    if x.dtype.char not in "fd" or y.dtype != x.dtype:
        return None
    product = sweep.add("multiply", equation.operands, {}, equation)
    over = {"axis": (0,), "keepdims": False, "dtype": None}
    return sweep.add("sum", [product], over, equation)


@behind("affine_normalize_grad")
def _part_of_affine_normalize_grad(sweep: Sweep, equation: Equation) -> Rewritten:
    """The cotangents of rows, of their weight and of their bias are computed by themselves."""
    made = sweep.maker(equation.operands[0], "affine_normalize_grad")
    if made is None or len(equation.operands) > 1:
        return None
    g, x, weight = made.operands
    shape = type_of(x).shape
    if len(type_of(weight).shape) != 1 or {type_of(v).dtype.char for v in made.operands} > {"f"}:
        return None
    key = equation.params["key"].native
    rows = type_of(made.outputs[0]).shape[-2] - 1 - made.params["bias"]
    normal = {name: made.params[name] for name in ("eps", "center")}
    over = {"axis": tuple(range(len(shape) - 1)), "keepdims": False, "dtype": None}
    if len(key) != 3 or key[0] is not Ellipsis or key[2] != slice(None):
        return None
    if key[1] == slice(None, rows):
        scaled = sweep.add("multiply", [g, weight], {}, equation)
        found = sweep.add("normalize_grad", [scaled, x], normal, equation)
        return sweep.add("reshape", [found], {"shape": equation.outputs[0].type.shape}, equation)
    if key[1] not in (rows, rows + 1):
        return None
    if key[1] == rows:
        g = sweep.add("multiply", [g, sweep.add("normalize", [x], normal, equation)], {}, equation)
    return sweep.add("sum", [g], over, equation)


def _cast_before(sweep: Sweep, equation: Equation) -> Rewritten:
    """A reduction in another dtype than its operand's reduces the operand in that dtype."""
    (x,), dtype = equation.operands, equation.params.get("dtype")
    if dtype is None:
        return None
    # Where nothing else is said, narrow integers and truth values are added up in 64 bits, and
    # means of all whole numbers are floats.
    whole = dtype.kind in "biu" and (equation.primitive.name == "mean" or dtype.itemsize < 8)
    if type_of(x).dtype != dtype:
        x = sweep.add("astype", [x], {"dtype": dtype}, equation)
    elif whole:
        return None
    params = {**equation.params, "dtype": dtype if whole else None}
    return equation.by(equation.primitive, [x], params)


def _of_whole_numbers(sweep: Sweep, equation: Equation) -> Rewritten:
    """A reduction whose result has another dtype than its integers reduces them in that dtype."""
    (x,), dtype = equation.operands, equation.outputs[0].type.dtype
    known = type_of(x).dtype
    if known.kind not in "biu" or known == dtype or equation.params["dtype"] is not None:
        return None
    return equation.with_operands([sweep.add("astype", [x], {"dtype": dtype}, equation)])


def _of_single_places(sweep: Sweep, equation: Equation) -> Rewritten:
    """A reduction over axes of length 1 only drops them. Sums begin with zero."""
    out, params = equation.outputs[0].type, equation.params
    x: Operand = equation.operands[0]
    known, axes = type_of(x), params["axis"]
    if known.weak or known.dtype != out.dtype or not known.shape or not known.size:
        return None
    if known.dtype.kind == "b" and equation.primitive.name != "prod":
        return None
    if any(known.shape[a] != 1 for a in axes) or params["dtype"] not in (None, known.dtype):
        return None
    if equation.primitive.name != "prod":
        x = sweep.add("add", [x, 0], {}, equation)
    if known.shape == out.shape:
        return x
    return sweep.add("reshape", [x], {"shape": out.shape}, equation)


def _count(sweep: Sweep, equation: Equation) -> Rewritten:
    """A count is a sum of truth values as integers."""
    (x,) = equation.operands
    if type_of(x).dtype != np.bool_:
        x = sweep.add("not_equal", [x, 0], {}, equation)
    numbers = sweep.add("astype", [x], {"dtype": equation.outputs[0].type.dtype}, equation)
    params = {**equation.params, "dtype": None}
    return equation.by(registry["sum"], [numbers], params)


def _cast_parts(sweep: Sweep, equation: Equation) -> Rewritten:
    """Arrays that are joined have the dtype of the result."""
    dtype = equation.outputs[0].type.dtype
    if all(type_of(x).dtype == dtype for x in equation.operands):
        return None
    parts = [
        x if type_of(x).dtype == dtype else sweep.add("astype", [x], {"dtype": dtype}, equation)
        for x in equation.operands
    ]
    return sweep.add(equation.primitive.name, parts, equation.params, equation)


def _complex_mean(sweep: Sweep, equation: Equation) -> Rewritten:
    """A mean of complex numbers is a sum, divided by the complex count as in eager mode."""
    (x,) = equation.operands
    known = type_of(x)
    if known.dtype.kind != "c" or equation.params.get("dtype") is not None:
        return None
    count = prod(known.shape[a] for a in equation.params["axis"])
    if not count:
        return None
    return _mean(sweep, x, count, dict(equation.params), equation)


def _mean(
    sweep: Sweep, x: Operand, count: int, params: dict[str, Any], equation: Equation
) -> Variable:
    total = sweep.add("sum", [x], params, equation)
    return sweep.add("divide", [total, count], {}, equation)


def _column_variance(sweep: Sweep, equation: Equation) -> Rewritten:
    """A variance that no rows have is a mean of squares of deviations, or of their parts."""
    (x,), params, out = equation.operands, equation.params, equation.outputs[0].type
    known, axes = type_of(x), params["axis"]
    count = prod(known.shape[a] for a in axes)
    columns = 0 in axes and known.dtype.char in "efd" and out.size <= MOST_PARTIAL_ELEMENTS
    if not (columns or known.dtype.kind == "c") or count <= params["ddof"]:
        return None
    if known.dtype.char == "e":
        x = sweep.add("astype", [x], {"dtype": np.dtype(np.float32)}, equation)
    over = {"axis": axes, "keepdims": True, "dtype": None}
    deviations = sweep.add("subtract", [x, _mean(sweep, x, count, over, equation)], {}, equation)
    over = {**over, "keepdims": params["keepdims"]}
    total = sweep.add("sum", [_sizes_squared(sweep, deviations, equation)], over, equation)
    found = sweep.add("divide", [total, count - params["ddof"]], {}, equation)
    if known.dtype.char != "e":
        return found
    return equation.by(registry["astype"], [found], {"dtype": known.dtype})


def _norm(sweep: Sweep, equation: Equation) -> Rewritten:
    """A norm is the root of a sum of squares."""
    (x,) = equation.operands
    if type_of(x).dtype.char == "e":
        return None
    squares = _sizes_squared(sweep, x, equation)
    total = sweep.add("sum", [squares], {**equation.params, "dtype": None}, equation)
    return sweep.add("sqrt", [total], {}, equation)


def _sizes_squared(sweep: Sweep, x: Operand, equation: Equation) -> Variable:
    """Adds the squares of sizes."""
    if type_of(x).dtype.kind != "c":
        return sweep.add("square", [x], {}, equation)
    parts = [sweep.add(name, [x], {}, equation) for name in ("real", "imag")]
    squares = [sweep.add("square", [part], {}, equation) for part in parts]
    return sweep.add("add", squares, {}, equation)


def _power_by_root(sweep: Sweep, equation: Equation) -> Rewritten:
    """A power by an odd number of halves is a product with a root, or a quotient by one.

    Infinity has an even power, so that a negative one counts as positive; so do zeros.
    """
    (x, y), known = equation.operands, equation.outputs[0].type
    halves = y * 2 if type(y) is float else 0
    if halves not in HALVES_BY_ROOT or known.dtype.char not in "fd" or type_of(x) != known:
        return None
    there = sweep.add("add", [x, 0], {}, equation)
    found = sweep.add("sqrt", [there], {}, equation)
    if halves < 0:
        found = sweep.add("divide", [1, found], {}, equation)
    for _ in range(int(abs(halves)) // 2):
        name = "multiply" if halves > 0 else "divide"
        found = sweep.add(name, [found, there], {}, equation)
    below = sweep.add("equal", [x, -np.inf], {}, equation)
    return sweep.add("where", [below, np.inf if halves > 0 else 0.0, found], {}, equation)


def _of_short_floats(sweep: Sweep, equation: Equation) -> Rewritten:
    """A sum of floats of 16 bits is rounded to these at the end, as in eager mode."""
    (x,) = equation.operands
    dtype = type_of(x).dtype
    if dtype.char != "e" or equation.params["dtype"] is not None:
        return None
    x = sweep.add("astype", [x], {"dtype": np.dtype(np.float32)}, equation)
    total = sweep.add(equation.primitive.name, [x], equation.params, equation)
    return equation.by(registry["astype"], [total], {"dtype": dtype})


def _of_truth(sweep: Sweep, equation: Equation) -> Rewritten:
    """The largest of truth values is any of them, and the smallest is all of them."""
    if type_of(equation.operands[0]).dtype != np.bool_:
        return None
    name = "any" if equation.primitive.name == "max" else "all"
    return equation.by(registry[name], equation.operands, equation.params)


def _any_or_all(sweep: Sweep, equation: Equation) -> Rewritten:
    """Any and all are extrema of 0 and 1, which kernels have of floats."""
    (x,), params = equation.operands, dict(equation.params)
    known = type_of(x)
    if not prod(known.shape[a] for a in params["axis"]):
        return None
    if known.dtype != np.bool_:
        x = sweep.add("not_equal", [x, 0], {}, equation)
    numbers = sweep.add("astype", [x], {"dtype": np.dtype(np.float32)}, equation)
    name = "max" if equation.primitive.name == "any" else "min"
    return sweep.add("greater", [sweep.add(name, [numbers], params, equation), 0.0], {}, equation)


def _triangle(sweep: Sweep, equation: Equation) -> Rewritten:
    """Elements below a diagonal, or above, and zeros elsewhere: columns are compared with rows."""
    (x,), (out,) = equation.operands, equation.outputs
    known = out.type
    rows, columns = known.shape[-2:]
    # A GPU has a function of its own, and the numbers would be on the host.
    if out.device != "cpu" or rows + columns > MOST_COMPARED_PLACES:
        return None
    k = min(max(equation.params["k"], -rows), columns)
    name = "greater_equal" if equation.primitive.name == "tril" else "less_equal"
    diagonal = np.arange(k, k + rows, dtype=np.int32)[:, None]
    inside = sweep.add(name, [diagonal, np.arange(columns, dtype=np.int32)], {}, equation)
    return sweep.add("where", [inside, x, np.zeros((), known.dtype)], {}, equation)


def _dropout(sweep: Sweep, equation: Equation) -> Rewritten:
    """Dropout is a comparison of words of random bits and a choice."""
    (x, key), rate = equation.operands, equation.params["rate"]
    batch, shape = type_of(key).shape[:-1], type_of(x).shape
    if type_of(x).dtype.char not in "efd" or not type_of(x).size:
        return None
    start = np.zeros(batch, np.uint64) if batch else 0
    params = {"shape": shape[len(batch) :], "bits": 32, "stream": 0}
    words = sweep.add("random_keys", [key, start], params, equation)
    kept = sweep.add("greater_equal", [words, round(rate * WORD_VALUES)], {}, equation)
    scaled = sweep.add("divide", [x, 1.0 - rate], {}, equation)
    return sweep.add("where", [kept, scaled, 0], {}, equation)


KERNEL_FORMS: dict[str, tuple[RewriteRule, ...]] = {
    "add": (_common_factor,),
    "all": (_any_or_all,),
    "any": (_any_or_all,),
    "attention": (attention_by_products,),
    "concatenate": (_cast_parts,),
    "count_nonzero": (_count,),
    "dropout": (_dropout,),
    "euclidean_norm": (_norm,),
    "index": (_part_of_affine_normalize_grad, part_of_attention_grad),
    "matmul": (_outer_product, _long_dot),
    "max": (_of_truth,),
    "mean": (
        *(_cast_before, _of_whole_numbers, _of_single_places, _of_short_floats, _complex_mean),
    ),
    "min": (_of_truth,),
    "power": (_power_by_root,),
    "prod": (_cast_before, _of_whole_numbers, _of_single_places),
    "stack": (_cast_parts,),
    "sum": (_cast_before, _of_whole_numbers, _of_single_places, _of_short_floats),
    "tril": (_triangle,),
    "triu": (_triangle,),
    "var": (_column_variance,),
}
