"""The functions of PyTorch that are methods of tensors too: a table of names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from ..primitives.core.annotations import ArrayLike
from ..primitives.core.array import Array
from ..primitives.core.registry import registry as ops
from .functions import along_axis, diagonals, indexing, pointwise, products, reductions, shapes
from .torch_kinds import TorchKinds

__all__ = ["TorchFunctions"]


class TorchFunctions(TorchKinds):
    """The methods of `Tensor` that are functions, with the tensor as their first argument."""

    __slots__ = ()

    # -- element by element

    abs = pointwise.abs
    add = pointwise.add
    clamp = pointwise.clamp

    def clip(self, min: Any = None, max: Any = None, **numpys: Any) -> Any:
        """Returns the elements limited to an interval; NumPy's words of `clip` are taken too."""
        return ops.clip(self, min, max, **numpys) if numpys else pointwise.clamp(self, min, max)

    cos = pointwise.cos
    cosh = pointwise.cosh
    eq = pointwise.eq
    erf = pointwise.erf
    exp = pointwise.exp
    expm1 = pointwise.expm1
    ge = pointwise.ge
    gt = pointwise.gt
    isfinite = pointwise.isfinite
    isinf = pointwise.isinf
    isnan = pointwise.isnan
    le = pointwise.le
    log = pointwise.log
    log1p = pointwise.log1p
    logical_not = pointwise.logical_not
    lt = pointwise.lt
    maximum = pointwise.maximum
    minimum = pointwise.minimum
    mul = pointwise.mul
    multiply = pointwise.multiply
    ne = pointwise.ne
    neg = pointwise.neg
    reciprocal = pointwise.reciprocal
    relu = pointwise.relu
    sigmoid = pointwise.sigmoid
    sign = pointwise.sign
    sin = pointwise.sin
    sinh = pointwise.sinh
    sqrt = pointwise.sqrt
    square = pointwise.square
    sub = pointwise.sub
    tan = pointwise.tan
    tanh = pointwise.tanh
    absolute = pointwise.absolute
    acos = pointwise.acos
    acosh = pointwise.acosh
    addcdiv = pointwise.addcdiv
    addcmul = pointwise.addcmul
    angle = pointwise.angle
    arccos = pointwise.arccos
    arccosh = pointwise.arccosh
    arcsin = pointwise.arcsin
    arcsinh = pointwise.arcsinh
    arctan = pointwise.arctan
    arctan2 = pointwise.arctan2
    arctanh = pointwise.arctanh
    asin = pointwise.asin
    asinh = pointwise.asinh
    atan = pointwise.atan
    atan2 = pointwise.atan2
    atanh = pointwise.atanh
    bitwise_and = pointwise.bitwise_and
    bitwise_left_shift = pointwise.bitwise_left_shift
    bitwise_not = pointwise.bitwise_not
    bitwise_or = pointwise.bitwise_or
    bitwise_right_shift = pointwise.bitwise_right_shift
    bitwise_xor = pointwise.bitwise_xor
    ceil = pointwise.ceil
    clamp_max = pointwise.clamp_max
    clamp_min = pointwise.clamp_min
    copysign = pointwise.copysign
    deg2rad = pointwise.deg2rad
    digamma = pointwise.digamma
    div = pointwise.div
    divide = pointwise.divide
    erfc = pointwise.erfc
    erfinv = pointwise.erfinv
    exp2 = pointwise.exp2
    fix = pointwise.fix
    float_power = pointwise.float_power
    floor = pointwise.floor
    floor_divide = pointwise.floor_divide
    fmax = pointwise.fmax
    fmin = pointwise.fmin
    fmod = pointwise.fmod
    frac = pointwise.frac
    frexp = pointwise.frexp
    gcd = pointwise.gcd
    greater = pointwise.greater
    greater_equal = pointwise.greater_equal
    heaviside = pointwise.heaviside
    hypot = pointwise.hypot
    i0 = pointwise.i0
    igamma = pointwise.igamma
    igammac = pointwise.igammac
    isclose = pointwise.isclose
    isneginf = pointwise.isneginf
    isposinf = pointwise.isposinf
    isreal = pointwise.isreal
    lcm = pointwise.lcm
    ldexp = pointwise.ldexp
    lerp = pointwise.lerp
    less = pointwise.less
    less_equal = pointwise.less_equal
    lgamma = pointwise.lgamma
    log10 = pointwise.log10
    log2 = pointwise.log2
    logaddexp = pointwise.logaddexp
    logaddexp2 = pointwise.logaddexp2
    logical_and = pointwise.logical_and
    logical_or = pointwise.logical_or
    logical_xor = pointwise.logical_xor
    logit = pointwise.logit
    mvlgamma = pointwise.mvlgamma
    nan_to_num = pointwise.nan_to_num
    negative = pointwise.negative
    nextafter = pointwise.nextafter
    not_equal = pointwise.not_equal
    positive = pointwise.positive
    pow = pointwise.pow
    rad2deg = pointwise.rad2deg
    remainder = pointwise.remainder
    round = pointwise.round  # type: ignore[assignment]  # decimals by their name alone
    rsqrt = pointwise.rsqrt
    sgn = pointwise.sgn
    signbit = pointwise.signbit
    sinc = pointwise.sinc
    subtract = pointwise.subtract
    true_divide = pointwise.true_divide
    trunc = pointwise.trunc
    xlogy = pointwise.xlogy

    def polygamma(self, n: int) -> Any:
        """Returns the n-th derivative of the digamma function, element by element."""
        return pointwise.polygamma(n, self)

    def type_as(self, other: Any) -> Self:
        """Returns the tensor with the dtype and on the device of another."""
        return self.to(other)

    def is_floating_point(self) -> bool:
        """Says whether the elements are floats."""
        return self.dtype.kind in "fV"

    def is_complex(self) -> bool:
        """Says whether the elements are complex numbers."""
        return self.dtype.kind == "c"

    def nelement(self) -> int:
        """Returns the number of elements."""
        return self.numel()

    # -- along axes

    amax = reductions.amax
    amin = reductions.amin
    aminmax = reductions.aminmax
    bincount = reductions.bincount
    corrcoef = reductions.corrcoef
    count_nonzero = reductions.count_nonzero
    cov = reductions.cov
    cummax = along_axis.cummax
    cummin = along_axis.cummin
    diff = along_axis.diff
    dist = reductions.dist
    histc = reductions.histc
    kthvalue = reductions.kthvalue
    logcumsumexp = along_axis.logcumsumexp
    mode = reductions.mode
    nanmean = reductions.nanmean
    nanmedian = reductions.nanmedian
    nanquantile = reductions.nanquantile
    nansum = reductions.nansum
    norm = reductions.norm
    quantile = reductions.quantile
    renorm = reductions.renorm

    def median(
        self, dim: int | None = None, keepdim: bool = False, *, axis: Any = None, **numpys: Any
    ) -> Any:
        """Returns the lower of the middle elements; with ``axis`` NumPy's median, their mean."""
        if axis is not None or numpys:
            return ops.median(self, axis, **numpys)
        return reductions.median(self, dim, keepdim)

    def cumprod(  # type: ignore[override]
        self, dim: int | None = None, *, axis: int | None = None, dtype: Any = None
    ) -> Self:
        """Returns the cumulative product."""
        if axis is not None or dim is None:
            return ops.cumprod(self, axis if dim is None else dim, dtype)  # type: ignore[no-any-return]
        return along_axis.cumprod(self, dim, dtype=dtype)  # type: ignore[no-any-return]

    def argsort(  # type: ignore[override]
        self,
        dim: int | None = -1,
        descending: bool = False,
        stable: bool = False,
        *,
        axis: int | None = -1,
        kind: Any = None,
    ) -> Any:
        """Returns the indices that put the elements in order along an axis."""
        if not self.shape:
            return indexing.argsort(self)
        order = axis if dim == -1 else dim
        return ops.argsort(self, order, stable=True, descending=descending)

    # -- shapes

    adjoint = shapes.adjoint

    def broadcast_to(self, *size: Any) -> Any:
        """Returns the elements repeated to a shape; a view."""
        return self.expand(*size)

    chunk = shapes.chunk
    diag = diagonals.diag
    diag_embed = diagonals.diag_embed
    diagflat = diagonals.diagflat
    dsplit = shapes.dsplit
    expand_as = shapes.expand_as
    flip = shapes.flip
    fliplr = shapes.fliplr
    flipud = shapes.flipud
    hsplit = shapes.hsplit
    moveaxis = shapes.moveaxis
    movedim = shapes.movedim
    narrow = shapes.narrow
    repeat_interleave = shapes.repeat_interleave
    reshape_as = shapes.reshape_as
    roll = shapes.roll
    rot90 = shapes.rot90
    select = shapes.select

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Array, ...]:
        """Returns views of the pieces of an axis; `split` of a tensor."""
        return shapes.split(self, split_size, dim)

    split_with_sizes = shapes.split_with_sizes
    swapdims = shapes.swapdims
    tensor_split = shapes.tensor_split
    tril = diagonals.tril
    triu = diagonals.triu
    unbind = shapes.unbind
    unflatten = shapes.unflatten
    view_as = shapes.view_as
    vsplit = shapes.vsplit

    def tile(self, *dims: Any) -> Any:
        """Returns the tensor beside itself along axes."""
        one = len(dims) == 1 and not isinstance(dims[0], int)
        return shapes.tile(self, dims[0] if one else dims)

    # -- places

    argwhere = indexing.argwhere
    gather = indexing.gather
    index_add = indexing.index_add
    index_copy = indexing.index_copy
    index_fill = indexing.index_fill
    index_put = indexing.index_put
    index_select = indexing.index_select
    isin = indexing.isin
    masked_fill = indexing.masked_fill
    masked_scatter = indexing.masked_scatter
    masked_select = indexing.masked_select
    msort = indexing.msort
    scatter = indexing.scatter
    sort = indexing.sort  # type: ignore[assignment]  # PyTorch's, not in place
    scatter_add = indexing.scatter_add
    scatter_reduce = indexing.scatter_reduce
    take_along_dim = indexing.take_along_dim
    topk = indexing.topk
    unique = indexing.unique
    unique_consecutive = indexing.unique_consecutive

    def where(self, condition: ArrayLike, other: ArrayLike) -> Any:
        """Returns the elements where a condition is true, those of another elsewhere."""
        return ops.where(condition, self, other)

    # -- products

    def trace(self, *numpys: Any, **named: Any) -> Any:
        """Returns the sum of a matrix's diagonal; with arguments NumPy's `trace`."""
        if numpys or named:
            return ops.trace(self, *numpys, **named)
        return products.trace(self)

    addbmm = products.addbmm
    addmm = products.addmm
    addmv = products.addmv
    addr = products.addr
    baddbmm = products.baddbmm
    bmm = products.bmm
    cholesky = products.cholesky
    cross = products.cross
    det = products.det
    ger = products.ger
    inner = products.inner
    inverse = products.inverse
    kron = products.kron
    logdet = products.logdet
    matmul = products.matmul
    matrix_power = products.matrix_power
    mm = products.mm
    mv = products.mv
    outer = products.outer
    pinverse = products.pinverse
    qr = products.qr
    slogdet = products.slogdet
    svd = products.svd
    vdot = products.vdot
