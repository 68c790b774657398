"""SciPy's ``signal``."""
