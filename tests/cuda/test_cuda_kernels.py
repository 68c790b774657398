"""The CUDA kernels without a GPU: they compile for every architecture, and launches fit them."""

import ast
import importlib
import re
from functools import cache, partial
from pathlib import Path

import pytest
from support import nvrtc

FOLDER = Path(__file__).resolve().parents[2] / "backends" / "cuda"
FAMILIES = sorted(path.stem for path in FOLDER.rglob("*.cu"))
MODULES = sorted(
    ".".join(path.relative_to(FOLDER).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if path.stem != "__init__"
)
# Importing it registers the backend, which needs a GPU.
NEEDS_GPU = {"backend"}
# Every instance of all kernels is compiled for this one, the first of each for the others.
MEASURED = 90
# Says how many registers each kernel takes, and what does not fit into them.
OPTIONS = ("--ptxas-options=-v",)
SPILLS = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores", re.DOTALL)
# Bytes a thread: what holds a long piece of a row in registers may leave a few of them in memory.
MOST_SPILLED = 256


@cache
def launch():
    """Returns the module ``launch``, once all kernels are declared."""
    pytest.importorskip("cupy", reason="needs CuPy: pip install cupy-cuda13x")
    for name in MODULES:
        if name not in NEEDS_GPU:
            importlib.import_module(f"functensor.backends.cuda.{name}")
    return importlib.import_module("functensor.backends.cuda.launch")


def kernels(family):
    """Returns what a family's kernels are declared as."""
    return [kernel for kernel in launch().CUDA_KERNELS if kernel.family == family]


# Compilation


@nvrtc.on_every_architecture
@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_compile(family, architecture):
    instances = [
        kernel.expression(types)
        for kernel in kernels(family)
        for types in kernel.instances[: None if architecture == MEASURED else 1]
    ]
    source, options = launch().source(family), (*launch().COMPILER_OPTIONS, *OPTIONS)
    made = nvrtc.compiled(source, architecture, options, instances)
    assert made.cubin.startswith(b"\x7fELF"), made.log
    assert made.warnings == []
    assert all(name.encode() in made.cubin for name in made.names.values())
    spills = {name: int(count) for name, count in SPILLS.findall(made.log)}
    assert spills.keys() >= set(made.names.values())
    assert {name: count for name, count in spills.items() if count > MOST_SPILLED} == {}


@nvrtc.needed
def test_what_the_compiler_refuses_is_told():
    made = nvrtc.compiled("__global__ void f(float *x) { *x = y; }", MEASURED)
    assert made.cubin == b""
    assert 'identifier "y" is undefined' in made.log


@nvrtc.needed
@pytest.mark.parametrize(
    ("header", "name"), [("common", "INFINITY_OF({})"), ("region", "infinity<{}>()")]
)
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_infinity_is_no_quotient(header, name, dtype):
    text = f'''#include "{header}.cuh"
extern "C" __global__ void limited({dtype} *x) {{
    if (x[threadIdx.x] == {name.format(dtype)}) x[threadIdx.x] = 0;
}}
'''
    made = nvrtc.compiled(launch().included(text), MEASURED, launch().COMPILER_OPTIONS)
    assert b"limited" in made.cubin, made.log
    # The function by which the machine divides.
    assert b"__cuda_sm" not in made.cubin


# Parameters of kernels, as they are written and as they are declared


def parameters(text):
    """Returns the letters of the parameters of every kernel in a source."""
    plain = expanded(re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL))
    structs = set(re.findall(r"\bstruct\s+(?:alignas\(.*?\)\s+)?(\w+)", plain))
    found = {}
    for match in re.finditer(
        r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
        r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\)",
        plain,
    ):
        letters = [letter(part, structs) for part in split(match[2]) if part.strip()]
        found[match[1]] = "".join(letters)
    return found


def expanded(text):
    """Returns a text with its macros put in, those of at most one argument."""
    text = text.replace("\\\n", " ")
    define = re.compile(r"^#define (\w+)(?:\((\w+)\))?(.*)$", re.MULTILINE)
    for name, argument, body in define.findall(text):
        text = re.sub(rf"^#define {name}\b.*$", "", text, flags=re.MULTILINE)
        use = rf"\b{name}\b" + (r"\((\w+)\)" if argument else "")
        text = re.sub(use, partial(put_in, body, argument), text)
    return text


def put_in(body, argument, match):
    """Returns the body of a macro where it is used."""
    if argument:
        body = re.sub(rf"\b{argument}\b", match[1], body)
    return body.replace("##", "")


def split(text):
    """Returns the parts between the commas that are outside of angle brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def letter(parameter, structs):
    """Returns the letter of one parameter's type, given the names of all structs."""
    words = re.sub(r"\b(?:const|__restrict__|__grid_constant__)\b", " ", parameter)
    kind = re.sub(r"\w+\s*$", "", words).strip()
    if kind.endswith("*"):
        return "p"
    by_value = {"long long": "l", "index_t": "l", "double": "d"}
    return by_value.get(kind, "t" if kind.partition("<")[0] in structs else f"[{kind}]")


@pytest.mark.parametrize("family", FAMILIES)
def test_declarations_are_those_of_the_source(family):
    written = parameters(launch().source(family))
    declared = {kernel.name: kernel.parameters for kernel in kernels(family)}
    assert declared == written


def test_every_family_has_a_source():
    assert {kernel.family for kernel in launch().CUDA_KERNELS} == set(FAMILIES)


def test_no_instance_is_named_twice():
    for kernel in launch().CUDA_KERNELS:
        assert len(set(kernel.instances)) == len(kernel.instances), kernel


def test_planted_declarations_are_told_apart():
    source = """
#define PLACE long long at, \\
              index_t length
#define STRIDES(x) index_t x##0, index_t x##1
    __global__ void walk(PLACE, STRIDES(out), double *last) {}
    template <int N, typename T> struct table {};
    template <typename T> __global__ void __launch_bounds__(THREADS)
    scale(const T *__restrict__ x, /* y, */ T* out, index_t n, double by, const table<4, T> t) {}
    __global__ void wrong(int n) {} // __global__ void gone(double x)
    __global__ __launch_bounds__(32) void nothing() {}
    """
    found = {"walk": "llllp", "scale": "ppldt", "wrong": "[int]", "nothing": ""}
    assert parameters(source) == found


# Arguments of launches


def launches(tree, module):
    """Yields every launch in a module's code: the call, and the kernels that it may be of.

    A kernel is called by its name in the module, out of a container of kernels there, or by a name
    in a function that stands for one of these.
    """
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        known = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                known.setdefault(node.targets[0].id, set()).update(meant(node.value, module, {}))
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and (found := meant(node.func, module, known)):
                yield node, found


def meant(node, module, known):
    """Returns the kernels that an expression may stand for."""
    kernel = launch().Kernel
    if isinstance(node, ast.IfExp):
        return meant(node.body, module, known) | meant(node.orelse, module, known)
    if isinstance(node, ast.Name):
        value = getattr(module, node.id, None)
        return {value} if isinstance(value, kernel) else known.get(node.id, set())
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        held = getattr(module, node.value.id, ())
        values = held.values() if isinstance(held, dict) else held
        values = values if isinstance(values, list | tuple) else [*values]
        return {value for value in values if isinstance(value, kernel)}
    return set()


def misfit(call, kernel):
    """Returns what is wrong with a launch, and an empty string where nothing is."""
    if not {word.arg for word in call.keywords} <= {"shared"}:
        return "it has keywords other than shared"
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    given, wanted = len(call.args) - 3, len(kernel.parameters)
    if given != wanted and not (starred and given - 1 <= wanted):
        return f"it passes {given} arguments to {wanted} parameters"
    for argument, kind in zip(call.args[3:], kernel.parameters):
        if isinstance(argument, ast.Starred):
            break
        if isinstance(argument, ast.Constant) and kind != CONSTANTS[type(argument.value)]:
            return f"{ast.unparse(argument)} is passed for {kind!r}"
    return ""


CONSTANTS = {type(None): "p", bool: "l", int: "l", float: "d"}


@cache
def all_launches():
    """Returns every launch of the backend: where it is, the call, and the kernels."""
    found = []
    for name in MODULES:
        if name not in NEEDS_GPU:
            launch()
            module = importlib.import_module(f"functensor.backends.cuda.{name}")
            tree = ast.parse(Path(module.__file__).read_text())
            found += [(f"{name}.py:{call.lineno}", call, k) for call, k in launches(tree, module)]
    return found


def test_launches_fit_the_kernels():
    wrong = {
        f"{place}: {kernel.name}": what
        for place, call, found in all_launches()
        for kernel in found
        if (what := misfit(call, kernel))
    }
    assert wrong == {}


def test_every_kernel_is_launched_somewhere():
    launched = {id(kernel) for _, _, found in all_launches() for kernel in found}
    assert [kernel for kernel in launch().CUDA_KERNELS if id(kernel) not in launched] == []


def test_planted_launches_are_found_and_checked(monkeypatch):
    monkeypatch.setattr(launch(), "CUDA_KERNELS", [])
    scale = launch().Kernel("planted", "scale", "pld")
    module = type("module", (), {"SCALE": scale, "BY_NAME": {"scale": scale}})
    calls = {
        "SCALE('float', 1, 32, x, n, 2.0)": "",
        "SCALE('float', 1, 32, x, n, 2.0, shared=4)": "",
        "SCALE('float', 1, 32, x, *rest)": "",
        "BY_NAME[name]('float', 1, 32, x, n)": "it passes 2 arguments to 3 parameters",
        "chosen('float', 1, 32, x, n, 2)": "2 is passed for 'd'",
        "SCALE('float', 1, 32, x, n, 2.0, stream=s)": "it has keywords other than shared",
        "other(x)": None,
    }
    for text, expected in calls.items():
        body = f"def f(x):\n    chosen = SCALE if x else None\n    {text}"
        found = [*launches(ast.parse(body), module)]
        assert [kernels for _, kernels in found] == ([] if expected is None else [{scale}])
        assert [misfit(call, scale) for call, _ in found] == [expected] * len(found)


def test_places_of_large_convolutions_have_64_bits():
    from math import prod
    from types import SimpleNamespace

    from functensor.backends.cuda.kernels.convolution import INT_32, INT_64, place_type
    from functensor.primitives.contract.conv import Geometry

    word = SimpleNamespace(itemsize=4)

    def array(*shape):
        strides = [4 * prod(shape[i + 1 :]) for i in range(len(shape))]
        return SimpleNamespace(shape=shape, strides=strides, size=prod(shape), dtype=word)

    plain = Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    small, columns = array(8, 3, 32, 32), array(27, 8 * 32 * 32)
    assert place_type(small, columns, (3, 3), plain) == INT_32
    assert place_type(array(1024, 64, 181, 182), columns, (3, 3), plain) == INT_64
    assert place_type(small, array(64 * 9, 2**22), (3, 3), plain) == INT_64
    # Windows reach far behind the images.
    padded = Geometry((1, 1), ((0, 2**17), (0, 2**17)), (1, 1), 1)
    assert place_type(small, columns, (3, 3), padded) == INT_64
