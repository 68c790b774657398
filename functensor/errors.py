"""Every error and warning that functensor raises of its own, to be caught by name.

They derive from the built-in classes that users of NumPy, JAX or PyTorch already catch;
``docs/errors.md`` explains them, with wrong and right code for each.

>>> import functensor as ft
>>> try:
...     ft.jit(lambda x: x if x > 0 else -x)(1.0)
... except ft.errors.ConcretizationError as error:
...     print(str(error).partition(",")[0])
bool() asked for the value of bool[]
"""

from .backends.extras import MissingExtraError
from .control.types import BodyTypeError
from .key_reuse import KeyReuseWarning
from .numpy.linalg.arguments import MatrixShapeError
from .primitives.donation import DonatedArrayError
from .primitives.errors import (
    AxisSizeError,
    BackendUnavailable,
    BackwardError,
    ConcretizationError,
    DeviceError,
    EscapedTracerError,
    GradientInputError,
    ImmutableArrayError,
    MissingGradientError,
    MissingGradientWarning,
    MissingRuleError,
    NonFiniteError,
    NonScalarOutputError,
    OperandError,
    ReplayError,
    RuleResultError,
    ShapeError,
    TracerConversionError,
    UnusedUpdateWarning,
)
from .programs import ProgramError
from .retracing import RetraceError, RetraceWarning
from .signatures import StaticArgumentError
from .staging_warnings import StagingWarning
from .user_ops import NoKernel

__all__ = [
    "AxisSizeError",
    "BackendUnavailable",
    "BackwardError",
    "BodyTypeError",
    "ConcretizationError",
    "DeviceError",
    "DonatedArrayError",
    "EscapedTracerError",
    "GradientInputError",
    "ImmutableArrayError",
    "KeyReuseWarning",
    "MatrixShapeError",
    "MissingExtraError",
    "MissingGradientError",
    "MissingGradientWarning",
    "MissingRuleError",
    "NoKernel",
    "NonFiniteError",
    "NonScalarOutputError",
    "OperandError",
    "ProgramError",
    "ReplayError",
    "RetraceError",
    "RetraceWarning",
    "RuleResultError",
    "ShapeError",
    "StagingWarning",
    "StaticArgumentError",
    "TracerConversionError",
    "UnusedUpdateWarning",
]
