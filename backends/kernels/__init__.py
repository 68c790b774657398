"""The language of kernels, which knows neither a processor nor a program.

A kernel is a loop nest over a grid. ``graph.py`` has what is computed, ``schedule.py`` makes the
loops, ``kernel.py`` is the result, ``check.py`` proves it, ``interpret.py`` runs it slowly, and
printers for processors stand elsewhere.
"""
