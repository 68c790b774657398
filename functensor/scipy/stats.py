"""SciPy's ``stats``."""
