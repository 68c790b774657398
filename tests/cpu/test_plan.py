"""Plans compute what eager mode does for every primitive, and keep their memory to themselves."""

import gc
import re
import subprocess
import sys
import threading
import warnings
import weakref

import numpy as np
import pytest
from support.counted import peak_of
from support.long_forms import thinned
from support.registry_cases import operands_of

import functensor as ft
import functensor.numpy as fnp
import functensor.scipy.special  # its primitives are in the registry then
from functensor import nn
from functensor.backends import get as get_backend
from functensor.backends.cpu.plan.codegen.operands import lettered_name
from functensor.backends.cpu.plan.codegen.source import Source
from functensor.passes import fusion as fusion_pass
from functensor.passes.fusion import fusion
from functensor.passes.pipeline import optimized
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.registry import registry

BACKEND = get_backend("numpy")
# Straight and in blocks in turn, so that the short form has each sample in one of the two.
CASES = [
    pytest.param(primitive, sample, fused, id=f"{primitive.name}-{i}-{form}")
    for primitive in registry
    for i, sample in enumerate(primitive.samples)
    for fused, form in [(False, "straight"), (True, "blocks")][:: 1 - 2 * (i % 2)]
]
# Their sums are added up in another order in blocks.
ROUNDED = frozenset(
    {
        "affine_normalize", "cross_entropy", "log_softmax", "mean", "normalize",
        "normalize_grad", "softmax", "softmax_grad", "sum", "var",
    }
)  # fmt: skip


def plan_of(fun, *args, donated=(), fused=False):
    """Returns the plan of a function for arguments."""
    program = optimized(ft.make_program(fun)(*args))
    return BACKEND.plan(fusion(program, 1) if fused else program, donated)


@pytest.mark.parametrize(("primitive", "sample", "fused"), thinned(CASES, every=4))
def test_a_plan_computes_what_eager_mode_does(primitive, sample, fused, monkeypatch):
    monkeypatch.setattr(fusion_pass, "FEWEST_SMALLEST_REGIONS_TO_SHARE", 1)

    def fun(*operands):
        return primitive.bind(operands, sample.params)

    for dtype in primitive.dtypes:
        operands = operands_of(primitive, sample, dtype)
        before = [x.copy() for x in operands]
        wanted = fun(*map(wrap, operands))._data
        plan = plan_of(fun, *operands, fused=fused)
        for _ in range(2):
            (got,) = plan(operands)
            assert got.dtype == wanted.dtype
            assert np.shape(got) == np.shape(wanted)
            if fused and primitive.name in ROUNDED:
                rtol = 1e-6 if dtype == "f" else 1e-14
                np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)
            else:
                np.testing.assert_array_equal(got, wanted)
            assert not any(np.may_share_memory(got, x) for x in operands)
        for x, copy in zip(operands, before, strict=True):
            np.testing.assert_array_equal(x, copy)


def test_numbers_stay_numbers():
    x = np.float32(2.0)
    plan = plan_of(lambda x, y: (x * y, fnp.sin(x) + 1, y + 1), x, 3.0)
    product, sine, weak = plan([x, 3.0])
    assert type(product) is np.float32
    assert type(sine) is np.float32
    assert weak == 4.0
    assert type(weak) is float


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float16", "float32", "bool"])
@pytest.mark.parametrize("number", [2, 2.5, True, 1j])
def test_python_numbers_decide_no_dtype(dtype, number):
    x = np.ones(5, dtype)
    for fun in (fnp.multiply, fnp.add, fnp.less, fnp.maximum, fnp.power):
        try:
            wanted = fun(fnp.asarray(x), number)._data
        except TypeError:
            continue
        # As a constant of the program, and as an input whose value is not known.
        (constant,) = plan_of(lambda x, f=fun: f(x, number), x)([x])
        (given,) = plan_of(fun, x, number)([x, number])
        for got in (constant, given):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)


def test_whole_numbers_that_do_not_fit_are_refused_as_in_eager_mode():
    x = np.ones(3, "uint8")
    with pytest.raises(OverflowError, match="300"):
        fnp.add(fnp.asarray(x), 300)
    with pytest.raises(OverflowError, match="300"):
        plan_of(lambda x: x + 300, x)([x])


def test_rows_of_which_some_are_none():
    x = np.arange(3.0)
    jitted = ft.jit(lambda x: fnp.tanh(fnp.concatenate([x[1:1], fnp.cos(x)])))
    np.testing.assert_array_equal(jitted(x), np.tanh(np.cos(x)))


def test_results_are_fresh_memory():
    x = np.arange(12.0).reshape(3, 4)

    def fun(x):
        y = fnp.sin(x)
        return x, fnp.transpose(x), y, y, fnp.reshape(y, (4, 3)), y[1]

    plan = plan_of(fun, x)
    first, second = plan([x]), plan([x])
    arrays = [x, *first, *second]
    for i, a in enumerate(arrays):
        for b in arrays[:i]:
            assert not np.may_share_memory(a, b)


def test_results_that_may_be_an_operand_are_apart_from_each_other():
    x = np.arange(12.0).reshape(3, 4)

    def fun(x):
        y = fnp.roll(x, 1)
        return y, y, fnp.transpose(y), y[1]

    arrays = [x, *plan_of(fun, x)([x])]
    for i, a in enumerate(arrays):
        assert not any(np.may_share_memory(a, b) for b in arrays[:i])


def test_constants_are_not_handed_out():
    constant = np.arange(3.0)
    (got,) = plan_of(lambda x: fnp.asarray(constant), np.ones(2))([np.ones(2)])
    assert not np.may_share_memory(got, constant)
    again = plan_of(lambda x: (fnp.asarray(constant), fnp.asarray(constant)), 1.0)([1.0])
    assert not np.may_share_memory(*again)


def test_kept_buffers_are_reused_and_never_returned():
    x = np.ones(10)

    def fun(x):
        for _ in range(50):
            x = fnp.sin(x) * 2
        return x

    plan = plan_of(fun, x)
    assert plan.source.count("buffer_") == 2
    first = plan([x])[0].copy()
    got = plan([x])[0]
    plan([x + 1])
    np.testing.assert_array_equal(got, first)


def test_large_intermediates_are_let_go():
    x = np.ones(1_000_000)
    plan = plan_of(lambda x: fnp.cumsum(fnp.cumsum(fnp.cumsum(fnp.cumsum(x)))), x)
    assert peak_of(lambda: plan([x])) < 2.1 * x.nbytes


def test_donated_inputs_take_the_results():
    p, g = np.ones((50, 40)), np.ones((50, 40))
    plan = plan_of(lambda p, g: p - 0.1 * g, p, g, donated=(0,))
    (out,) = plan([p, g])
    assert out is p
    np.testing.assert_array_equal(out, 0.9)
    np.testing.assert_array_equal(g, 1.0)


def test_what_does_not_belong_to_the_input_alone_is_not_overwritten():
    plan = plan_of(lambda p, g: p - 0.1 * g, np.ones(4), np.ones(4), donated=(0,))
    base = np.ones(8)
    plan([base[:4], np.ones(4)])
    both = np.ones(4)
    (out,) = plan([both, both])
    fixed = np.ones(4)
    fixed.flags.writeable = False
    plan([fixed, np.ones(4)])
    for untouched in (base, both, fixed):
        np.testing.assert_array_equal(untouched, 1.0)
    np.testing.assert_array_equal(out, 0.9)


def test_threads_do_not_share_buffers():
    x = np.linspace(0, 1, 1000)

    def fun(x):
        for _ in range(20):
            x = fnp.sin(x) + x
        return x

    plan = plan_of(fun, x)
    wanted = [plan([x + i])[0] for i in range(8)]
    wrong = []

    def work(i):
        wrong.extend(i for _ in range(50) if not np.array_equal(plan([x + i])[0], wanted[i]))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_errors_point_at_the_users_line():
    def fun(x, i):
        y = fnp.sin(x)
        return y[i]  # here

    x = np.ones(3)
    plan = plan_of(fun, x, np.array([0]))
    with pytest.raises(IndexError, match="out of bounds") as caught:
        plan([x, np.array([5])])
    (note,) = caught.value.__notes__
    line = fun.__code__.co_firstlineno + 2
    assert note == f"in index of fun, at {__file__}:{line}"
    # The next call is right.
    np.testing.assert_array_equal(plan([x, np.array([0])])[0], np.sin(x[:1]))


def test_the_source_can_be_read():
    x = np.ones(3, "float32")
    plan = plan_of(lambda x: fnp.sin(x) * 2, x)
    line = test_the_source_can_be_read.__code__.co_firstlineno + 2
    assert plan.source == (
        "def plan(a):\n"
        f"    b = np_sin(a, buffer_0)  # {__file__}:{line}\n"
        f"    c = np_multiply(b, array_0)  # {__file__}:{line}\n"
        "    return [c]\n"
        "\n"
        "# np_multiply, np_sin = NumPy's functions\n"
        "# array_0 = float32(2.0)\n"
        "# buffer_0 = float32[3], kept from call to call\n"
    )


def test_the_source_is_that_of_the_code():
    x = np.ones((2, 3), "float32")
    plan = plan_of(lambda x: fnp.sum(fnp.sin(x)[0] * 2) + x, x)
    (code,) = (c for c in compile(plan.source, "", "exec").co_consts if hasattr(c, "co_code"))
    assert code.co_code == plan._code.co_code
    assert [*code.co_positions()] == [*plan._code.co_positions()]


def test_plans_are_loaded_with_jit_and_not_before():
    code = (
        "import sys, functensor as ft\n"
        "there = lambda: 'functensor.backends.cpu.plan.writer' in sys.modules\n"
        "before = there(); ft.jit; print(before, there())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"]


def test_plans_do_not_warn_and_leave_numpys_settings_alone():
    x = np.array([-1.0, 0.0, 1e300])
    plan = plan_of(lambda x: (fnp.log(x), x * x, 1 / x), x)
    before = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan([x])
    assert np.geterr() == before


def test_a_plan_is_freed_with_its_buffers():
    plan = plan_of(lambda x: fnp.sin(fnp.sin(x)), np.ones(3))
    plan([np.ones(3)])
    gone = weakref.ref(plan)
    del plan
    gc.collect()
    assert gone() is None


def test_the_legend_tells_what_the_names_stand_for():
    table = np.arange(5.0)

    def fun(x):
        y = fnp.sum(x * table, axis=0, keepdims=True) + np.float32(2.5)
        return fnp.stack([x, fnp.clip(x, 0, 1)])[0] + fnp.astype(y, "float32"), fnp.tanh(x)

    code, legend = plan_of(fun, np.ones(5)).source.split("\n\n")
    names = {line[2:].partition(" = ")[0]: line.partition(" = ")[2] for line in legend.splitlines()}
    assert names["array_0"] == "float64[5] [0.0, 1.0, 2.0, 3.0, 4.0]"
    assert names["array_1"] == "float32(2.5)"
    assert names["keepdims"] == "True"
    assert names["buffer_0"] == "float64[5], kept from call to call"
    # Other names are variables of one letter and methods.
    words = set(re.findall(r"(?<![.\w])[a-z]\w*", re.sub(r"#.*", "", code)))
    own = {word for word in words if len(word) > 1}
    known = {name for listed in names for name in listed.split(", ")}
    assert own - known == {"def", "plan", "return"}
    assert "np_clip" in own & known


def test_a_function_has_one_name_and_no_other_thing_has_it():
    source = Source()
    names = [source.bind(f) for f in (max, np.sum, np.sum, np.add.reduce, len)]
    assert names == ["max_", "np_sum", "np_sum", "reduce", "len_"]
    assert source.bind(lambda: None, "np_add") == "np_add_"
    assert source.bind(lambda: None, "array_0") == "array_0_"
    assert source.bind(lambda: None, "reduce") == "reduce_2"
    assert source.bind(lambda: None, "<lambda>") == "_lambda__"
    assert source.constant(np.dtype(bool), "dtype") == "bool_"
    assert source.constant(np.dtype(">f8"), "dtype") == "float64"
    assert source.constant(np.dtype("f8"), "dtype") == "float64_"
    source.add("np.add(x, np.multiply.reduce(y))")
    assert source.lines == ["    np_add(x, np_multiply.reduce(y))"]
    assert all(name.endswith("__") for name in map(lettered_name, (26**3, 26**4)))


def test_the_text_has_the_bodies_of_loops_and_branches():
    def fun(x, w):
        c, ys = ft.scan(lambda c, v: (fnp.tanh(w @ c + v), fnp.sum(c)), x[0], x)
        c = ft.cond(fnp.sum(c) > 0, fnp.sinh, lambda c: ft.fori_loop(0, 2, body, c), c)
        return ft.while_loop(lambda c: fnp.sum(c) < 3, fnp.exp2, c), ys

    def body(i, c):
        return fnp.arctan(c) * 2

    source = ft.jit(fun).lower(np.ones((5, 3)), np.eye(3)).source
    parts = re.split(r"\n# ((?:all|branch|the).* of \w+)\n", source)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert [*texts] == [
        "all steps of scan",
        "branch 0 of cond",
        "all steps of fori_loop",
        "branch 1 of cond",
        "the first test of while_loop",
        "all steps of while_loop",
    ]
    called = ["np_tanh", "fori_loop([", "np_arctan", "np_sinh", "< 3", "np_exp2"]
    for text, name in zip(texts.values(), called, strict=True):
        assert name in text
        # Every name that is no variable is in the legend of its part.
        code, legend = text.split("\n\n", 1)
        names = set(re.findall(r"\w+", "".join(re.findall(r"^#.*=", legend, re.M))))
        words = set(re.findall(r"(?<![.\w])[a-z_]\w{3,}", re.sub(r"#.*", "", code)))
        assert words - names <= {"break", "plan", "return"}


def test_functions_of_bfloat16_have_one_spelling_and_say_what_they_do():
    pytest.importorskip("ml_dtypes")
    x = fnp.asarray(np.ones((2, 3)), dtype="bfloat16")
    jitted = ft.jit(lambda x: (fnp.sin(x) + x, nn.softmax(x), fnp.prod(x)))
    code, legend = jitted.lower(x).source.split("\n\n")
    assert {"np_sin_in_single", "np_add_in_single"} <= set(re.findall(r"\w+", code))
    assert "# np_add_in_single = numpy.add, of 16-bit dtypes in float32\n" in legend
    assert "NumPy's" not in legend
    assert not {"wrapper", "<locals>", "<lambda>"} & set(re.findall(r"<?\w+>?", legend))
    # Whether there is such a dtype somewhere does not show in the text of other plans.
    code, legend = jitted.lower(fnp.ones((2, 3))).source.split("\n\n")
    assert "np_add(" in code
    assert "16-bit" not in legend


def test_equal_numbers_have_one_name():
    plan = plan_of(lambda x: (fnp.sin(x) + 1.5) * 1.5 - 2.5, np.ones(3))
    assert plan.source.count("array_0") == 3
    assert "array_2" not in plan.source
