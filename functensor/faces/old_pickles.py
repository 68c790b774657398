"""Old names of modules, under which pickles of earlier versions look for what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED_MODULES", "OldNames"]

# Where modules with objects that pickles name are now.
MOVED_MODULES = {
    "functensor.collectives": "functensor.transforms.collectives",
    "functensor.derivatives": "functensor.transforms.jvp",
    "functensor.facade": "functensor.tensors",
    "functensor.facade.tensor": "functensor.tensors.tensor",
    "functensor.foreign": "functensor.custom.numpy_function",
    "functensor.gradients": "functensor.transforms.grad",
    "functensor.implicit": "functensor.custom.root",
    "functensor.jacobians": "functensor.transforms.jacobian",
    "functensor.primitives.activation": "functensor.primitives.nn.activations",
    "functensor.primitives.activation_derivatives": "functensor.primitives.nn.activations",
    "functensor.primitives.arithmetic": "functensor.primitives.elementwise.arithmetic",
    "functensor.primitives.array": "functensor.primitives.core.array",
    "functensor.primitives.attention": "functensor.primitives.nn.attention",
    "functensor.primitives.banded": "functensor.primitives.linalg.banded",
    "functensor.primitives.bits": "functensor.primitives.elementwise.number_parts",
    "functensor.primitives.contraction": "functensor.primitives.contract.matmul",
    "functensor.primitives.convolution": "functensor.primitives.contract.conv",
    "functensor.primitives.cumulative": "functensor.primitives.reduce.cumulative",
    "functensor.primitives.decompositions": "functensor.primitives.linalg.decompositions",
    "functensor.primitives.einsum": "functensor.primitives.contract.einsum",
    "functensor.primitives.exponential": "functensor.primitives.elementwise.exponential",
    "functensor.primitives.filtering": "functensor.primitives.contract.linear_filter",
    "functensor.primitives.fourier": "functensor.primitives.contract.fourier",
    "functensor.primitives.identity": "functensor.primitives.identities",
    "functensor.primitives.indexing": "functensor.primitives.shape.index",
    "functensor.primitives.joining": "functensor.primitives.shape.join_split",
    "functensor.primitives.logic": "functensor.primitives.elementwise.comparison",
    "functensor.primitives.logistic": "functensor.primitives.elementwise.logistic",
    "functensor.primitives.losses": "functensor.primitives.nn.cross_entropy",
    "functensor.primitives.manipulation": "functensor.primitives.shape.reshape_transpose",
    "functensor.primitives.marks": "functensor.primitives.identities",
    "functensor.primitives.matrices": "functensor.primitives.linalg.stacks",
    "functensor.primitives.matrix_functions": "functensor.primitives.linalg.matrix_functions",
    "functensor.primitives.modified_bessel": "functensor.primitives.special.modified_bessel",
    "functensor.primitives.normalization": "functensor.primitives.nn.layer_norm",
    "functensor.primitives.numbers": "functensor.primitives.elementwise.cast_and_complex",
    "functensor.primitives.padding": "functensor.primitives.shape.pad",
    "functensor.primitives.partitioning": "functensor.primitives.reduce.partition",
    "functensor.primitives.pivoting": "functensor.primitives.linalg.column_pivots",
    "functensor.primitives.placement": "functensor.primitives.device",
    "functensor.primitives.pooling": "functensor.primitives.nn.pooling",
    "functensor.primitives.primitive": "functensor.primitives.core.primitive",
    "functensor.primitives.random_bits": "functensor.primitives.random.bits",
    "functensor.primitives.random_dropout": "functensor.primitives.random.dropout",
    "functensor.primitives.random_laws": "functensor.primitives.random.rejection",
    "functensor.primitives.reductions": "functensor.primitives.reduce.reductions",
    "functensor.primitives.selection": "functensor.primitives.elementwise.where_and_extrema",
    "functensor.primitives.signals": "functensor.primitives.contract.correlate",
    "functensor.primitives.solving": "functensor.primitives.linalg.solving",
    "functensor.primitives.sorting": "functensor.primitives.reduce.sort",
    "functensor.primitives.special_bessel": "functensor.primitives.special.bessel",
    "functensor.primitives.special_complex": "functensor.primitives.special.complex_error",
    "functensor.primitives.special_entropy": "functensor.primitives.special.entropy",
    "functensor.primitives.special_error": "functensor.primitives.special.error",
    "functensor.primitives.special_gamma": "functensor.primitives.special.gamma",
    "functensor.primitives.special_incomplete": "functensor.primitives.special.incomplete",
    "functensor.primitives.special_integrals": "functensor.primitives.special.integrals",
    "functensor.primitives.special_zeta": "functensor.primitives.special.zeta",
    "functensor.primitives.triangular": "functensor.primitives.linalg.triangular",
    "functensor.primitives.trigonometric": "functensor.primitives.elementwise.trigonometric",
    "functensor.primitives.types": "functensor.primitives.core.shape_dtype",
    "functensor.primitives.updates": "functensor.primitives.shape.index_update",
    "functensor.primitives.variance": "functensor.primitives.reduce.variance",
    "functensor.residuals": "functensor.checkpointing.saved_residuals",
    "functensor.scipy.stats.law": "functensor.scipy.stats.distribution",
    "functensor.scopes": "functensor.programs.named_scope",
    "functensor.staging": "functensor.programs.staging",
    "functensor.transformed": "functensor.functions.wrapping",
    "functensor.user_ops": "functensor.custom.kernel_op",
    "functensor.vectorize": "functensor.transforms.vmap",
}


class OldNames:
    """The last of Python's finders of modules: it finds what no other does, by an old name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to make a module of an old name."""
        return ModuleSpec(name, self, is_package=True) if name in MOVED_MODULES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns a module that has the names of the one that took its place."""
        module = ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = lambda name: getattr(import_module(MOVED_MODULES[spec.name]), name)  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Finds that the module which took its place is there."""
        import_module(MOVED_MODULES[module.__name__])
