"""``functensor.testing`` accepts what is right and finds what is wrong, and says where."""

from collections import namedtuple

import numpy
import pytest

import functensor as ft
import functensor.numpy as np
from functensor.testing import assert_allclose, check_grads

X = numpy.array([[0.5, 2.0, -1.5], [1.0, 3.0, 0.25]])
Point = namedtuple("Point", "x y")


def wrong(factor=1.001):
    """Returns a cube whose derivative is off by a factor in both modes."""

    @ft.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda xs, ts: (xs[0] ** 3, 3 * factor * xs[0] ** 2 * ts[0]))
    return cube


def wrong_vjp(change):
    """Returns a product with its right rule in reverse mode, but for what is changed in it."""

    @ft.custom_vjp
    def product(x, y):
        return x * y

    product.defvjp(lambda x, y: (x * y, (x, y)), lambda xy, g: change(g * xy[1], g * xy[0]))
    return product


def message(*args, **kwargs):
    """Returns the message with which a check fails."""
    with pytest.raises(AssertionError) as info:
        check_grads(*args, **kwargs)
    return str(info.value)


@pytest.mark.parametrize("method", ["central", "complex-step"])
@pytest.mark.parametrize("modes", ["fwd", "rev", ("fwd", "rev"), ["rev"]])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_right_derivatives_of_trees_pass(order, modes, method):
    def f(params, scale, *points):
        total = np.sum(np.sin(params["w"]) @ params["w"].T * scale)
        return {"loss": total, "points": [Point(p.x * p.y, np.exp(p.x)) for p in points]}

    args = ({"w": X, "unused": X[0]}, 0.5, Point(X[0], X[1]), Point(1.5, -0.5))
    check_grads(f, args, order, modes, method=method)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_every_dtype_passes(dtype):
    x = X.astype(dtype)
    if x.dtype.kind == "c":
        x = x + numpy.asarray(1j, dtype) * x[::-1]
    check_grads(lambda x, y: x * y + np.sum(x * x), (x, x[0]), order=2)
    check_grads(lambda x: np.sum(x.astype("float64") if x.dtype.kind == "f" else x), (x,))


def test_functions_that_are_not_holomorphic_pass():
    z = X + 1j * X[::-1]
    check_grads(lambda z: np.abs(z), (z,), order=2)
    check_grads(lambda z: np.conj(z) * z + z.real, (z,), order=2)
    check_grads(lambda x: np.exp(1j * x), (X,), order=2)
    check_grads(lambda z, x: (z * x, np.sum(z.imag)), (z, X), order=2)


def test_integers_and_other_leaves_stay_as_they_are():
    def f(x, i, name, mask):
        assert (name, mask) == ("sin", None)
        return {"y": x[i], "i": i + 1, "name": name}

    check_grads(f, (X[0], numpy.array([2, 0]), "sin", None), order=2)


def test_zero_size_and_infinity_pass():
    check_grads(lambda x: np.sum(x * x), (numpy.zeros((0, 3)),), order=2)
    check_grads(lambda x: x * 2, (numpy.zeros((0, 3)),), order=2)
    check_grads(lambda x: (x * x, np.where(x > 0, x, 1) * 0 - np.inf), (X,))


def test_single_precision_inside_has_a_yardstick_of_its_own():
    check_grads(lambda x: (np.sin(x.astype("float32")) * 2).astype("float32"), (X,))


def test_is_deterministic():
    def f(x):
        return ft.stop_gradient(x) * x

    assert message(f, (X,), seed=3) == message(f, (X,), seed=3)
    assert message(f, (X,), seed=3) != message(f, (X,), seed=4)


@pytest.mark.parametrize("method", ["central", "complex-step"])
@pytest.mark.parametrize("modes", ["fwd", "rev"])
def test_wrong_derivatives_are_found(modes, method):
    text = message(wrong(), (X,), modes=modes, method=method)
    assert f"{'forward' if modes == 'fwd' else 'reverse'} mode of cube" in text
    yardstick = "central differences" if method == "central" else "the complex step"
    assert f"differs from {yardstick}\n" in text


def test_small_errors_are_found_where_the_tolerance_is_small():
    check_grads(wrong(1 + 1e-8), (X,))
    message(wrong(1 + 1e-8), (X,), rtol=1e-9)
    # The planted error is one part in a thousand: a little more passes it, a little less does not.
    check_grads(wrong(), (X,), rtol=1.5e-3)
    check_grads(wrong(), (X,), rtol=1.5e-3, atol=0.0)
    message(wrong(), (X,), rtol=0.5e-3, atol=0.0)
    check_grads(wrong(), (X,), rtol=0.0, atol=1.0, modes="fwd")


def test_wrong_second_order_is_found_at_order_two_only():
    @ft.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda xs, ts: (xs[0] ** 3, 3 * ft.stop_gradient(xs[0]) ** 2 * ts[0]))
    check_grads(cube, (X,))
    assert "forward mode of the jvp of cube (" in message(cube, (X,), order=2)
    second = message(cube, (X,), order=2, modes="rev")
    assert "reverse mode of the vjp of cube (" in second
    assert second.splitlines()[-1] == "  order: 2, step: 6.1e-06"


def test_message_names_output_and_figures():
    def f(p):
        return {"right": p["x"], "wrong": [ft.stop_gradient(p["x"]) * p["x"]]}

    here = f"{__file__}:{f.__code__.co_firstlineno}"
    x = numpy.array([1.0, 2.0])
    v = numpy.random.default_rng(0).standard_normal(2)
    worst = int(numpy.argmax(abs(v * x)))
    lines = message(f, ({"x": x},), modes="fwd").splitlines()
    assert lines[0] == (
        f"forward mode of f ({here}): the tangent of output['wrong'][0] differs from central "
        "differences"
    )
    start, _, end = lines[1].partition(" off at index ")
    assert start.startswith("  2 of 2 elements differ; the worst is ")
    assert float(start.rpartition(" ")[2]) == pytest.approx(abs(v * x)[worst], rel=1e-5)
    index, got, expected = end.replace(": got ", ", expected ").split(", expected ")
    assert int(index) == worst
    assert float(got) == pytest.approx((v * x)[worst], rel=1e-6)
    assert float(expected) == pytest.approx((2 * v * x)[worst], rel=1e-6)
    assert lines[2].startswith("  tolerance: atol=1e-06, rtol=1e-06")
    assert lines[3] == "  order: 1, step: 6.1e-06"


def test_message_names_the_argument_whose_cotangent_is_wrong():
    product = wrong_vjp(lambda a, b: (a, -b))
    text = message(lambda p: product(p["x"], p["y"]), ({"x": X, "y": X[::-1]},), modes="rev")
    assert "the cotangent of args[0]['y'] differs from central differences" in text
    text = message(lambda x, y: product(x, y), (X, X[::-1]), modes="rev")
    assert "the cotangent of args[1] differs from central differences" in text


def test_modes_that_differ_are_found(monkeypatch):
    original = ft.testing.checks_of_derivatives.vjp

    def vjp(f, *primals):
        out, pull = original(f, *primals)
        return out, lambda g: [c * (1 + 3e-8) for c in pull(g)]

    monkeypatch.setattr(ft.testing.checks_of_derivatives, "vjp", vjp)
    cube = wrong(1.0)
    check_grads(cube, (X,), modes="rev")
    check_grads(cube, (X,), modes="fwd")
    text = message(cube, (X,))
    assert text.startswith("the modes of cube (")
    assert "differ: <J^T u, v> of reverse mode against <u, J v> of forward mode\n" in text


def test_wrong_shape_and_dtype_are_found(monkeypatch):
    def narrowed(x):
        return x * 2

    original = ft.testing.checks_of_derivatives.jvp

    def jvp(f, primals, tangents):
        out, ts = original(f, primals, tangents)
        return out, [t.astype("float32") for t in ts]

    monkeypatch.setattr(ft.testing.checks_of_derivatives, "jvp", jvp)
    text = message(narrowed, (X,))
    first = text.splitlines()[0]
    assert first.endswith("the tangent of output is float32[2,3], expected float64[2,3]")


def test_a_wrong_primal_value_is_found():
    @ft.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (x * 2 + 1, None), lambda _, g: (2 * g,))
    text = message(f, (X,), modes="rev")
    assert "output differs from the function's own value" in text


def test_nan_is_no_derivative():
    @ft.custom_jvp
    def f(x):
        return x * 2

    f.defjvp(lambda xs, ts: (xs[0] * 2, ts[0] * np.nan))
    assert "got nan" in message(f, (X,))


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "words"),
    [
        (((1.0,),), {"modes": "forward"}, ValueError, "modes are 'fwd' and 'rev'"),
        (((1.0,),), {"modes": ()}, ValueError, "modes are 'fwd' and 'rev'"),
        (((1.0,),), {"method": "secant"}, ValueError, "method is"),
        (((1.0,),), {"order": 0}, ValueError, "order counts from 1"),
        (((1.0,),), {"eps": 0.0}, ValueError, "eps is a positive step"),
        ((1.0,), {}, ValueError, "args is a tuple or list of arguments, not float"),
        (((1,),), {}, TypeError, "no argument is real or complex"),
        (((1j,),), {"method": "complex-step"}, TypeError, "takes real arguments"),
    ],
)
def test_bad_arguments(args, kwargs, error, words):
    with pytest.raises(error, match=words):
        check_grads(lambda x: x * 2, *args, **kwargs)


def test_a_function_without_a_derivative_is_refused():
    with pytest.raises(TypeError, match="no output is real or complex"):
        check_grads(lambda x: x > 0, (X,))


def test_complex_step_refuses_what_is_not_analytic():
    with pytest.raises(TypeError, match="not analytic"):
        check_grads(np.abs, (X,), method="complex-step")


def test_assert_allclose_compares_structure_type_and_values():
    assert_allclose({"a": X, "b": [1, None, "s"]}, {"a": np.array(X), "b": [1, None, "s"]})
    assert_allclose(numpy.array([numpy.nan, 1.0]), numpy.array([numpy.nan, 1.0]))
    assert_allclose(X, X + 1e-3, atol=1.1e-3)
    assert_allclose(X.astype("float32"), X.astype("float32") * (1 + 1e-6))
    for actual, expected, words in [
        ([X], (X,), r"the structure is TreeDef\(\[\*\]\), expected TreeDef\(\(\*,\)\)"),
        ({"w": X}, {"w": X[0]}, r"\['w'\] is float64\[2,3\], expected float64\[3\]"),
        (X, X.astype("float32"), r"the value is float64\[2,3\], expected float32\[2,3\]"),
        ({"w": X}, {"w": X + 1e-6}, r"\['w'\] differs"),
        ({"w": "a"}, {"w": "b"}, r"\['w'\] is 'a', expected 'b'"),
        ([1], [2], r"the worst is 1.0 off: got 1, expected 2"),
        ([True], [False], r"the worst is 1.0 off: got True, expected False"),
        ([numpy.inf], [1.0], r"the worst is inf off: got inf, expected 1.0"),
    ]:
        with pytest.raises(AssertionError, match=words):
            assert_allclose(actual, expected)
