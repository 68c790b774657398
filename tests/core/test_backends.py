"""The floor of buffers: the protocol, what is missing, and what the allocator keeps."""

import resource
import subprocess
import sys

import numpy as np
import pytest

from functensor import backends
from functensor.backends.cpu import malloc

CHURN = """
import resource, numpy
import functensor.backends
functensor.backends.get("numpy")
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [numpy.ones(1 << 22, "f") for _ in range(6)]
    del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(min(faults() for _ in range(3)))
"""


def churn_faults(**environment):
    command = [sys.executable, "-c", CHURN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_numpy_backend_implements_the_protocol():
    backend = backends.get("numpy")
    assert backends.get() is backend
    assert backend.xp is np
    assert backend.devices() == ["cpu"]
    assert backend.zeros((2, 3), "float32").tolist() == [[0.0] * 3] * 2
    assert backend.ones((2,), "int64").tolist() == [1, 1]
    values = np.arange(3.0)
    assert backend.asarray(values) is values
    assert backend.to_host(values) is values
    backend.synchronize()
    assert backend.memory()["peak"] >= resource.getpagesize()


def test_info_says_which_blas():
    info = backends.info()["numpy"]
    assert info["version"] == np.__version__
    assert info["blas"].strip()


def test_every_kernel_belongs_to_a_primitive():
    from functensor.primitives import registry

    assert set(backends.get("numpy").kernels) <= {primitive.name for primitive in registry}


def test_an_unknown_backend_is_told_those_that_there_are():
    with pytest.raises(backends.BackendUnavailable, match="no backend named 'tpu'") as caught:
        backends.get("tpu")
    assert "available: cupy, numpy" in str(caught.value)


def test_a_name_is_registered_once():
    backend = backends.get("numpy")
    assert backends.register(backend) is backend
    with pytest.raises(ValueError, match="a backend named 'numpy' is registered already"):
        backends.register(type(backend)())


def test_zero_leaves_the_allocator_alone():
    assert malloc.keep_freed_memory(0) is False


@pytest.mark.skipif(not malloc.keep_freed_memory(), reason="the C library is not glibc's")
def test_freed_memory_is_used_again():
    kept = churn_faults()
    returned = churn_faults(FUNCTENSOR_KEEP_MEMORY="0")
    assert kept < 10
    assert returned > 100
