"""Machine code of LLVM IR: what the processor can do, and functions that are compiled for it.

LLVM comes with llvmlite, which is imported when the first text is compiled. An object file is made
of the text, or taken from the cache on the disk, and linked into the process by LLVM's ORC JIT.
Unlike MCJIT, which numba uses, ORC raises an error where a symbol is missing, and does not end the
process. It needs a third of the time, and its memory lies together, as arm64's short jumps need.

A thread holds a lock whenever it is within LLVM, one step of the work at a time. A fork waits for
the end of the step, so that the child finds LLVM in order. So does the end of the process, which
takes LLVM's library down.
"""

from __future__ import annotations

import atexit
import os
import platform
import re
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..processor import ARM, X86
from .blas import blas_functions
from .c_library import c_function, c_functions, load_library, python_functions
from .code import Code
from .instruction_sets import InstructionSet, NativeUnavailable, known_set
from .known_machine import keep_machine, kept_machine, vector_bytes_in
from .library_pages import LibraryPages
from .object_cache import FORMAT, ObjectCache, user_cache
from .object_loader import NotLoaded, free, loaded_object

__all__ = [
    *("COMMAND", "FEW_PASSES", "Code", "InstructionSet", "NativeUnavailable", "NotCompiled"),
    "compiles_here",
    *("in_step", "instruction_set", "kept_code", "llvm_version", "machine_code", "name_in_cache"),
    *("object_text", "rest", "vector_bytes", "why_not"),
]

COMMAND = "pip install 'functensor[native]'"
# LLVM keeps a record of every library that it linked, for as long as the JIT lives, and looks for
# names among them one by one. A JIT whose code is no longer used goes away with its records.
LINKED_BY_ONE_JIT = 64
# The longest step of LLVM's work that the end of the process waits for, in seconds.
LONGEST_STEP = 10.0
# How often and how long a thread waits before a step, so that others come first; in seconds.
ROUNDS, WAIT_ROUND = 100, 0.001
# LLVM's own list of passes takes as long as the rest of its work. Of a text of so many characters
# these make code that is as quick in a quarter of the time: expressions are simplified, and equal
# ones computed once. Loops over few numbers, which have short texts, gain by the others; a text
# without any says so in its beginning.
LONG_TEXT, FEW_PASSES = 16_000, "; few passes\n"
PASSES_OF_LONG_TEXTS = (
    *("always_inliner", "global_dead_code_eliminate", "sroa", "simplify_cfg", "loop_rotate"),
    *("new_gvn", "instruction_combine", "simplify_cfg"),
)
C_LIBRARY = "c"
LLVM_LIBRARY = "libllvmlite.dylib" if sys.platform == "darwin" else "libllvmlite.so"
DECLARED = re.compile(r"^declare [^@\n]*@((?!llvm\.)[\w.$]+)\(", re.MULTILINE)


class NotCompiled(Exception):
    """LLVM does not take a text, or lacks a function that it calls."""


def why_not() -> str:
    """Returns why kernels cannot be compiled here; an empty string where they can.

    llvmlite is looked for, and not imported. What came of importing it is known afterwards.

    >>> isinstance(why_not(), str)
    True
    """
    if os.environ.get("FUNCTENSOR_NATIVE", "").strip() == "0":
        return "FUNCTENSOR_NATIVE=0 turns native code off"
    if sys.maxsize < 2**32 or platform.machine().lower() not in (*X86, *ARM):
        return f"there is native code for x86-64 and arm64, and this is {platform.machine()}"
    if find_spec("llvmlite") is None:
        return f"llvmlite is not installed: {COMMAND}"
    return _llvm_loaded[0] if _llvm_loaded and isinstance(_llvm_loaded[0], str) else ""


def compiles_here() -> bool:
    """Says whether kernels can be compiled here, as far as it is known."""
    return not why_not()


def instruction_set() -> InstructionSet:
    """Returns what the processor can do.

    Raises:
        NativeUnavailable: kernels cannot be compiled here.
    """
    return _llvm().machine


def vector_bytes() -> int:
    """Returns the size of a vector register, as LLVM told this process or an earlier one.

    Raises:
        NativeUnavailable: kernels cannot be compiled here.
    """
    said = "" if _llvm_loaded else kept_machine(user_cache())
    return vector_bytes_in(said) if said else instruction_set().vector_bytes


def llvm_version() -> str:
    """Returns the version of LLVM.

    Raises:
        NativeUnavailable: kernels cannot be compiled here.
    """
    return _llvm().version


def machine_code(text: str, names: Sequence[str], cache: ObjectCache | None = None) -> Code:
    """Returns functions of a text of LLVM IR as machine code.

    Arithmetic stays as it is written: LLVM does not reassociate it, nor contract a product and a
    sum. The functions may call those of the C library, such as ``sinf``. Any thread may call this.

    Args:
        text: a module of LLVM IR without a triple and a data layout.
        names: the functions that are asked for.
        cache: where objects are kept; by default the folder of this user.

    Raises:
        NativeUnavailable: kernels cannot be compiled here.
        NotCompiled: the text is wrong, or calls a function that is not there.
    """
    cache = user_cache() if cache is None else cache
    key = name_in_cache(text, cache)
    known = kept_code(key, names, cache)
    if known is not None:
        return known
    llvm = _llvm()
    image = llvm.image(text)
    try:
        code = llvm.linked(image, names, key, from_disk=False)
    except NotCompiled as error:
        missing = [name for name in DECLARED.findall(text) if name not in c_functions()]
        what = f"; not in the C library: {', '.join(missing)}" if missing else ""
        raise NotCompiled(f"{error}{what}") from None
    cache.put(key, image)
    keep_machine(cache, llvm.key)
    return code


def kept_code(key: str, names: Sequence[str], cache: ObjectCache | None = None) -> Code | None:
    """Returns functions of an object that is in a cache; None where there is none that fits.

    Args:
        key: the name of the object, that of `Code`.
        names: the functions that are asked for.
        cache: where objects are kept; by default the folder of this user.

    Raises:
        NativeUnavailable: kernels cannot be compiled here.
    """
    image = (user_cache() if cache is None else cache).get(key)
    if image is None:
        return None
    with suppress(NotLoaded):
        addresses, memory = loaded_object(image, names, called_address)
        code = Code(addresses, key, len(image), True)
        weakref.finalize(code, free, *memory).atexit = False
        return code
    # Another system may have had the same processor, and a C library with more functions.
    with suppress(NotCompiled):
        return _llvm().linked(image, names, key, from_disk=True)
    return None


def called_address(name: str) -> int:
    """Returns the address of a function that machine code may call; 0 if there is none."""
    return blas_functions().get(name) or python_functions().get(name) or c_function(name)


def name_in_cache(text: str, cache: ObjectCache | None = None) -> str:
    """Returns what something is kept by that follows from a text and the processor alone.

    LLVM tells the processor, unless it has done so to an earlier process.

    Raises:
        NativeUnavailable: kernels cannot be compiled here.
    """
    from hashlib import sha256  # 10 ms, where OpenSSL is loaded for it

    why = why_not()
    if why:
        raise NativeUnavailable(why)
    known = None
    if not _llvm_loaded:
        known = kept_machine(user_cache() if cache is None else cache)
    return sha256(f"{known or _llvm().key}\n{text}".encode()).hexdigest()


def rest() -> None:
    """Lets memory go that is needed while LLVM works: 40 to 70 MB of its library."""
    if _llvm_loaded and isinstance(_llvm_loaded[0], Llvm):
        _llvm_loaded[0].rest()


def object_text(text: str) -> str:
    """Returns a text of LLVM IR as assembly of this processor, for people.

    Raises:
        NativeUnavailable: kernels cannot be compiled here.
        NotCompiled: the text is wrong.
    """
    return str(_llvm().translated(text, "emit_assembly"))


class Llvm:
    """LLVM, set up for a processor.

    Attributes:
        machine: what the processor can do.
        version: LLVM's version.
        key: the processor, and the versions of all that compiles.
        pages: the parts of its library that are only read.

    Args:
        machine: another processor, whose target LLVM has: objects for it are made, and cannot be
            linked here. By default it is the one that the process runs on.
    """

    def __init__(self, machine: InstructionSet | None = None) -> None:
        self.pages: list[LibraryPages] = []
        llvmlite = find_spec("llvmlite")
        for folder in (llvmlite and llvmlite.submodule_search_locations) or ():
            # 13 ms, in which other threads of Python would stand still.
            load_library(Path(folder, "binding", LLVM_LIBRARY))
            self.pages.append(LibraryPages(Path(folder, "binding", LLVM_LIBRARY)))
        self.rest()
        self._llvm: Any = import_module("llvmlite.binding")
        self._llvm.initialize_native_target()
        self._llvm.initialize_native_asmprinter()
        self._llvm.check_jit_execution()
        self.version = ".".join(map(str, self._llvm.llvm_version_info))
        self.machine = self._own_machine() if machine is None else machine
        target = self._llvm.Target.from_triple(self.machine.triple)
        self._target = target.create_target_machine(
            cpu=self.machine.processor,
            features=self.machine.features,
            opt=2,
            reloc="pic",
            # Windows has no loader of llvmlite's that puts code and constants close together.
            codemodel="jitdefault" if "windows" in self.machine.triple else "small",
        )
        self._layout = str(self._target.target_data)
        versions = FORMAT, import_module("llvmlite").__version__, self.version
        self.key = "\n".join(map(str, (*versions, *self.machine)))
        self._jit: Any = None
        self._linked = 0

    def rest(self) -> None:
        """Lets memory go that is needed while LLVM works."""
        for pages in self.pages:
            pages.let_go()

    def _own_machine(self) -> InstructionSet:
        """Returns what the processor can do that the process runs on."""
        triple = self._llvm.Target.from_default_triple().triple
        try:
            features = self._llvm.get_host_cpu_features()
        except RuntimeError:  # the system does not tell
            features = self._llvm.FeatureMap()
        name = self._llvm.get_host_cpu_name()
        return known_set(name, features, features.flatten(), triple)

    def image(self, text: str) -> bytes:
        """Returns the object file of a text."""
        return bytes(self.translated(text, "emit_object"))

    def translated(self, text: str, emit: str) -> Any:
        """Returns what a method of the target machine gives for a text, once it is optimised."""
        # The last step takes the module out of the list, so that it dies within LLVM.
        modules = [in_step(self._parsed, text)]
        is_long = len(text) > LONG_TEXT or text.startswith(FEW_PASSES)
        in_step(self._optimise, modules, is_long)
        # The next step needs other parts of the library.
        self.rest()
        return in_step(self._emitted, emit, modules)

    def _parsed(self, text: str) -> Any:
        # Each text has a context of its own, whose types and constants are freed with it.
        module = self._llvm.parse_assembly(text, self._llvm.create_context())
        module.triple = self.machine.triple
        module.data_layout = self._layout
        module.verify()
        return module

    def _optimise(self, modules: list[Any], long: bool) -> None:
        # Level 2 takes a fifth longer, and makes no quicker code of these texts.
        options = self._llvm.create_pipeline_tuning_options(speed_level=1)
        # The text has vectors where they pay, and asks for a loop to be unrolled by
        # ``llvm.loop.unroll.count``. Left to itself LLVM takes twice as long.
        options.loop_vectorization = options.slp_vectorization = False
        options.loop_interleaving = options.loop_unrolling = False
        builder = self._llvm.create_pass_builder(self._target, options)
        if long:
            passes = self._llvm.create_new_module_pass_manager()
            for name in PASSES_OF_LONG_TEXTS:
                getattr(passes, f"add_{name}_pass")()
        else:
            passes = builder.getModulePassManager()
        try:
            passes.run(modules[0], builder)
        finally:
            self._free(passes)

    def _free(self, passes: Any) -> None:
        # llvmlite's class of passes inherits the method of another base, which frees nothing: 73 kB
        # for each text. What the builder leaves, 1.5 kB, has no function that frees it.
        bases = self._llvm.newpassmanagers.NewPassManager, self._llvm.ffi.ObjectRef
        if type(passes)._dispose is bases[1]._dispose:
            bases[0]._dispose(passes)
            passes.detach()
        else:
            passes.close()

    def _emitted(self, emit: str, modules: list[Any]) -> Any:
        return getattr(self._target, emit)(modules.pop())

    def linked(
        self, image: bytes, names: Sequence[str], key: str = "", *, from_disk: bool
    ) -> Code:
        """Returns the functions of an object file, as code of this process.

        Args:
            image: the object file.
            names: the functions that are asked for.
            key: the object's name in the cache.
            from_disk: whether it comes from there.
        """
        tracker = in_step(self._link, image, names)
        addresses = {name: tracker[name] for name in names}
        code = Code(addresses, key, len(image), from_disk)
        # The last reference to the tracker would free it at once, and wait for others to do so.
        weakref.finalize(code, retire, tracker).atexit = False
        return code

    def _link(self, image: bytes, names: Sequence[str]) -> Any:
        if self._linked % LINKED_BY_ONE_JIT == 0:
            self._jit = self._llvm.create_lljit_compiler(
                self._target, use_jit_link=sys.platform != "win32", suppress_errors=True
            )
            functions = self._llvm.JITLibraryBuilder()
            known = c_functions() | python_functions() | blas_functions()
            for name, address in known.items():
                functions.import_symbol(name, address)
            self._jit.c_library = functions.link(self._jit, C_LIBRARY)
        self._linked += 1
        library = self._llvm.JITLibraryBuilder().add_object_img(image).add_jit_library(C_LIBRARY)
        for name in names:
            library.export_symbol(name)
        return library.link(self._jit, str(self._linked))


# Steps within LLVM


class Inside:
    """The state of LLVM.

    Attributes:
        step: whether a thread is within it.
        wanted: whether a fork or the end of the process waits for it.
        ended: whether the process ends, which frees all code by itself.
    """

    step = False
    wanted = False
    ended = False


_llvm_lock = threading.RLock()
# Trackers of code that nobody uses any more.
_retired: deque[Any] = deque()
# LLVM, or why it cannot be used, once it was loaded.
_llvm_loaded: list[Llvm | str] = []


def in_step(step: Callable[..., Any], *args: Any) -> Any:
    """Returns what a step within LLVM gives; no other thread is there meanwhile.

    Raises:
        NotCompiled: LLVM has raised an error.
    """
    raised = ""
    give_way()
    with _llvm_lock:
        Inside.step = True
        try:
            return step(*args)
        # What the traceback holds is freed here, too, which llvmlite does by a lock of its own.
        except RuntimeError as error:
            raised = str(error)
        finally:
            Inside.step = False
            free_retired()
    raise NotCompiled(raised)


def give_way() -> None:
    """Lets a fork or the end of the process come first.

    A thread that goes from step to step takes the lock again before any other one has woken up.
    """
    for _ in range(ROUNDS):
        if not Inside.wanted:
            break
        time.sleep(WAIT_ROUND)


def stay_out(timeout: float = -1) -> None:
    """Waits until nobody is within LLVM, and lets nobody in."""
    Inside.wanted = True
    _llvm_lock.acquire(timeout=timeout)


def at_end() -> None:
    """Lets nobody in any more, and frees nothing: llvmlite's modules may go before code does."""
    stay_out(LONGEST_STEP)
    Inside.ended = True


def let_in() -> None:
    """Lets others in again. A fork may have begun before this module was imported."""
    Inside.wanted = False
    with suppress(RuntimeError):
        _llvm_lock.release()


def retire(tracker: Any) -> None:
    """Frees code that nobody uses any more: now, or when the thread within LLVM has ended its step.

    It is called wherever an object dies, and is not to wait there.
    """
    _retired.append(tracker)
    del tracker
    free_retired()


def free_retired() -> None:
    """Frees retired code, unless another thread is within LLVM, which then does it itself."""
    if _retired and not Inside.step:
        with _llvm_lock, suppress(IndexError):
            while True:
                # What cannot be freed stays where it is.
                with suppress(RuntimeError):
                    tracker = _retired.pop()
                    tracker.detach() if Inside.ended else tracker.close()


def _llvm() -> Llvm:
    """Returns LLVM, which is loaded once."""
    if why := why_not():
        raise NativeUnavailable(why)
    with _llvm_lock:
        if not _llvm_loaded:
            _llvm_loaded.append(load_llvm())
    found = _llvm_loaded[0]
    if isinstance(found, str):
        raise NativeUnavailable(found)
    return found


def load_llvm() -> Llvm | str:
    """Returns LLVM, or why it cannot be used."""
    try:
        found = Llvm()
    except NativeUnavailable as error:
        return str(error)
    # A broken library raises whatever it likes.
    except Exception as error:
        return f"llvmlite cannot be used: {type(error).__name__}: {error}"
    if threading.main_thread().is_alive():
        # llvmlite's own function, which is older, comes behind this one.
        atexit.register(at_end)
    else:
        # The process ends, and calls no function any more that is registered now. llvmlite's own
        # keeps its objects from being freed one by one.
        Inside.ended = True
        with suppress(AttributeError):
            import_module("llvmlite.binding.common")._at_shutdown()
    return found


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=stay_out, after_in_parent=let_in, after_in_child=let_in)
