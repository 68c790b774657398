"""The reference: every public name has one place on its pages, and a text there."""

import inspect
import re
import sys
from functools import partial
from pathlib import Path

import pytest

import functensor as ft
import functensor.numpy as np
from functensor.testing import assert_allclose

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

import reference_names
import reference_support

PAGES = {path.stem: path.read_text() for path in sorted(reference_names.PAGES.glob("*.md"))}
HELP = "docs/reference_names.py says how the pages of docs/reference name what they show"
BLOCK = "```{{reference}} {}\n{}\n```\n"


def entries():
    """Returns all entries by their full names."""
    found = [entry for block in reference_names.plan().entries.values() for entry in block]
    return {f"{entry.owner}.{entry.name}": entry for entry in found}


def test_every_public_name_has_a_place():
    assert reference_names.plan().missing == [], HELP


def test_every_place_has_a_name():
    assert reference_names.plan().unknown == [], HELP


def test_no_name_stands_twice():
    assert reference_names.plan().twice == [], HELP
    placed = [entry for found in reference_names.plan().entries.values() for entry in found]
    stands = [f"{entry.owner}.{entry.name}" for entry in placed]
    others = [alias for entry in placed for alias in entry.aliases]
    assert len({*stands, *others}) == len(stands) + len(others)


def test_primitives_members_and_every_namespace_are_there():
    found = entries()
    for name in (
        *("numpy.sin", "numpy.einsum", "nn.relu", "nn.init.zeros", "scipy.stats.norm"),
        *("scipy.special.digamma", "Tensor.backward", "Tensor.add_", "Array.at"),
    ):
        assert f"functensor.{name}" in found
    assert found["functensor.numpy.absolute"].aliases == ["functensor.numpy.abs"]
    owners = {name.rpartition(".")[0] for name in found}
    owners |= {x.rpartition(".")[0] for entry in found.values() for x in entry.aliases}
    for namespace in reference_names.namespaces():
        assert namespace in owners or not reference_names.module_names(namespace)


def test_what_is_functensors_own_has_a_docstring():
    for full, entry in entries().items():
        own = inspect.isroutine(entry.value) or isinstance(entry.value, type | property)
        if own and not isinstance(entry.value, bool):
            assert (inspect.getdoc(entry.value) or "").strip(), full


def test_pages_are_in_the_table_of_contents():
    listed = re.findall(r"^(\w+)$", PAGES["index"], re.MULTILINE)
    assert sorted(listed) == sorted(set(PAGES) - {"index"})


# Faults are found.


def planned(*blocks):
    """Returns the plan of one page with these blocks, of pairs of owners and words."""
    return reference_names.Plan({"page": "".join(BLOCK.format(*block) for block in blocks)})


def test_a_name_without_a_place_is_found():
    left_out = planned(("functensor.tree", "[a-lo-z]*"), ("functensor.numpy", "")).missing
    assert {"functensor.tree.map", "functensor.nn.relu"} <= set(left_out)
    assert "functensor.tree.flatten" not in left_out
    assert "functensor.numpy.sin" not in left_out


def test_a_place_without_a_name_is_found():
    plan = planned(("functensor.tree", "map mapp zz*"), ("functensor.trees", ""))
    assert plan.unknown == ["functensor.trees", "functensor.tree: mapp", "functensor.tree: zz*"]


def test_a_name_at_two_places_is_found():
    plan = planned(("functensor.numpy", "abs sin"), ("functensor.numpy", "absolute"))
    assert plan.twice == ["functensor.numpy.absolute"]
    assert plan.entries[next(iter(plan.entries))][0].aliases == ["functensor.numpy.absolute"]


# The line of what is supported


@pytest.mark.parametrize(
    ("full", "words"),
    [
        ("numpy.sin", "derivatives in both modes, vmap, jit. CPU, CUDA."),
        ("numpy.floor", "vmap, jit; no derivative, since it is zero or undefined. CPU, CUDA."),
        (
            "numpy.zeros",
            "calls within every transformation; it makes or describes arrays. CPU, CUDA.",
        ),
        ("scipy.linalg.sqrtm", "derivatives in both modes, vmap, jit. CPU."),
        ("scipy.special.erfi", "derivatives in both modes, vmap, jit. CPU, CUDA for real numbers."),
        ("nn.softmax", "derivatives in both modes, vmap, jit. CPU, CUDA."),
        ("random.gamma", "derivatives in both modes by its parameters, vmap, jit. CPU, CUDA."),
        ("random.normal", "vmap over keys, jit. CPU, CUDA."),
        ("optim.lbfgs", "derivatives in both modes, vmap, jit; within jit forward mode alone."),
        ("tree.map", "calls within every transformation, on traced values too. CPU, CUDA."),
    ],
)
def test_support(full, words):
    owner, _, name = f"functensor.{full}".rpartition(".")
    value = reference_names.value_of(owner, name)
    assert reference_support.support_of(owner, name, value).startswith(words)


KEY = ft.random.key(0)
# Calls by a parameter at which a draw has a derivative, or might have one.
DRAWS = {
    "uniform": lambda p: ft.random.uniform(KEY, (3,), maxval=p),
    "truncated_normal": lambda p: ft.random.truncated_normal(KEY, -p, p, (3,)),
    "multivariate_normal": lambda p: ft.random.multivariate_normal(KEY, np.ones(2), p * np.eye(2)),
    "beta": lambda p: ft.random.beta(KEY, p, 2.0),
    "dirichlet": lambda p: ft.random.dirichlet(KEY, p * np.ones(3))[0],
    "f": lambda p: ft.random.f(KEY, p, 3.0),
    "triangular": lambda p: ft.random.triangular(KEY, 0.0, 0.2, p),
    "weibull_min": lambda p: ft.random.weibull_min(KEY, p, 2.0),
    "binomial": lambda p: ft.random.binomial(KEY, 9, p),
    "categorical": lambda p: ft.random.categorical(KEY, p * np.arange(3.0)),
    "multinomial": lambda p: ft.random.multinomial(KEY, 9, np.array([p, 1 - p])),
    "randint": lambda p: ft.random.randint(KEY, (), 0, np.floor(9 * p).astype(int)),
}


def draws_that_say(words):
    """Returns the functions of random numbers whose line begins with some words."""
    found = entries()
    names = [x.removeprefix("functensor.random.") for x in found if ".random." in x]
    return [
        name
        for name in names
        if f"functensor.random.{name}" in found
        and reference_support.support_of("functensor.random", name, None).startswith(words)
    ]


@pytest.mark.parametrize("name", draws_that_say("derivatives in both modes by its parameters"))
def test_draws_have_the_derivatives_that_their_line_tells(name):
    draw = DRAWS.get(name, lambda p: getattr(ft.random, name)(KEY, p))
    _, tangent = ft.jvp(lambda p: np.sum(draw(p)), (0.7,), (1.0,))
    gradient = ft.grad(lambda p: np.sum(draw(p)))(0.7)
    assert float(gradient) != 0
    assert_allclose(tangent, gradient)
    ft.jit(draw)(0.7), ft.vmap(draw)(np.array([0.5, 0.7]))


@pytest.mark.parametrize("name", draws_that_say("vmap over keys and parameters"))
def test_counts_have_no_derivatives_as_their_line_tells(name):
    draw = DRAWS.get(name, lambda p: getattr(ft.random, name)(KEY, p))
    assert float(ft.grad(lambda p: np.sum(draw(p) * 1.0))(0.7)) == 0
    ft.jit(draw)(0.7), ft.vmap(draw)(np.array([0.5, 0.7]))


OPTIMIZERS = [
    name
    for name, words in reference_support.ALONE.items()
    if name.startswith("functensor.optim.") and "rates, parameters" in words
]


@pytest.mark.parametrize("full", OPTIMIZERS)
def test_updates_are_differentiated_as_their_line_tells(full):
    make = getattr(ft.optim, full.rpartition(".")[2])
    if full.endswith(".muon"):
        make = partial(make, dtype="float64")

    def twice(lr, params):
        optimizer = make(lr)
        state = optimizer.init(params)
        for _ in range(2):
            params, state = optimizer.update(params, state, 2 * params)
        return np.sum(params)

    start = np.array([[1.0, 2.0, 3.0]])
    gradients = ft.jit(ft.grad(twice, (0, 1)))(0.1, start)
    _, tangent = ft.jvp(lambda lr: twice(lr, start), (0.1,), (1.0,))
    # The rates of asgd are kept in single precision.
    assert_allclose(tangent, gradients[0], rtol=1e-7 if full.endswith(".asgd") else 1e-9)
    assert ft.vmap(twice)(np.array([0.1, 0.2]), np.stack([start] * 2)).shape == (2,)


def test_every_name_has_a_line_of_support():
    for entry in entries().values():
        assert reference_support.support_of(entry.owner, entry.name, entry.value).endswith(".")


def test_names_that_gpus_lack_in_part_are_public():
    public = {name.rpartition(".")[2] for name in reference_support.rows()}
    assert public >= {*reference_support.OTHER_DEVICES}


def test_names_with_an_answer_of_their_own_are_public():
    found = entries()
    known = {*found, *(alias for entry in found.values() for alias in entry.aliases)}
    assert known >= {*reference_support.ALONE}
    owners = {*reference_names.namespaces(), *reference_names.SPREAD}
    assert owners >= {*reference_support.NAMESPACES}


# The text of an entry


@pytest.fixture(scope="module")
def written():
    """Returns a function that gives the lines of the block which shows a name."""
    pages = pytest.importorskip("reference_pages", reason="Sphinx is not installed")
    napoleon = pytest.importorskip("sphinx.ext.napoleon")
    writer = pages.Writer(napoleon.Config())

    def lines_of(owner, name):
        for block, found in reference_names.plan().entries.items():
            if block.owner == owner and name in [entry.name for entry in found]:
                return [*writer.block(block)]
        raise LookupError(name)

    return lines_of


def test_an_entry_has_signature_arguments_example_and_support(written):
    lines = written("functensor.numpy", "sin")
    start = lines.index(".. py:function:: sin(x, /, ...)")
    text = lines[start : lines.index(".. py:function:: cos(x, /, ...)")]
    assert text[2] == "   Returns the sine of angles in radians."
    assert "   :param x: an array of any shape, or a number." in text
    assert "   >>> np.sin(0.0).tolist()" in text
    assert "   :Supports: derivatives in both modes, vmap, jit. CPU, CUDA." in text


def test_other_names_stand_beside(written):
    lines = written("functensor.numpy", "absolute")
    assert lines[lines.index(".. py:function:: absolute(x, /, ...)") + 1].split() == ["abs"]
    assert "   :Also: ``functensor.scipy.special.cbrt``" in written("functensor.numpy", "cbrt")
    (elsewhere,) = (x for x in written("functensor.scipy.special", "ndtr") if "other pages" in x)
    assert ":py:obj:`cbrt <functensor.numpy.cbrt>`" in elsewhere


def test_defaults_are_told_by_their_names(written):
    lines = written("functensor.random", "normal")
    assert ".. py:function:: normal(key, shape=(), dtype=np.float64)" in lines
    lines = written("functensor.numpy", "zeros")
    assert ".. py:function:: zeros(shape, dtype=float, order='C', *, device=None)" in lines
    lines = written("functensor.extend", "reduction")
    assert any("domain=REAL" in line and "infer=infer_reduction" in line for line in lines)


def test_members_have_their_signatures(written):
    assert ".. py:method:: Tensor.add_(other, *, alpha=1)" in written("functensor.Tensor", "add_")
    assert ".. py:property:: Tensor.grad" in written("functensor.Tensor", "grad")
    # A colon in the text of a property begins no type.
    assert not [line for line in written("functensor.Array", "at") if ":type" in line]
    optimizer = written("functensor.optim", "Optimizer")
    assert "   .. py:method:: minimize(loss, *, has_aux=False)" in optimizer


def test_values_and_classes_of_numpy_are_told_as_such(written):
    lines = written("functensor.numpy", "float32")
    assert "   NumPy's own ``numpy.float32``." in lines
    assert lines[lines.index(".. py:data:: pi") + 2] == "   The value ``3.141592653589793``."


@pytest.mark.parametrize("short", ["np.sin", "nn.relu", "ft.grad", "hooks.Hook", "Tensor.backward"])
def test_short_names_lead_to_entries(short):
    pages = pytest.importorskip("reference_pages", reason="Sphinx is not installed")
    assert {*pages.full_names(short)} & {*entries()}
