"""Functions and modules that run as plans, for `torch.compile`.

A plan takes what it reads beside its tensors for constants. ``pictures.py`` looks at these values,
and says at each later call whether they are as they were; ``looked_into.py`` says which count.
``states.py`` has the pictures of a function's calls, and ``module_reads.py`` tells which attributes
of modules a call reads. ``changes.py`` undoes what a call changes while a plan is made, and
``outside_calls.py`` ends calls that print or ask for the time. ``results.py`` has arguments and
constants in results. ``functions.py`` makes plans of functions, and ``modules.py`` plans of
modules, which are functions of their tensors.
"""
