"""Other libraries meet arrays: SciPy, scikit-learn, DLPack, pandas, matplotlib, solvers."""

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import functensor as ft
import functensor.numpy as fnp
from functensor.primitives.core.buffers import wrap
from functensor.primitives.core.errors import TracerConversionError
from functensor.primitives.core.numpy_protocols import UPDATE_MODULES
from functensor.testing import check_grads

X = np.array([0.3, 0.6, 0.2])

# The array API mode is chosen before SciPy is imported, and so for a whole process.
PRELUDE = """
import warnings
warnings.simplefilter("error")
import numpy as np
import functensor as ft, functensor.numpy as fnp
from functensor.testing import check_grads

x = fnp.asarray(np.array([0.3, 0.6, 0.2, 0.9]))
points = fnp.asarray(np.random.default_rng(0).normal(size=(6, 2)))

def check(calls, x, rtol=1e-10):
    for name, call in calls.items():
        got, wanted = call(x), call(np.array(x))
        assert isinstance(got, ft.Array), (name, type(got))
        np.testing.assert_allclose(got, wanted, rtol=rtol, err_msg=name)
        check_grads(lambda x: fnp.asarray(call(fnp.asarray(x))), (x,), order=1)
"""

SPECIAL = """
import scipy.special as special
names = "expit logit gammaln gamma digamma entr erf erfc erfinv i0 i0e i1 i1e ndtr ndtri log_ndtr"
calls = {name: getattr(special, name) for name in names.split()}
calls |= {
    "xlogy": lambda x: special.xlogy(x, x),
    "rel_entr": lambda x: special.rel_entr(x, x[::-1]),
    "betainc": lambda x: special.betainc(2 * x, 3 * x, x),
    "gammainc": lambda x: special.gammainc(2 + 0 * x, x),
    "logsumexp": lambda x: special.logsumexp(x),
    "softmax": lambda x: special.softmax(x)[0],
    "log_softmax": lambda x: special.log_softmax(x)[1],
}
check(calls, x)
np.testing.assert_allclose(
    ft.vmap(lambda x: special.logsumexp(x))(points), special.logsumexp(np.asarray(points), axis=1)
)
"""

STATISTICS = """
import scipy.stats as stats
check({
    "gmean": lambda x: stats.gmean(x),
    "hmean": lambda x: stats.hmean(x),
    "skew": lambda x: stats.skew(x),
    "kurtosis": lambda x: stats.kurtosis(x),
    "moment": lambda x: stats.moment(x, 3),
    "entropy": lambda x: stats.entropy(x),
    "zscore": lambda x: stats.zscore(x) ** 3,
    "variation": lambda x: stats.variation(x),
    "sem": lambda x: stats.sem(x),
    "pearsonr": lambda x: stats.pearsonr(x, x * x).statistic,
    "ttest": lambda x: stats.ttest_1samp(x, 0.1).pvalue,
}, x)
"""

TRANSFORMS = """
import scipy.fft, scipy.signal, scipy.integrate, scipy.optimize
import scipy.spatial.transform as transform
check({
    "fft": lambda x: abs(scipy.fft.fft(x)) ** 2,
    "irfft": lambda x: scipy.fft.irfft(scipy.fft.rfft(x, 4)) ** 2,
    "fftshift": lambda x: scipy.fft.fftshift(x) ** 2,
    "fftconvolve": lambda x: scipy.signal.fftconvolve(x, x),
    "trapezoid": lambda x: scipy.integrate.trapezoid(x * x),
    "rosen": lambda x: scipy.optimize.rosen(x),
    "rotation": lambda x: transform.Rotation.from_rotvec(x[:3]).as_matrix(),
}, x)
"""

REFUSED = """
import scipy.signal
from functensor.primitives.core.errors import TracerConversionError
try:
    ft.grad(lambda x: scipy.signal.lfilter(fnp.ones(2), fnp.ones(1), x).sum())(x)
except TracerConversionError as error:
    assert "lfilter" in str(error)
else:
    raise AssertionError("a derivative was dropped")
"""

LEARNING = """
import sklearn, sklearn.decomposition, sklearn.linear_model, sklearn.metrics
import sklearn.metrics.pairwise as pairwise, sklearn.preprocessing
rows = fnp.asarray(np.random.default_rng(1).normal(size=(8, 3)))
targets = fnp.asarray(np.random.default_rng(2).normal(size=8))
with sklearn.config_context(array_api_dispatch=True):
    check({
        "rbf": lambda a: pairwise.rbf_kernel(a, rows[2:] * 1.0 if isinstance(a, ft.Array)
                                             else np.asarray(rows)[2:]),
        "polynomial": lambda a: pairwise.polynomial_kernel(a),
        "pca": lambda a: sklearn.decomposition.PCA(2).fit(a).explained_variance_,
        "centre": lambda a: sklearn.preprocessing.KernelCenterer().fit_transform(a @ a.T),
    }, rows)
    error = sklearn.metrics.mean_squared_error(targets, targets * 0.5)
    np.testing.assert_allclose(error, np.mean((np.asarray(targets) * 0.5) ** 2))
    errors = lambda y: sklearn.metrics.mean_squared_error(
        fnp.stack([targets, targets], 1), fnp.stack([y, y * y], 1), multioutput="raw_values")
    check_grads(errors, (targets * 0.5,), order=1)
    labels = fnp.asarray([0, 1, 1, 0])
    assert sklearn.metrics.accuracy_score(labels, labels) == 1.0
fitted = sklearn.linear_model.Ridge().fit(rows, targets).coef_
assert type(fitted) is np.ndarray
"""


def test_all_copies_of_array_api_extra_update_by_index():
    pytest.importorskip("sklearn")
    places = set()
    for name in UPDATE_MODULES:
        try:
            updating = importlib.import_module(name).at
        except ImportError:
            continue
        places.add(name.partition(".")[0])

        def written(x, updating=updating):
            return updating(updating(x, 0).set(2 * x[1]), np.array([1, 2])).add(x[2], copy=True)

        x = wrap(X)
        x.__array_namespace__()  # which SciPy asks for in its array API mode alone
        np.testing.assert_allclose(written(x), [1.2, 0.8, 0.4])
        np.testing.assert_allclose(ft.jit(written)(x), [1.2, 0.8, 0.4])
        np.testing.assert_array_equal(x, X)
        check_grads(written, (x,))
    assert places >= {"scipy", "sklearn"}


@pytest.mark.parametrize(
    "program",
    [SPECIAL + STATISTICS + TRANSFORMS + REFUSED, LEARNING],
    ids=["scipy", "scikit-learn"],
)
def test_array_api_functions_accept_arrays_and_differentiate(program):
    if program is LEARNING:
        pytest.importorskip("sklearn")
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


# -- solvers


def loss(z):
    return fnp.sum((z - X) ** 2 * (1 + z**2))


SOLVERS = ["BFGS", "L-BFGS-B", "CG", "TNC", "SLSQP", "Newton-CG", "trust-ncg"]


@pytest.mark.parametrize("method", SOLVERS)
def test_minimisers_take_functions_of_arrays(method):
    options = {"hess": ft.hessian(loss)} if method in ("Newton-CG", "trust-ncg") else {}
    start = np.full(3, 0.5)
    apart = scipy.optimize.minimize(loss, start, jac=ft.grad(loss), method=method, **options)
    both = scipy.optimize.minimize(
        ft.value_and_grad(loss), fnp.asarray(start), jac=True, method=method, **options
    )
    for found in (apart, both):
        assert type(found.x) is np.ndarray
        np.testing.assert_allclose(found.x, X, atol=1e-4)


def test_other_solvers_take_functions_of_arrays():
    def residual(z):
        return z * z - X

    root = np.sqrt(X)
    jacobian = ft.jacfwd(residual)
    np.testing.assert_allclose(scipy.optimize.root(residual, np.ones(3), jac=jacobian).x, root)
    found = scipy.optimize.least_squares(residual, np.ones(3), jac=jacobian)
    np.testing.assert_allclose(found.x, root, rtol=1e-6)
    derivative = ft.grad(lambda z: fnp.cos(z) - z)
    newton = scipy.optimize.newton(lambda z: fnp.cos(z) - z, 1.0, fprime=derivative)
    np.testing.assert_allclose(fnp.cos(newton), newton)
    flow = scipy.integrate.solve_ivp(lambda t, y: -y * fnp.asarray(X), (0, 1), X, rtol=1e-8)
    np.testing.assert_allclose(flow.y[:, -1], X * np.exp(-X), rtol=1e-6)


# -- exchange


def test_dlpack_with_numpy():
    x = wrap(X.copy())
    for again in (np.from_dlpack(x), fnp.from_dlpack(np.asarray(x).copy()), fnp.from_dlpack(x)):
        np.testing.assert_array_equal(again, X)
    got = np.from_dlpack(x)
    got[:] = 0  # memory of its own
    np.testing.assert_array_equal(x, X)
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(TracerConversionError):
        ft.grad(lambda x: np.from_dlpack(x).sum())(X)


def test_memory_is_shared_read_only():
    view = np.asarray(wrap(X))
    assert np.shares_memory(view, X)
    assert not view.flags.writeable
    assert memoryview(view).readonly
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    assert np.array(wrap(X)).flags.writeable


def test_exchange_with_torch():
    torch = pytest.importorskip("torch")
    x = wrap(X.astype("float32"))
    there = torch.from_dlpack(x)
    assert there.dtype == torch.float32
    there += 1  # memory of its own
    np.testing.assert_array_equal(x, X.astype("float32"))
    back = fnp.from_dlpack(there)
    np.testing.assert_array_equal(back, there.numpy())
    np.testing.assert_array_equal(fnp.asarray(there) + x, there.numpy() + X.astype("float32"))
    np.testing.assert_array_equal(torch.asarray(np.array(x)).numpy(), x)
    assert isinstance(there * x, ft.Array | torch.Tensor)
    with pytest.raises(TracerConversionError):
        ft.grad(lambda x: torch.from_dlpack(x).sum())(X)


def test_matplotlib_draws_arrays():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x, image = wrap(X), fnp.ones((2, 3)) * X
    figure, axes = plt.subplots()
    (line,) = axes.plot(x, x * x)
    np.testing.assert_array_equal(line.get_ydata(), X * X)
    axes.scatter(x, x, c=x, s=x)
    axes.bar(x, x, yerr=x)
    counts, _, _ = axes.hist(x, bins=fnp.asarray([0.0, 0.25, 1.0]))
    assert list(counts) == [1, 2]
    axes.imshow(image)
    axes.pcolormesh(image)
    axes.fill_between(x, x - 1, x + 1)
    axes.errorbar(x, x, yerr=x / 10)
    axes.set_xlim(x[0], x[-1])
    figure.canvas.draw()
    with pytest.raises(TracerConversionError):
        ft.grad(lambda x: axes.plot(x)[0])(X)
    plt.close(figure)


def test_pandas_holds_arrays():
    pandas = pytest.importorskip("pandas")
    x = wrap(X)
    frame = pandas.DataFrame({"a": x, "b": [1, 2, 3]})
    assert frame.dtypes["a"] == np.float64
    frame["c"] = x * 2
    frame.loc[0, "a"] = x[1]
    np.testing.assert_array_equal(frame["c"], X * 2)
    assert frame.loc[0, "a"] == X[1]
    series = pandas.Series(X)
    np.testing.assert_array_equal(series * x, X * X)
    assert isinstance(fnp.sin(series), ft.Array)
    np.testing.assert_array_equal(ft.grad(lambda w: fnp.sum(w * series.values))(X), X)
    np.testing.assert_array_equal(ft.grad(lambda w: fnp.sum(w * series))(X), X)
    with pytest.raises(TracerConversionError):
        ft.grad(lambda w: pandas.Series(w).sum())(X)
