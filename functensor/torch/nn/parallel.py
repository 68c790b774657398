"""Modules whose gradients are means over processes: ``torch.nn.parallel``."""

from __future__ import annotations

from typing import Any

from ...backends.restoring import setting
from ...distributed.data_parallel import MEGABYTE
from ...distributed.tensor_means import TensorMeans
from ...faces.publish import publish
from .containers import DataParallel
from .module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Returns what a module gives, on its own device: see `DataParallel`."""
    several = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*several, **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """A module that all processes train together, each with its own part of a batch.

    Parameters and buffers get the values that they have on the process of rank 0. From then on
    ``backward`` leaves the means over all processes in ``grad``. They are added up in buckets,
    while the backward pass still runs.

    Args:
        module: the module of one process.
        device_ids, output_device: are not needed: each process has one device.
        bucket_cap_mb: how large a bucket is, in units of 1,048,576 bytes.
        find_unused_parameters, static_graph, gradient_as_bucket_view, broadcast_buffers: are taken
            for PyTorch's sake and change nothing: parameters that a pass does not come to count as
            zeros.

    Attributes:
        module: the module that was given.

    >>> import functensor.torch as torch
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> model(torch.ones(3, 2)).sum().backward()
    >>> model.module.weight.grad.tolist()
    [[3.0, 3.0]]
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        *,
        bucket_cap_mb: float = 25.0,
        find_unused_parameters: bool = False,
        static_graph: bool = False,
        gradient_as_bucket_view: bool = False,
        broadcast_buffers: bool = True,
    ) -> None:
        super().__init__()
        self.module = module
        self._means = TensorMeans(
            module.parameters(), module.buffers(), int(bucket_cap_mb * MEGABYTE)
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module."""
        return self.module(*args, **kwargs)

    def no_sync(self) -> setting:
        """Leaves gradients those of this process, for the length of a ``with`` block.

        They are added to what the next ``backward`` behind the block averages.
        """
        return self._means.unsent()


publish(globals())
