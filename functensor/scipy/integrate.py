"""SciPy's ``integrate``."""
