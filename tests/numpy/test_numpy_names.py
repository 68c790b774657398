"""Every name of NumPy's main namespace is there, or says why not and what to use instead."""

import inspect

import numpy as np
import pytest

import functensor as ft
import functensor.numpy as fnp
from functensor.numpy.absent import ABSENT_NAMES

X = np.array([3.0, 1.0, 2.0, 5.0])

# NumPy's own functions, given our values: they dispatch, and derivatives flow through.
DISPATCHED = {
    "apply_along_axis": lambda v: np.apply_along_axis(lambda row: row.sum(), 0, v),
    "apply_over_axes": lambda v: np.apply_over_axes(np.sum, v, 0),
    "argpartition": lambda v: v[np.argpartition(v, 1)],
    "block": lambda v: np.block([[v], [v]]),
    "choose": lambda v: np.choose(np.array([0, 1, 0, 1]), [v, 2 * v]),
    "compress": lambda v: np.compress([1, 0, 1], v),
    "convolve": lambda v: np.convolve(v, [1.0, 2.0]),
    "corrcoef": lambda v: np.corrcoef(v, v * v),
    "correlate": lambda v: np.correlate(v, [1.0, 2.0]),
    "cov": lambda v: np.cov(v),
    "divmod": lambda v: np.divmod(v, 1.7)[1],
    "extract": lambda v: np.extract([1, 0, 1, 0], v),
    "frexp": lambda v: np.frexp(v)[0],
    "gradient": lambda v: np.gradient(v),
    "histogram": lambda v: np.histogram(v, [0, 2, 6], weights=v)[0],
    "histogram2d": lambda v: np.histogram2d(v, v, 2, weights=v)[0],
    "histogramdd": lambda v: np.histogramdd((v, v), 2, weights=v)[0],
    "i0": lambda v: np.i0(v),
    "intersect1d": lambda v: np.intersect1d(v, v),
    "ldexp": lambda v: np.ldexp(v, 2),
    "lexsort": lambda v: v[np.lexsort((v, v))],
    "matvec": lambda v: np.matvec(v.reshape(2, 2), v[:2]),
    "median": lambda v: np.median(v),
    "modf": lambda v: np.modf(v * 1.1)[0],
    "nancumsum": lambda v: np.nancumsum(v),
    "nanmax": lambda v: np.nanmax(v),
    "nanmedian": lambda v: np.nanmedian(v),
    "nanstd": lambda v: np.nanstd(v),
    "partition": lambda v: np.partition(v, 1),
    "percentile": lambda v: np.percentile(v, 30),
    "piecewise": lambda v: np.piecewise(v, [v < 2], [lambda v: v * v, lambda v: v]),
    "poly": lambda v: np.poly(v),
    "polyadd": lambda v: np.polyadd(v, v[:2]),
    "polyder": lambda v: np.polyder(v),
    "polydiv": lambda v: np.polydiv(v, v[:2])[0],
    "polyfit": lambda v: np.polyfit(v, v * v + 1, 1),
    "polyint": lambda v: np.polyint(v),
    "polymul": lambda v: np.polymul(v, v),
    "quantile": lambda v: np.quantile(v, 0.3),
    "real_if_close": lambda v: np.real_if_close(v),
    "resize": lambda v: np.resize(v, 7),
    "rollaxis": lambda v: np.rollaxis(v, 0),
    "setdiff1d": lambda v: np.setdiff1d(v, [1.0]),
    "setxor1d": lambda v: np.setxor1d(v, [1.0]),
    "trim_zeros": lambda v: np.trim_zeros(v),
    "union1d": lambda v: np.union1d(v, v),
    "unwrap": lambda v: np.unwrap(v),
    "vander": lambda v: np.vander(v),
    "vecmat": lambda v: np.vecmat(v[:2], v.reshape(2, 2)),
}


def test_every_name_of_numpy_is_accounted_for():
    offered = {name for name in np.__all__ if name in fnp.__all__ or hasattr(fnp, name)}
    assert set(np.__all__) - offered - ABSENT_NAMES.keys() == set()
    assert offered & ABSENT_NAMES.keys() == set()


def test_absent_names_say_what_to_use_instead():
    with pytest.raises(AttributeError) as caught:
        fnp.put  # noqa: B018 - the attribute is what is tested
    assert str(caught.value) == (
        "functensor.numpy has no 'put': arrays are immutable: x = x.at[i].set(v)"
    )
    for name, reason in ABSENT_NAMES.items():
        with pytest.raises(AttributeError, match=f"^functensor.numpy has no '{name}': "):
            getattr(fnp, name)
        assert 8 < len(reason) < 90, name
    with pytest.raises(AttributeError, match=r"^functensor\.numpy has no 'xyzzy'$"):
        fnp.xyzzy  # noqa: B018


def test_public_functions_have_an_example():
    for module in (
        "apply", "printing", "conversion", "histograms", "indexing", "matrices", "nans",
        "sorting", "polynomials", "quantiles", "searching", "sets", "correlation",
        "window_functions",
    ):
        names = __import__(f"functensor.numpy.{module}", fromlist=["__all__"])
        for name in names.__all__:
            value = getattr(names, name)
            if inspect.isfunction(value) and value.__module__ == names.__name__:
                assert ">>> " in value.__doc__, name


@pytest.mark.parametrize("name", DISPATCHED)
def test_numpys_functions_find_ours(name):
    call = DISPATCHED[name]
    out, tangent = ft.jvp(call, (X,), (np.ones(4),))
    np.testing.assert_allclose(out, call(X), rtol=1e-10, atol=1e-12)
    assert isinstance(call(ft.numpy.asarray(X)), ft.Array)
    pulled = ft.vjp(call, X)[1](np.ones(np.shape(out)))[0]
    np.testing.assert_allclose(np.sum(pulled), np.sum(tangent), rtol=1e-8, atol=1e-10)


def test_settings_are_numpys():
    assert fnp.errstate is np.errstate
    with fnp.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fnp.divide(fnp.ones(1), 0.0)
    with fnp.printoptions(precision=2):
        assert str(fnp.array([1.23456])) == "[1.23]"
    assert fnp.array_repr(fnp.array([1.23456]), precision=2).startswith("Array([1.23]")
    assert fnp.array_str(fnp.array([1e-9, 1.0]), suppress_small=True) == "[0. 1.]"
    assert fnp.array2string(fnp.arange(3), separator="-") == "[0-1-2]"
    described = []
    ft.vmap(lambda x: described.append(fnp.array2string(x)))(X)
    assert "float64" in described[0]


def test_what_dtypes_are_common():
    assert fnp.common_type(fnp.ones(1, "float32"), np.ones(1, "int8")) is np.float64
    assert fnp.min_scalar_type(fnp.array(300)) == np.uint16
    assert fnp.min_scalar_type(fnp.ones(2)) == np.float64
    seen = []
    ft.vmap(lambda x: seen.append(fnp.min_scalar_type(x)))(X)
    assert seen == [np.float64]
    assert fnp.iterable([1])
    assert not fnp.iterable(2.0)


def test_einsum_path_needs_only_shapes():
    a, b, c = np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 2))
    wanted = np.einsum_path("ij,jk,kl->il", a, b, c)[0]
    assert fnp.einsum_path("ij,jk,kl->il", *map(fnp.asarray, (a, b, c)))[0] == wanted
    paths = []
    ft.grad(lambda a: paths.append(fnp.einsum_path("ij,jk,kl->il", a, b, c)[0]) or a.sum())(a)
    assert paths == [wanted]
