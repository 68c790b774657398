"""The functions of PyTorch that change a tensor: methods whose names end in an underscore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Self

import numpy as np

from .. import random
from ..functions.type_variables import P
from ..primitives.core.registry import registry as ops
from ..random.generator import Generator, default_generator
from .default_dtypes import TENSOR_DTYPES
from .functions import (
    along_axis,
    diagonals,
    indexing,
    kinds,
    placing,
    pointwise,
    products,
    reductions,
)
from .functions.looked_at import (
    check_argument_of_draw,
    check_between,
    check_integers,
    integers_of,
)
from .resting import put_to_rest
from .shapes_in_place import ShapesInPlace
from .tape import TapeTrace

__all__ = ["InPlaceFunctions"]


def in_place(function: Callable[Concatenate[Any, P], Any]) -> Callable[Concatenate[Any, P], Any]:
    """Returns the method that puts the result of a function in the tensor's place."""
    name = function.__name__

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._change(lambda: function(self, *args, **kwargs), f"x.{name}_()")

    method.__name__ = method.__qualname__ = f"{name}_"
    method.__doc__ = f"Puts the result of `{name}` in the tensor's place."
    return method


class InPlaceFunctions(ShapesInPlace):
    """The methods of `Tensor` that put a function of it in its place."""

    __slots__ = ()

    absolute_ = in_place(pointwise.absolute)
    acos_ = in_place(pointwise.acos)
    acosh_ = in_place(pointwise.acosh)
    addbmm_ = in_place(products.addbmm)
    addcdiv_ = in_place(pointwise.addcdiv)
    addcmul_ = in_place(pointwise.addcmul)
    addmm_ = in_place(products.addmm)
    addmv_ = in_place(products.addmv)
    addr_ = in_place(products.addr)
    arccos_ = in_place(pointwise.arccos)
    arccosh_ = in_place(pointwise.arccosh)
    arcsin_ = in_place(pointwise.arcsin)
    arcsinh_ = in_place(pointwise.arcsinh)
    arctan_ = in_place(pointwise.arctan)
    arctan2_ = in_place(pointwise.arctan2)
    arctanh_ = in_place(pointwise.arctanh)
    asin_ = in_place(pointwise.asin)
    asinh_ = in_place(pointwise.asinh)
    atan_ = in_place(pointwise.atan)
    atan2_ = in_place(pointwise.atan2)
    atanh_ = in_place(pointwise.atanh)
    baddbmm_ = in_place(products.baddbmm)
    bitwise_and_ = in_place(pointwise.bitwise_and)
    bitwise_left_shift_ = in_place(pointwise.bitwise_left_shift)
    bitwise_not_ = in_place(pointwise.bitwise_not)
    bitwise_or_ = in_place(pointwise.bitwise_or)
    bitwise_right_shift_ = in_place(pointwise.bitwise_right_shift)
    bitwise_xor_ = in_place(pointwise.bitwise_xor)
    ceil_ = in_place(pointwise.ceil)
    clamp_max_ = in_place(pointwise.clamp_max)
    clamp_min_ = in_place(pointwise.clamp_min)
    clip_ = in_place(pointwise.clip)
    conj_physical_ = in_place(kinds.conj_physical)
    copysign_ = in_place(pointwise.copysign)
    cos_ = in_place(pointwise.cos)
    cosh_ = in_place(pointwise.cosh)
    cumprod_ = in_place(along_axis.cumprod)
    cumsum_ = in_place(along_axis.cumsum)
    deg2rad_ = in_place(pointwise.deg2rad)
    digamma_ = in_place(pointwise.digamma)
    divide_ = in_place(pointwise.divide)
    eq_ = in_place(pointwise.eq)
    erf_ = in_place(pointwise.erf)
    erfc_ = in_place(pointwise.erfc)
    erfinv_ = in_place(pointwise.erfinv)
    exp2_ = in_place(pointwise.exp2)
    expm1_ = in_place(pointwise.expm1)
    fill_diagonal_ = in_place(placing.fill_diagonal)
    fix_ = in_place(pointwise.fix)
    float_power_ = in_place(pointwise.float_power)
    floor_ = in_place(pointwise.floor)
    floor_divide_ = in_place(pointwise.floor_divide)
    fmod_ = in_place(pointwise.fmod)
    frac_ = in_place(pointwise.frac)
    gcd_ = in_place(pointwise.gcd)
    ge_ = in_place(pointwise.ge)
    greater_ = in_place(pointwise.greater)
    greater_equal_ = in_place(pointwise.greater_equal)
    gt_ = in_place(pointwise.gt)
    heaviside_ = in_place(pointwise.heaviside)
    hypot_ = in_place(pointwise.hypot)
    i0_ = in_place(pointwise.i0)
    igamma_ = in_place(pointwise.igamma)
    igammac_ = in_place(pointwise.igammac)
    index_add_ = in_place(indexing.index_add)
    index_copy_ = in_place(indexing.index_copy)
    index_fill_ = in_place(indexing.index_fill)
    index_put_ = in_place(indexing.index_put)
    index_reduce_ = in_place(placing.index_reduce)
    lcm_ = in_place(pointwise.lcm)
    ldexp_ = in_place(pointwise.ldexp)
    le_ = in_place(pointwise.le)
    lerp_ = in_place(pointwise.lerp)
    less_ = in_place(pointwise.less)
    less_equal_ = in_place(pointwise.less_equal)
    lgamma_ = in_place(pointwise.lgamma)
    log_ = in_place(pointwise.log)
    log10_ = in_place(pointwise.log10)
    log1p_ = in_place(pointwise.log1p)
    log2_ = in_place(pointwise.log2)
    logical_and_ = in_place(pointwise.logical_and)
    logical_not_ = in_place(pointwise.logical_not)
    logical_or_ = in_place(pointwise.logical_or)
    logical_xor_ = in_place(pointwise.logical_xor)
    logit_ = in_place(pointwise.logit)
    lt_ = in_place(pointwise.lt)
    masked_scatter_ = in_place(indexing.masked_scatter)
    multiply_ = in_place(pointwise.multiply)
    mvlgamma_ = in_place(pointwise.mvlgamma)
    nan_to_num_ = in_place(pointwise.nan_to_num)
    ne_ = in_place(pointwise.ne)
    negative_ = in_place(pointwise.negative)
    nextafter_ = in_place(pointwise.nextafter)
    not_equal_ = in_place(pointwise.not_equal)
    put_ = in_place(placing.put)
    rad2deg_ = in_place(pointwise.rad2deg)
    reciprocal_ = in_place(pointwise.reciprocal)
    remainder_ = in_place(pointwise.remainder)
    renorm_ = in_place(reductions.renorm)
    round_ = in_place(pointwise.round)
    rsqrt_ = in_place(pointwise.rsqrt)
    scatter_ = in_place(indexing.scatter)
    scatter_add_ = in_place(indexing.scatter_add)
    scatter_reduce_ = in_place(indexing.scatter_reduce)
    sgn_ = in_place(pointwise.sgn)
    sign_ = in_place(pointwise.sign)
    sin_ = in_place(pointwise.sin)
    sinc_ = in_place(pointwise.sinc)
    sinh_ = in_place(pointwise.sinh)
    square_ = in_place(pointwise.square)
    subtract_ = in_place(pointwise.subtract)
    tan_ = in_place(pointwise.tan)
    tril_ = in_place(diagonals.tril)
    triu_ = in_place(diagonals.triu)
    true_divide_ = in_place(pointwise.true_divide)
    trunc_ = in_place(pointwise.trunc)
    xlogy_ = in_place(pointwise.xlogy)

    # -- draws

    def _draw(self, draw: Callable[[Any], Any], generator: Generator | None, name: str) -> Self:
        """Takes numbers that a function draws by a key."""
        key = (generator or default_generator).next_key()

        def drawn() -> Any:
            return ops.astype(ops.to_device(draw(key), self.device), self.dtype)

        return self._change(drawn, name)

    def _real(self, name: str, complex_too: bool = False) -> Any:
        """Returns the dtype in which real or complex numbers for the tensor are drawn.

        Raises:
            RuntimeError: the tensor has none.
        """
        dtype = self.dtype
        if dtype.kind not in ("fVc" if complex_too else "fV"):
            raise RuntimeError(f"{name} gives real numbers, which {dtype} has not")
        return dtype

    def normal_(
        self, mean: float = 0, std: float = 1, *, generator: Generator | None = None
    ) -> Self:
        """Takes normally distributed numbers.

        Both parts of complex numbers have the mean; the variance is shared between them.

        Raises:
            RuntimeError: ``std`` is negative, or the dtype one of integers or booleans.
        """
        check_argument_of_draw("x.normal_(): std", std)
        kind = self._real("x.normal_()", complex_too=True)
        center = mean * (1 + 1j) if kind.kind == "c" else mean
        return self._draw(
            lambda key: random.normal(key, self.shape, kind) * std + center,
            generator, "x.normal_()",
        )  # fmt: skip

    def uniform_(self, a: float = 0, b: float = 1, *, generator: Generator | None = None) -> Self:
        """Takes numbers drawn evenly from [a, b), also for each part of complex numbers.

        Raises:
            RuntimeError: ``a`` is above ``b``, or the dtype one of integers or booleans.
        """
        check_argument_of_draw("x.uniform_(): the end", b, a)
        kind = self._real("x.uniform_()", complex_too=True)

        def draw(key: Any) -> Any:
            if kind.kind != "c":
                return random.uniform(key, self.shape, kind, a, b)
            parts = random.uniform(key, (2, *self.shape), np.finfo(kind).dtype, a, b)
            return ops.complex_of_parts(parts[0], parts[1])

        return self._draw(draw, generator, "x.uniform_()")

    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Self:
        """Takes ones with a probability, and zeros.

        Raises:
            RuntimeError: a probability is not between 0 and 1.
        """
        chances = p.detach().data if hasattr(p, "detach") else p
        check_argument_of_draw("x.bernoulli_(): a probability", chances, 0, 1)
        return self._draw(
            lambda key: random.bernoulli(key, chances, self.shape), generator, "x.bernoulli_()"
        )

    def exponential_(self, lambd: float = 1, *, generator: Generator | None = None) -> Self:
        """Takes exponentially distributed numbers of a rate.

        Raises:
            RuntimeError: the rate is not positive, or the dtype not one of real numbers.
        """
        check_argument_of_draw("x.exponential_(): the rate", lambd, above=True)
        kind = self._real("x.exponential_()")
        return self._draw(
            lambda key: random.exponential(key, self.shape, kind) / lambd,
            generator, "x.exponential_()",
        )  # fmt: skip

    def bernoulli(self, p: float | None = None, *, generator: Generator | None = None) -> Any:
        """Returns ones with the probabilities that the tensor holds, or one for all, and zeros."""
        out: Any = ops.stop_gradient(self)
        return out.clone().bernoulli_(self if p is None else p, generator=generator)

    def multinomial(
        self, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
    ) -> Any:
        """Returns indices drawn with the weights of a vector, or of each row of a matrix.

        Args:
            num_samples: how many are drawn from each row.
            replacement: whether an index may come again.
            generator: draws the key.

        Raises:
            RuntimeError: a weight is negative or not finite; or without replacement, there are
                fewer indices of positive weight.
        """
        own: Any = self
        weights = own.detach()
        check_between("multinomial: a weight", weights, 0, np.inf, RuntimeError)
        # The largest of perturbed logits are a draw without replacement (Gumbel's trick).
        present = ops.greater(weights, 0)
        logits = ops.where(present, ops.log(ops.where(present, weights, 1)), -np.inf)
        if not replacement and int(ops.min(ops.sum(present, -1))) < num_samples:
            raise RuntimeError(
                f"multinomial: fewer than {num_samples} indices have a positive weight, and "
                "replacement is False"
            )
        shape, dtype = (num_samples, *self.shape) if replacement else self.shape, TENSOR_DTYPES["f"]
        noise = own.new_zeros(shape, dtype=dtype)
        noise._draw(lambda key: random.gumbel(key, shape, dtype), generator, "x.multinomial()")
        if replacement:
            return ops.moveaxis(ops.argmax(logits + noise, -1), 0, -1)
        order: Any = ops.argsort(logits + noise, -1, descending=True)
        return order[..., :num_samples]

    def cauchy_(
        self, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
    ) -> Self:
        """Takes Cauchy-distributed numbers of a median and a scale.

        Raises:
            RuntimeError: the scale is not positive, or the dtype not one of real numbers.
        """
        check_argument_of_draw("x.cauchy_(): sigma", sigma, above=True)
        kind = self._real("x.cauchy_()")
        return self._draw(
            lambda key: random.cauchy(key, self.shape, kind) * sigma + median,
            generator, "x.cauchy_()",
        )  # fmt: skip

    def log_normal_(
        self, mean: float = 1, std: float = 2, *, generator: Generator | None = None
    ) -> Self:
        """Takes numbers whose logarithms are normally distributed.

        Raises:
            RuntimeError: ``std`` is not positive, or the dtype not one of real numbers.
        """
        check_argument_of_draw("x.log_normal_(): std", std, above=True)
        kind = self._real("x.log_normal_()")
        return self._draw(
            lambda key: ops.exp(random.normal(key, self.shape, kind) * std + mean),
            generator, "x.log_normal_()",
        )  # fmt: skip

    def geometric_(self, p: float, *, generator: Generator | None = None) -> Self:
        """Takes numbers of trials up to the first success, of a probability.

        Raises:
            RuntimeError: the probability is not above 0 and at most 1.
        """
        check_argument_of_draw("x.geometric_(): p", p, 0, 1, above=True)
        return self._draw(
            lambda key: random.geometric(key, p, self.shape), generator, "x.geometric_()"
        )

    def random_(
        self, from_: int = 0, to: int | None = None, *, generator: Generator | None = None
    ) -> Self:
        """Takes integers drawn evenly from ``from_`` to before ``to``; of one number, from 0.

        Without a number they are all that the dtype has from 0 on, or, of floats, all up to those
        that have neighbours at a distance of 1.

        Raises:
            RuntimeError: the dtype has not all of them.
        """
        if to is None:
            from_, to = 0, from_ or min(integers_of(self.dtype)[1] + 1, 2**63 - 1)
        check_integers("x.random_()", self.dtype, from_, to)
        return self._draw(
            lambda key: random.randint(key, self.shape, from_, to), generator, "x.random_()"
        )

    def detach_(self) -> Self:
        """Cuts the tensor off from its graph; a leaf keeps its gradient."""
        put_to_rest(self)
        return self

    # -- tensors of its kind

    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
        layout: Any = None, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        """Returns a tensor of data, with this one's dtype and device unless one is given."""
        where = self.device if device is None else str(device)
        return TapeTrace.tracer(np.asarray(data), requires_grad, dtype or self.dtype, where)

    def new_full(
        self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
        requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        """Returns a tensor of one number, with this one's dtype and device unless one is given."""
        values = np.full(tuple(size), fill_value)
        return self.new_tensor(values, dtype=dtype, device=device, requires_grad=requires_grad)

    def new_zeros(
        self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None,
        requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        """Returns a tensor of zeros, with this one's dtype and device unless one is given."""
        shape = given_shape(sizes if size is None else (size,))
        return self.new_full(shape, 0, dtype=dtype, device=device, requires_grad=requires_grad)

    def new_ones(
        self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None,
        requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        """Returns a tensor of ones, with this one's dtype and device unless one is given."""
        shape = given_shape(sizes if size is None else (size,))
        return self.new_full(shape, 1, dtype=dtype, device=device, requires_grad=requires_grad)

    new_empty = new_zeros

    def new(self, *data: Any) -> Any:
        """Returns a tensor of data, or of a shape given by integers, with this one's dtype."""
        if not data or all(isinstance(n, int) for n in data):
            return self.new_zeros(data or (0,))
        return self.new_tensor(data[0])


def given_shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    """Returns a shape that was given as one sequence or as several integers."""
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], tuple | list) else size
