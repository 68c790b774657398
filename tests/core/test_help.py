"""``help`` and editors: primitives and results of transformations show as functions do."""

import inspect
import pydoc

import pytest
from support.help import first_line, helped

import functensor as ft
import functensor.numpy as np
from functensor import nn
from functensor.primitives.core.primitive import Primitive
from functensor.scipy import special


@pytest.mark.parametrize(
    ("function", "place", "signature"),
    [
        (np.sin, "functensor.numpy", "sin(x: 'ArrayLike', /, ...) -> 'Array'"),
        (np.add, "functensor.numpy", "add(x: 'ArrayLike', y: 'ArrayLike', /, ...) -> 'Array'"),
        (np.roll, "functensor.numpy", "roll(a: 'ArrayLike', shift: 'ShapeLike', "),
        (np.where, "functensor.numpy", "where(condition: 'ArrayLike', "),
        (nn.relu, "functensor.nn", "relu(x: 'ArrayLike', /, ...) -> 'Array'"),
        (special.digamma, "functensor.scipy.special", "digamma(x: 'ArrayLike', /, ...) -> "),
    ],
)
def test_primitives_show_signature_and_docstring(function, place, signature):
    lines = helped(function)
    assert lines[0].endswith(f"in module {place}")
    assert lines[2].startswith(signature)
    assert lines[3].strip() == function.__doc__.splitlines()[0]


def test_every_primitive_of_numpy_is_shown_as_a_function():
    shown = pydoc.plain(pydoc.render_doc(np, title="%s"))
    functions = shown[shown.index("\nFUNCTIONS\n") :]
    names = [n for n in np.__all__ if isinstance(getattr(np, n), Primitive)]
    assert len(names) > 100
    for name in names:
        assert f"\n    {name}(" in functions or f"\n    {name} = " in functions, name


def test_editors_see_all_options():
    parameters = inspect.signature(np.sin).parameters
    assert [*parameters][:3] == ["x", "out", "where"]
    assert "dtype" in parameters
    assert inspect.signature(np.sin).bind(1.0, dtype="float32").arguments["dtype"] == "float32"


def test_a_primitive_in_a_class_gets_no_self():
    class Layer:
        activation = np.tanh

    assert Layer().activation is np.tanh
    assert Layer.activation is np.tanh
    assert Layer().activation(0.0) == 0.0


def scaled(x, factor=2.0):
    """Returns x times a factor."""
    return x * factor


@pytest.mark.parametrize("transform", [ft.jit, ft.grad, ft.vmap, ft.checkpoint])
def test_transformed_functions_show_signature_and_docstring(transform):
    transformed = transform(scaled)
    assert helped(transformed)[2:4] == [
        first_line(transformed, "scaled(x, factor=2.0)"),
        "    Returns x times a factor.",
    ]


def test_a_jitted_method_shows_its_own():
    class Model:
        @ft.jit
        def loss(self, x):
            """Returns the loss."""
            return x * x

    assert helped(Model.loss)[2:4] == ["loss(self, x)", "    Returns the loss."]
    assert str(inspect.signature(Model().loss)) == "(x)"
