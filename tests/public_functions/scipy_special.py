"""Cases of SciPy's special functions."""

import numpy as np
import scipy

from functensor.primitives.core.test_samples import POSITIVE, REAL, UNIT

from .harness import Case, Domain, Operand

PROBABILITY = Domain(0.1, 0.9)
RIGHT = Domain(0.5, 4.0)
OFF_ZERO = Domain(gap=0.1)
ORDER = Domain(0, 3, kind="i")
SHAPE = Domain(0.6, 3.0)
POSITIVE_ROW = Operand((2, 3), POSITIVE)


def named(function, *domains, shapes=((2, 3), (3,), (2, 1)), **options):
    """Returns a case of a function that is called with operands alone, which broadcast."""

    def call(sp, *operands):
        return getattr(sp.special, function)(*operands)

    operands = [Operand(shape, domain) for shape, domain in zip(shapes, domains)]
    return Case(f"scipy.special.{function}", call, *operands, **options)


def of(function, call, *operands, **options):
    """Returns a case of a function that has options."""
    return Case(f"scipy.special.{function}", call, *operands, **options)


# Functions of one operand, each with where it is smooth.
UNARY = {
    "cbrt": POSITIVE,
    "digamma": POSITIVE,
    "entr": POSITIVE,
    "erf": REAL,
    "erfc": REAL,
    "erfcinv": Domain(0.1, 1.9),
    "erfcx": REAL,
    "erfi": REAL,
    "erfinv": Domain(-0.9, 0.9),
    "exp1": POSITIVE,
    "exp10": UNIT,
    "exp2": REAL,
    "expi": POSITIVE,
    "expit": REAL,
    "expm1": REAL,
    "gamma": POSITIVE,
    "gammaln": POSITIVE,
    "i0": REAL,
    "i0e": OFF_ZERO,
    "i1": REAL,
    "i1e": OFF_ZERO,
    "j0": REAL,
    "j1": REAL,
    "k0": RIGHT,
    "k0e": RIGHT,
    "k1": RIGHT,
    "k1e": RIGHT,
    "log1p": POSITIVE,
    "log_expit": REAL,
    "log_ndtr": REAL,
    "loggamma": POSITIVE,
    "logit": PROBABILITY,
    "ndtr": REAL,
    "ndtri": PROBABILITY,
    "ndtri_exp": Domain(-3.0, -0.1),
    "psi": POSITIVE,
    "rgamma": REAL,
    "sici": POSITIVE,
    "sinc": UNIT,
    "spence": POSITIVE,
    "y0": RIGHT,
    "y1": RIGHT,
}
# Functions of more operands.
MORE = {
    "beta": (POSITIVE, POSITIVE),
    "betainc": (SHAPE, SHAPE, PROBABILITY),
    "betaincc": (SHAPE, SHAPE, PROBABILITY),
    "betainccinv": (SHAPE, SHAPE, PROBABILITY),
    "betaincinv": (SHAPE, SHAPE, PROBABILITY),
    "betaln": (POSITIVE, POSITIVE),
    "binom": (Domain(3.1, 6.0), Domain(0.3, 2.9)),
    "comb": (Domain(3.1, 6.0), Domain(0.3, 2.9)),
    "gammainc": (SHAPE, POSITIVE),
    "gammaincc": (SHAPE, POSITIVE),
    "gammainccinv": (SHAPE, PROBABILITY),
    "gammaincinv": (SHAPE, PROBABILITY),
    "kl_div": (POSITIVE, POSITIVE),
    "poch": (POSITIVE, POSITIVE),
    "rel_entr": (POSITIVE, POSITIVE),
    "xlog1py": (REAL, POSITIVE),
    "xlogy": (REAL, POSITIVE),
}
# Functions of an integer order, by which there is no derivative, in double precision.
ORDERS = {
    "expn": POSITIVE,
    "iv": REAL,
    "ive": OFF_ZERO,
    "jn": REAL,
    "jv": REAL,
    "kn": RIGHT,
    "kv": RIGHT,
    "kve": RIGHT,
    "polygamma": POSITIVE,
    "yn": RIGHT,
    "yv": RIGHT,
}

# Probabilities, by operands that are smooth.
PROBABILITIES = {
    "chdtr": (SHAPE, POSITIVE),
    "chdtrc": (SHAPE, POSITIVE),
    "chdtri": (SHAPE, PROBABILITY),
    "fdtr": (SHAPE, SHAPE, POSITIVE),
    "fdtrc": (SHAPE, SHAPE, POSITIVE),
    "fdtri": (SHAPE, SHAPE, PROBABILITY),
    "gdtr": (SHAPE, SHAPE, POSITIVE),
    "gdtrc": (SHAPE, SHAPE, POSITIVE),
    "gdtrix": (SHAPE, SHAPE, PROBABILITY),
    "stdtr": (SHAPE, REAL),
    "stdtrit": (SHAPE, PROBABILITY),
}
# Of counts: how many, of or before how many, and a smooth operand.
SOME, ALL = Domain(0, 2, kind="i"), Domain(3, 6, kind="i")
COUNTED = {
    "bdtr": (SOME, ALL, PROBABILITY),
    "bdtrc": (SOME, ALL, PROBABILITY),
    "bdtri": (SOME, ALL, PROBABILITY),
    "nbdtr": (SOME, ALL, PROBABILITY),
    "nbdtrc": (SOME, ALL, PROBABILITY),
    "nbdtri": (SOME, ALL, PROBABILITY),
    "pdtr": (SOME, POSITIVE),
    "pdtrc": (SOME, POSITIVE),
    "pdtri": (SOME, PROBABILITY),
}
KEPT = np.array([[True, False, True], [False, False, True]])

CASES = [
    *(named(function, *domains) for function, domains in PROBABILITIES.items()),
    *(named(function, *domains, dtypes="d") for function, domains in COUNTED.items()),
    named("exprel", REAL),
    named("boxcox", POSITIVE, REAL),
    named("boxcox1p", Domain(-0.7, 3.0), REAL),
    named("inv_boxcox", UNIT, UNIT),
    named("inv_boxcox1p", UNIT, UNIT),
    # Quotients of zeros are limits here.
    *(of(f, lambda sp, x, p, f=f: getattr(sp.special, f)(x, p * 1e-9), POSITIVE_ROW, (3,))
      for f in ("boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p")),
    *(named(function, domain) for function, domain in UNARY.items()),
    *(named(function, *domains) for function, domains in MORE.items()),
    *(named(function, ORDER, domain, dtypes="d") for function, domain in ORDERS.items()),
    # SciPy's factorial and multigammaln make double precision of single.
    named("factorial", POSITIVE, dtypes="d"),
    named("gammasgn", REAL, smooth=False),
    named("zeta", Domain(1.5, 5.0), POSITIVE, dtypes="d"),
    named("zeta", Domain(1.5, 5.0), dtypes="d"),
    named("wofz", REAL, dtypes="dD"),
    *(named(name, REAL, dtypes="D") for name in ("erf", "erfc", "erfcx", "erfi", "ndtr")),
    of("iv", lambda sp, z: sp.special.iv(1.5, z), Operand((2, 3), RIGHT)),
    of("jv", lambda sp, z: sp.special.jv(0.5, z), Operand((2, 3), RIGHT)),
    of("yv", lambda sp, z: sp.special.yv(0.5, z), Operand((2, 3), RIGHT)),
    of("kv", lambda sp, z: sp.special.kv(0.5, z), Operand((2, 3), RIGHT)),
    of("polygamma", lambda sp, x: sp.special.polygamma([[0], [2]], x), Operand((3,), POSITIVE)),
    of(
        "multigammaln",
        lambda sp, a: sp.special.multigammaln(a, 3),
        Operand((2, 3), Domain(1.3, 4.0)),
        dtypes="d",
    ),
    of(
        "comb",
        lambda sp, n, k: sp.special.comb(n, k, repetition=True),
        Operand((2, 3), Domain(3.1, 6.0)),
        Operand((3,), Domain(0.3, 2.9)),
    ),
    of(
        "softplus",
        lambda sp, x: sp.special.softplus(x),
        (2, 3),
        reference=lambda x: np.logaddexp(x, 0),
    ),
    # Sums of exponentials, over axes.
    of("logsumexp", lambda sp, a: sp.special.logsumexp(a), (2, 3)),
    of("logsumexp", lambda sp, a: sp.special.logsumexp(a, axis=(0, -1), keepdims=True), (2, 3, 2)),
    of(
        "logsumexp",
        lambda sp, a, b: sp.special.logsumexp(a, axis=1, b=b),
        (2, 3),
        Operand((3,), POSITIVE),
    ),
    of(
        "logsumexp",
        lambda sp, a, b: sp.special.logsumexp(a, b=b, axis=0, return_sign=True),
        (3, 2),
        Operand((3, 2), Domain(gap=0.5)),
    ),
    of(
        "logsumexp",
        lambda sp, a, b: sp.special.logsumexp(a, axis=1, b=b),
        (2, 3),
        (2, 3),
        dtypes="D",
    ),
    of(
        "logsumexp",
        lambda sp, a: sp.special.logsumexp(a, keepdims=True, return_sign=True),
        (2, 3),
        dtypes="D",
    ),
    of(
        "logsumexp",
        lambda sp, a: sp.special.logsumexp(a, axis=1, **(
            {"b": KEPT} if sp is scipy else {"where": KEPT.tolist()}
        )),
        (2, 3),
        dtypes="dD",
    ),
    of("softmax", lambda sp, x: sp.special.softmax(x), (2, 3)),
    of("softmax", lambda sp, x: sp.special.softmax(x, axis=0), (2, 3)),
    of("log_softmax", lambda sp, x: sp.special.log_softmax(x), (2, 3)),
    of("log_softmax", lambda sp, x: sp.special.log_softmax(x, axis=(0, 2)), (2, 3, 2)),
]
