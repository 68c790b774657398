"""Functions that are transformed: their arguments, closures and wrappers."""
