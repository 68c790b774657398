"""Moving arrays between devices, which derivatives follow back."""

from __future__ import annotations

from ..backends.annotations import ArrayModule, Buffer
from ..backends.devices import on_device, resolved
from .core.annotations import operations as ops
from .core.buffers import device_of
from .core.families import batch_filled
from .core.primitive import Primitive
from .core.test_samples import Sample
from .identities import infer_like_first

__all__ = ["to_device"]


def _move(xp: ArrayModule, x: Buffer, *, device: str) -> Buffer:
    out = on_device(x, device)
    return out if hasattr(out, "shape") else xp.asarray(out)[()]


to_device = Primitive(
    "to_device",
    prepare=lambda x, device: ((x,), {"device": resolved(device)[1]}),
    compute=_move, infer=infer_like_first, batch=batch_filled,
    # Only the device is kept, to which the cotangent goes back.
    keep=lambda ans, xs: (None, device_of(xs[0])),
    vjp=(lambda g, x, *, device: ops.to_device(g, x),),
    linear=True, dtypes="fdD",
    reference=lambda x, device: x,
    samples=[Sample((), device="cpu"), Sample((2, 3), device="cpu"), Sample((0, 2), device="cpu")],
    doc="""Returns an array with the same values on a device.

    Args:
        x: an array.
        device: the device's name; ``cuda`` is the current GPU.

    Returns:
        An array on that device, x itself if it is there already. The cotangent goes back.

    Raises:
        BackendUnavailable: the device's backend is not installed.
        DeviceError: there is no such device.
    """,
)
