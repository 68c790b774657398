"""A third backend, over PyTorch's tensors on the CPU, registered from outside of the library.

    python examples/backend.py

The library's `ForeignBuffer` gives a tensor what NumPy's arrays have, and its `NumpyLike` promotes
as NumPy does. Here is what PyTorch calls or does otherwise; what it lacks is refused by name.
"""

from functools import reduce

import numpy as np
import torch

import functensor as ft
from functensor import backends
from functensor.backends.arrays.numpy_like import ForeignBuffer, NumpyLike
from functensor.backends.arrays.portable import portable

special = torch.special
DTYPES = {
    np.dtype(name): getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}


class TorchBuffer(ForeignBuffer):
    """A buffer over a tensor."""

    __slots__ = ()


def copy(x):
    return x.clone(memory_format=torch.contiguous_format)


def at(reduction):
    """Returns the update, in place, of elements by values that meet in one place."""

    def update(x, key, values):
        places = xp.element(torch.arange(x.numel()).reshape(x.shape), key)
        values = values.to(x.dtype).expand(places.shape).reshape(-1)
        x.view(-1).scatter_reduce_(0, places.reshape(-1), values, reduction)

    return update


def transpose(x, *axes):
    axes = axes[0] if axes and type(axes[0]) is not int else axes
    return x.permute(axes or (*range(x.ndim)[::-1],))


def eig(x):
    """Returns eigenvectors whose largest elements are real, as LAPACK has them."""
    values, v = torch.linalg.eig(x)
    return values, v / v.gather(-2, v.abs().argmax(-2, keepdim=True)).sgn() if v.numel() else v


def triangular(a, b, trans, lower, unit_diagonal, check_finite):
    a, columns = a.mT if trans else a, b.reshape(len(b), -1)
    flags = {"upper": lower == bool(trans), "unitriangular": unit_diagonal}
    return torch.linalg.solve_triangular(a, columns, **flags).reshape(b.shape)


def by_axes(function):
    return lambda x, axes, norm: reduce(lambda y, a: function(y, dim=a, norm=norm), axes, x)


# Functions with other names or arguments in PyTorch than in NumPy and SciPy.
OWN = {
    "power": torch.pow, "rint": torch.round, "invert": torch.bitwise_not, "sign": torch.sgn,
    "equal": torch.eq, "left_shift": torch.bitwise_left_shift, "conjugate": torch.conj_physical,
    "right_shift": torch.bitwise_right_shift, "conj": torch.conj_physical, "copy": copy,
    "angle": lambda x, deg=False: torch.rad2deg(torch.angle(x)) if deg else torch.angle(x),
    "modf": lambda x: (x - torch.trunc(x), torch.trunc(x)),
    "ldexp": lambda x, n: torch.ldexp(x, n.to(x.dtype)),
    "imag": lambda x: x.imag if x.is_complex() else torch.zeros_like(x),
    "real": lambda x: x.real if x.is_complex() else x,
    "round": lambda x, decimals=0: torch.round(x, decimals=decimals),
    "max": torch.amax, "min": torch.amin, "add.reduce": torch.sum, "add.at": at("sum"),
    "multiply.at": at("prod"), "minimum.at": at("amin"), "maximum.at": at("amax"),
    "take": lambda x, i, axis: xp.element(x, (*(slice(None),) * axis, i)), "transpose": transpose,
    "reshape": lambda x, *shape: x.reshape(*shape),
    "concatenate": torch.cat, "nonzero": lambda x: torch.nonzero(x, as_tuple=True),
    "flip": lambda x, axis=None: x.flip(range(x.ndim) if axis is None else axis),
    "tril": lambda x, k=0: torch.tril(x, k), "triu": lambda x, k=0: torch.triu(x, k),
    "expand_dims": lambda x, axis: x.reshape(np.expand_dims(np.empty(x.shape, "?"), axis).shape),
    "moveaxis": torch.movedim, "broadcast_arrays": torch.broadcast_tensors,
    "ascontiguousarray": torch.Tensor.contiguous, "view": lambda x, dtype: copy(x).view(dtype),
    "sort": lambda x, axis=-1, stable=True: torch.sort(x, dim=axis, stable=True).values,
    "argsort": lambda x, axis=-1, stable=True: torch.argsort(x, dim=axis, stable=True),
    "fft.fftn": by_axes(torch.fft.fft), "fft.ifftn": by_axes(torch.fft.ifft),
    "linalg.svd": lambda x, full_matrices=True, compute_uv=True: (
        torch.linalg.svd(x, full_matrices) if compute_uv else torch.linalg.svdvals(x)
    ),
    "linalg.eig": eig, "scipy.linalg.solve_triangular": triangular,
    "scipy.special.j0": special.bessel_j0, "scipy.special.j1": special.bessel_j1,
    "scipy.special.y0": special.bessel_y0, "scipy.special.y1": special.bessel_y1,
    "scipy.special.k0": special.modified_bessel_k0, "scipy.special.k1": special.modified_bessel_k1,
    "scipy.special.k0e": special.scaled_modified_bessel_k0,
    "scipy.special.k1e": special.scaled_modified_bessel_k1,
    "scipy.special.zeta": lambda x, q=1.0: special.zeta(x, torch.as_tensor(q)),
}  # fmt: skip


class Torch(NumpyLike):
    """PyTorch under NumPy's names."""

    __name__ = "torch"

    def find(self, name):
        names = name.removeprefix("scipy.").split(".")
        return OWN.get(name) or reduce(lambda m, n: getattr(m, n, None), names, torch)

    def cast(self, array, dtype):
        return array.to(dtype)

    def from_host(self, array):
        return torch.from_numpy(np.array(array))

    def to_host(self, array):
        return array.resolve_conj().numpy()


class TorchBackend(backends.Backend):
    """The backend, whose device is called ``torch``."""

    name = kind = "torch"
    buffer_type = TorchBuffer
    xp = Torch(TorchBuffer, DTYPES)
    kernels = portable(xp)
    lacks = (NotImplementedError,)

    def to_host(self, buffer):
        return self.xp.to_host(buffer.array)


xp = backends.register(TorchBackend()).xp


def main():
    x = ft.to_device(np.linspace(-1, 1, 5), "torch")
    print(ft.vmap(ft.grad(lambda x: ft.numpy.sin(x) ** 2))(x))
    print("the Hessian is on", ft.jit(ft.hessian(lambda x: (x**3).sum()))(x).device)


if __name__ == "__main__":
    main()
