"""Text of plans: names, operands and calls of NumPy's functions."""
