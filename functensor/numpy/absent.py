"""Names of NumPy's main namespace that are left out on purpose, each with what to use instead."""

from __future__ import annotations

__all__ = ["ABSENT_NAMES"]

IMMUTABLE = "arrays are immutable: "
FILES = "such files are read with plain numpy: "
DTYPES_OF_ARRAYS = "arrays hold float16 to float64, complex64 and complex128"
NO_TEXT = "arrays hold numbers, no text"
NO_TIME = "arrays hold numbers, no dates"
NO_OBJECTS = "arrays hold numbers, no objects or records"
NO_MATRIX = "there is one class of arrays, not one for matrices: "
ABSENT_NAMES: dict[str, str] = {
    "put": IMMUTABLE + "x = x.at[i].set(v)",
    "place": IMMUTABLE + "x = np.where(mask, v, x)",
    "putmask": IMMUTABLE + "x = np.where(mask, v, x)",
    "copyto": IMMUTABLE + "x = np.where(mask, v, x), or x = np.broadcast_to(v, x.shape)",
    "nditer": IMMUTABLE + "vmap, or np.ndindex(x.shape)",
    "nested_iters": IMMUTABLE + "vmap, or np.ndindex(x.shape)",
    "flatiter": IMMUTABLE + "x.ravel()",
    "shares_memory": IMMUTABLE + "whether two share memory cannot be seen",
    "may_share_memory": IMMUTABLE + "whether two share memory cannot be seen",
    "isfortran": "how elements lie in memory is open",
    "broadcast": "np.broadcast_shapes, np.broadcast_arrays",
    "frompyfunc": NO_OBJECTS + ": np.vectorize",
    "ufunc": "functions are no ufuncs: ft.vmap, np.vectorize; x.at[i].add for ufunc.at",
    "random": "functensor.random, whose functions take keys",
    "testing": "functensor.testing",
    "poly1d": "coefficients are arrays: np.polyval(p, x), np.polyder(p), np.roots(p)",
    "polynomial": "coefficients are arrays: np.polyfit, np.polyval, np.roots",
    "emath": "give complex numbers: np.sqrt(x.astype(complex))",
    "ma": "np.where, where= of reductions, and the functions that leave out NaN",
    "ctypeslib": "numpy.ctypeslib, with numpy.asarray(x)",
    "exceptions": "numpy.exceptions",
    "typing": "numpy.typing",
    "lib": "numpy.lib",
    "core": "a private module of NumPy",
    "f2py": "a tool of NumPy's own; ft.extend brings in foreign functions",
    "get_include": "numpy.get_include; arrays have no interface in C",
    "info": "help(function)",
    "show_config": "functensor.backends.info()",
    "show_runtime": "functensor.backends.info()",
    "test": "the tests are in functensor's repository",
    "little_endian": "sys.byteorder",
    "__version__": "functensor.__version__, numpy.__version__",
    "bmat": NO_MATRIX + "np.block",
    "matrix": NO_MATRIX + "np.array",
    "asmatrix": NO_MATRIX + "np.asarray",
    "memmap": FILES + "np.asarray(numpy.memmap(path))",
    **dict.fromkeys(
        ("loadtxt", "genfromtxt", "fromfile", "fromregex"),
        FILES + "np.asarray(numpy.loadtxt(path))",
    ),
    **dict.fromkeys(("longdouble", "clongdouble", "float128", "complex256"), DTYPES_OF_ARRAYS),
    **dict.fromkeys(("float96", "complex192"), DTYPES_OF_ARRAYS),
    **dict.fromkeys(("str_", "bytes_", "character", "char", "strings"), NO_TEXT),
    **dict.fromkeys(("object_", "void", "flexible", "rec", "recarray", "record"), NO_OBJECTS),
    **dict.fromkeys(("datetime64", "timedelta64", "datetime_as_string", "datetime_data"), NO_TIME),
    **dict.fromkeys(("isnat", "busday_count", "busday_offset", "is_busday"), NO_TIME),
    **dict.fromkeys(("busdaycalendar",), NO_TIME),
}
