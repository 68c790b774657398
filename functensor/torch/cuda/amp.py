"""PyTorch's older names of mixed precision on a GPU: ``torch.cuda.amp``."""

from __future__ import annotations

from typing import Any

from ...backends.restoring import setting
from ...faces.publish import publish
from .. import amp

__all__ = ["GradScaler", "autocast"]


def autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> setting:
    """Computes products on a GPU in half precision; see `torch.amp.autocast`."""
    return amp.autocast("cuda", dtype, enabled, cache_enabled)


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
