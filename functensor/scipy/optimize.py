"""SciPy's ``optimize``."""
