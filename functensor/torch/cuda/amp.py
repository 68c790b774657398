"""PyTorch's older names of mixed precision on a GPU: ``torch.cuda.amp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...backends.errors.public_functions import check_function
from ...backends.restoring import setting
from ...faces.publish import publish
from .. import amp

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> setting:
    """Computes products on a GPU in half precision; see `torch.amp.autocast`."""
    return amp.autocast("cuda", dtype, enabled, cache_enabled)


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: Any = None
) -> Callable[..., Any]:
    """Returns a ``forward`` that knows of `autocast` on a GPU; see `torch.amp.custom_fwd`."""
    if fwd is not None:
        check_function("custom_fwd", fwd, "fwd")
    made: Callable[..., Any] = amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)
    return made


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a ``backward`` for that of `custom_fwd`; see `torch.amp.custom_bwd`."""
    check_function("custom_bwd", bwd, "bwd")
    made: Callable[..., Any] = amp.custom_bwd(bwd, device_type="cuda")
    return made


class GradScaler(amp.GradScaler):
    """Scales losses on a GPU; see `torch.amp.GradScaler`, whose arguments it takes but the first.

    Args:
        init_scale, growth_factor, backoff_factor, growth_interval, enabled: as there.
    """

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


publish(globals())
