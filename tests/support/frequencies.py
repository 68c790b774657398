"""The distance that a frequency may have from its probability."""

import numpy as np


def assert_frequencies(counts, probabilities):
    """Asserts that every count is within five standard deviations of what its probability says.

    Args:
        counts: how often each case was drawn.
        probabilities: of the cases.
    """
    counts, p = np.asarray(counts), np.asarray(probabilities)
    draws = counts.sum()
    assert (np.abs(counts / draws - p) <= 5 * np.sqrt(p * (1 - p) / draws)).all(), counts / draws
