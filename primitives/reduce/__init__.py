"""Sums, extrema, cumulative sums, sorting and other work along axes."""
