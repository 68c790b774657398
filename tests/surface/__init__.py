"""The public functions, each as calls that NumPy or SciPy understands too; see ``harness.py``."""
