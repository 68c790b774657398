"""Old names of modules, under which pickles of earlier versions look for what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED_MODULES", "OldNames"]

# The places of modules that pickles name, within functensor and within its primitives.
MOVED = {
    "collectives": "transforms.collectives", "derivatives": "transforms.jvp", "facade": "tensors",
    "facade.tensor": "tensors.tensor", "foreign": "custom.numpy_function",
    "gradients": "transforms.grad", "implicit": "custom.root", "jacobians": "transforms.jacobian",
    "jitting.history": "jitting.retraces",
    "residuals": "checkpointing.saved_residuals", "scipy.stats.law": "scipy.stats.distribution",
    "scopes": "programs.named_scope", "staging": "programs.staging",
    "transformed": "functions.wrapping", "user_ops": "custom.kernel_op",
    "vectorize": "transforms.vmap",
}  # fmt: skip
MOVED_PRIMITIVES = {
    "activation": "nn.activations", "activation_derivatives": "nn.activations",
    "arithmetic": "elementwise.arithmetic", "array": "core.array", "attention": "nn.attention",
    "banded": "linalg.banded", "bits": "elementwise.number_parts", "contraction": "contract.matmul",
    "convolution": "contract.conv", "cumulative": "reduce.cumulative",
    "decompositions": "linalg.decompositions", "einsum": "contract.einsum",
    "exponential": "elementwise.exponential", "filtering": "contract.linear_filter",
    "fourier": "contract.fourier", "identity": "identities", "indexing": "shape.index",
    "joining": "shape.join_split", "logic": "elementwise.comparison",
    "logistic": "elementwise.logistic", "losses": "nn.cross_entropy",
    "manipulation": "shape.reshape_transpose", "marks": "identities", "matrices": "linalg.stacks",
    "matrix_functions": "linalg.matrix_functions", "modified_bessel": "special.modified_bessel",
    "normalization": "nn.layer_norm", "numbers": "elementwise.cast_and_complex",
    "padding": "shape.pad", "partitioning": "reduce.partition", "pivoting": "linalg.column_pivots",
    "placement": "device", "pooling": "nn.pooling", "primitive": "core.primitive",
    "random_bits": "random.bits", "random_dropout": "random.dropout",
    "random_laws": "random.rejection", "reductions": "reduce.reductions",
    "selection": "elementwise.where_and_extrema", "signals": "contract.correlate",
    "solving": "linalg.solving", "sorting": "reduce.sort", "special_bessel": "special.bessel",
    "special_complex": "special.complex_error", "special_entropy": "special.entropy",
    "special_error": "special.error", "special_gamma": "special.gamma",
    "special_incomplete": "special.incomplete", "special_integrals": "special.integrals",
    "special_zeta": "special.zeta", "triangular": "linalg.triangular",
    "trigonometric": "elementwise.trigonometric", "types": "core.shape_dtype",
    "updates": "shape.index_update", "variance": "reduce.variance",
}  # fmt: skip
MOVED_MODULES = {f"functensor.{old}": f"functensor.{new}" for old, new in MOVED.items()}
MOVED_MODULES |= {
    f"functensor.primitives.{old}": f"functensor.primitives.{new}"
    for old, new in MOVED_PRIMITIVES.items()
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
