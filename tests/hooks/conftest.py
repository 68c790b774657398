"""Fixtures that several tests of hooks share."""

import pytest

from functensor.jitting.jitted import Jitted


@pytest.fixture
def runs(monkeypatch):
    """How often jitted functions ran operation by operation."""
    counted = []
    run = Jitted._as_written

    def written(self, args, kwargs):
        counted.append(self)
        return run(self, args, kwargs)

    monkeypatch.setattr(Jitted, "_as_written", written)
    return counted
