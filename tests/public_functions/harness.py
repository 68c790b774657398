"""The checks of every public function: one call, with our namespace and with the original.

A case is a call written once, with the namespace as its first argument: given NumPy it says what
is right, given functensor.numpy it is put through every transformation. A family's cases are in a
module of their own, a list named ``CASES``; ``test_public_functions.py`` and the documentation's
table of what is supported go over all of them.
"""

from collections import Counter
from importlib import import_module

import numpy as np
from support.registry_cases import DTYPES, at_axes, by_inexact, draw, seed_of, subsets
from support.run_on_device import placed

import functensor as ft
from functensor.primitives.core.test_samples import REAL, Domain, Operand
from functensor.testing import assert_allclose, check_grads

BATCH = 3
RTOL = {"f": 1e-4, "d": 1e-8, "D": 1e-8}


class Case:
    """A call of a public function.

    Args:
        name: the function: ``"numpy.sinc"``, ``"numpy.linalg.solve"``, ``"scipy.special.erf"``. The
            first part says what the call gets: functensor.numpy or numpy, functensor.scipy or
            scipy.
        call: ``call(namespace, *operands)``: returns an array, or a tuple of them.
        operands: shapes, or ``Operand(shape, domain)``; ``draw`` in registry_cases says how values
            are drawn.
        reference: ``reference(*operands)`` as NumPy arrays, where the original has no such function
            or differs for a reason that is documented.
        dtypes: of ``fdD``, with which values are compared; derivatives are checked in double
            precision of the same kinds.
        smooth: whether there is a derivative: by every real or complex operand, at the values
            drawn. Outputs that are integers or booleans are left out.
        order: to which order derivatives are checked.
        static: True where the result's shape depends on values, so that there is neither vmap nor
            staging.
        rtol: how far values may be from the reference's, in double precision.
        grad_rtol: how far derivatives may be from differences; looser than the default only with
            a reason.
    """

    def __init__(
        self,
        name,
        call,
        *operands,
        reference=None,
        dtypes="fd",
        smooth=True,
        order=2,
        static=False,
        rtol=1e-10,
        grad_rtol=None,
        domain=REAL,
    ):
        self.name = name
        self.call = call
        self.operands = [op if isinstance(op, Operand) else Operand(op, domain) for op in operands]
        self.reference = reference
        self.dtypes = dtypes
        self.smooth = smooth
        self.order = order
        self.static = static
        self.rtol = rtol
        self.grad_rtol = grad_rtol
        self.index = 0

    def __repr__(self):
        return f"{self.name}-{self.index}"

    def ours(self, *operands):
        """Calls functensor's function."""
        space = namespace("functensor", self.name)
        return placed(lambda *xs: self.call(space, *xs), operands)

    def theirs(self, *operands):
        """Calls the reference."""
        if self.reference is not None:
            return self.reference(*operands)
        return self.call(namespace("", self.name), *operands)

    def values(self, dtype="d", batch=None):
        """Returns operands as NumPy arrays, the same ones every time."""
        shapes = [op.shape for op in self.operands]
        if batch is not None:
            shapes = [(*extra, *shape) for extra, shape in zip(batch, shapes, strict=True)]
        rng = np.random.default_rng(seed_of(self.name, shapes, dtype))
        return draw([op.domain for op in self.operands], shapes, DTYPES[dtype], rng)


def namespace(package, name):
    """Returns the namespace that a call gets: ours, or with an empty package the original."""
    root = name.split(".")[0]
    if package:
        return getattr(ft, root)
    if root == "numpy":
        return np
    return import_module("scipy")  # which loads its modules when they are used


def numbered(cases):
    """Returns cases that know which of their function's they are."""
    seen = Counter()
    for case in cases:
        case.index = seen[case.name]
        seen[case.name] += 1
    return cases


def leaves_of(out):
    """Returns the arrays of a result, which may be a tuple, a named one, or a list."""
    return list(out) if isinstance(out, tuple | list) else [out]


def inexact_leaves(out):
    """Returns those arrays of a result that have derivatives."""
    return [leaf for leaf in leaves_of(out) if leaf.dtype.kind in "fc"]


def check_value(case):
    """Values, shapes and dtypes are the reference's, for every dtype; operands are left alone."""
    for dtype in case.dtypes:
        operands = case.values(dtype)
        before = [x.copy() for x in operands]
        with np.errstate(all="ignore"):
            wanted = leaves_of(case.theirs(*operands))
        got = leaves_of(case.ours(*operands))
        assert len(got) == len(wanted)
        rtol = RTOL["f"] if dtype == "f" else case.rtol
        for mine, other in zip(got, wanted, strict=True):
            assert isinstance(mine, ft.Array), f"{type(mine)} is no Array"
            assert_allclose(mine, np.asarray(other), rtol=rtol, atol=rtol)
        for x, copy in zip(operands, before, strict=True):
            np.testing.assert_array_equal(x, copy, "an operand was written to")


def check_derivatives(case, most_orders=2):
    """Both modes are right, to the case's order, with the operands' dtypes."""
    order = min(case.order, most_orders)
    for dtype in sorted(set(case.dtypes) & set("dD")):
        call, operands = by_inexact(
            lambda *xs: inexact_leaves(case.ours(*xs)), case.values(dtype)
        )
        if not case.smooth:
            check_flat(call, operands)
            continue
        check_grads(call, operands, order=order, rtol=case.grad_rtol or RTOL[dtype])
    if "f" in case.dtypes and case.smooth:
        call, operands = by_inexact(lambda *xs: inexact_leaves(case.ours(*xs)), case.values("f"))
        outs, pull = ft.vjp(call, *operands)
        for x, g in zip(operands, pull([np.ones_like(np.asarray(out)) for out in outs])):
            assert (g.shape, g.dtype) == (x.shape, x.dtype)


def check_flat(call, operands):
    """A function without a derivative gives zeros, in both modes, and no error."""
    if not operands:
        return
    outs, tangents = ft.jvp(call, operands, operands)
    for t in tangents:
        np.testing.assert_array_equal(t, np.zeros(t.shape))
    for g in ft.vjp(call, *operands)[1](outs):
        np.testing.assert_array_equal(g, np.zeros(g.shape))


def check_batching(case):
    """vmap over all axes of all operands, in all combinations, is the Python loop; of none too."""
    if case.static:
        return

    def call(*xs):
        return leaves_of(case.ours(*xs))

    turns = max((len(op.shape) for op in case.operands), default=0) + 1
    for flags in subsets(len(case.operands)):
        batch = tuple((BATCH,) if flag else () for flag in flags)
        operands = case.values(case.dtypes[-1], batch)
        rows = [[x[b] if flag else x for x, flag in zip(operands, flags)] for b in range(BATCH)]
        outs = [call(*row) for row in rows]
        wanted = [np.stack([np.asarray(row[i]) for row in outs]) for i in range(len(outs[0]))]
        for turn in range(turns):
            axes = tuple(
                (turn + i) % x.ndim if flag else None
                for i, (x, flag) in enumerate(zip(operands, flags, strict=True))
            )
            got = ft.vmap(call, in_axes=axes)(*at_axes(operands, axes))
            assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)
        empty = case.values(case.dtypes[-1], tuple((0,) if flag else () for flag in flags))
        got = ft.vmap(call, in_axes=tuple(0 if flag else None for flag in flags))(*empty)
        for mine, other in zip(got, wanted, strict=True):
            assert (mine.shape, mine.dtype) == ((0, *other.shape[1:]), other.dtype)


def check_batched_derivatives(case):
    """The derivative of vmap is the loop over derivatives, and vmap of grad too."""
    if case.static or not case.smooth:
        return
    batch = ((BATCH,),) * len(case.operands)
    operands = case.values("d", batch)

    def pulled(*xs):
        call, values = by_inexact(lambda *ys: inexact_leaves(case.ours(*ys)), xs)
        outs, pull = ft.vjp(call, *values)
        return list(pull([ft.numpy.ones_like(out) for out in outs]))

    rows = [pulled(*(x[b] for x in operands)) for b in range(BATCH)]
    wanted = [np.stack([np.asarray(row[i]) for row in rows]) for i in range(len(rows[0]))]
    assert_allclose(ft.vmap(pulled)(*operands), wanted, rtol=1e-8, atol=1e-8)


def check_staging(case):
    """A staged program gives what the eager call gives."""
    if case.static:
        return

    def call(*xs):
        return leaves_of(case.ours(*xs))

    operands = case.values(case.dtypes[-1])
    wanted = call(*operands)
    shapes = ft.eval_shape(call, *operands)
    for shape, out in zip(shapes, wanted, strict=True):
        assert (shape.shape, shape.dtype) == (out.shape, out.dtype)
    assert_allclose(ft.make_program(call)(*operands)(*operands), wanted)


CHECKS = {
    "value": check_value,
    "derivatives": check_derivatives,
    "batching": check_batching,
    "batched_derivatives": check_batched_derivatives,
    "staging": check_staging,
}

__all__ = ["CHECKS", "Case", "Domain", "Operand", "numbered"]
