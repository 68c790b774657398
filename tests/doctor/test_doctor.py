"""The doctor in environments of its own: what it says where all is right, and of planted faults."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib

import pytest
from support.environments import Environment
from support.long_forms import only_long, thinned

from functensor import __version__
from functensor.backends.nvidia import driver_number

on_no_driver = pytest.mark.skipif(
    driver_number() is not None, reason="the driver of this machine would be found"
)
# A module cupy that is imported, and finds no driver.
CUPY = """
__version__ = {version!r}
class CUDARuntimeError(RuntimeError): pass
class runtime:
    CUDARuntimeError = CUDARuntimeError
    def runtimeGetVersion(): return {cuda}
    def getDeviceCount(): raise CUDARuntimeError("cudaErrorInsufficientDriver: too old")
class cuda: runtime = runtime
"""
BOTH = (
    "cupy-cuda12x 14.1.0 and cupy-cuda13x 14.1.0 are both installed, and overwrite each other's "
    "files"
)
SMI = "| NVIDIA-SMI 550.54.14   Driver Version: 550.54.14   CUDA Version: {} |"


def block(output):
    """Returns what the block to paste holds."""
    return tomllib.loads(output.partition("```toml\n")[2].partition("```")[0])


def mends(done):
    """Returns the commands of a report by their parts; its end status has to fit."""
    assert "Traceback" not in done.stdout + done.stderr
    found = block(done.stdout)
    assert done.returncode == (1 if found.get("mend") else 0)
    return {fault["part"]: fault["command"] for fault in found.get("mend", ())}


def what(done):
    """Returns what is wrong with each part."""
    return {fault["part"]: fault["what"] for fault in block(done.stdout)["mend"]}


@pytest.fixture
def env(tmp_path):
    return Environment(tmp_path)


def test_all_is_right(env):
    done = env.run("doctor")
    assert mends(done) == {}, done.stdout
    assert "\nAll is right.\n" in done.stdout
    assert done.stderr == ""
    found = block(done.stdout)
    assert list(found) == ["machine", "packages", "extras", "devices", "NVIDIA"]
    assert found["machine"]["functensor"].startswith(f"{__version__}, {env.site}")
    assert found["machine"]["python"].startswith(sys.version.split()[0])
    assert found["packages"]["numpy"] == sys.modules["numpy"].__version__
    assert found["packages"]["mpi4py"] == "no: it is not installed"
    assert found["extras"]["scipy"] == "no: without scipy>=1.12"
    assert "[pip install 'functensor[scipy]']" in done.stdout
    assert found["extras"]["native"] == "no: without llvmlite>=0.45"
    assert found["devices"]["cpu native"] == "no: llvmlite is not installed"
    assert {"test", "docs", "bench", "dev"}.isdisjoint(found["extras"])
    for name in ("kernel", "product", "gradient"):
        assert found["devices"][f"cpu {name}"].endswith(" ms; the numbers are right")
    assert found["NVIDIA"]["cupy"] == "no: CuPy is not installed"
    assert "threads" in found["devices"]["functensor"]


def test_machine_code_is_tried(env, tmp_path):
    pytest.importorskip("llvmlite")
    env.link("llvmlite")
    done = env.run("doctor", FUNCTENSOR_CACHE_DIR=str(tmp_path / "objects"))
    assert mends(done) == {}
    found = block(done.stdout)
    assert found["extras"]["native"].startswith("llvmlite ")
    what = found["devices"]["cpu native"]
    assert re.match(r"LLVM \d+\.\d+\.\d+, (AVX-512|AVX2|NEON) of \S+, called as built-in", what)
    assert what.endswith("the numbers are right")
    assert found["devices"]["cpu native objects"] == str(tmp_path / "objects")
    done = env.run("doctor", FUNCTENSOR_NATIVE="0")
    assert mends(done) == {}
    what = block(done.stdout)["devices"]["cpu native"]
    assert what == "no: FUNCTENSOR_NATIVE=0 turns native code off"
    assert "[unset FUNCTENSOR_NATIVE]" in done.stdout


@only_long
@pytest.mark.long
def test_llvmlite_without_its_library(env):
    env.plant("llvmlite", "0.50.0", module="llvmlite")
    done = env.run("doctor")
    command = "pip install --force-reinstall --no-deps"
    assert mends(done) == {
        "llvmlite": f"{command} 'llvmlite>=0.45'", "cpu native": f"{command} llvmlite"
    }  # fmt: skip
    assert what(done)["cpu native"].startswith("NativeUnavailable: llvmlite cannot be used: Mod")


def test_options(env):
    assert env.run("--version").stdout == f"functensor {__version__}\n"
    assert env.run("--version", module=True).stdout == f"functensor {__version__}\n"
    assert "doctor" in env.run("--help").stdout
    assert env.run().stdout == env.run("--help").stdout
    wrong = env.run("nurse")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.splitlines()[-1].startswith("functensor: error: ")


def test_a_command_without_its_package(env):
    (env.site / "functensor").rename(env.folder / "away")
    done = env.run("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    told = f"functensor is not installed for {env.python}: pip install functensor\n"
    assert done.stdout == told


@pytest.mark.parametrize(
    ("planted", "named"),
    [
        ("functensor/notes.txt", "functensor"),
        ("functensor/__init__.py", "functensor/__init__.py"),
        ("functensor.py", "functensor.py"),
    ],
)
def test_a_command_that_finds_another_package(env, planted, named):
    (env.site / "functensor").rename(env.folder / "away")
    (env.folder / "path" / "functensor").mkdir(parents=True)
    (env.folder / "path" / planted).touch()
    if planted == "functensor.py":
        (env.folder / "path" / "functensor").rmdir()
    done = env.run("doctor", PYTHONPATH=str(env.folder / "path"))
    assert (done.returncode, done.stderr) == (1, "")
    other = env.folder / "path" / named
    assert done.stdout.startswith(f"{other} is imported in place of functensor: rename it")


@pytest.mark.parametrize("planted", ["functensor/__init__.py", "functensor.py"])
def test_another_package_on_the_path_is_named(env, planted):
    other = env.folder / "path" / planted
    other.parent.mkdir(parents=True)
    other.touch()
    # As the program that pip installs, whose own folder has no packages.
    program = "import functensor_command; raise SystemExit(functensor_command.main())"
    done = subprocess.run(
        [str(env.python), "-P", "-c", program, "doctor"],
        capture_output=True, text=True, cwd=env.folder,
        env={**os.environ, "PYTHONPATH": str(env.folder / "path")},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(f"{other} is imported in place of functensor: rename it")


@only_long
@pytest.mark.long
def test_an_empty_folder_of_the_name_on_the_path_is_no_package(env):
    (env.folder / "path" / "functensor").mkdir(parents=True)
    assert mends(env.run("doctor", PYTHONPATH=str(env.folder / "path"))) == {}


@only_long
@pytest.mark.long
def test_a_working_directory_that_was_deleted(env):
    gone = env.folder / "gone"
    gone.mkdir()
    program = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(env.python), "-m", "functensor", "doctor"],
        capture_output=True, text=True, cwd=gone,
    )  # fmt: skip
    assert mends(done) == {"working directory": "cd"}
    assert what(done)["working directory"].startswith("it was deleted")
    assert done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")
def test_a_report_that_cannot_be_written(env):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [str(env.python), "-m", "functensor", "doctor"],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=env.folder,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "functensor: the report cannot be written: No space left on device\n"


@only_long
@pytest.mark.long
def test_packages_that_are_old_or_broken(env):
    env.plant("scipy", "1.5.4", module="scipy", source="__version__ = '1.5.4'")
    env.plant("matplotlib", "3.9", module="matplotlib", source="raise OSError('no\\nfont')")
    env.plant("tqdm", "4.66", module="tqdm", source="import os; os.abort()")
    env.plant("safetensors", "0.5", module="safetensors", source="print('noise', end='')")
    env.plant("pooch", "1.9", module="pooch", source="import absent")
    env.plant("mpi4py", "4.0", module="mpi4py", source="class rc: pass")
    env.plant("nameless", "1", metadata="broken")
    elsewhere = env.folder / "here" / "functensor"
    elsewhere.mkdir(parents=True)
    (elsewhere / "__init__.py").touch()
    done = env.run("doctor", cwd=elsewhere.parent, module=False)
    assert mends(done) == {
        "scipy": "pip install 'scipy>=1.12'",
        "matplotlib": "pip install --force-reinstall --no-deps 'matplotlib>=3.8'",
        "tqdm": "pip install --force-reinstall --no-deps 'tqdm>=4.60'",
        "pooch": "pip install 'pooch>=1.8'",
        "mpi4py": "pip install --force-reinstall --no-deps 'mpi4py>=4.1'",
        "mpi": "pip install 'mpi4py>=4.1'",
        "working directory": "mv functensor my_functensor",
    }
    found = what(done)
    assert found["scipy"] == "scipy 1.5.4 is too old: 1.12 is needed"
    assert found["matplotlib"] == "3.9 cannot be imported: OSError: no"
    assert found["tqdm"] == "the process was ended by SIGABRT"
    assert found["mpi4py"] == (
        "4.0 cannot be imported: ModuleNotFoundError: No module named 'mpi4py.MPI'"
    )
    assert found["pooch"] == "1.9 cannot be imported: ModuleNotFoundError: No module named 'absent'"
    assert str(elsewhere) in found["working directory"]
    # One that is tried after the process ended.
    assert block(done.stdout)["packages"]["safetensors"] == "0.5"


@only_long
@pytest.mark.long
def test_a_file_or_a_folder_in_the_packages_place(env):
    here = env.folder / "here"
    (here / "functensor").mkdir(parents=True)
    # Python passes over a folder without __init__.py for a package that it finds later.
    assert mends(env.run("doctor", cwd=here)) == {}
    (here / "functensor.py").touch()
    done = env.run("doctor", cwd=here)
    assert mends(done) == {"working directory": "mv functensor.py my_functensor.py"}
    # The file is what `python -m functensor` runs there.
    assert env.run("--version", cwd=here, module=True).stdout == ""
    assert env.run("--version", cwd=here).stdout == f"functensor {__version__}\n"


def test_numpy_1(env):
    env.forget("numpy")
    env.plant("numpy", "1.26.4", module="numpy", source="__version__ = '1.26.4'")
    done = env.run("doctor")
    found = mends(done)
    assert (found["numpy"], found["functensor"]) == ("pip install 'numpy>=2'", "")
    found = what(done)
    assert found["numpy"] == "numpy 1.26.4 is too old: 2 is needed"
    line = "ImportError: functensor needs NumPy 2, and NumPy 1.26.4 is installed: "
    assert found["functensor"].startswith(line + "pip install 'numpy>=2'")
    plain = env.run("doctor", module=True)
    assert plain.stderr.splitlines()[-1].startswith(line)


@only_long
@pytest.mark.long
def test_numpy_that_is_another_than_its_metadata_says(env):
    env.forget("numpy")
    env.plant("numpy", "2.0.0")
    here = sys.modules["numpy"].__version__
    done = env.run("doctor")
    assert mends(done) == {"numpy": "pip install --force-reinstall --no-deps 'numpy>=2'"}
    assert what(done)["numpy"] == f"{here} is imported, and its metadata says 2.0.0"


@only_long
@pytest.mark.long
def test_what_functensor_needs_is_missing(env):
    env.forget("opt-einsum")
    (env.site / "opt_einsum").unlink()
    done = env.run("doctor")
    found = mends(done)
    assert found.pop("opt-einsum") == "pip install 'opt-einsum>=3.4'"
    env.forget("functensor")
    assert mends(env.run("doctor"))["functensor"] == "pip install functensor"


@only_long
@pytest.mark.long
@on_no_driver
def test_cupy_without_a_driver(env):
    source = CUPY.format(version="14.1.0", cuda=13000)
    env.plant("cupy-cuda13x", "14.1.0", module="cupy", source=source)
    env.plant("nvidia-cudnn-frontend", "1.20")
    done = env.run("doctor")
    assert mends(done) == {"cupy": "pip uninstall -y cupy-cuda13x"}
    assert what(done)["cupy"] == (
        "cupy-cuda13x 14.1.0 is installed, but no NVIDIA driver was found"
    )
    found = block(done.stdout)["NVIDIA"]
    assert found["driver"] == "no: no NVIDIA driver was found"
    assert found["cudnn"] == "no: front end 1.20; no GPU uses it"
    assert found["nccl"].startswith("no: ModuleNotFoundError: ")


@only_long
@pytest.mark.long
@on_no_driver
@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")
def test_the_real_cupy_without_a_driver():
    done = subprocess.run(
        [sys.executable, "-m", "functensor", "doctor"], capture_output=True, text=True, cwd=os.sep
    )
    (name,) = {"cupy-cuda12x", "cupy-cuda13x"} & {mends(done)["cupy"].split()[-1]}
    assert what(done)["cupy"].startswith(f"{name} ")
    assert what(done)["cupy"].endswith(" is installed, but no NVIDIA driver was found")


@on_no_driver
@pytest.mark.parametrize(
    ("planted", "cuda", "wrong", "command"),
    thinned([
        (
            {"cupy-cuda13x": "14.1.0"}, "12.4",
            "cupy-cuda13x 14.1.0 is for CUDA 13, and the driver supports 12.4",
            "pip uninstall -y cupy-cuda13x && pip install 'functensor[cuda12]'",
        ),
        (
            {"cupy-cuda13x": "14.1.0", "cupy-cuda12x": "14.1.0"}, "13.0",
            BOTH,
            "pip uninstall -y cupy-cuda12x cupy-cuda13x && pip install 'functensor[cuda13]'",
        ),
        (
            {"cupy-cuda11x": "13.6.0"}, "12.4", "cupy-cuda11x 13.6.0 is older than 14",
            "pip uninstall -y cupy-cuda11x && pip install 'functensor[cuda12]'",
        ),
    ], every=3),
)  # fmt: skip
def test_cupy_that_does_not_fit(env, planted, cuda, wrong, command):
    for name, version in planted.items():
        env.plant(name, version)
    (env.site / "cupy").mkdir()
    (env.site / "cupy" / "__init__.py").write_text("raise ImportError('libcublas.so.13')")
    env.plant_program("nvidia-smi", SMI.format(cuda))
    done = env.run("doctor")
    assert mends(done) == {"cupy": command, "bfloat16": "pip install 'ml_dtypes>=0.5'"}
    assert what(done)["cupy"] == wrong
    assert block(done.stdout)["NVIDIA"]["driver"] == f"550.54.14, for CUDA up to {cuda}"


@only_long
@pytest.mark.long
@on_no_driver
def test_a_broken_cupy_and_hidden_gpus(env):
    env.plant("cupy-cuda12x", "14.1.0", module="cupy", source="raise ImportError('libnvrtc')")
    env.plant("ml_dtypes", "0.5", module="ml_dtypes")
    env.plant_program("nvidia-smi", SMI.format("12.4"))
    done = env.run("doctor")
    assert mends(done) == {"cupy": "pip install --force-reinstall 'cupy-cuda12x[ctk]>=14'"}
    assert what(done)["cupy"] == "ImportError: libnvrtc"
    source = CUPY.format(version="14.1.0", cuda=12090)
    (env.site / "cupy" / "__init__.py").write_text(source)
    done = env.run("doctor", CUDA_VISIBLE_DEVICES="-1")
    found = mends(done)
    assert found["GPU"] == "unset CUDA_VISIBLE_DEVICES"
    assert what(done)["GPU"] == (
        "CUDARuntimeError: cudaErrorInsufficientDriver: too old (CUDA_VISIBLE_DEVICES=-1)"
    )
    # The stand-in has no compiler, which a GPU needs.
    assert found["nvrtc"] == "pip install 'cupy-cuda12x[ctk]'"
    assert "CUDA_VISIBLE_DEVICES=-1" in block(done.stdout)["machine"]["environment"]


# A module cupy that finds a GPU, and cannot compute anything.
IDLE_GPU = CUPY.replace(
    'raise CUDARuntimeError("cudaErrorInsufficientDriver: too old")', "return 1"
).replace(
    "class cuda: runtime = runtime",
    "    def getDeviceProperties(number):\n"
    "        return dict(name=b'Tesla V100', major=7, minor=0, totalGlobalMem=2**34)\n"
    "class cuda: runtime = runtime",
)


@only_long
@pytest.mark.long
@on_no_driver
def test_a_gpu_that_is_too_old_and_computes_nothing(env):
    source = IDLE_GPU.format(version="14.1.0", cuda=13000)
    env.plant("cupy-cuda13x", "14.1.0", module="cupy", source=source)
    env.plant("ml_dtypes", "0.5", module="ml_dtypes")
    env.plant("nvidia-cudnn-frontend", "1.20")
    env.plant_program("nvidia-smi", SMI.format("13.0"))
    done = env.run("doctor")
    found = mends(done)
    assert found["cuda:0"] == "pip uninstall -y cupy-cuda13x && pip install 'functensor[cuda12]'"
    assert what(done)["cuda:0"] == (
        "Tesla V100, 16 GiB, compute capability 7.0: CUDA 13 compiles nothing for it"
    )
    assert found["cudnn"] == "pip install nvidia-cudnn-cu13"
    for name in ("kernel", "product", "gradient"):
        assert found[f"cuda:0 {name}"] == "pip install 'cupy-cuda13x[ctk]'"
        assert "Error: " in what(done)[f"cuda:0 {name}"]
    source = IDLE_GPU.format(version="14.1.0", cuda=12090).replace("major=7", "major=9")
    # Python takes bytecode of a text of the same size and second for that of the new one.
    (env.site / "cupy" / "__init__.py").write_text(f"{source}\n# another one\n")
    done = env.run("doctor")
    shown = block(done.stdout)["NVIDIA"]["cuda:0"]
    assert shown == "Tesla V100, 16 GiB, compute capability 9.0"


@pytest.mark.gpu
def test_on_a_gpu():
    done = subprocess.run(
        [sys.executable, "-m", "functensor", "doctor"], capture_output=True, text=True, cwd=os.sep
    )
    mends(done)
    found = block(done.stdout)
    assert "for CUDA up to 1" in found["NVIDIA"]["driver"]
    assert "GiB, compute capability " in found["NVIDIA"]["cuda:0"]
    assert found["NVIDIA"]["nvrtc"].count(".") == 1
    for name in ("kernel", "product", "gradient"):
        assert found["devices"][f"cuda:0 {name}"].endswith(" ms; the numbers are right")
