"""The text of plans: names, operands, calls of NumPy's functions and the legend."""
