"""SciPy's ``linalg``."""
