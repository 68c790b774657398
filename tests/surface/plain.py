"""Public functions that are no operations on arrays, so that there is nothing to transform.

They make arrays, tell of dtypes, shapes and devices, or set options. Tests of their own hold what
they return.
"""

NUMPY = """
    arange array asarray astype broadcast_shapes can_cast diag_indices empty empty_like eye finfo
    from_dlpack full full_like identity iinfo indices iscomplexobj isdtype isrealobj isscalar
    issubdtype ix_ meshgrid ndim ones ones_like promote_types result_type shape size tri
    tril_indices triu_indices zeros zeros_like
"""

PLAIN = {f"numpy.{name}" for name in NUMPY.split()}
