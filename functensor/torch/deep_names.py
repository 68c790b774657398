"""Modules in which PyTorch defines what its namespaces show, and from which programs import it.

>>> from functensor.torch.utils.data.dataset import Dataset
>>> from functensor.torch.nn.modules.utils import _pair
>>> Dataset.__name__, _pair(3)
('Dataset', (3, 3))
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..tensors.absent_names import absent_reason

__all__ = ["DEEP_MODULES", "DeepNames", "inner_modules"]

# The modules within a namespace whose names are the namespace's own.
WITHIN = {
    "autograd": "grad_mode variable",
    "distributions": "bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli "
    "dirichlet exp_family exponential fishersnedecor gamma geometric gumbel half_cauchy "
    "half_normal independent inverse_gamma kl kumaraswamy laplace lkj_cholesky log_normal "
    "lowrank_multivariate_normal mixture_same_family multinomial multivariate_normal "
    "negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli "
    "relaxed_categorical studentT transformed_distribution uniform von_mises weibull wishart",
    "nn": "modules modules.activation modules.adaptive modules.batchnorm modules.channelshuffle "
    "modules.container modules.conv modules.distance modules.dropout modules.flatten modules.fold "
    "modules.instancenorm modules.lazy modules.linear modules.loss modules.module "
    "modules.normalization modules.padding modules.pixelshuffle modules.pooling modules.rnn "
    "modules.sparse modules.transformer modules.upsampling modules.utils",
    "nn.utils": "clip_grad convert_parameters",
    "optim": "adadelta adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd",
    "utils.data": "_utils _utils.collate dataloader dataset sampler",
}
# Objects within a namespace that are imported as modules.
SWITCHES = {"backends": "cuda cudnn mps"}
# Names of these modules that no namespace shows: programs ask for the kind of a module by them.
HIDDEN = {
    "batchnorm": {"_BatchNorm": "normalization.BatchNorm", "_NormBase": "normalization.Tracked"},
    "conv": {"_ConvNd": "convolution.Convolving"},
    "instancenorm": {"_InstanceNorm": "normalization.InstanceNorm"},
    "loss": {"_Loss": "applied.Loss"},
    "module": {
        f"register_module_{name}": f"module_hooks.register_module_{name}"
        for name in (
            "buffer_registration_hook", "forward_hook", "forward_pre_hook", "full_backward_hook",
            "full_backward_pre_hook", "module_registration_hook", "parameter_registration_hook",
        )
    },
    "rnn": {"RNNBase": "recurrent.Recurrent", "RNNCellBase": "recurrent.SingleStep"},
    "utils": {
        "_ntuple": "tuples.ntuple", "_single": "tuples.single", "_pair": "tuples.doubled_number",
        "_triple": "tuples.triple", "_quadruple": "tuples.quadruple",
    },
}
TORCH = "functensor.torch"
DEEP_MODULES = {
    f"{TORCH}.{namespace}.{name}": f"{TORCH}.{namespace}"
    for namespace, names in WITHIN.items()
    for name in names.split()
}
# It has the older interface's names too.
DEEP_MODULES[f"{TORCH}.autograd.profiler"] = f"{TORCH}.profiler"
OBJECTS = {
    f"{TORCH}.{namespace}.{name}": f"{TORCH}.{namespace}"
    for namespace, names in SWITCHES.items()
    for name in names.split()
}
HIDDEN_NAMES = {
    f"{TORCH}.nn.modules.{module}": {name: f"{TORCH}.nn.{place}" for name, place in names.items()}
    for module, names in HIDDEN.items()
}


class DeepNames:
    """A finder of these modules, whose names are those of the namespaces here."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to make a module within a namespace.

        Raises:
            ModuleNotFoundError: PyTorch has such a module, and it is said what to do without.
        """
        package, _, last = name.rpartition(".")
        if package in (TORCH, f"{TORCH}.utils") and absent_reason(last):
            text = f"No module named {name!r}: {absent_reason(last)}"
            raise ModuleNotFoundError(text, name=name)
        here = name in DEEP_MODULES or name in OBJECTS
        return ModuleSpec(name, self, is_package=True) if here else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns a module that looks its names up."""
        namespace = DEEP_MODULES.get(spec.name) or OBJECTS[spec.name]
        module = ModuleType(spec.name, f"Has the names of ``{namespace}``.")
        module.__path__ = []
        module.__getattr__ = partial(looked_up, spec.name)  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Finds that the namespace is there; an object of it takes the module's place."""
        name = module.__name__
        if name in OBJECTS:
            sys.modules[name] = getattr(import_module(OBJECTS[name]), name.rpartition(".")[2])
        else:
            import_module(DEEP_MODULES[name])


def looked_up(module: str, name: str) -> Any:
    """Returns what a name stands for in one of these modules."""
    if f"{module}.{name}" in DEEP_MODULES:
        return import_module(f"{module}.{name}")
    place = HIDDEN_NAMES.get(module, {}).get(name)
    if place is not None:
        owner, _, own = place.rpartition(".")
        return getattr(import_module(owner), own)
    if name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return getattr(import_module(DEEP_MODULES[module]), name)


def inner_modules(namespace: str) -> dict[str, Callable[[], ModuleType]]:
    """Returns functions that import the modules directly within a namespace, by their names."""
    start = f"{TORCH}.{namespace}."
    found = [name.removeprefix(start) for name in DEEP_MODULES if name.startswith(start)]
    return {name: partial(import_module, start + name) for name in found if "." not in name}
