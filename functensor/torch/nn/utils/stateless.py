"""Modules as functions of their parameters, by the older name: ``torch.nn.utils.stateless``."""

from __future__ import annotations

from ....faces.publish import publish
from ...func import functional_call

__all__ = ["functional_call"]

publish(globals())
