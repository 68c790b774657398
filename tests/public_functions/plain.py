"""Public functions that are no operations on arrays, so that there is nothing to transform.

They make arrays, tell of dtypes, shapes and devices, or set options. Tests of their own hold what
they return.
"""

NUMPY = """
    __array_namespace_info__ arange array array2string array_repr array_str asarray astype
    base_repr binary_repr broadcast_shapes can_cast common_type diag_indices einsum_path empty
    empty_like eye finfo format_float_positional format_float_scientific from_dlpack frombuffer
    fromiter fromstring full full_like get_printoptions getbufsize geterr geterrcall identity iinfo
    indices iscomplexobj isdtype isrealobj isscalar issubdtype iterable ix_ load meshgrid
    min_scalar_type mintypecode ndim ones ones_like printoptions promote_types result_type save
    savetxt savez savez_compressed set_printoptions setbufsize seterr seterrcall shape size tri
    tril_indices triu_indices typename zeros zeros_like
"""

SCIPY_FFT = "next_fast_len prev_fast_len"

PLAIN = {f"numpy.{name}" for name in NUMPY.split()}
PLAIN |= {f"scipy.fft.{name}" for name in SCIPY_FFT.split()}
