"""The backend of ``examples/backend.py`` passes the registry's checks, and names what it lacks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.long_forms import LONG, sized

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 150
# Primitives whose values PyTorch has no function for, in one of their dtypes at least.
LACKED = {
    "argpartition", "banded_solve", "beta", "beta_density", "betainc", "betaincc",
    "betainccinv", "betaincinv", "betaln", "binom", "bitwise_count", "cbrt", "complex_erf",
    "complex_erfc", "complex_erfcx", "complex_erfi", "complex_ndtr", "cosine_integral",
    "digamma", "dropout", "erfcinv", "erfi", "exp1", "exp10", "expi", "expn", "faddeeva",
    "gamma", "gamma_density", "gammainc_grad", "gammainccinv", "gammaincinv", "gammasgn",
    "iv", "ive", "jv", "kl_div", "kn", "kv", "kve", "linear_filter", "loggamma", "logm", "lu",
    "ndtri_exp", "poch", "polygamma", "qr_pivots", "random_binomial", "random_bits",
    "random_keys", "random_loggamma", "random_poisson", "rel_entr", "rgamma", "sine_integral",
    "solve_sylvester", "spence", "sqrtm", "xlog1py", "xlogy", "yn", "yv",
}  # fmt: skip
# Those of which a derivative, or another sample than the first, needs one that is lacked.
LACKED_LATER = {
    "betainc_grad": "betainc_grad",
    "gammainc": "gammainc_grad",
    "gammaincc": "gammainc_grad",
    "gammaln": "polygamma",
    "i0e": "ive",
    "i1e": "ive",
    "j0": "jv",
    "j1": "jv",
    "k0": "kv",
    "k1": "kv",
    "riemann_zeta": "polygamma",
    "y0": "yv",
    "y1": "yv",
}


def test_the_example_is_short():
    assert len((ROOT / "examples" / "backend.py").read_text().splitlines()) <= MOST_LINES


@pytest.mark.long
def test_the_registry_passes_but_for_what_pytorch_lacks():
    pytest.importorskip("torch")
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "examples")])
    done = subprocess.run(
        [sys.executable, "-m", "support.third_backend", sized("short", "long")],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wanted = {name: name for name in LACKED} | (LACKED_LATER if LONG else {})
    assert {name: lack for name, lack in found.items() if lack} == wanted
    assert len(found) > 290
