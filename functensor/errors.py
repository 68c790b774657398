"""Every error and warning that functensor raises of its own, to be caught by name.

They derive from the built-in classes that users of NumPy, JAX or PyTorch already catch;
``docs/errors.md`` explains them, with wrong and right code for each. A message names its section:
``python -m functensor.errors 7`` prints it, and `explain` returns it.

>>> import functensor as ft
>>> try:
...     ft.grad(lambda x: x * x)(ft.numpy.ones(3))
... except ft.errors.NonScalarOutputError as error:
...     print(type(error).__name__)
NonScalarOutputError
"""

import re
import sys
from pathlib import Path

from .backends.optional_modules import MissingExtraError
from .control.carry_types import BodyTypeError
from .custom.kernel_op import NoKernel
from .datasets.fetching import MissingFilesError
from .faces.publish import publish
from .files.file_errors import FileError, TreeMismatchError
from .jitting.retraces import RetraceError, RetraceWarning, StaleProgramError
from .jitting.signature import StaticArgumentError
from .numpy.linalg.arguments import MatrixShapeError
from .primitives.core.donation import DonatedArrayError
from .primitives.core.errors import (
    AxisSizeError,
    BackendUnavailable,
    BackwardError,
    CollectiveError,
    ConcretizationError,
    DeviceError,
    DistributedError,
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
from .programs.staging_warnings import StagingWarning
from .random.key_reuse import KeyReuseWarning

__all__ = [
    "AxisSizeError", "BackendUnavailable", "BackwardError", "BodyTypeError", "CollectiveError",
    "ConcretizationError", "DeviceError", "DistributedError", "DonatedArrayError",
    "EscapedTracerError", "FileError", "GradientInputError", "ImmutableArrayError",
    "KeyReuseWarning", "MatrixShapeError", "MissingExtraError", "MissingFilesError",
    "MissingGradientError", "MissingGradientWarning", "MissingRuleError", "NoKernel",
    "NonFiniteError", "NonScalarOutputError", "OperandError", "ProgramError", "ReplayError",
    "RetraceError", "RetraceWarning", "RuleResultError", "ShapeError", "StagingWarning",
    "StaleProgramError", "StaticArgumentError", "TracerConversionError", "TreeMismatchError",
    "UnusedUpdateWarning", "explain",
]  # fmt: skip

# The text is beside this module where it is installed, and in docs where it is not.
HERE = Path(__file__).resolve().parent
TEXTS = HERE / "errors.md", HERE.parent / "docs" / "errors.md"


def explain(number: int | None = None) -> str:
    """Returns what the documentation says of an error, with wrong and right code.

    Args:
        number: the number at the end of the error's message; None for the list of all.

    Returns:
        The section, in Markdown.

    Raises:
        ValueError: there is no such number.

    >>> import functensor as ft
    >>> print(ft.errors.explain(7).splitlines()[0])
    7. A gradient that does not exist
    """
    text = next(path for path in TEXTS if path.exists()).read_text(encoding="utf-8")
    parts = re.split(r'<a id="error-(\d+)"></a>\s*## ', text)
    sections = {int(n): body.strip() for n, body in zip(parts[1::2], parts[2::2], strict=True)}
    if number is None:
        return "\n".join(section.splitlines()[0] for section in sections.values())
    if number not in sections:
        raise ValueError(f"there is no error {number}; there are {', '.join(map(str, sections))}")
    return sections[number]


publish(globals())

if __name__ == "__main__":
    try:
        print(explain(*map(int, sys.argv[1:2])))
    except ValueError as error:
        sys.exit(str(error))
