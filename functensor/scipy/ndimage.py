"""SciPy's ``ndimage``."""
