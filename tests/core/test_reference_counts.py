"""Counts of references: those among all operands, and among some."""

import numpy as np
import pytest

from functensor.primitives.core import reference_counts
from functensor.primitives.core.buffers import wrap

ALONE = reference_counts.ALONE_AMONG


def arrays(count):
    """Returns arrays, and the list of their buffers."""
    made = [wrap(np.ones(3)) for _ in range(count)]
    return made, [x._data for x in made]


@pytest.mark.skipif(not ALONE, reason="references are not counted here")
@pytest.mark.parametrize("places", [[0, 1, 2], [0, 2], [1]], ids=str)
def test_buffers_that_one_array_has_are_alone_among_all_and_among_some(places):
    made, buffers = arrays(3)
    assert reference_counts.references_among(buffers, places) == {ALONE}
    another = made[places[0]]._data
    assert ALONE + 1 in reference_counts.references_among(buffers, places)
    del another
    view = buffers[places[-1]][1:]
    assert ALONE + 1 in reference_counts.references_among(buffers, places)
    del view
    assert reference_counts.references_among(buffers, places) == {ALONE}
