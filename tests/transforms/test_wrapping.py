"""Transformations return a function like the one that they were given."""

import copy
import inspect
import pickle
import pydoc

import numpy as np
import pytest
from support.help import first_line

import functensor as ft
import functensor.numpy as fnp
import functensor.torch as torch
from functensor import tree
from functensor.testing import assert_allclose

X = np.array([1.0, 2.0, 0.5])


def energy(x, scale=2.0):
    """Returns a number."""
    return scale * fnp.sum(x**3)


def with_extras(x):
    return energy(x), {"x": x}


@ft.grad
def slope(x):
    """Returns the derivative of the squares."""
    return fnp.sum(x**2)


class Model:
    weight = 3.0

    def force(self, x):
        return self.weight * x**2

    forces = ft.vmap(force, in_axes=(None, 0))


CALLS = {
    "grad": ft.grad(energy),
    "grad by name": ft.grad(energy, argnames=("scale",)),
    "grad with extras": ft.grad(with_extras, has_aux=True),
    "vmap of grad": ft.vmap(ft.grad(energy)),
    "vmap of grad, decorated": ft.vmap(slope, out_axes=-1),
    "value_and_grad": ft.value_and_grad(energy),
    "vmap": ft.vmap(energy, axis_name="i"),
    "jacfwd": ft.jacfwd(energy),
    "jacrev": ft.jacrev(energy, chunk_size=1),
    "hessian": ft.hessian(energy),
    "elementwise_grad": ft.elementwise_grad(fnp.tanh),
    "checkpoint": ft.checkpoint(energy),
    "grad of checkpoint": ft.grad(ft.checkpoint(energy)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_functions_of_a_module_are_pickled(name, protocol):
    call = CALLS[name]
    again = pickle.loads(pickle.dumps(call, protocol))
    assert again.__name__ == call.__name__
    wanted, got = tree.leaves(call(X)), tree.leaves(again(X))
    assert wanted
    for one, other in zip(wanted, got, strict=True):
        assert_allclose(other, np.asarray(one), rtol=0, atol=0)


def test_a_decorated_function_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(slope)) is slope
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(ft.grad(lambda x: x))


def test_it_is_a_function_by_all_its_marks():
    call = CALLS["value_and_grad"]
    assert (call.__name__, call.__doc__) == ("energy", "Returns a number.")
    assert (call.__module__, call.__wrapped__) == (__name__, energy)
    assert inspect.signature(call) == inspect.signature(energy)
    assert repr(call) == "<value_and_grad of energy>"
    assert repr(ft.vmap(CALLS["jacfwd"])) == "<vmap of energy>"
    assert copy.copy(call) is copy.deepcopy(call) is call
    assert hash(call) == hash(call)
    assert call != ft.value_and_grad(energy)


WRAPPERS = [
    *(ft.jit, ft.grad, ft.value_and_grad, ft.vmap, ft.checkpoint, ft.jacfwd, ft.jacrev, ft.hessian),
    *(ft.custom_vjp, ft.custom_jvp, ft.custom_gradient, ft.make_program, ft.draw, ft.no_grad()),
    *(torch.compile, torch.func.grad, torch.func.grad_and_value, torch.func.vmap),
]


@pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda wrap: getattr(wrap, "__name__", "no_grad"))
def test_help_shows_the_signature_and_the_text_of_the_function(wrap):
    wrapped = wrap(energy)
    assert inspect.signature(wrapped) == inspect.signature(energy)
    shown = pydoc.plain(pydoc.render_doc(wrapped))
    line = first_line(wrapped, "energy(x, scale=2.0)")
    assert f"\n{line}\n    Returns a number.\n" in shown


def test_a_compiled_function_is_a_method_in_a_class():
    class Scaled:
        factor = 3.0

        @torch.compile
        def product(self, x):
            return self.factor * x

    assert Scaled().product(torch.tensor([2.0])).tolist() == [6.0]


def test_it_is_a_method_in_a_class():
    np.testing.assert_array_equal(Model().forces(X), 3 * X**2)
    np.testing.assert_array_equal(Model.forces(Model(), X), 3 * X**2)


@pytest.mark.parametrize("fun", [lambda x: x, lambda x: (x, x, x), lambda x: {"a": x}])
def test_axes_that_do_not_fit_the_output(fun):
    out = fun(0)
    returned = "a single array" if out == 0 else type(tree.structure(out)).__name__
    with pytest.raises(ValueError, match=r"vmap of <lambda>: out_axes=\(0, 1\)") as caught:
        ft.vmap(fun, out_axes=(0, 1))(np.ones((2, 3)))
    assert f"does not fit the output, which is {returned}" in str(caught.value)
    with pytest.raises(TypeError, match="out_axes holds integers and None, not '0'"):
        ft.vmap(fun, out_axes="0")(X)
