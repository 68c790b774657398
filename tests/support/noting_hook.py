"""A hook that tests ask for what it was shown."""

from functensor.hooks import Hook

__all__ = ["Noting"]


class Noting(Hook):
    """Notes the operations that it sees, forward and backward."""

    def __init__(self):
        self.seen = []

    def forward(self, op, inputs, output):
        self.seen.append((op.phase, op.name))

    def backward(self, op, grad_inputs, grad_output):
        self.seen.append((op.phase, op.name))
