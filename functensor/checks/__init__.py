"""Debugging switches of ``ft.config`` that look at every operation."""
