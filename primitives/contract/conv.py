"""Convolution over any number of spatial axes, as three bilinear primitives.

``conv`` and its transposes in either operand are closed under differentiation: the derivatives of
each are among the three, so that all orders exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ...backends.annotations import Shape, ShapeLike
from ..core.annotations import ArrayLike, Prepared
from ..core.annotations import operations as ops
from ..core.array import Array
from ..core.derivative_rules import shape_of
from ..core.errors import misfit
from ..core.families import linear
from ..core.primitive import Primitive
from ..core.shape_dtype import ShapeDtype, result_type
from ..core.test_samples import Sample
from ..shape.sliding_windows import (
    Padding,
    PaddingLike,
    count_windows,
    per_axis,
    resolve_padding,
    spatial_of,
)

__all__ = ["Geometry", "conv", "conv_input_grad", "conv_kernel_grad", "conv_transpose"]


# -- parameters and shapes

LAYOUT = "x is laid out (batch, channels, *spatial), w (outputs, channels / groups, *kernel)"


class Geometry(NamedTuple):
    """Tells the places of a kernel: stride, padding (before, after) and dilation of each axis."""

    stride: Shape
    padding: Padding
    dilation: Shape
    groups: int

    def places(self, name: str, spatial: Shape, kernel: Shape) -> Shape:
        """Returns at how many places along each axis; refuses kernels longer than the input."""
        return count_windows(name, spatial, kernel, self.stride, self.padding, self.dilation)


def _resolved_geometry(
    name: str,
    spatial: Shape,
    kernel: Shape,
    stride: ShapeLike = 1,
    padding: PaddingLike = 0,
    dilation: ShapeLike = 1,
    groups: int = 1,
) -> Geometry:
    rank = len(spatial)
    if len(kernel) != rank:
        raise misfit(
            f"{name}: a kernel of {len(kernel)} spatial axes on {rank} spatial axes", LAYOUT
        )
    strides = per_axis(name, "stride", stride, rank)
    dilations = per_axis(name, "dilation", dilation, rank)
    paddings = resolve_padding(name, padding, spatial, kernel, strides, dilations)
    return Geometry(strides, paddings, dilations, *per_axis(name, "groups", groups, 1))


def _channels_per_group(name: str, what: str, channels: int, groups: int) -> int:
    """Returns how many channels a group has."""
    if channels % groups:
        raise misfit(
            f"{name}: {channels} {what} do not divide into groups={groups}",
            f"make their number a multiple of {groups}",
        )
    return channels // groups


def _check_equal(name: str, first: str, a: int | Shape, second: str, b: int | Shape) -> None:
    if a != b:
        raise misfit(f"{name}: {first} is {a}, {second} is {b}", LAYOUT)


def _infer_conv(
    primitive: Primitive, x: ShapeDtype, w: ShapeDtype, *, geometry: Geometry
) -> ShapeDtype:
    name = primitive.name
    per_group = _channels_per_group(name, "channels of x (axis 1)", x.shape[1], geometry.groups)
    _channels_per_group(name, "outputs of w (axis 0)", w.shape[0], geometry.groups)
    of_x = f"the number of x's channels (axis 1), in each of groups={geometry.groups},"
    _check_equal(name, of_x, per_group, "that of w's channels (axis 1)", w.shape[1])
    count = geometry.places(name, x.shape[2:], w.shape[2:])
    return ShapeDtype((x.shape[0], w.shape[0], *count), result_type(x.dtype, w.dtype))


def _infer_input_grad(
    primitive: Primitive, g: ShapeDtype, w: ShapeDtype, *, spatial: Shape, geometry: Geometry
) -> ShapeDtype:
    name = primitive.name
    _channels_per_group(name, "outputs of w (axis 0)", w.shape[0], geometry.groups)
    of_g = "the number of channels (axis 1) of what is convolved"
    _check_equal(name, of_g, g.shape[1], "that of w's outputs (axis 0)", w.shape[0])
    count = geometry.places(name, spatial, w.shape[2:])
    _check_equal(name, "its spatial shape", g.shape[2:], "the one that is transposed from", count)
    shape = (g.shape[0], w.shape[1] * geometry.groups, *spatial)
    return ShapeDtype(shape, result_type(g.dtype, w.dtype))


def _infer_kernel_grad(
    primitive: Primitive, x: ShapeDtype, g: ShapeDtype, *, kernel: Shape, geometry: Geometry
) -> ShapeDtype:
    name = primitive.name
    per_group = _channels_per_group(name, "channels of x (axis 1)", x.shape[1], geometry.groups)
    _channels_per_group(name, "channels of g (axis 1)", g.shape[1], geometry.groups)
    _check_equal(name, "the batch size of x", x.shape[0], "that of g", g.shape[0])
    count = geometry.places(name, x.shape[2:], kernel)
    of_count = "the one that is transposed from"
    _check_equal(name, "the spatial shape of g", g.shape[2:], of_count, count)
    return ShapeDtype((g.shape[1], per_group, *kernel), result_type(x.dtype, g.dtype))


# -- batching: the batch axis is folded into an existing axis

# The leading axes of the two operands and of the output: N images, C channels and O outputs, which
# consist of groups, and K, the channels of one group.
_LAYOUTS = {
    "conv": ("NC", "OK", "NO"),
    "conv_input_grad": ("NO", "OK", "NC"),
    "conv_kernel_grad": ("NC", "NO", "OK"),
}
# The axis that takes the batch axis of the first operand alone, or of the second alone, and the
# axis of the output that then has it.
_FOLDS = {
    "conv": (("N", "N"), ("O", "O")),
    "conv_input_grad": (("N", "N"), ("K", "C")),
    "conv_kernel_grad": (("C", "K"), ("O", "O")),
}


def _fold(v: Array, axis: int, groups: int) -> Array:
    """Folds the batch axis into another, between the groups that this consists of and the rest."""
    shape = shape_of(v)
    length = shape[axis + 1]
    v = ops.reshape(v, (*shape[: axis + 1], groups, length // groups, *shape[axis + 2 :]))
    v = ops.transpose(v, (*range(1, axis + 2), 0, *range(axis + 2, len(shape) + 1)))
    return ops.reshape(v, (*shape[1 : axis + 1], shape[0] * length, *shape[axis + 2 :]))


def _unfold(v: Array, axis: int, groups: int, size: int) -> Array:
    """Undoes ``_fold``."""
    shape = shape_of(v)
    length = shape[axis] // size
    v = ops.reshape(v, (*shape[:axis], groups, size, length // groups, *shape[axis + 1 :]))
    v = ops.transpose(v, (axis + 1, *range(axis + 1), *range(axis + 2, len(shape) + 2)))
    return ops.reshape(v, (size, *shape[:axis], length, *shape[axis + 1 :]))


def _batch_conv(
    primitive: Primitive, values: Sequence[Array], flags: Sequence[bool], params: dict[str, Any]
) -> Array:
    layouts, geometry = _LAYOUTS[primitive.name], params["geometry"]
    size = shape_of(values[flags.index(True)])[0]
    if not size:
        shapes = [ShapeDtype(shape_of(v)[flag:], v.dtype) for v, flag in zip(values, flags)]
        example = primitive.infer(primitive, *shapes, **params)
        # An operand without elements is on the right device already.
        nothing = ops.reshape(values[flags.index(True)], (0, *example.shape))
        return ops.astype(nothing, example.dtype)
    if all(flags):
        # The groups of all examples stand side by side.
        axes = [0 if layout == "OK" else 1 for layout in layouts]
        folded = [_fold(v, axis, 1) for v, axis in zip(values, axes)]
        wider = geometry._replace(groups=size * geometry.groups)
        return _unfold(primitive.bind(folded, {**params, "geometry": wider}), axes[2], 1, size)
    which = flags.index(True)
    into, onto = _FOLDS[primitive.name][which]
    groups = {"C": geometry.groups, "O": geometry.groups}
    operands = list(values)
    axis = layouts[which].index(into)
    operands[which] = _fold(operands[which], axis, groups.get(into, 1))
    out = primitive.bind(operands, params)
    return _unfold(out, layouts[2].index(onto), groups.get(onto, 1), size)


# -- the three primitives


def _prepared_conv(
    primitive: Primitive, first: ArrayLike, second: ArrayLike, params: dict[str, Any]
) -> Prepared:
    """Returns operands and parameters, once shapes are known to fit: kernels rely on it."""
    primitive.infer(primitive, *(ShapeDtype(shape_of(v), float) for v in (first, second)), **params)
    return (first, second), params


def _geometry_of(x_shape: Shape, w_shape: Shape, *chosen: Any) -> Geometry:
    """Returns the geometry of ``conv``, once shapes are known to fit: kernels rely on it."""
    spatial, kernel = spatial_of("conv", x_shape), spatial_of("conv", w_shape)
    geometry = _resolved_geometry("conv", spatial, kernel, *chosen)
    conv.infer(conv, ShapeDtype(x_shape, float), ShapeDtype(w_shape, float), geometry=geometry)
    return geometry


_remembered = lru_cache(maxsize=1024)(_geometry_of)


def _prepare_conv(
    x: ArrayLike,
    w: ArrayLike,
    *,
    stride: ShapeLike = 1,
    padding: PaddingLike = 0,
    dilation: ShapeLike = 1,
    groups: int = 1,
) -> Prepared:
    chosen = stride, padding, dilation, groups
    # Texts and integers can be remembered: nothing equal to them has another meaning.
    way = _remembered if {*map(type, chosen)} <= {int, str} else _geometry_of
    return (x, w), {"geometry": way(shape_of(x), shape_of(w), *chosen)}


def _prepare_input_grad(
    g: ArrayLike, w: ArrayLike, *, spatial: ShapeLike, **chosen: Any
) -> Prepared:
    name = "conv_input_grad"
    kernel = spatial_of(name, shape_of(w))
    spatial = per_axis(name, "spatial", spatial, len(spatial_of(name, shape_of(g))))
    geometry = _resolved_geometry(name, spatial, kernel, **chosen)
    return _prepared_conv(conv_input_grad, g, w, {"spatial": spatial, "geometry": geometry})


def _prepare_kernel_grad(
    x: ArrayLike, g: ArrayLike, *, kernel: ShapeLike, **chosen: Any
) -> Prepared:
    name = "conv_kernel_grad"
    spatial = spatial_of(name, shape_of(x))
    kernel = per_axis(name, "kernel", kernel, len(spatial_of(name, shape_of(g))))
    geometry = _resolved_geometry(name, spatial, kernel, **chosen)
    return _prepared_conv(conv_kernel_grad, x, g, {"kernel": kernel, "geometry": geometry})


# The geometries of samples have one, two and three axes, and every parameter.
_PLAIN_KERNEL = Geometry((1,), ((0, 0),), (1,), 1)
_STRIDED = Geometry((1, 2), ((1, 1), (1, 1)), (1, 1), 1)
_GROUPED = Geometry((1, 1), ((0, 1), (2, 0)), (1, 1), 2)
_DILATED = Geometry((2, 1), ((0, 1), (0, 1)), (2, 1), 1)
_SOLID_KERNEL = Geometry((1, 1, 1), ((0, 1),) * 3, (1, 1, 1), 2)
_SPARSE_KERNEL = Geometry((3, 3), ((0, 0), (0, 0)), (1, 1), 1)

conv = linear(
    "conv",
    lambda g, x_shape, y, **params: ops.conv_input_grad.bind(
        (g, y), {"spatial": x_shape[2:], **params}
    ),
    lambda g, x, y_shape, **params: ops.conv_kernel_grad.bind(
        (x, g), {"kernel": y_shape[2:], **params}
    ),
    prepare=_prepare_conv, infer=_infer_conv, batch=_batch_conv, dtypes="fdD",
    reference="support.references.conv",
    samples=[
        Sample((2, 3, 5), (4, 3, 2), geometry=_PLAIN_KERNEL),
        Sample((2, 2, 5, 4), (3, 2, 3, 2), geometry=_STRIDED),
        Sample((1, 4, 4, 5), (4, 2, 2, 2), geometry=_GROUPED),
        Sample((2, 8, 6, 3), (1, 8, 2, 2), geometry=_DILATED),
        Sample((1, 2, 3, 4, 3), (2, 1, 2, 2, 2), geometry=_SOLID_KERNEL),
        Sample((2, 3, 4, 4), (2, 3, 1, 1), geometry=_SPARSE_KERNEL),
        Sample((0, 3, 5), (4, 3, 2), geometry=_PLAIN_KERNEL),
    ],
    doc="""Convolves images with kernels (correlates, as neural networks have it).

    Args:
        x: images of shape ``(batch, channels, *spatial)``, with one to three spatial axes or more.
        w: kernels of shape ``(outputs, channels / groups, *kernel)``.
        stride: how far the kernel moves; an integer, or one for each spatial axis.
        padding: zeros around x: an integer, an integer or a pair (before, after) for each spatial
            axis, "VALID" for none, "SAME" for as many outputs as ``ceil(length / stride)``.
        dilation: how far the kernel's elements lie apart.
        groups: into how many groups channels and outputs are divided; each sees its own only.

    Returns:
        An array of shape ``(batch, outputs, *places)`` of the promoted dtype.

    Raises:
        ShapeError: channels and groups disagree, or the kernel is longer than the padded images.

    >>> import numpy as np
    >>> from functensor.primitives.contract.conv import conv
    >>> conv(np.ones((1, 1, 4, 4)), np.ones((2, 1, 3, 3)), padding=1).shape
    (1, 2, 4, 4)
    """,
)

conv_input_grad = linear(
    "conv_input_grad",
    lambda g, y, *, spatial, **params: conv.bind((g, y), params),
    lambda g, x, y_shape, *, spatial, **params: ops.conv_kernel_grad.bind(
        (g, x), {"kernel": y_shape[2:], **params}
    ),
    prepare=_prepare_input_grad, infer=_infer_input_grad, batch=_batch_conv, dtypes="fdD",
    reference="support.references.conv_input_grad",
    samples=[
        Sample((2, 4, 4), (4, 3, 2), spatial=(5,), geometry=_PLAIN_KERNEL),
        Sample((2, 3, 5, 3), (3, 2, 3, 2), spatial=(5, 4), geometry=_STRIDED),
        Sample((1, 4, 4, 6), (4, 2, 2, 2), spatial=(4, 5), geometry=_GROUPED),
        Sample((2, 2, 3, 3), (2, 8, 2, 2), spatial=(6, 3), geometry=_DILATED),
        Sample((1, 2, 3, 4, 3), (2, 1, 2, 2, 2), spatial=(3, 4, 3), geometry=_SOLID_KERNEL),
        Sample((2, 2, 2, 2), (2, 3, 1, 1), spatial=(4, 4), geometry=_SPARSE_KERNEL),
        Sample((0, 4, 4), (4, 3, 2), spatial=(5,), geometry=_PLAIN_KERNEL),
    ],
    doc="""Transposes ``conv`` in its images: the cotangent of x for that of the output.

    Args:
        g: an array of shape ``(batch, outputs, *places)``.
        w: kernels of shape ``(outputs, channels / groups, *kernel)``.
        spatial: the spatial shape of x.
        stride, padding, dilation, groups: those of ``conv``.

    Returns:
        An array of shape ``(batch, channels, *spatial)``.
    """,
)

conv_kernel_grad = linear(
    "conv_kernel_grad",
    lambda g, x_shape, y, *, kernel, **params: conv_input_grad.bind(
        (y, g), {"spatial": x_shape[2:], **params}
    ),
    lambda g, x, *, kernel, **params: conv.bind((x, g), params),
    prepare=_prepare_kernel_grad, infer=_infer_kernel_grad, batch=_batch_conv, dtypes="fdD",
    reference="support.references.conv_kernel_grad",
    samples=[
        Sample((2, 3, 5), (2, 4, 4), kernel=(2,), geometry=_PLAIN_KERNEL),
        Sample((2, 2, 5, 4), (2, 3, 5, 3), kernel=(3, 2), geometry=_STRIDED),
        Sample((1, 4, 4, 5), (1, 4, 4, 6), kernel=(2, 2), geometry=_GROUPED),
        Sample((2, 8, 6, 3), (2, 1, 3, 3), kernel=(2, 2), geometry=_DILATED),
        Sample((1, 2, 3, 4, 3), (1, 2, 3, 4, 3), kernel=(2, 2, 2), geometry=_SOLID_KERNEL),
        Sample((2, 3, 4, 4), (2, 2, 2, 2), kernel=(1, 1), geometry=_SPARSE_KERNEL),
        Sample((0, 3, 5), (0, 4, 4), kernel=(2,), geometry=_PLAIN_KERNEL),
    ],
    doc="""Transposes ``conv`` in its kernels: the cotangent of w for that of the output.

    Args:
        x: images of shape ``(batch, channels, *spatial)``.
        g: an array of shape ``(batch, outputs, *places)``.
        kernel: the spatial shape of w.
        stride, padding, dilation, groups: those of ``conv``.

    Returns:
        An array of shape ``(outputs, channels / groups, *kernel)``.
    """,
)


@ops.add_function
def conv_transpose(
    x: ArrayLike,
    w: ArrayLike,
    *,
    stride: ShapeLike = 1,
    padding: PaddingLike = 0,
    output_padding: ShapeLike = 0,
    dilation: ShapeLike = 1,
    groups: int = 1,
) -> Array:
    """Returns images spread by kernels: the transpose of ``conv``, which restores its shape.

    Args:
        x: images of shape ``(batch, channels, *spatial)``.
        w: kernels of shape ``(channels, outputs / groups, *kernel)``, as those of the ``conv`` that
            is transposed, whose outputs are the channels here.
        stride, padding, dilation, groups: those of that ``conv``; "SAME" makes the output
            ``stride`` times as long as x.
        output_padding: by how much the output is longer than the shortest that fits; less than the
            stride or the dilation, along each axis.

    Returns:
        An array of shape ``(batch, outputs, *places)``, for each axis ``places = (spatial - 1) *
        stride - before - after + dilation * (kernel - 1) + output_padding + 1``.

    Raises:
        ShapeError: channels and groups disagree, or the padding is longer than what is spread.

    >>> import numpy as np
    >>> conv_transpose(np.ones((1, 2, 4)), np.ones((2, 3, 2)), stride=2).shape
    (1, 3, 8)
    """
    name = "conv_transpose"
    spatial, kernel = spatial_of(name, shape_of(x)), spatial_of(name, shape_of(w))
    rank = len(spatial)
    strides = per_axis(name, "stride", stride, rank)
    wider = tuple(n * s for n, s in zip(spatial, strides))
    geometry = _resolved_geometry(name, wider, kernel, stride, padding, dilation, groups)
    extra = per_axis(name, "output_padding", output_padding, rank, least=0)
    for axis, (more, *bounds) in enumerate(zip(extra, strides, geometry.dilation)):
        if more >= max(bounds):
            raise misfit(
                f"{name}: along spatial axis {axis}, output_padding is {more}, the stride is "
                f"{bounds[0]} and the dilation {bounds[1]}",
                f"output_padding is less than the larger one: {max(bounds) - 1} at most",
            )
    if not (isinstance(padding, str) and padding.upper() == "SAME"):
        sizes = zip(spatial, kernel, *geometry[:3], extra)
        wider = tuple(
            (n - 1) * s - sum(pad) + d * (k - 1) + more + 1 for n, k, s, pad, d, more in sizes
        )
        for axis, (n, pad) in enumerate(zip(wider, geometry.padding)):
            if n < 0:
                raise misfit(
                    f"{name}: along spatial axis {axis}, what is spread over {n + sum(pad)} places "
                    f"is cut by a padding of {sum(pad)}",
                    "use a smaller padding",
                )
        # A kernel would fit at one more place, from which zeros are spread.
        further = [more // s for more, s in zip(extra, strides)]
        if any(further):
            x = ops.pad(x, [(0, 0), (0, 0), *((0, n) for n in further)])
    params = {"spatial": wider, "geometry": geometry}
    return conv_input_grad.bind(*_prepared_conv(conv_input_grad, x, w, params))
