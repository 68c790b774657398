"""SciPy's ``special``."""
