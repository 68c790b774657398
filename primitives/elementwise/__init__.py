"""Functions of one element of each operand."""
