"""Balance of sharing work outside of plans: the time that it has saved, less what it has cost.

Where other processes want the cores, a thread that has a part waits for its core, and the caller
for the part. Few pieces of work wait, each for some milliseconds. So what they cost is added up.
"""

from __future__ import annotations

__all__ = ["Balance", "balance"]

# Where shared work has cost so many seconds, it is done on one thread for a while. That doubles
# each time, until shared work has saved as much in a row.
MOST_LOST, FIRST_REST, LONGEST_REST = 0.002, 0.1, 6.4


class Balance:
    """Adds up what sharing saves, and what it costs.

    Attributes:
        rests_until: the time until which nothing is shared.
    """

    def __init__(self) -> None:
        self.rests_until = 0.0
        self._saved = 0.0
        self._rest = FIRST_REST

    def add(self, saved: float, now: float) -> None:
        """Notes how many seconds sharing has saved, a negative number if it cost some."""
        self._saved = min(self._saved + saved, MOST_LOST)
        if self._saved == MOST_LOST:
            self._rest = FIRST_REST
        elif self._saved < -MOST_LOST:
            self.rests_until = now + self._rest
            self._rest = min(2 * self._rest, LONGEST_REST)
            self._saved = 0.0


balance = Balance()
