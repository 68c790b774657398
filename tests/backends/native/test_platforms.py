"""Objects for other systems and processors, which LLVM makes on any of them.

Nothing of them runs here. What they ask of the process that links them is known, though: functions
that the system's libraries have, and places for addresses that LLVM's linker knows how to fill.
"""

import re
from functools import cache

import numpy as np
import pytest
from support.long_forms import with_slow
from support.native import missing
from support.object_files import needs_of

import functensor as ft
import functensor.numpy as fnp
from functensor import nn
from functensor.backends import processor
from functensor.backends.cpu.plan.native import formulas, native_run, segments
from functensor.backends.native import c_library, entry, instructions, team, told_flags
from functensor.backends.native.blas import (
    BLAS_SYMBOLS,
    LAPACK_FUNCTIONS,
    VECTOR_SYMBOLS,
    lapack_symbol,
)
from functensor.backends.native.machine import InstructionSet, Llvm, in_step, machine_code

pytestmark = pytest.mark.skipif(bool(missing), reason=missing)

NEW_X86 = "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
MACHINES = {
    name: InstructionSet(*machine)
    for name, machine in {
        "linux-avx2": ("AVX2", 32, "haswell", "+avx2,+fma,+f16c", "x86_64-unknown-linux-gnu"),
        "linux-avx512": ("AVX-512", 64, "skylake-avx512", NEW_X86, "x86_64-unknown-linux-gnu"),
        "linux-neon": ("NEON", 16, "generic", "", "aarch64-unknown-linux-gnu"),
        "linux-sve": ("NEON", 16, "neoverse-v2", "+sve,+sve2", "aarch64-unknown-linux-gnu"),
        "macos-avx2": ("AVX2", 32, "haswell", "+avx2,+fma,+f16c", "x86_64-apple-macosx11"),
        "macos-neon": ("NEON", 16, "apple-m1", "", "arm64-apple-macosx11"),
        "windows-avx2": ("AVX2", 32, "haswell", "+avx2,+fma,+f16c", "x86_64-pc-windows-msvc"),
        "windows-avx512": ("AVX-512", 64, "skylake-avx512", NEW_X86, "x86_64-pc-windows-msvc"),
        "windows-neon": ("NEON", 16, "generic", "", "aarch64-pc-windows-msvc"),
    }.items()
}
# Objects for these are like those for others of the system, and are looked at in the long form.
SELDOM = ("linux-avx512", "linux-sve", "windows-avx512", "windows-neon")
# Functions of C99, which all three systems have for both sizes of floats.
C99 = {name for name in c_library.MATH if name not in ("exp10", "roundeven", "sincos")}
EVERYWHERE = {
    *C99, *[f"{name}f" for name in C99], *("memcpy", "memmove", "memset"), *c_library.PYTHON,
    *BLAS_SYMBOLS.values(), *VECTOR_SYMBOLS.values(),
    *[lapack_symbol(f, c) for f in LAPACK_FUNCTIONS for c in "fd"],
}  # fmt: skip
OF_SYSTEM = {
    "linux": {"sincos", "sincosf", "exp10", "exp10f", "sched_yield"},
    "macos": {
        *("__bzero", "bzero", "memset_pattern16", "sched_yield"),
        *("__exp10", "__exp10f", "__sincos_stret", "__sincosf_stret"),
    },
    "windows": {"__chkstk"},
}
# The kinds of places that LLVM's linker of each format fills, by the formats' own numbers.
PLACES = {
    # Distances of 32 bits, to functions, to constants, to addresses; whole addresses and distances.
    "linux-x86_64": {1, 2, 4, 9, 24, 41, 42},
    # Calls and jumps; pages, and the low bits of an address as each size of a load has them.
    "linux-aarch64": {257, 260, 261, 275, 277, 278, 282, 283, 284, 285, 286, 299, 311, 312},
    "macos-x86_64": {0, 1, 2, 3, 4, 5, 6, 7, 8},
    "macos-arm64": {0, 1, 2, 3, 4, 5, 6},
    # Addresses of 64 bits, offsets within the image, which are those of tables for unwinding, and
    # distances of 32 bits.
    "windows-x86_64": {1, 3, 4},
    # Offsets within the image, calls, pages and the low bits of addresses; addresses of 64 bits.
    "windows-aarch64": {2, 3, 4, 6, 7, 14},
}

PRODUCT_AND_SUM = """
define <4 x double> @f(<4 x double> %x, <4 x double> %y, <4 x double> %z) {
  %p = fmul <4 x double> %x, %y
  %s = fadd <4 x double> %p, %z
  ret <4 x double> %s
}
"""


def cell(h, x):
    h = fnp.tanh(h @ fnp.eye(40) * 0.5 + x)
    return h, h


def solved(i, a):
    factor = fnp.linalg.cholesky(a @ a.T + fnp.eye(5))
    return fnp.linalg.solve(a, factor) * fnp.linalg.det(a)


def walk(i, state):
    key, x = state
    key, own = ft.random.split(key)
    return key, x.at[i % 50].set(ft.random.normal(own)).at[3].add(2.5)


def doubled(i, state):
    return tuple([2 * x for x in state])


X, KEY = np.ones((64, 48)), ft.random.key(3)
IMAGES = np.ones((2, 3, 9, 40)), np.ones((4, 3, 3, 3))
WHOLE, COMPLEX = np.arange(-30, 30), np.ones((6, 8), complex)
# Functions of all kinds of code, with arguments.
GOLDEN = {
    "a layer": (lambda x, w, b: fnp.tanh(x @ w.T + b), [X, X, X[:, 0]]),
    "a layer of float32": (lambda x, w: nn.softmax(nn.gelu(x @ w.T)), [X.astype("f4")] * 2),
    "losses": (lambda x, y: nn.softmax_cross_entropy(x, y), [X, np.arange(64) % 48]),
    "elements": (lambda x: (fnp.sin(x) + fnp.cos(x), fnp.log1p(x) ** 2.3, x % 1.7), [X]),
    "narrow floats": (lambda x: (x * 2, fnp.exp(x), fnp.sum(x, 0)), [X.astype("f2")]),
    "wide to narrow floats": (lambda x: ((x * 2).astype("f2"), x.astype("f4")), [X]),
    "extrema": (lambda x: (fnp.maximum(x, 0.5), fnp.fmin(x, 0), x.max(1), nn.relu(x)), [X]),
    "floats to integers": (lambda x: ((x + 1).astype("i4"), (2 * x).astype("u1")), [X]),
    "integers": (lambda n: (n // 7, n % 7, n << 2, fnp.sum(n * n), n.astype("f4")), [WHOLE]),
    "complex numbers": (lambda z: (z * fnp.exp(z), fnp.sqrt(z), fnp.sum(abs(z))), [COMPLEX]),
    "gathers": (lambda x, n: fnp.sin(x[n]) + fnp.roll(x, 3, 0)[n], [X, WHOLE]),
    "convolutions": (lambda x, w: nn.relu(nn.conv(x, w)), IMAGES),
    "a recurrence": (lambda xs: ft.scan(cell, fnp.zeros(40), xs), [np.ones((100, 40))]),
    "products so far": (
        lambda x: ft.fori_loop(0, 9, lambda i, c: fnp.cumprod(c, 0) * 0.1, x), [X]
    ),
    "shared weights": (
        lambda w, x: ft.fori_loop(0, 9, lambda i, h: fnp.tanh(h @ w), x),
        [np.ones((40, 40)), np.ones((6, 40))],
    ),
    "a long loop": (lambda x: ft.fori_loop(0, 10**7, lambda i, c: fnp.sin(c) * i, x), [X[0]]),
    "constant rows": (lambda x: ft.fori_loop(0, 9, lambda i, c: c.at[i].set(2.5), x), [X]),
    "matrices": (lambda a: ft.fori_loop(0, 9, solved, a), [2 * np.eye(5)]),
    "random numbers": (lambda x: ft.fori_loop(0, 9, walk, (KEY, x))[1], [np.zeros(50)]),
    "many carries": (lambda *x: ft.fori_loop(0, 9, doubled, x), [X] * 20),
}  # fmt: skip


@cache
def texts(name, on_x86, yields):
    """Returns the texts of a function's kernels: its plan's, and its derivative's."""
    function, args = GOLDEN[name]
    found = []

    def noted(text, names, *rest):
        found.append(text)
        return machine_code(text, names, *rest)

    def total(*given):
        leaves = ft.tree.leaves(function(*given))
        return sum(fnp.sum(abs(x) if x.dtype.kind == "c" else x) for x in leaves)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formulas, "IS_X86_64", on_x86)
        patch.setattr(told_flags, "IS_X86_64", on_x86)
        patch.setattr(formulas, "IS_ARM64", not on_x86)
        for module in (formulas, instructions):
            patch.setattr(module, "ZEROS_ARE_ORDERED", not on_x86)
        for module in (native_run, segments):
            patch.setattr(module, "machine_code", noted)
        if not yields:
            patch.setattr(team, "yielding_call", str)
        assert ft.jit(function).compile(*args).explain().endswith("as machine code")
        if args[0].dtype.kind == "f":
            ft.jit(ft.grad(total)).compile(*args)
    assert found
    return tuple(found)


@cache
def llvm_for(name):
    """Returns LLVM set up for a machine."""

    def prepared():
        llvm = pytest.importorskip("llvmlite.binding")
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        return Llvm(MACHINES[name])

    return in_step(prepared)


def pausing(text, machine):
    """Returns a text that pauses as a machine's processor does, not as this one."""
    own, other = team.PAUSES[processor.IS_ARM64], team.PAUSES[is_arm(machine)]
    text = text.replace(f"call void @{own[0]}({own[1]})", f"call void @{other[0]}({other[1]})")
    kinds = [given.partition(" ")[0] for _, given in (own, other)]
    return text.replace(f"void @{own[0]}({kinds[0]})", f"void @{other[0]}({kinds[1]})")


def system_of(name):
    return name.partition("-")[0]


def processor_of(name):
    return f"{system_of(name)}-{MACHINES[name].triple.partition('-')[0]}"


def is_arm(name):
    return MACHINES[name].name == "NEON"


def test_all_of_that_is_looked_for():
    own = {name for name in EVERYWHERE if name.startswith("functensor_")} | {*c_library.PYTHON}
    math = {*c_library.MATH, *[f"{name}f" for name in c_library.MATH]}
    for names in (EVERYWHERE - own, *OF_SYSTEM.values()):
        assert names <= math | {*c_library.COMPILER_SUPPORT, *c_library.SYSTEM}


@pytest.mark.parametrize("machine", with_slow(MACHINES, SELDOM))
@pytest.mark.parametrize("name", GOLDEN)
def test_objects_need_what_every_system_has(name, machine):
    known = EVERYWHERE | OF_SYSTEM[system_of(machine)]
    for text in texts(name, not is_arm(machine), system_of(machine) != "windows"):
        needs = needs_of(llvm_for(machine).image(pausing(text, machine)))
        # The mark of floats is for Microsoft's linker: nothing holds its address.
        assert needs.undefined - {"_fltused"} <= known
        assert "_fltused" not in needs.placed
        assert needs.kinds <= PLACES[processor_of(machine)]


@pytest.mark.parametrize("machine", MACHINES)
def test_entries_need_nothing_but_room_on_the_stack(machine):
    text = entry.ENTRY_TEXT.format(data=16, class_=8, interrupted=entry.INTERRUPTED)
    needs = needs_of(llvm_for(machine).image(text))
    assert needs.placed == (OF_SYSTEM["windows"] if machine.startswith("windows") else set())
    assert needs.kinds <= PLACES[processor_of(machine)]


@pytest.mark.parametrize("machine", MACHINES)
def test_products_and_sums_are_rounded_each(machine):
    assembly = str(llvm_for(machine).translated(PRODUCT_AND_SUM, "emit_assembly"))
    assert re.search(r"\bv?(f?mul)", assembly)
    assert not re.search(r"\bf?n?m(add|la|ls|sub)|\bvf", assembly)


@pytest.mark.parametrize("machine", [x for x in MACHINES if x.startswith("windows")])
def test_large_frames_touch_the_stack_page_by_page(machine):
    frame = """
define void @f(ptr %to) {
  %frame = alloca [40000 x i8]
  call void @g(ptr %frame)
  ret void
}
declare void @g(ptr)
"""
    needs = needs_of(llvm_for(machine).image(frame))
    assert needs.placed == {"g", "__chkstk"}
    assert not needs_of(llvm_for(machine).image(frame.replace("40000", "400"))).placed - {"g"}
