"""Mixed precision: products in half precision, and losses that are scaled: ``torch.amp``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

import numpy as np

from ..backends.dtypes import named as dtype_named
from ..backends.errors.public_functions import check_function
from ..backends.restoring import setting
from ..faces.publish import publish
from ..tensors import Tensor, gradient_of, no_grad
from ..tensors.autocasting import casting, watch_products
from .cuda import is_available

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

AUTOCAST_DTYPES = {"cpu": "bfloat16", "cuda": "float16"}


def is_autocast_available(device_type: str) -> bool:
    """Says whether there are devices of a type."""
    return device_type == "cpu" or (device_type == "cuda" and is_available())


def autocast(
    device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
) -> setting:
    """Computes products in half precision, for the length of a ``with`` block or of a function.

    Linear layers, convolutions, products of matrices and attention take operands of float32 in the
    narrower dtype, and give results of it; losses are computed in float32. All else computes in the
    dtypes of its operands.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``; tensors on other devices stay as they are.
        dtype: by default bfloat16 on the CPU, float16 on a GPU.
        enabled: whether to do so; within another block False ends that one's effect.
        cache_enabled: no effect.

    Returns:
        A context manager, and a decorator.

    Raises:
        ValueError: there is no such type of device.

    >>> import functensor.torch as torch
    >>> layer = torch.nn.Linear(2, 3)
    >>> with torch.autocast("cpu", dtype=torch.float16):
    ...     print(layer(torch.ones(4, 2)).dtype)
    float16
    """
    check_device_kind("autocast", device_type)
    if enabled and not is_autocast_available(device_type):
        warnings.warn(
            "autocast: device_type is 'cuda', but there is no GPU: nothing is narrowed",
            UserWarning,
            stacklevel=3,
        )
        enabled = False
    others = {name: getattr(casting, name) for name in AUTOCAST_DTYPES}
    if enabled:
        watch_products()
        others[device_type] = dtype_named(dtype or AUTOCAST_DTYPES[device_type])
    else:
        others[device_type] = None
    active = any(value is not None for value in others.values())
    return setting(casting, active=active, **others)


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Any = None
) -> Callable[..., Any]:
    """Returns the ``forward`` of an `autograd.Function` that knows of `autocast`.

    Args:
        fwd: the method; without it a decorator is returned.
        device_type: ``"cpu"`` or ``"cuda"``.
        cast_inputs: the dtype that tensors of floats on the device are cast to within `autocast`;
            then the method computes in it alone. By default it computes as it was called.

    >>> import functensor.torch as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float64)
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return 2 * ctx.saved_tensors[0] * g
    >>> with torch.autocast("cpu"):
    ...     print(Square.apply(torch.ones(1, requires_grad=True)).dtype)
    float64
    """
    if fwd is None:
        check_device_kind("custom_fwd", device_type)
        return partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    check_function("custom_fwd", fwd, "fwd")
    check_device_kind("custom_fwd", device_type)
    method = fwd

    @wraps(method)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx, narrowed = args[0], getattr(casting, device_type)
        ctx._dtype = narrowed
        ctx._fwd_used_autocast = narrowed is not None and cast_inputs is None
        if narrowed is None or cast_inputs is None:
            return method(*args, **kwargs)
        with autocast(device_type, enabled=False):
            cast = partial(cast_floats, device_type=device_type, dtype=cast_inputs)
            return method(ctx, *[cast(x) for x in args[1:]], **cast(kwargs))

    return decorated


def custom_bwd(
    bwd: Callable[..., Any] | None = None, *, device_type: str
) -> Callable[..., Any]:
    """Returns a ``backward`` that computes as the ``forward`` of `custom_fwd` did.

    Args:
        bwd: the method; without it a decorator is returned.
        device_type: as for `custom_fwd`.
    """
    if bwd is None:
        check_device_kind("custom_bwd", device_type)
        return partial(custom_bwd, device_type=device_type)
    check_function("custom_bwd", bwd, "bwd")
    check_device_kind("custom_bwd", device_type)
    method = bwd

    @wraps(method)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, ctx._dtype, enabled=ctx._fwd_used_autocast):
            return method(ctx, *args, **kwargs)

    return decorated


def check_device_kind(name: str, device_type: str) -> None:
    """Checks the name of a type of devices."""
    if device_type not in AUTOCAST_DTYPES:
        raise ValueError(f"{name}: device_type is 'cpu' or 'cuda', not {device_type!r}")


def cast_floats(x: Any, device_type: str, dtype: Any) -> Any:
    """Returns a value with its tensors of floats on a type of devices cast; not of doubles."""
    if isinstance(x, Tensor):
        narrow = x.dtype.kind in "fV" and x.dtype.itemsize < 8
        here = x.device.partition(":")[0] == device_type
        return x.to(dtype_named(dtype)) if narrow and here else x
    if isinstance(x, Mapping):
        return {name: cast_floats(value, device_type, dtype) for name, value in x.items()}
    if isinstance(x, list | tuple):
        return type(x)([cast_floats(value, device_type, dtype) for value in x])
    return x


class GradScaler:
    """Scales losses, so that small gradients of half precision do not become zero.

    Args:
        device: ``"cuda"`` or ``"cpu"``; without a GPU one for it does nothing.
        init_scale: the scale at the beginning.
        growth_factor, growth_interval: the scale grows by the factor after so many steps in
            succession whose gradients were finite.
        backoff_factor: by which it falls after a step whose gradients were not.
        enabled: whether it does anything.

    >>> import functensor.torch as torch
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> optimizer, scaler = torch.optim.SGD([x], lr=0.5), torch.amp.GradScaler("cpu")
    >>> scaler.scale((x * x).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> x.tolist(), scaler.get_scale()
    ([0.0], 65536.0)
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        if enabled and not is_autocast_available(device):
            warnings.warn(
                "GradScaler is for a GPU, and there is none: it does nothing",
                UserWarning,
                stacklevel=3,
            )
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise ValueError(f"GradScaler: growth_factor is {growth_factor}, it is above 1")
        if enabled and backoff_factor >= 1.0:
            raise ValueError(f"GradScaler: backoff_factor is {backoff_factor}, it is below 1")
        self._enabled = enabled
        self._scale = float(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        # By the ids of optimizers whether their gradients are finite, and whether they stepped.
        self._finite: dict[int, bool] = {}
        self._stepped: set[int] = set()

    def scale(self, outputs: Any) -> Any:
        """Returns a loss, or several in a list or a tuple, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, list | tuple):
            return type(outputs)([self.scale(x) for x in outputs])
        return outputs * self._scale

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the scale, once for each step.

        Raises:
            RuntimeError: that was done since the last update.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._finite:
            raise RuntimeError("unscale_() was called on this optimizer since the last update()")
        finite = []
        with no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    gradient = gradient_of(p)
                    if gradient is not None:
                        gradient.mul_(1.0 / self._scale)
                        finite.append(bool(gradient.isfinite().all()))
        if not finite:
            raise AssertionError("GradScaler: no parameter of the optimizer has a gradient")
        self._finite[id(optimizer)] = all(finite)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Makes a step of an optimizer, unless a gradient is not finite.

        Args:
            optimizer: whose gradients are unscaled, if they are not yet.
            args, kwargs: of its ``step``.

        Returns:
            What that returned, or None.

        Raises:
            RuntimeError: it stepped already since the last update.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: a closure is not possible while it is enabled")
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() was called on this optimizer since the last update()")
        if id(optimizer) not in self._finite:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return optimizer.step(*args, **kwargs) if self._finite[id(optimizer)] else None

    def update(self, new_scale: Any = None) -> None:
        """Lets the scale grow or fall by what the last steps met, or sets it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale.item() if isinstance(new_scale, Tensor) else new_scale)
        elif not self._finite:
            raise AssertionError("GradScaler.update: no step was made since the last one")
        elif not all(self._finite.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = self._scale * self._growth_factor
                # As PyTorch's it is of single precision, and stays finite there.
                self._scale = grown if np.isfinite(np.float32(grown)) else self._scale
                self._growth_tracker = 0
        self._finite.clear()
        self._stepped.clear()

    def get_scale(self) -> float:
        """Returns the scale, 1 of one that does nothing."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Returns the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Returns the factor by which the scale falls."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale falls."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Returns after how many steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many steps the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Says whether it does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Returns the scale and how it changes; nothing of one that does nothing."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned.

        Raises:
            RuntimeError: it is empty, of one that does nothing.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("GradScaler: the state is empty: that one was not enabled")
        for name, value in state_dict.items():
            setattr(self, f"_{name.lstrip('_')}", value)


publish(globals())
