"""Parametrizations that PyTorch has: norms of weights, and orthogonal matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....backends.devices import to_host
from ....faces.publish import publish
from ....primitives.core.buffers import beside
from ....primitives.core.registry import registry as ops
from ....tensors import Tensor, no_grad
from ...linalg import householder_product, matrix_exp, solve
from ...numerics import norm_except_dim
from ...random_tensors import randn
from ..convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..functional import normalize
from ..module import Module
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

MAPS = ("matrix_exp", "cayley", "householder")
# The singular vectors of a new module are found by so many steps.
FIRST_POWER_STEPS = 15
TRANSPOSED_CONVOLUTIONS = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)


class WeightNorm(Module):
    """Computes a weight of the norms of its rows and of their directions."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        """Returns directions with other norms."""
        return weight_v * (weight_g / norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        """Returns the norms and the weight."""
        return norm_except_dim(weight, 2, self.dim), weight


class SpectralNorm(Module):
    """Divides a weight by its largest singular value, which a power iteration finds."""

    def __init__(
        self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"spectral_norm: there is no axis {dim} of {weight.ndim}")
        check_steps(n_power_iterations)
        self.dim = dim if dim >= 0 else dim + weight.ndim
        self.eps, self.n_power_iterations = eps, n_power_iterations
        if weight.ndim > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            rows, columns = matrix.shape
            for name, size in (("_u", rows), ("_v", columns)):
                start = randn(size, dtype=weight.dtype, device=weight.device)
                self.register_buffer(name, normalize(start, dim=0, eps=eps))
            self._iterate(matrix, FIRST_POWER_STEPS)

    def _iterate(self, matrix: Any, steps: int) -> None:
        """Brings the singular vectors nearer to those of the largest singular value."""
        with no_grad():
            power_steps(matrix, self._u, self._v, steps, self.eps)

    def forward(self, weight: Any) -> Any:
        """Returns a weight of norm 1; in training the vectors are improved."""
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        # Copies, since the next call writes to the vectors.
        return weight / (self._u.clone() @ (matrix @ self._v.clone()))

    def right_inverse(self, value: Any) -> Any:
        """Returns the tensor, which has the norm that it is to have."""
        return value


class Orthogonal(Module):
    """Computes a matrix with orthonormal columns, or rows, of one without any condition."""

    base: Any

    def __init__(self, weight: Any, map_name: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.dtype.kind == "c" and map_name == "householder":
            raise ValueError("orthogonal: the map 'householder' takes no complex tensors")
        self.shape, self.orthogonal_map = tuple(weight.shape), map_name
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        """Returns the matrix."""
        n, k = X.shape[-2:]
        transposed = n < k
        if transposed:
            X, n, k = X.mT, k, n
        if self.orthogonal_map == "householder":
            below = X.tril(-1)
            scales = 2.0 / (1.0 + (below * below).sum(dim=-2))
            Q = householder_product(below, scales)
            Q = Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:
                around = ((0, 0),) * (X.ndim - 1)
                X = ops.pad(X, (*around, (0, n - k)))
            A = X - X.mH
            if self.orthogonal_map == "matrix_exp":
                Q = matrix_exp(A)
            else:
                one = beside(A, np.eye(n, dtype=A.dtype))
                Q = solve(one - A * 0.5, one + A * 0.5)
            if n != k:
                Q = Q[..., :k]
        if "base" in self._buffers and self.base is not None:
            Q = self.base @ Q
        return Q.mT if transposed else Q

    def right_inverse(self, Q: Any) -> Any:
        """Returns a tensor of which the matrix, or a near orthogonal one, is computed.

        Raises:
            NotImplementedError: the map has no inverse, and there is no base to begin with.
            ValueError: the shape is another one.
        """
        if tuple(Q.shape) != self.shape:
            raise ValueError(f"orthogonal: the shape is {self.shape}, not {tuple(Q.shape)}")
        n, k = Q.shape[-2:]
        wide = n < k
        tall = Q.mT if wide else Q
        if "base" not in self._buffers:
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    f"orthogonal: the map {self.orthogonal_map!r} has no inverse; give "
                    "use_trivialization=True to set the matrix"
                )
            A, scales = reflections(tall)
            places = np.arange(A.shape[-1])
            A[..., places, places] = signs_of(A) * np.where(scales == 0, -1, 1)
            out = Tensor(A, device=str(Q.device))
            return out.mT if wide else out
        if n == k:
            base = tall.clone() if is_orthogonal(tall) else near_orthogonal(tall)
        else:
            n, k = tall.shape[-2:]
            others = randn(
                *tall.shape[:-2], n, n - k, dtype=tall.dtype, device=tall.device
            )
            base = near_orthogonal(ops.concatenate([tall, others], -1))
        self.base = base
        start = np.broadcast_to(-np.eye(*self.shape[-2:], dtype=Q.dtype), self.shape)
        return Tensor(start, device=str(Q.device))


def check_steps(n_power_iterations: int) -> None:
    """Raises ValueError if there are no steps of the power iteration."""
    if n_power_iterations <= 0:
        raise ValueError(
            f"spectral_norm: n_power_iterations is {n_power_iterations}, it is positive"
        )


def as_matrix(weight: Any, dim: int) -> Any:
    """Returns a tensor as a matrix whose rows are those of an axis."""
    moved = weight if dim == 0 else ops.moveaxis(weight, dim, 0)
    return moved.reshape(moved.shape[0], -1)


def power_steps(matrix: Any, u: Any, v: Any, steps: int, eps: float) -> None:
    """Writes to two vectors what comes of them by steps of the power iteration."""
    for _ in range(steps):
        u.copy_(normalize(matrix @ v, dim=0, eps=eps))
        v.copy_(normalize(matrix.mH @ u, dim=0, eps=eps))


def reflections(x: Any) -> tuple[Any, Any]:
    """Returns the columns of Householder's reflections of a matrix, and their scales."""
    host = np.asarray(to_host(x._data))
    raw, scales = np.linalg.qr(host, mode="raw")
    return np.swapaxes(raw, -1, -2).copy(), scales


def near_orthogonal(x: Any) -> Any:
    """Returns the orthogonal factor of a matrix, with the signs that it has itself."""
    A, scales = reflections(x)
    with no_grad():
        Q = householder_product(beside(x, A), beside(x, scales))
    return Q * beside(x, signs_of(A)[..., None, :])


def signs_of(A: Any) -> Any:
    """Returns the signs on the diagonals of matrices, of complex numbers too."""
    return np.sign(np.diagonal(A, axis1=-2, axis2=-1))


def is_orthogonal(Q: Any) -> bool:
    """Says whether the columns of a matrix are orthonormal, but for rounding."""
    n, k = Q.shape[-2:]
    eps = 10.0 * n * np.finfo(Q.dtype).eps
    product = np.asarray(to_host((Q.mH @ Q)._data))
    return bool(np.allclose(product, np.eye(k), atol=eps, rtol=0))


def tensor_under_name(module: Any, name: str, who: str) -> Any:
    """Returns the tensor of a module that a name stands for.

    Raises:
        ValueError: there is none.
    """
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{who}: {type(module).__name__} has no parameter or buffer {name!r}")
    return tensor


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Lets a matrix of a module have orthonormal columns, or rows where it has fewer of these.

    Args:
        module: has the matrix.
        name: its name.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``; by default the first
            for square and complex matrices, the last for others.
        use_trivialization: whether the map begins at the matrix as it is, so that any may be set.

    Returns:
        The module.

    Raises:
        ValueError: there is no such tensor, it is no matrix, or there is no such map.

    >>> import functensor.torch as torch
    >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(4, 2))
    >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(2), atol=1e-6)
    True
    """
    weight = tensor_under_name(module, name, "orthogonal")
    if weight.ndim < 2:
        raise ValueError(f"orthogonal: a matrix has two axes, not {weight.ndim}")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1] or weight.dtype.kind == "c"
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(f"orthogonal: orthogonal_map is one of {MAPS}, not {orthogonal_map!r}")
    made = Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)  # type: ignore[no-any-return]


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Lets a weight be computed of norms, ``original0``, and directions, ``original1``.

    Args:
        module: has the weight.
        name: its name.
        dim: the axis whose places each have a norm; None for one norm of all elements.

    Returns:
        The module.

    T. Salimans and D. Kingma, "Weight normalization", 2016.

    >>> import functensor.torch as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 2))
    >>> layer.parametrizations.weight.original0.shape
    (2, 1)
    """
    tensor_under_name(module, name, "weight_norm")
    made = WeightNorm(dim)
    return register_parametrization(module, name, made, unsafe=True)  # type: ignore[no-any-return]


def default_axis(module: Module) -> int:
    """Returns the axis of a weight that goes over outputs."""
    return 1 if isinstance(module, TRANSPOSED_CONVOLUTIONS) else 0


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Lets a weight be divided by its largest singular value.

    Args:
        module: has the weight.
        name: its name.
        n_power_iterations: how many steps of the power iteration each call makes in training.
        eps: the least norm that vectors are divided by.
        dim: the axis of the outputs; by default 1 of transposed convolutions, else 0.

    Returns:
        The module.

    T. Miyato et al., "Spectral normalization for generative adversarial networks", 2018.

    >>> import functensor.torch as torch
    >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 2))
    >>> bool(torch.linalg.matrix_norm(layer.weight, 2) < 1.1)
    True
    """
    weight = tensor_under_name(module, name, "spectral_norm")
    axis = default_axis(module) if dim is None else dim
    made = SpectralNorm(weight, n_power_iterations, axis, eps)
    return register_parametrization(module, name, made)  # type: ignore[no-any-return]


publish(globals())
