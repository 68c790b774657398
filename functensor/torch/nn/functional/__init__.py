"""PyTorch's layers, activations and losses as functions: ``torch.nn.functional``.

>>> import functensor.torch as torch
>>> import functensor.torch.nn.functional as F
>>> F.relu(torch.tensor([-1.0, 2.0])).tolist()
[0.0, 2.0]
"""

from __future__ import annotations

from ....faces.publish import publish
from . import (
    activations,
    ctc,
    in_place,
    layers,
    losses,
    margins,
    normalization,
    resizing,
    sampling,
    tables,
    windows,
)
from . import dropout as dropping
from .activations import *
from .ctc import *
from .dropout import *
from .in_place import *
from .layers import *
from .losses import *
from .margins import *
from .normalization import *
from .resizing import *
from .sampling import *
from .tables import *
from .windows import *

__all__: list[str] = []
__all__ += activations.__all__
__all__ += ctc.__all__
__all__ += dropping.__all__
__all__ += in_place.__all__
__all__ += layers.__all__
__all__ += losses.__all__
__all__ += margins.__all__
__all__ += normalization.__all__
__all__ += resizing.__all__
__all__ += sampling.__all__
__all__ += tables.__all__
__all__ += windows.__all__

publish(globals())
