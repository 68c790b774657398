"""Sums of products over named axes: Einstein's notation.

This module holds the notation and the rules; backends compute the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, count
from typing import Any

import numpy as np

from ...backends.annotations import Axes, Buffer, DTypeLike, Shape
from ...backends.arrays.einsum import compute, split
from ..core.annotations import Prepared, Value
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.buffers import beside, operands_together
from ..core.derivative_rules import Keepers, shape_of
from ..core.errors import ShapeError, misfit, refuse_out
from ..core.primitive import Primitive, of_operands
from ..core.shape_dtype import ShapeDtype, result_type
from ..core.test_samples import Sample

__all__ = ["einsum"]

# The module `string` has them too, but its import compiles a pattern.
LATIN_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

# The names of a term's axes: characters, integers, or Ellipsis for those without a name.
Labels = tuple[Any, ...]


# -- notation: all forms become terms of one letter an axis, "ij,jk->ik"


def axis_letters() -> Iterator[str]:
    """Yields letters for axes without end: first a-z and A-Z, then Unicode's."""
    return chain(LATIN_LETTERS, map(chr, count(0xC0)))


def fresh(taken: str) -> str:
    """Returns a letter that is not taken.

    >>> fresh("ab,bc->ac")
    'd'
    """
    return next(letter for letter in axis_letters() if letter not in taken)


def _refuse(what: str, fix: str) -> ShapeError:
    return misfit(f"einsum: {what}", fix)


def _expand(labels: Sequence[Any], ndim: int, index: int, written: str) -> list[Any]:
    """Names the axes of one operand; those of the ellipsis are counted from the last."""
    named = len(labels) - (Ellipsis in labels)
    covered = ndim - named
    if covered < 0 or (covered and Ellipsis not in labels):
        raise _refuse(
            f"{written!r} names {named} axes of operand {index}, which has {ndim}",
            "give one letter for each axis; '...' stands for axes without a name",
        )
    if Ellipsis not in labels:
        return list(labels)
    at = labels.index(Ellipsis)
    rest = [(Ellipsis, axis) for axis in range(covered, 0, -1)]
    return [*labels[:at], *rest, *labels[at + 1 :]]


def _label_text(label: Any) -> str:
    return f"axis -{label[1]} of '...'" if isinstance(label, tuple) else f"index {label!r}"


def _axis_lengths(terms: Sequence[Sequence[Any]], shapes: Sequence[Shape]) -> dict[Any, int]:
    """Returns every label's length; an axis of length 1 broadcasts against the same label."""
    lengths: dict[Any, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        own: dict[Any, int] = {}
        for label, length in zip(term, shape, strict=True):
            known = own.setdefault(label, length)
            if known == length:
                known = lengths.get(label, 1)
            if known != length and (1 not in (known, length) or own[label] != length):
                raise _refuse(
                    f"{_label_text(label)} has length {known} and length {length} "
                    f"in operands of shapes {' and '.join(map(str, shapes))}",
                    "the axes that share a letter must be equally long (or 1, to broadcast)",
                )
            if length != 1 or label not in lengths:
                lengths[label] = length
    return lengths


@lru_cache(maxsize=4096)
def canonical(
    inputs: tuple[Labels, ...], out: Labels | None, shapes: tuple[Shape, ...]
) -> tuple[str, tuple[Axes, ...]]:
    """Brings a notation into one letter an axis.

    Args:
        inputs: for every operand its labels, characters or integers, with Ellipsis.
        out: the output's labels, or None for the implicit output.
        shapes: the operands' shapes.

    Returns:
        The subscripts without ellipsis, and for every operand the axes of length 1 that broadcast
        and are to be squeezed away, since the subscripts do not name them.

    >>> canonical((("i", "j"), (..., "j")), None, ((2, 3), (4, 3)))
    ('ij,aj->ai', ((), ()))
    """
    written = ["".join("..." if x is Ellipsis else str(x) for x in term) for term in inputs]
    terms = [
        _expand(term, len(shape), i, written[i])
        for i, (term, shape) in enumerate(zip(inputs, shapes, strict=True))
    ]
    lengths = _axis_lengths(terms, shapes)
    covered = sorted((x for x in lengths if isinstance(x, tuple)), key=lambda x: -x[1])
    if out is None:
        flat = [label for term in terms for label in term]
        named = sorted(x for x in lengths if not isinstance(x, tuple) and flat.count(x) == 1)
        result = [*covered, *named]
    else:
        result = list(chain.from_iterable(covered if x is Ellipsis else [x] for x in out))
    for label in result:
        if label not in lengths or result.count(label) > 1:
            problem = "twice" if label in lengths else "though no operand has it"
            raise _refuse(
                f"the output names {_label_text(label)} {problem}",
                "the output names axes of the operands, each at most once",
            )
    kept, squeezed = [], []
    for term, shape in zip(terms, shapes, strict=True):
        pairs = list(enumerate(zip(term, shape, strict=True)))
        squeezed.append(tuple(i for i, (x, n) in pairs if n == 1 and lengths[x] != 1))
        kept.append([x for i, (x, _) in pairs if i not in squeezed[-1]])
    own = {x for x in lengths if isinstance(x, str)}
    unused = (letter for letter in axis_letters() if letter not in own)
    symbols = {x: x if isinstance(x, str) else next(unused) for x in lengths}
    spelled = ["".join(map(symbols.__getitem__, term)) for term in (*kept, result)]
    return ",".join(spelled[:-1]) + "->" + spelled[-1], tuple(squeezed)


def _labels(term: str) -> Labels:
    head, dots, tail = term.partition("...")
    return (*head, Ellipsis, *tail) if dots else tuple(term)


@lru_cache(maxsize=1024)
def _terms_in(text: str) -> tuple[tuple[Labels, ...], Labels | None]:
    """Returns the terms of operands in ``ij,jk->ik``, and that of the output if there is one."""
    given, arrow, named = text.replace(" ", "").partition("->")
    return tuple(map(_labels, given.split(","))), _labels(named) if arrow else None


def _einsum_arguments(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    dtype: DTypeLike | None = None,
    order: str = "K",
    casting: str = "safe",
    optimize: object = True,
) -> Prepared:
    # The order is optimised whatever `optimize` says, as that costs little and is remembered.
    refuse_out("einsum", out)
    inputs: tuple[Labels, ...]
    output: Labels | None
    if isinstance(subscripts, str):
        given = operands
        inputs, output = _terms_in(subscripts)
    else:
        # Operands and the indices of their axes take turns.
        turns = (subscripts, *operands)
        given = turns[: len(turns) // 2 * 2 : 2]
        inputs = tuple(map(tuple, turns[1::2]))
        output = tuple(turns[-1]) if len(turns) % 2 else None
    if len(inputs) != len(given) or not given:
        raise _refuse(
            f"{len(inputs)} terms for {len(given)} operands",
            "einsum('ij,jk->ik', x, y): one term for each operand, separated by commas",
        )
    arrays = operands_together("einsum", *given)
    if dtype is not None:
        arrays = [ops.astype(x, dtype) for x in arrays]
    spelled, squeezed = canonical(inputs, output, tuple(shape_of(x) for x in arrays))
    for i, axes in enumerate(squeezed):
        if axes:
            shape = shape_of(arrays[i])
            kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
            arrays[i] = ops.reshape(arrays[i], kept)
    return tuple(arrays), {"subscripts": spelled}


# -- rules


def _infer_einsum(primitive: Primitive, *operands: ShapeDtype, subscripts: str) -> ShapeDtype:
    terms, out = split(subscripts)
    lengths = _axis_lengths(terms, [x.shape for x in operands])
    return ShapeDtype([lengths[x] for x in out], result_type(*(x.dtype for x in operands)))


def _batch_einsum(
    primitive: Primitive, values: Sequence[Value], flags: Sequence[bool], params: dict[str, Any]
) -> Array:
    terms, out = split(params["subscripts"])
    axis = fresh(params["subscripts"])
    batched = [axis + term if flag else term for term, flag in zip(terms, flags, strict=True)]
    return primitive.bind(values, {"subscripts": f"{','.join(batched)}->{axis}{out}"})


@lru_cache(maxsize=1024)
def _spread(subscripts: str, i: int) -> tuple[str | None, str, str, tuple[bool, ...]]:
    """Returns how a cotangent comes back to operand i.

    That is the notation of its contraction with the others if there is one, the term of that, the
    operand's own term, and for every axis whether its letter is there for the first time.
    """
    terms, out = split(subscripts)
    inputs = [out, *(term for j, term in enumerate(terms) if j != i)]
    found = "".join(x for x in dict.fromkeys(terms[i]) if any(x in term for term in inputs))
    first = tuple(terms[i].index(x) == axis for axis, x in enumerate(terms[i]))
    given = ",".join(inputs)
    return None if given == found else f"{given}->{found}", found, terms[i], first


def _einsum_vjp(g: Array, xs: Sequence[Array], i: int, *, subscripts: str) -> Array:
    """Contracts the cotangent with all other operands; spreads it where operand i was summed."""
    contraction, found, term, first = _spread(subscripts, i)
    if contraction is not None:
        g = einsum.bind((g, *xs[:i], *xs[i + 1 :]), {"subscripts": contraction})
    if found == term:
        return g
    shape = shape_of(xs[i])
    places = [n if x in found and new else 1 for n, x, new in zip(shape, term, first)]
    g = ops.reshape(g, tuple(places))
    if not all(first):
        g = ops.where(beside(g, _diagonal_mask(term, shape)), g, 0)
    return ops.broadcast_to(g, shape)


@lru_cache(maxsize=256)
def _diagonal_mask(term: str, shape: Shape) -> Buffer:
    """Says where indices of axes with the same letter agree, in a shape that broadcasts."""
    mask = np.ones((1,) * len(term), bool)
    index = np.ogrid[tuple(slice(n) for n in shape)]
    for axis, letter in enumerate(term):
        if term.index(letter) != axis:
            mask = mask & (index[axis] == index[term.index(letter)])
    mask.flags.writeable = False
    return mask


class _EinsumKeepers(Keepers):
    """Of the only operand that is differentiated, the shape alone is kept."""

    def __missing__(self, mask: int) -> Any:
        if mask.bit_count() > 1:
            return super().__missing__(mask)
        alone = mask.bit_length() - 1

        def keep(ans: Array, xs: Sequence[Array]) -> tuple[Any, ...]:
            return None, *(shape_of(x) if i == alone else x for i, x in enumerate(xs))

        self[mask] = keep
        return keep


einsum = of_operands(
    "einsum",
    compute=compute, prepare=_einsum_arguments, infer=_infer_einsum, batch=_batch_einsum,
    vjp=_einsum_vjp, linear=True, dtypes="fdD",
    reference=lambda *xs, subscripts: np.einsum(subscripts, *xs),
    samples=[
        Sample((2, 3), (3, 4), subscripts="ij,jk->ik"),
        Sample((2, 3), (4, 2, 3), subscripts="ij,kij->k"),
        Sample((2, 3, 4), (2, 5, 3), subscripts="bij,bki->bkj"), Sample((2, 3), subscripts="ij->"),
        Sample((3, 3), subscripts="ii->"), Sample((3, 2, 3), subscripts="iji->ij"),
        Sample((3, 3), (3,), subscripts="ii,i->i"), Sample((2, 2, 2), subscripts="iii->i"),
        Sample((2,), (3,), subscripts="i,j->ji"),
        Sample((2, 3), (3, 4), (4, 2), (2,), subscripts="ij,jk,kl,l->i"),
        Sample((), (2, 3), subscripts=",ij->ji"), Sample((2, 0), (0, 3), subscripts="ij,jk->ik"),
        Sample((0, 2), (2, 3), (3,), subscripts="ij,jk,k->i"),
    ],
    doc="""Returns sums of products over the axes that letters name.

    ``einsum("ij,jk->ik", x, y)`` is the matrix product, whose element (i, k) is the sum over j of
    x[i, j] * y[j, k]: axes that share a letter go together, and a letter that the output lacks is
    summed over. ``ii->i`` takes a diagonal, ``ij->ji`` transposes, ``i,j->ij`` multiplies each
    with each, and ``...ij,...jk->...ik`` multiplies stacks of matrices.

    Args:
        subscripts: a term for each operand, separated by commas: one letter for each axis,
            ``...`` for axes without a name, which broadcast. After ``->`` stand the axes of the
            output. Without ``->`` these are the axes of ``...``, then the letters that occur once,
            in alphabetical order. In NumPy's other form operands and lists of integers take turns,
            ``einsum(x, [0, 1], y, [1, 2], [0, 2])``; the last list is the output's.
        operands: one array or more, of shapes that the terms fit. Axes of one letter have one
            length; an axis of length 1 broadcasts.
        out: None; arrays are immutable.
        dtype: the dtype to which operands are converted first; by default they are promoted.
        order, casting: accepted for programs written for NumPy, without an effect.
        optimize: accepted, without an effect. The order in which more than two operands are
            multiplied is always optimised, once for each notation and shapes; `np.einsum_path`
            shows it.

    Returns:
        An array of the operands' promoted dtype with the axes that the output names.

    Raises:
        ShapeError: axes of one letter have different lengths, or terms and operands do not match.

    Products of matrices and of stacks of them run in the BLAS. On a GPU float32 is multiplied as
    ``ft.config.matmul_precision`` says.

    >>> import functensor.numpy as np
    >>> x, y = np.arange(6.0).reshape(2, 3), np.ones((3, 2))
    >>> np.einsum("ij,jk->ik", x, y).tolist()
    [[3.0, 3.0], [12.0, 12.0]]
    >>> np.einsum("ij->j", x).tolist()
    [3.0, 5.0, 7.0]
    >>> np.einsum("ij,jk,k->i", x, y, np.ones(2)).shape
    (2,)

    The order of contraction is opt_einsum's: Smith and Gray, Journal of Open Source Software 3
    (2018), 753, doi:10.21105/joss.00753.
    """,
)
einsum.keepers = _EinsumKeepers(einsum)
