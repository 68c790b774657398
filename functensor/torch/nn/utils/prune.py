"""Parameters of which some elements are zero: ``torch.nn.utils.prune``.

A pruned parameter is ``NAME_orig``, and ``NAME_mask`` is a buffer of zeros and ones. Before each
call of the module a hook computes what has the parameter's name: their product.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....faces.publish import publish
from ....primitives.core.registry import registry as ops
from ....tensors import Tensor, no_grad
from ...creation import ones_like, zeros_like
from ...random_tensors import rand
from ..module import Module

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod:
    """The base of ways to choose what is pruned; a subclass has a method ``compute_mask``.

    Attributes:
        PRUNING_TYPE: ``"unstructured"`` where single elements are chosen, ``"structured"`` where
            places along an axis, ``dim``, are, ``"global"`` where masks are given.
    """

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        """Computes the pruned tensor, before a call of the module."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Returns zeros where a tensor is to be pruned; a subclass has its own.

        Args:
            t: how important elements are.
            default_mask: the mask up to now.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method compute_mask")

    def apply_mask(self, module: Any) -> Any:
        """Returns the pruned tensor of a module."""
        name = self._tensor_name
        mask = getattr(module, name + "_mask")
        original = getattr(module, name + "_orig")
        return mask.to(dtype=original.dtype) * original

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """Returns a tensor with zeros where it is pruned."""
        scores = t if importance_scores is None else importance_scores
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask)

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prunes a parameter of a module, further where it is pruned already.

        Args:
            module: has the parameter.
            name: its name.
            args, kwargs: of this class.
            importance_scores: how important elements are; by default their sizes.

        Returns:
            The hook of the module.
        """
        made: Any = cls(*args, **kwargs)
        made._tensor_name = name
        before = hook_of(module, name)
        tensor = getattr(module, name)
        scores = tensor.detach() if importance_scores is None else importance_scores
        if scores.shape != tensor.shape:
            raise ValueError(
                f"prune: importance_scores have the shape {scores.shape}, not {tensor.shape}"
            )
        if before is None:
            mask = ones_like(tensor)
        else:
            mask = getattr(module, name + "_mask").detach().clone()
            number, old = before
            made = PruningContainer(*(old if isinstance(old, PruningContainer) else [old]), made)
        with no_grad():
            mask = made.compute_mask(scores, mask)
        if before is None:
            del module._parameters[name]
            module.register_parameter(name + "_orig", tensor)
        else:
            del module._forward_pre_hooks[number]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, made.apply_mask(module))
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Any) -> None:
        """Ends the pruning of a module's tensor: it is a parameter again, with its zeros."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        original = module._parameters[name + "_orig"]
        original.data = weight.detach()
        delattr(module, name)
        delattr(module, name + "_orig")
        delattr(module, name + "_mask")
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Several ways to prune one tensor, each of what the ones before have left.

    Args:
        args: the ways.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Adds a way."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"a pruning method is wanted, not {type(method).__name__}")
        if hasattr(method, "_tensor_name"):
            known = getattr(self, "_tensor_name", method._tensor_name)
            if method._tensor_name != known:
                raise ValueError(f"the method prunes {method._tensor_name!r}, not {known!r}")
            self._tensor_name = known
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Returns the mask of the last way among what the mask up to now leaves."""
        method: Any = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype).clone()
        if method.PRUNING_TYPE == "unstructured":
            left: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            axis = method.dim % t.ndim
            others = tuple(i for i in range(t.ndim) if i != axis)
            places = ops.flatnonzero(ops.sum(mask, others) != 0)
            left = (slice(None),) * axis + (places,)
        elif method.PRUNING_TYPE == "global":
            left = (slice(None),) * t.ndim
        else:
            raise ValueError(f"PRUNING_TYPE is {method.PRUNING_TYPE!r}, which there is not")
        mask[left] = method.compute_mask(t[left], default_mask=mask[left]).to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Returns the mask up to now."""
        return default_mask


class Amount(BasePruningMethod):
    """The base of ways to prune a number of elements, or a part of them."""

    def __init__(self, amount: float) -> None:
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise TypeError(f"prune: amount is a number, not of type {type(amount).__name__}")
        if amount < 0 or (isinstance(amount, float) and amount > 1):
            raise ValueError(f"prune: amount is {amount}: a part of 1, or a number of elements")
        self.amount = amount

    def _count(self, total: int) -> int:
        """Returns how many of some places are pruned."""
        if isinstance(self.amount, int) and self.amount > total:
            raise ValueError(f"prune: amount is {self.amount}, but there are {total}")
        return self.amount if isinstance(self.amount, int) else round(self.amount * total)


class RandomUnstructured(Amount):
    """Prunes elements at random.

    Args:
        amount: how many, or which part of them as a float.
    """

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Returns the mask."""
        scores = rand(t.shape, device=t.device)
        return without_least(scores, default_mask, self._count(t.size))


class L1Unstructured(Amount):
    """Prunes the smallest elements.

    Args:
        amount: how many, or which part of them as a float.
    """

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Returns the mask."""
        return without_least(ops.abs(t), default_mask, self._count(t.size))


class RandomStructured(Amount):
    """Prunes places along an axis at random.

    Args:
        amount: how many, or which part of them as a float.
        dim: the axis.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Returns the mask."""
        check_rows(t)
        size = t.shape[self.dim]
        scores = rand(size, device=t.device)
        return without_places(scores, default_mask, self._count(size), self.dim)


class LnStructured(Amount):
    """Prunes the places along an axis whose norms are smallest.

    Args:
        amount: how many, or which part of them as a float.
        n: the order of the norm.
        dim: the axis.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Returns the mask."""
        check_rows(t)
        others = tuple(i for i in range(t.ndim) if i != self.dim % t.ndim)
        norms = t.norm(p=self.n, dim=others)
        return without_places(norms, default_mask, self._count(t.shape[self.dim]), self.dim)


class CustomFromMask(BasePruningMethod):
    """Prunes what a mask says.

    Args:
        mask: zeros where elements are pruned.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Returns the mask."""
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def check_rows(t: Any) -> None:
    """Checks that a tensor has places along an axis that are more than single elements."""
    if t.ndim < 2:
        raise ValueError(
            f"prune: a tensor of shape {t.shape} has no rows or columns; prune its elements, as by "
            "l1_unstructured"
        )


def without_least(scores: Any, mask: Any, count: int) -> Any:
    """Returns a mask with zeros where some scores are least."""
    flat = mask.clone().reshape(-1)
    if count:
        flat[scores.reshape(-1).topk(count, largest=False).indices] = 0
    return flat.reshape(mask.shape)


def without_places(scores: Any, mask: Any, count: int, dim: int) -> Any:
    """Returns a mask with zeros along an axis where some scores are least."""
    if not count:
        return mask
    kept = zeros_like(mask)
    places = scores.topk(scores.shape[0] - count, largest=True).indices
    kept[(slice(None),) * (dim % mask.ndim) + (places,)] = 1
    return kept * mask


def hook_of(module: Any, name: str) -> tuple[int, BasePruningMethod] | None:
    """Returns the hook that prunes a tensor of a module, with its number, if there is one."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return number, hook
    return None


def identity(module: Any, name: str) -> Any:
    """Prunes nothing of a parameter, but makes its mask; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prunes elements of a parameter at random; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Any, name: str, amount: float, importance_scores: Any = None
) -> Any:
    """Prunes the smallest elements of a parameter; returns the module.

    Args:
        module: has the parameter.
        name: its name.
        amount: how many, or which part of them as a float.
        importance_scores: what counts in place of the elements.

    >>> import functensor.torch as torch
    >>> from functensor.torch.nn.utils import prune
    >>> layer = prune.l1_unstructured(torch.nn.Linear(4, 3), "weight", amount=0.25)
    >>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
    (3, ['bias', 'weight_mask', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prunes places along an axis of a parameter at random; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prunes the places along an axis whose norms are smallest; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prunes of a parameter what a mask says; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[Sequence[Any]], pruning_method: Any, importance_scores: Any = None,
    **kwargs: Any,
) -> None:  # fmt: skip
    """Prunes parameters of several modules as if they were one.

    Args:
        parameters: pairs of modules and names.
        pruning_method: a class that prunes single elements.
        importance_scores: what counts in place of elements, by these pairs.
        kwargs: of that class, as ``amount``.
    """
    pairs = [tuple(pair) for pair in parameters]
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise TypeError("global_unstructured: the method is to prune single elements")
    given = importance_scores or {}
    tensors = [getattr(module, name).detach() for module, name in pairs]
    scores = [given.get(pair, x) for pair, x in zip(pairs, tensors, strict=True)]
    masks = [
        getattr(module, name + "_mask", ones_like(x))
        for (module, name), x in zip(pairs, tensors, strict=True)
    ]
    flat, before = (
        ops.concatenate([x.reshape(-1) for x in several]) for several in (scores, masks)
    )
    container = PruningContainer(pruning_method(**kwargs))
    with no_grad():
        mask = container.compute_mask(flat, before)
    start = 0
    for (module, name), x in zip(pairs, tensors, strict=True):
        custom_from_mask(module, name, mask[start : start + x.size].reshape(x.shape))
        start += x.size


def remove(module: Any, name: str) -> Any:
    """Ends the pruning of a parameter, which keeps its zeros; returns the module.

    Raises:
        ValueError: it is not pruned.
    """
    found = hook_of(module, name)
    if found is None:
        raise ValueError(f"remove: {name!r} of {type(module).__name__} is not pruned")
    number, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[number]
    return module


def is_pruned(module: Module) -> bool:
    """Says whether a module, or one within it, has a pruned parameter."""
    return any(
        isinstance(hook, BasePruningMethod)
        for part in module.modules()
        for hook in part._forward_pre_hooks.values()
    )


publish(globals())
