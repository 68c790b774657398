"""The doctor: what is installed, what is not, and the command that mends what does not fit.

The modules that the command runs import nothing but the standard library, so that it also works
where functensor itself cannot be imported. What needs functensor or other packages runs in other
processes: `probes`, `native`, `nvidia` and `trials`.
"""
