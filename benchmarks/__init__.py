"""Benchmarks of functensor against the libraries its users would take instead."""
