"""The checks of every primitive of the registry, as functions that raise AssertionError.

A check takes a primitive and a sample of its declaration. ``test_primitives.py`` puts all
primitives through all checks; ``test_planted_faults.py`` shows that every check finds the fault
that it is for. Samples hold parameters in the prepared form, in which ``Primitive.bind`` and the
rules get them.
"""

import importlib
import zlib
from itertools import product

import numpy as np
from support.fewer_samples import few_samples
from support.long_forms import LONG
from support.run_on_device import placed, settled

import functensor as ft
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.shape_dtype import ShapeDtype, shape_dtype
from functensor.primitives.core.test_samples import Sample
from functensor.primitives.core.trace import slot
from functensor.testing import assert_allclose, check_grads

DTYPES = {"f": "float32", "d": "float64", "D": "complex128"}
RTOL = {"f": 1e-5, "d": 1e-8, "D": 1e-8}
BATCH = 3


# Arguments of primitives


def reference_of(primitive):
    """Returns the function of NumPy, SciPy or the declaration that computes the same, or None."""
    reference = primitive.reference
    if reference is None:
        return getattr(np, primitive.name, None)
    if isinstance(reference, str):
        module, _, name = reference.rpartition(".")
        return getattr(importlib.import_module(module), name)
    return reference


def samples_of(primitive):
    """Returns a primitive's samples; in the short form of the tests fewer of some."""
    return primitive.samples if LONG else few_samples(primitive)


def seed_of(*parts):
    """Returns a seed that is the same in every process."""
    return zlib.crc32(repr(parts).encode())


def away_from_zero(x, gap):
    """Moves values away from zero by the gap, so that none is closer."""
    size = np.abs(x)
    unit = np.where(size > 0, x / np.where(size > 0, size, 1), 1)
    return np.where(size < gap, unit * (gap + size), x)


def draw(domains, shapes, dtype, rng):
    """Returns an array for each domain; of those with distinct values, no two elements agree.

    Args:
        domains, shapes: of the arrays.
        dtype: the dtype of those that are real or complex.
        rng: where values come from.
    """
    sizes = [int(np.prod(s)) if d.distinct else 0 for d, s in zip(domains, shapes, strict=True)]
    ranks = rng.permutation(sum(sizes))
    arrays = []
    for domain, shape, size in zip(domains, shapes, sizes, strict=True):
        if domain.kind == "i":
            array = rng.integers(domain.low, domain.high, shape, endpoint=True)
        elif domain.kind == "b":
            array = rng.integers(0, 1, shape, endpoint=True).astype(bool)
        else:
            places = rng.uniform(0, 1, shape)
            if domain.distinct:
                mine, ranks = ranks[:size], ranks[size:]
                places = (mine.reshape(shape) + 0.5 + 0.2 * (places - 0.5)) / max(sum(sizes), 1)
            array = domain.low + (domain.high - domain.low) * places
            if np.dtype(dtype).kind == "c":
                # Away from both axes, along which functions of complex numbers have their cuts.
                array = array + 1j * away_from_zero(rng.uniform(-0.9, 0.9, shape), 0.1)
            array = np.asarray(away_from_zero(array, domain.gap), dtype)
        arrays.append(np.asarray(array))
    return arrays


class Drawn(Sample):
    """A sample whose values come from a source of its own, in place of the usual generator.

    Args:
        source: has the methods ``uniform``, ``integers`` and ``permutation`` of a generator.
        operands, params: as a sample has.
    """

    __slots__ = ("known", "source")

    def __init__(self, source, *operands, **params):
        super().__init__(*operands, **params)
        self.source = source
        self.known = {}


def operands_of(primitive, sample, dtype="d", batch=None):
    """Returns the operands of a sample as NumPy arrays, the same ones every time.

    Args:
        primitive, sample: whose.
        dtype: the letter of the dtype of real and complex ones.
        batch: the shape of additional axes in front of each operand, by default none.
    """
    shapes = [op.shape for op in sample.operands]
    if batch is not None:
        shapes = [(*extra, *shape) for extra, shape in zip(batch, shapes, strict=True)]
    domains = [op.domain for op in sample.operands]
    if not isinstance(sample, Drawn):
        rng = np.random.default_rng(seed_of(primitive.name, shapes, dtype))
        return draw(domains, shapes, DTYPES[dtype], rng)
    key = tuple(shapes), dtype
    if key not in sample.known:
        sample.known[key] = draw(domains, shapes, DTYPES[dtype], sample.source)
    return [x.copy() for x in sample.known[key]]


def applied(primitive, sample):
    """Returns the primitive as a function of a sample's operands alone."""

    def call(*operands):
        return placed(lambda *xs: primitive.bind(xs, sample.params), operands)

    call.__name__ = primitive.name
    return call


def by_inexact(call, operands):
    """Returns a function of those operands that are real or complex, and these operands."""
    places = [i for i, x in enumerate(operands) if x.dtype.kind in "fc"]

    def rest(*values):
        filled = list(operands)
        for i, value in zip(places, values, strict=True):
            filled[i] = value
        return call(*filled)

    rest.__name__ = call.__name__
    return rest, [operands[i] for i in places]


def has_derivative(primitive, sample, dtype="d"):
    """Says whether a sample's output depends smoothly on an operand."""
    operands = operands_of(primitive, sample, dtype)
    out = applied(primitive, sample)(*operands)
    inexact = any(x.dtype.kind in "fc" for x in operands)
    return not primitive.constant and inexact and out.dtype.kind in "fc"


def host(x):
    """Returns an array as NumPy's."""
    return np.asarray(x)


def same_type(got, wanted, what):
    """Checks that a value has a shape and dtype."""
    got, wanted = shape_dtype(got).strong(), shape_dtype(wanted).strong()
    assert got == wanted, f"{what} is {got}, expected {wanted}"


# Values, shapes, dtypes


def check_reference(primitive):
    """There is something to compare the primitive with."""
    assert callable(reference_of(primitive)), f"{primitive.name} has no reference"


def check_samples(primitive):
    """There are samples, among them one with an operand or a result without elements."""
    assert primitive.samples, f"{primitive.name} has no samples"
    shapes = [op.shape for sample in primitive.samples for op in sample.operands]
    shapes += [
        applied(primitive, sample)(*operands_of(primitive, sample)).shape
        for sample in primitive.samples
    ]
    assert any(0 in shape for shape in shapes), f"{primitive.name} has no sample without elements"


def check_forward(primitive, sample):
    """Values, shape and dtype are the reference's, however operands lie; those are left alone."""
    for dtype in primitive.dtypes:
        operands = operands_of(primitive, sample, dtype)
        before = [x.copy() for x in operands]
        got = applied(primitive, sample)(*operands)
        wanted = reference_of(primitive)(*operands, **sample.params)
        assert isinstance(got, ft.Array), f"the result is {type(got)}, not an Array"
        assert_allclose(settled(primitive, got), settled(primitive, np.asarray(wanted)))
        for x, copy in zip(operands, before, strict=True):
            np.testing.assert_array_equal(x, copy, "an operand was written to")
        # Every other element of a read-only array in Fortran's order, as users may pass it.
        strided = [x if x.ndim == 0 else np.repeat(x, 2, -1).copy("F")[..., ::2] for x in before]
        for x in strided:
            x.flags.writeable = False
        got = applied(primitive, sample)(*strided)
        assert_allclose(settled(primitive, got), settled(primitive, np.asarray(wanted)))


def check_types(primitive, sample):
    """Shape inference agrees with the real result, and a staged program gives the same."""
    call = applied(primitive, sample)
    for dtype in primitive.dtypes:
        operands = operands_of(primitive, sample, dtype)
        got = call(*operands)
        known = primitive.infer(primitive, *map(shape_dtype, operands), **sample.params)
        assert known == ShapeDtype(got.shape, got.dtype), f"inferred {known}, got {got.describe()}"
        same_type(ft.eval_shape(call, *operands), got, "eval_shape's result")
        program = ft.make_program(call)(*operands)
        assert_allclose(program.run([wrap(x) for x in operands])[0], got)
        assert_allclose(program(*operands), got)


def check_weak(primitive, sample):
    """Python's numbers do not decide the dtype: neither that of the result nor of gradients."""
    if primitive.family != "elementwise":
        return
    call = applied(primitive, sample)
    reference = reference_of(primitive)
    operands = operands_of(primitive, sample, "f")
    for i, x in enumerate(operands):
        if x.size == 0:
            continue
        number = x.flat[0].item()
        weak = [*operands[:i], number, *operands[i + 1 :]]
        wanted = np.asarray(reference(*weak, **sample.params))
        got = call(*weak)
        same_type(got, wanted, f"the result with {number!r} for operand {i}")
        known = primitive.infer(primitive, *map(shape_dtype, weak), **sample.params)
        assert known.strong() == shape_dtype(got).strong(), f"inferred {known}, got {got!r}"
        if primitive.constant or got.dtype.kind != "f":
            continue
        _, pull = ft.vjp(call, *weak)
        for v, g in zip(weak, pull(np.ones(got.shape, got.dtype)), strict=True):
            if shape_dtype(v).dtype.kind == "f":
                same_type(g, v, f"the gradient with {number!r} for operand {i}")


# Derivatives


def check_derivatives(primitive, sample, dtypes="fdD"):
    """Both modes are right: to order two in double precision, to order one in single."""
    for dtype in set(primitive.dtypes) & set(dtypes):
        if not has_derivative(primitive, sample, dtype):
            check_no_derivative(primitive, sample, dtype)
            continue
        call, values = by_inexact(
            applied(primitive, sample), operands_of(primitive, sample, dtype)
        )
        check_grads(call, values, order=1 if dtype == "f" else 2, rtol=RTOL[dtype])


def check_no_derivative(primitive, sample, dtype):
    """Operands without a derivative have zeros, of the right shapes and dtypes."""
    call, values = by_inexact(applied(primitive, sample), operands_of(primitive, sample, dtype))
    if not values:
        return
    out, tangent = ft.jvp(call, values, values)
    assert_allclose(out, call(*values))
    if out.dtype.kind in "fc":
        assert_allclose(tangent, np.zeros(out.shape, out.dtype))
    out, pull = ft.vjp(call, *values)
    for x, g in zip(values, pull(host(out)), strict=True):
        assert_allclose(g, np.zeros_like(x))


def check_operand_subsets(primitive, sample):
    """By some of the operands the derivatives are those by all, and nothing is written to."""
    if not has_derivative(primitive, sample):
        return
    call, values = by_inexact(applied(primitive, sample), operands_of(primitive, sample))
    tangents = [np.cos(x) for x in values]
    out, pull = ft.vjp(call, *values)
    cotangent = np.cos(np.arange(float(out.size))).reshape(out.shape).astype(out.dtype)
    copies = [x.copy() for x in (*values, *tangents, cotangent)]
    wanted = pull(cotangent)
    assert_allclose(pull(cotangent), wanted)
    for flags in subsets(len(values)):
        chosen = [i for i, flag in enumerate(flags) if flag]

        def part(*some, chosen=chosen):
            filled = list(values)
            for i, value in zip(chosen, some, strict=True):
                filled[i] = value
            return call(*filled)

        some = [values[i] for i in chosen]
        got_out, got_pull = ft.vjp(part, *some)
        assert_allclose(got_out, out)
        assert_allclose(list(got_pull(cotangent)), [wanted[i] for i in chosen])
        zeroed = [t if flag else t * 0 for t, flag in zip(tangents, flags, strict=True)]
        part_tangent = ft.jvp(part, some, [tangents[i] for i in chosen])[1]
        assert_allclose(part_tangent, ft.jvp(call, values, zeroed)[1])
    for x, copy in zip((*values, *tangents, cotangent), copies, strict=True):
        np.testing.assert_array_equal(x, copy, "an argument was written to")


# Batches


def subsets(count):
    """Returns all choices of at least one of some operands, as flags; of many, one and all."""
    if count <= 3:
        return [flags for flags in product((True, False), repeat=count) if any(flags)]
    ones = [tuple(i == j for j in range(count)) for i in range(count)]
    return [*ones, (True,) * count]


def at_axes(operands, axes):
    """Returns operands with their leading batch axis at other axes."""
    return [
        x if axis is None else np.moveaxis(x, 0, axis)
        for x, axis in zip(operands, axes, strict=True)
    ]


def looped(call, operands, flags, size=BATCH):
    """Returns the stacked results of calls with one example after the other."""
    rows = [[x[b] if flag else x for x, flag in zip(operands, flags)] for b in range(size)]
    return np.stack([host(call(*row)) for row in rows])


def check_batching(primitive, sample):
    """vmap over every axis of every operand, in all combinations, is the Python loop."""
    call = applied(primitive, sample)
    dtype = "d" if "d" in primitive.dtypes else primitive.dtypes[0]
    turns = max((len(op.shape) for op in sample.operands), default=0) + 1
    for flags in subsets(len(sample.operands)):
        batch = tuple((BATCH,) if flag else () for flag in flags)
        operands = operands_of(primitive, sample, dtype, batch)
        wanted = looped(call, operands, flags)
        for turn in range(turns):
            axes = tuple(
                (turn + i) % x.ndim if flag else None
                for i, (x, flag) in enumerate(zip(operands, flags, strict=True))
            )
            place = turn % wanted.ndim
            got = ft.vmap(call, in_axes=axes, out_axes=place)(*at_axes(operands, axes))
            assert_allclose(got, np.moveaxis(wanted, 0, place))


def check_empty_batch(primitive, sample):
    """A batch of no examples gives none, of the shape and dtype of one."""
    call = applied(primitive, sample)
    one = call(*operands_of(primitive, sample))
    for flags in subsets(len(sample.operands)):
        batch = tuple((0,) if flag else () for flag in flags)
        operands = operands_of(primitive, sample, batch=batch)
        got = ft.vmap(call, in_axes=tuple(0 if flag else None for flag in flags))(*operands)
        same_type(got, ShapeDtype((0, *one.shape), one.dtype), "the result of an empty batch")


def check_nested_batching(primitive, sample):
    """vmap of vmap is the loop of the loop, whichever operands each of them maps over."""
    call = applied(primitive, sample)
    count = len(sample.operands)
    everything = (True,) * count
    alternate = tuple(i % 2 == 0 for i in range(count))
    other = tuple(not flag for flag in alternate) if count > 1 else everything
    for outer, inner in [(everything, everything), (alternate, other), (other, everything)]:
        batch = tuple(
            (2,) * a + (BATCH,) * b for a, b in zip(outer, inner, strict=True)
        )
        operands = operands_of(primitive, sample, batch=batch)
        outer_axes = tuple(0 if flag else None for flag in outer)
        inner_axes = tuple(0 if flag else None for flag in inner)
        got = ft.vmap(ft.vmap(call, in_axes=inner_axes), in_axes=outer_axes)(*operands)

        def examples(*some, inner=inner):
            return looped(call, some, inner)

        assert_allclose(got, looped(examples, operands, outer, 2))


def check_batched_derivatives(primitive, sample):
    """vmap of the derivatives is the loop over them, and so are the derivatives of vmap."""
    if not has_derivative(primitive, sample):
        return
    count = len(sample.operands)
    batch = ((BATCH,),) * count
    operands = operands_of(primitive, sample, batch=batch)
    values = [x for x in operands if x.dtype.kind in "fc"]
    rest = [x for x in operands if x.dtype.kind not in "fc"]

    def example(values, rest):
        chosen, others = iter(values), iter(rest)
        return applied(primitive, sample)(
            *(next(chosen if x.dtype.kind in "fc" else others) for x in operands)
        )

    def pulled(values, rest, g):
        return ft.vjp(lambda *xs: example(xs, rest), *values)[1](g)

    def pushed(values, rest, ts):
        return ft.jvp(lambda *xs: example(xs, rest), values, ts)[1]

    batched = ft.vmap(example)
    out = batched(values, rest)
    cotangent = np.cos(np.arange(float(out.size))).reshape(out.shape).astype(out.dtype)
    tangents = [np.sin(3 * x) for x in values]
    rows = [
        ([x[b] for x in values], [x[b] for x in rest], [t[b] for t in tangents], cotangent[b])
        for b in range(BATCH)
    ]
    pulls = [pulled(xs, others, g) for xs, others, _, g in rows]
    wanted = [np.stack([host(p[i]) for p in pulls]) for i in range(len(values))]
    assert_allclose(list(ft.vmap(pulled)(values, rest, cotangent)), wanted)
    assert_allclose(list(ft.vjp(lambda *xs: batched(xs, rest), *values)[1](cotangent)), wanted)
    wanted = np.stack([host(pushed(xs, others, ts)) for xs, others, ts, _ in rows])
    assert_allclose(ft.vmap(pushed)(values, rest, tangents), wanted)
    assert_allclose(ft.jvp(lambda *xs: batched(xs, rest), values, tangents)[1], wanted)
    check_shared_operands(primitive, sample, cotangent)


def check_shared_operands(primitive, sample, cotangent):
    """By an operand that all examples share, the gradient of vmap adds up over them."""
    for i, op in enumerate(sample.operands):
        if op.domain.kind != "f":
            continue
        flags = tuple(j != i for j in range(len(sample.operands)))
        if not any(flags):
            continue
        batch = tuple((BATCH,) if flag else () for flag in flags)
        operands = operands_of(primitive, sample, batch=batch)
        axes = tuple(0 if flag else None for flag in flags)
        mapped = ft.vmap(applied(primitive, sample), in_axes=axes)

        def shared(x, mapped=mapped, operands=operands, i=i):
            return mapped(*operands[:i], x, *operands[i + 1 :])

        (got,) = ft.vjp(shared, operands[i])[1](cotangent)
        wanted = np.zeros_like(operands[i])
        for b in range(BATCH):
            row = [x[b] if flag else x for x, flag in zip(operands, flags, strict=True)]

            def one(x, row=row, i=i):
                return applied(primitive, sample)(*row[:i], x, *row[i + 1 :])

            wanted += host(ft.vjp(one, row[i])[1](cotangent[b])[0])
        assert_allclose(got, wanted)


SAMPLE_CHECKS = {
    "forward": check_forward,
    "types": check_types,
    "weak": check_weak,
    "derivatives": check_derivatives,
    "operand_subsets": check_operand_subsets,
    "batching": check_batching,
    "empty_batch": check_empty_batch,
    "nested_batching": check_nested_batching,
    "batched_derivatives": check_batched_derivatives,
}


def run_check(check, primitive, samples=samples_of):
    """Puts samples of a primitive through a check; an error says which sample it was."""
    for i, sample in enumerate(samples(primitive)):
        try:
            check(primitive, sample)
        except Exception as error:
            shapes = [op.shape for op in sample.operands]
            error.add_note(f"{primitive.name}, sample {i}: shapes {shapes}, params {sample.params}")
            raise
        assert slot.trace is None, "a trace was left behind"
