"""Joins many small matrix products into one product."""

from __future__ import annotations

from typing import Any

from ..primitives.core.buffers import wrap
from ..primitives.core.index_key import IndexKey
from ..programs.program import Equation, Operand, Program, Variable, type_of, used
from .constants import constant_buffer, constant_key
from .rewriter import RewriteRule, Rewritten, Sweep, swept
from .simplify_shapes import sliced

__all__ = ["joined_products"]

# Fewer products are not worth the copies, and larger ones are as quick one by one.
FEWEST_JOINED_PRODUCTS, LARGEST_JOINED_PRODUCT = 4, 1 << 19
# Operands of more elements are not kept until all of them are there.
LARGEST_KEPT_ELEMENTS = 1 << 20
SWAPPED = (1, 0)
# The parameters of sums over rows.
OVER_ROWS = {"axis": (0,), "keepdims": False, "dtype": None}


def joined_products(program: Program) -> Program:
    """Returns a program that computes small matrix products of one sum or one array at once.

    Loops of Python leave many of them, each of which costs more to start than to compute:

    * ``a @ b + c @ d + ...``, as in the gradient of weights that every step uses, is the product of
      all left factors side by side and all right factors one below the other; ``sum(a, axis=0) +
      sum(c, axis=0) + ...`` is the sum of all one below the other. Other terms are added to that.
    * ``x[:, i] @ w`` for most i is ``(x @ w)[:, i]``; where a row b is added to all of them, as in
      ``x[:, i] @ w + h + b``, it is added to the product.

    The sums are rounded differently, and add up in another order.

    Args:
        program: any program; the one itself is returned where there are no such products.

    >>> import functensor as ft, functensor.numpy as np
    >>> program = ft.make_program(lambda x, w: [x[i] @ w for i in range(4)])(
    ...     np.ones((4, 2, 3)), np.ones((3, 5))
    ... )
    >>> [equation.primitive.name for equation in program.equations].count("matmul")
    4
    >>> from functensor.passes.dead_code import dead_code
    >>> print(dead_code(joined_products(program)))
    <lambda>(a: float64[4,2,3], b: float64[3,5]):
        c: float64[8,3] = reshape(a, shape=(8, 3))
        d: float64[8,5] = matmul(c, b)
        e: float64[4,2,5] = reshape(d, shape=(4, 2, 5))
        f: float64[2,5] = index(e, key=[0])
        g: float64[2,5] = index(e, key=[1])
        h: float64[2,5] = index(e, key=[2])
        i: float64[2,5] = index(e, key=[3])
        return f, g, h, i
    """
    names = [equation.primitive.name for equation in program.equations]
    if max(names.count("matmul"), names.count("sum")) < FEWEST_JOINED_PRODUCTS:
        return program
    products = {e.outputs[0]: e for e in program.equations if _is_small_product(e)}
    sums = _Sums(program, products)
    slices = _Slices(program, products)
    found = sums.roots | slices.products.keys() | slices.rows.keys()
    if not found:
        return program
    rules: dict[str, tuple[RewriteRule, ...]] = {"add": (sums, slices.shifted), "matmul": (slices,)}
    return swept(program, rules, found)


def _is_small_product(equation: Equation) -> bool:
    """Says whether an equation multiplies two small matrices of the same floating-point dtype."""
    if equation.primitive.name != "matmul":
        return False
    x, y = [type_of(operand) for operand in equation.operands]
    return (
        len(x.shape) == len(y.shape) == 2
        and x.dtype == y.dtype
        and x.dtype.kind in "fc"
        and 0 < x.size * y.shape[1] <= LARGEST_JOINED_PRODUCT
    )


def _is_small_sum(equation: Equation) -> bool:
    """Says whether an equation adds up the rows of a small matrix."""
    if equation.primitive.name != "sum" or equation.params != OVER_ROWS:
        return False
    x = type_of(equation.operands[0])
    return x.ndim == 2 and x.dtype.kind in "fc" and 0 < x.size <= LARGEST_JOINED_PRODUCT


# -- sums of products


class _Sums:
    """The rule for the last of a chain of additions."""

    def __init__(self, program: Program, products: dict[Variable, Equation]) -> None:
        additions: dict[Variable, list[Variable]] = {}
        sizes: dict[Variable, int] = {}
        for out, product in products.items():
            x, y = product.operands
            sizes[out] = type_of(x).size + type_of(y).size
        for equation in program.equations:
            name = equation.primitive.name
            if name == "add":
                found = _summands(equation)
                if found is not None:
                    additions[equation.outputs[0]] = found
            elif name == "sum" and _is_small_sum(equation):
                sizes[equation.outputs[0]] = type_of(equation.operands[0]).size
        # Partial sums, which nothing but the next addition uses.
        uses = program.uses()
        summed = [x for summands in additions.values() for x in summands]
        self.inner = {x for x in summed if x in additions and uses[x] == 1}
        for out, summands in additions.items():
            size = sum(sizes.get(x, 0) for x in summands)
            if size > LARGEST_KEPT_ELEMENTS:
                self.inner.discard(out)
            sizes[out] = size if out in self.inner else 0
        self.roots = {
            out
            for out, summands in additions.items()
            if out not in self.inner and not self.inner.isdisjoint(summands)
        }

    def __call__(self, sweep: Sweep, equation: Equation) -> Any:
        if equation.outputs[0] not in self.roots:
            return None
        terms: list[Any] = []
        waiting: list[Any] = [*equation.operands]
        while waiting:
            x = waiting.pop()
            if type(x) is Variable and x in self.inner:
                waiting += sweep.made[x].operands
            else:
                terms.append(x)
        joined = self._joined(sweep, terms, equation)
        if joined is None:
            return None
        total = joined[0]
        for x in joined[1:]:
            total = sweep.add("add", [total, x], {}, equation)
        return total

    def _joined(self, sweep: Sweep, terms: list[Any], of: Equation) -> list[Any] | None:
        """Returns the terms with what can be joined in one; None where too few can."""
        products: list[Equation] = []
        sums: list[Equation] = []
        others: list[Any] = []
        for x in terms:
            maker = sweep.made.get(x) if type(x) is Variable and sweep.once(x) else None
            if maker is not None and _is_small_product(maker):
                products.append(maker)
            elif maker is not None and _is_small_sum(maker):
                sums.append(maker)
            else:
                others.append(x)
        if max(len(products), len(sums)) < FEWEST_JOINED_PRODUCTS:
            return None
        found: list[Any] = []
        for makers, join in ((products, self._product), (sums, self._sum)):
            if len(makers) < FEWEST_JOINED_PRODUCTS:
                others += [equation.outputs[0] for equation in makers]
            else:
                found.append(join(sweep, makers, of))
        return found + others

    def _sum(self, sweep: Sweep, sums: list[Equation], of: Equation) -> Rewritten:
        rows = sweep.add("concatenate", [e.operands[0] for e in sums], {"axis": 0}, of)
        return sweep.add("sum", [rows], OVER_ROWS, of)

    def _product(self, sweep: Sweep, products: list[Equation], of: Equation) -> Rewritten:
        turned = [_transpose_source(sweep, equation.operands[0]) for equation in products]
        if any(x is None for x in turned):
            left = [equation.operands[0] for equation in products]
            x = sweep.add("concatenate", left, {"axis": 1}, of)
        else:
            rows = sweep.add("concatenate", turned, {"axis": 0}, of)
            x = sweep.add("transpose", [rows], {"axes": SWAPPED}, of)
        right = [equation.operands[1] for equation in products]
        return sweep.add("matmul", [x, sweep.add("concatenate", right, {"axis": 0}, of)], {}, of)


def _summands(equation: Equation) -> list[Variable] | None:
    """Returns the variables that an addition is of; None where one would be broadcast or cast.

    A number is not among them: ``sum`` begins with one.
    """
    known = equation.outputs[0].type
    found = []
    for x in equation.operands:
        if type(x) is Variable:
            found.append(x)
        if type(x) not in (int, float) and type_of(x) != known:
            return None
    return found


def _transpose_source(sweep: Sweep, x: Any) -> Operand | None:
    """Returns the operand's transpose, if it is there already; None elsewhere."""
    if type(x) is not Variable:
        return wrap(constant_buffer(x).T)
    source = sweep.maker(x, "transpose")
    return None if source is None else source.operands[0]


# -- products of slices


class _Slices:
    """The rule for the products of slices of one array with one matrix."""

    def __init__(self, program: Program, products: dict[Variable, Equation]) -> None:
        makers = {
            equation.outputs[0]: equation
            for equation in program.equations
            if equation.primitive.name == "index" and not equation.params["key"].arrays
        }
        members: dict[Any, set[int]] = {}
        self.products: dict[Variable, Any] = {}
        for out, equation in products.items():
            found = _slice(makers, equation)
            if found is not None:
                members.setdefault(found[0], set()).add(found[1])
                self.products[out] = found[0]
        needed = {key: _fewest(key) for key in members}
        self.groups = {key: n for key, n in needed.items() if len(members[key]) >= n}
        self.products = {out: key for out, key in self.products.items() if key in self.groups}
        self.made: dict[Any, Any] = {}
        self.rows = _row_count(program, self.products) if self.groups else {}
        self.sums: dict[Any, Any] = {}

    def __call__(self, sweep: Sweep, equation: Equation) -> Rewritten:
        # Its operands may be known by other variables by now, but the group is the same.
        key = self.products.get(equation.outputs[0])
        found = None if key is None else _slice(sweep.made, equation)
        if found is None:
            return None
        now, i = found
        product = self.made.get(key)
        if product is None:
            product = self.made[key] = self._product(sweep, now, equation)
        known = equation.outputs[0].type
        return sweep.add("index", [product], {"key": IndexKey((i,))}, equation, known)

    def shifted(self, sweep: Sweep, equation: Equation) -> Rewritten:
        """The rule for a row that is added to a slice of a product and something else."""
        found = self.rows.get(equation.outputs[0])
        if found is None or found[0] not in self.groups or found[1] < self.groups[found[0]]:
            return None
        product = self.made.get(found[0])
        if product is None:
            return None
        inner, row = equation.operands
        parts = sweep.made[inner].operands
        sources = [sweep.maker(x, "index") for x in parts]
        slices = [source is not None and source.operands[0] is product for source in sources]
        if True not in slices:
            return None
        place = slices.index(True)
        key = product, row if type(row) is Variable else constant_key(row)
        total = self.sums.get(key)
        if total is None:
            total = self.sums[key] = sweep.add("add", [product, row], {}, equation)
        taken = sweep.made[parts[place]].params
        part = sweep.add("index", [total], taken, equation, equation.outputs[0].type)
        return equation.by(equation.primitive, [part, parts[1 - place]], {})

    def _product(self, sweep: Sweep, key: Any, of: Equation) -> Rewritten:
        """Multiplies all slices, laid one below the other, so that each of the results is whole."""
        x, axis, _ = key
        count, rows, columns = x.type.shape[axis], x.type.shape[1 - axis], x.type.shape[2]
        if axis:
            x = sweep.add("transpose", [x], {"axes": (1, 0, 2)}, of)
        flat = sweep.add("reshape", [x], {"shape": (count * rows, columns)}, of)
        product = sweep.add("matmul", [flat, of.operands[1]], {}, of)
        shape = (count, rows, type_of(product).shape[1])
        return sweep.add("reshape", [product], {"shape": shape}, of)


def _fewest(key: tuple[Variable, int, Any]) -> int:
    """Returns how many slices of an array there have to be."""
    return max(FEWEST_JOINED_PRODUCTS, key[0].type.shape[key[1]] // 2)


def _row_count(program: Program, products: dict[Variable, Any]) -> dict[Variable, tuple[Any, int]]:
    """Returns for sums of a product of slices, something else and a row, to how many it is added.

    Each comes with the group of the product.
    """
    found: dict[Variable, Any] = {}
    counts: dict[Any, int] = {}
    sums: dict[Variable, Any] = {}
    uses = program.uses()
    for equation in program.equations:
        if equation.primitive.name != "add":
            continue
        x, y = equation.operands
        out = equation.outputs[0]
        if type(x) is Variable and x in sums and uses[x] == 1 and type_of(x) == out.type:
            row = type_of(y)
            if row.dtype == out.type.dtype and row.shape == out.type.shape[1:]:
                found[out] = key = sums[x], constant_key(y)
                counts[key] = counts.get(key, 0) + 1
        for part in used((x, y)):
            if part in products and uses[part] == 1 and type_of(x) == type_of(y) == out.type:
                sums[out] = products[part]
    return {out: (key[0], counts[key]) for out, key in found.items()}


def _slice(makers: dict[Variable, Equation], equation: Equation) -> tuple[Any, ...] | None:
    """Returns the group that a product belongs to, and its place there; None if to none."""
    x = equation.operands[0]
    source = makers.get(x) if type(x) is Variable else None
    taken = None if source is None else sliced(source)
    if taken is None or taken[0].type.ndim != 3 or taken[1] > 1:
        return None
    x, axis, i = taken
    return (x, axis, constant_key(equation.operands[1])), i
