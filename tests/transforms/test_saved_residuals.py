"""``saved_residuals``: the list of what a backward pass needs."""

import numpy as np

import functensor as ft
import functensor.numpy as fnp

W = np.eye(3)
X = np.ones(3)


def layer(w, x):
    h = ft.checkpoint_name(fnp.tanh(w["a"] @ x), "hidden")
    return fnp.sum(fnp.sin(h) * np.arange(3.0))


def sources(f, *args, **kwargs):
    return [kept.source for kept in ft.saved_residuals(f, *args, **kwargs)]


def test_what_is_kept_with_its_size_and_line():
    found = ft.saved_residuals(layer, {"a": W}, X)
    assert [kept.source for kept in found] == [
        "argument 0['a']",
        "argument 1",
        "output of tanh",
        "constant",
    ]
    assert [kept.nbytes for kept in found] == [72, 24, 24, 24]
    assert found[0].shape == (3, 3)
    assert found[0].dtype == np.float64
    assert found[0].line == ""
    assert found[2].line.rpartition(":")[0].endswith("test_saved_residuals.py")
    assert str(found[2]).startswith("float64[3], 24 bytes: output of tanh at ")


def test_what_a_checkpoint_keeps():
    given = ["argument 0['a']", "argument 1"]
    assert sources(ft.checkpoint(layer), {"a": W}, X) == given
    named = ft.checkpoint(layer, policy=ft.checkpoint_policies.save_only_these_names("hidden"))
    found = ft.saved_residuals(named, {"a": W}, X)
    wanted = [*given, "saved by the policy of layer, named 'hidden'"]
    assert [kept.source for kept in found] == wanted
    assert found[2].line.rpartition(":")[0].endswith("test_saved_residuals.py")
    dots = ft.checkpoint(layer, policy=ft.checkpoint_policies.dots_saveable)
    assert sources(dots, {"a": W}, X)[2:] == ["saved by the policy of layer, output of matmul"]
    closing = ft.checkpoint(lambda x: layer({"a": W}, x))
    assert sources(closing, X) == ["argument 0"]


def test_rules_keywords_and_numbers():
    @ft.custom_vjp
    def own(x):
        return fnp.sin(x)

    own.defvjp(lambda x: (fnp.sin(x), {"c": fnp.cos(x)}), lambda kept, g: (g * kept["c"],))
    assert "kept by the rule of own" in sources(lambda *, x: own(x), x=X)
    assert sources(lambda n, x: fnp.sin(x) * 2.0, 3, X) == ["argument 1"]
    assert sources(lambda x: x + 1.0, X) == []


def test_printed(capsys):
    ft.print_saved_residuals(ft.checkpoint(fnp.sin), np.ones(2000))
    assert capsys.readouterr().out == (
        "float64[2000], 16,000 bytes: argument 0\n16,000 bytes in 1 arrays\n"
    )
