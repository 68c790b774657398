"""The ways from Python into compiled functions, with NumPy's arrays as operands.

A call by ctypes takes a microsecond, and NumPy takes one more for the address of each array. So
they become built-in functions of CPython, by machine code that reads the addresses itself: 0.1
microseconds for four arrays. It is made of a short text of LLVM IR, once for all of them.

The text knows two things of others. Both are public in C, and every extension module has them from
its compiler: the data of an array stand behind the header that all objects have, and its class is
the last word of that header. `layout_is_known` proves both before they are used. Where they do not
hold, and where Python is not CPython, kernels are called by ctypes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from .array_objects import OBJECT_HEADER, word_of
from .code import Code
from .machine import FEW_PASSES, machine_code
from .signals import INTERRUPTED

__all__ = ["NativeCall", "ObjectsCall", "kernel_call", "objects_call", "portable_entry"]

# run(number, low, high, scratch, *arrays)
NativeCall: TypeAlias = Callable[..., None]
# run(*objects): something true, or None where the function returns 0
ObjectsCall: TypeAlias = Callable[..., Any]

WORD = ctypes.sizeof(ctypes.c_void_p)
# Calls with positional arguments in a C array.
METH_FASTCALL = 0x80
# A kernel's name for people, in tracebacks and profiles.
KERNEL_NAME = b"kernel"
API = (
    *("PyLong_AsSsize_t", "PyErr_Occurred", "PyErr_SetString", "PyType_IsSubtype", "Py_IncRef"),
    *("PyEval_SaveThread", "PyEval_RestoreThread"),
)

# ``self`` is an array: the function's address, the table's, and the number of operands, the scratch
# among them. The table has the addresses of None, ndarray, TypeError, two messages, ``API``, and
# True.
ENTRY_TEXT = """
define internal ptr @word(ptr %from, i64 %number) alwaysinline {{
  %place = getelementptr ptr, ptr %from, i64 %number
  %found = load ptr, ptr %place
  ret ptr %found
}}

define internal i1 @is_array(ptr %object, ptr %table) alwaysinline {{
  %place = getelementptr i8, ptr %object, i64 {class_}
  %class = load ptr, ptr %place
  %array = call ptr @word(ptr %table, i64 1)
  %same = icmp eq ptr %class, %array
  br i1 %same, label %yes, label %ask
ask:
  %is_subtype = call ptr @word(ptr %table, i64 8)
  %answer = call i32 %is_subtype(ptr %class, ptr %array)
  %derived = icmp ne i32 %answer, 0
  ret i1 %derived
yes:
  ret i1 true
}}

define internal ptr @refuse(ptr %table, i64 %message) noinline {{
  %error = call ptr @word(ptr %table, i64 2)
  %text = call ptr @word(ptr %table, i64 %message)
  %set = call ptr @word(ptr %table, i64 7)
  call void %set(ptr %error, ptr %text)
  ret ptr null
}}

define internal i1 @fits(ptr %self, i64 %given, i64 %more) alwaysinline {{
  %own_place = getelementptr i8, ptr %self, i64 {data}
  %own = load ptr, ptr %own_place
  %operands_place = getelementptr i64, ptr %own, i64 2
  %operands = load i64, ptr %operands_place
  %wanted = add i64 %operands, %more
  %same = icmp eq i64 %given, %wanted
  br i1 %same, label %right, label %wrong
wrong:
  %table = call ptr @word(ptr %own, i64 1)
  %refused = call ptr @refuse(ptr %table, i64 4)
  ret i1 false
right:
  ret i1 true
}}

define internal ptr @call(ptr %self, ptr %args, i64 %given, i1 %keeps) noinline {{
  %own_place = getelementptr i8, ptr %self, i64 {data}
  %own = load ptr, ptr %own_place
  %kernel = call ptr @word(ptr %own, i64 0)
  %table = call ptr @word(ptr %own, i64 1)
  %operands_place = getelementptr i64, ptr %own, i64 2
  %operands = load i64, ptr %operands_place
  %fits = call i1 @fits(ptr %self, i64 %given, i64 3)
  br i1 %fits, label %start, label %refused
refused:
  ret ptr null
start:
  %none = call ptr @word(ptr %table, i64 0)
  %memory = alloca ptr, i64 %operands, align 16
  br label %head
head:
  %i = phi i64 [0, %start], [%next, %store]
  %goes = icmp slt i64 %i, %operands
  br i1 %goes, label %body, label %numbers
body:
  %arg = add i64 %i, 3
  %object = call ptr @word(ptr %args, i64 %arg)
  %first = icmp eq i64 %i, 0
  %is_none = icmp eq ptr %object, %none
  %nothing = and i1 %first, %is_none
  br i1 %nothing, label %store, label %check
check:
  %array = call i1 @is_array(ptr %object, ptr %table)
  br i1 %array, label %read, label %wrong_class
wrong_class:
  %refused_class = call ptr @refuse(ptr %table, i64 3)
  ret ptr null
read:
  %data_place = getelementptr i8, ptr %object, i64 {data}
  %data = load ptr, ptr %data_place
  br label %store
store:
  %address = phi ptr [null, %body], [%data, %read]
  %slot = getelementptr ptr, ptr %memory, i64 %i
  store ptr %address, ptr %slot
  %next = add i64 %i, 1
  br label %head
numbers:
  %as_number = call ptr @word(ptr %table, i64 5)
  %number_object = call ptr @word(ptr %args, i64 0)
  %number = call i64 %as_number(ptr %number_object)
  %low_object = call ptr @word(ptr %args, i64 1)
  %low = call i64 %as_number(ptr %low_object)
  %high_object = call ptr @word(ptr %args, i64 2)
  %high = call i64 %as_number(ptr %high_object)
  ; -1 stands for an error, too.
  %all = or i64 %number, %low
  %any = or i64 %all, %high
  %negative = icmp slt i64 %any, 0
  br i1 %negative, label %doubt, label %run
doubt:
  %occurred = call ptr @word(ptr %table, i64 6)
  %error = call ptr %occurred()
  %well = icmp eq ptr %error, null
  br i1 %well, label %run, label %raised
raised:
  ret ptr null
run:
  %scratch = load ptr, ptr %memory
  %buffers = getelementptr ptr, ptr %memory, i64 1
  br i1 %keeps, label %locked, label %unlocked
locked:
  call void %kernel(i64 %number, i64 %low, i64 %high, ptr %scratch, ptr %buffers)
  br label %end
unlocked:
  %release = call ptr @word(ptr %table, i64 10)
  %state = call ptr %release()
  call void %kernel(i64 %number, i64 %low, i64 %high, ptr %scratch, ptr %buffers)
  %acquire = call ptr @word(ptr %table, i64 11)
  call void %acquire(ptr %state)
  br label %end
end:
  %own_none = call ptr @word(ptr %table, i64 9)
  call void %own_none(ptr %none)
  ret ptr %none
}}

define ptr @releasing(ptr %self, ptr %args, i64 %given) {{
  %result = call ptr @call(ptr %self, ptr %args, i64 %given, i1 false)
  ret ptr %result
}}

define ptr @keeping(ptr %self, ptr %args, i64 %given) {{
  %result = call ptr @call(ptr %self, ptr %args, i64 %given, i1 true)
  ret ptr %result
}}

define internal ptr @call_objects(ptr %self, ptr %args, i64 %given, i1 %keeps) noinline {{
  %own_place = getelementptr i8, ptr %self, i64 {data}
  %own = load ptr, ptr %own_place
  %function = call ptr @word(ptr %own, i64 0)
  %table = call ptr @word(ptr %own, i64 1)
  %fits = call i1 @fits(ptr %self, i64 %given, i64 0)
  br i1 %fits, label %start, label %refused
refused:
  ret ptr null
start:
  br i1 %keeps, label %locked, label %unlocked
locked:
  %soon = call i64 %function(ptr %args)
  br label %end
unlocked:
  %release = call ptr @word(ptr %table, i64 10)
  %state = call ptr %release()
  %late = call i64 %function(ptr %args)
  %acquire = call ptr @word(ptr %table, i64 11)
  call void %acquire(ptr %state)
  br label %end
end:
  %status = phi i64 [%soon, %locked], [%late, %unlocked]
  %interrupted = icmp eq i64 %status, {interrupted}
  br i1 %interrupted, label %raised, label %told
raised:
  ret ptr null
told:
  %well = icmp eq i64 %status, 0
  %number = select i1 %well, i64 0, i64 12
  %result = call ptr @word(ptr %table, i64 %number)
  %own_result = call ptr @word(ptr %table, i64 9)
  call void %own_result(ptr %result)
  ret ptr %result
}}

define ptr @objects_releasing(ptr %self, ptr %args, i64 %given) {{
  %result = call ptr @call_objects(ptr %self, ptr %args, i64 %given, i1 false)
  ret ptr %result
}}

define ptr @objects_keeping(ptr %self, ptr %args, i64 %given) {{
  %result = call ptr @call_objects(ptr %self, ptr %args, i64 %given, i1 true)
  ret ptr %result
}}
"""
# What of the text is called from outside: with arrays or objects, without the lock or with it.
ENTRIES = ("releasing", "keeping", "objects_releasing", "objects_keeping")
MESSAGES = (b"a kernel takes NumPy's arrays", b"a kernel is given another number of arrays")


class MethodDefinition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def kernel_call(code: Code, name: str, arrays: int, *, keeps_lock: bool = False) -> NativeCall:
    """Returns a kernel as a function of Python, in the fastest way that is safe here.

    The kernel is ``void name(i64 number, i64 low, i64 high, ptr scratch, ptr buffers)``. The
    function is ``run(number, low, high, scratch, *arrays)``. Its scratch is an array or None. It
    gives the kernel the addresses of the data, and checks neither dtypes nor sizes nor strides. The
    code lives as long as the function.

    Args:
        code: what holds the kernel.
        name: the kernel's name.
        arrays: how many arrays it takes beside the scratch.
        keeps_lock: whether other threads of Python wait meanwhile. For kernels of a few
            microseconds this is quicker: who gives the lock away may have to wait for its return.

    Raises:
        NativeUnavailable: kernels cannot be compiled here.
    """
    way = trampoline()
    if way is None:
        return portable_entry(code, name, arrays, keeps_lock=keeps_lock)
    return way.function(code, name, arrays + 1, "keeping" if keeps_lock else "releasing")


def objects_call(code: Code, name: str, objects: int, *, keeps_lock: bool = False) -> ObjectsCall:
    """Returns a compiled function of objects as a function of Python.

    The function is ``i64 name(ptr objects)``: it gets the addresses of the objects themselves, one
    behind the other, and checks nothing. The code lives as long as what is returned.

    Args:
        code: what holds the function.
        name: its name.
        objects: how many objects it takes.
        keeps_lock: whether other threads of Python wait meanwhile.

    Returns:
        A function that is given the objects. It returns None where the compiled one returns 0,
        and True elsewhere.

    Raises:
        NativeUnavailable: it cannot be compiled here.
    """
    way = trampoline()
    if way is not None:
        entry = "objects_keeping" if keeps_lock else "objects_releasing"
        return way.function(code, name, objects, entry)
    call_type = ctypes.PYFUNCTYPE if keeps_lock else ctypes.CFUNCTYPE
    function = call_type(ctypes.c_int64, ctypes.c_void_p)(code.address(name))
    pointers = ctypes.c_void_p * objects

    def run(*given: Any) -> Any:
        if len(given) != objects:
            raise TypeError(MESSAGES[1].decode())
        try:
            status = function(pointers(*map(id, given)))
        except SystemError as error:
            # ctypes does not expect that the handler of a signal raises an error in the function.
            raise error.__cause__ or error from None
        return True if status else None

    # The function holds the code.
    run.code = code  # type: ignore[attr-defined]
    return run


def portable_entry(code: Code, name: str, arrays: int, *, keeps_lock: bool = False) -> NativeCall:
    """Returns what `kernel_call` does, by ctypes and the public attributes of arrays."""
    call_type = ctypes.PYFUNCTYPE if keeps_lock else ctypes.CFUNCTYPE
    address, i64, pointer = code.address(name), ctypes.c_int64, ctypes.c_void_p
    kernel = call_type(None, i64, i64, i64, pointer, pointer)(address)
    pointers = pointer * arrays

    def run(number: int, low: int, high: int, scratch: Any, *operands: Any) -> None:
        given = operands if scratch is None else (scratch, *operands)
        if not all(isinstance(x, np.ndarray) for x in given):
            raise TypeError(MESSAGES[0].decode())
        if len(operands) != arrays:
            raise TypeError(MESSAGES[1].decode())
        place = None if scratch is None else scratch.ctypes.data
        kernel(number, low, high, place, pointers(*[x.ctypes.data for x in operands]))

    # The function holds the code.
    run.code = code  # type: ignore[attr-defined]
    return run


class Trampoline:
    """Makes built-in functions of kernels."""

    def __init__(self) -> None:
        places = {"data": OBJECT_HEADER, "class_": OBJECT_HEADER - WORD}
        text = ENTRY_TEXT.format(**places, interrupted=INTERRUPTED)
        self._code = machine_code(FEW_PASSES + text, ENTRIES)
        python = ctypes.pythonapi
        functions = [ctypes.cast(getattr(python, name), ctypes.c_void_p).value for name in API]
        self._messages = [ctypes.create_string_buffer(text) for text in MESSAGES]
        messages = [ctypes.addressof(text) for text in self._messages]
        objects = [id(None), id(np.ndarray), id(TypeError)]
        self._table = np.array([*objects, *messages, *functions, id(True)], np.uintp)
        self._definitions = {
            entry: MethodDefinition(KERNEL_NAME, self._code.address(entry), METH_FASTCALL, None)
            for entry in ENTRIES
        }
        # A function reads its definition when it dies. At the end of a process this object may die
        # before it. So definitions are never freed.
        for definition in self._definitions.values():
            python.Py_IncRef(ctypes.py_object(definition))
        self._new: Any = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
        )(("PyCFunction_NewEx", python))

    def function(self, code: Code, name: str, operands: int, entry: str) -> Callable[..., Any]:
        """Returns a compiled function as a built-in one, which holds its code.

        Args:
            code: what holds the compiled function.
            name: its name.
            operands: how many arrays or objects it takes, the scratch among them.
            entry: which of `ENTRIES` calls it.
        """
        own = np.array([code.address(name), self._table.ctypes.data, operands], np.uintp)
        definition = ctypes.addressof(self._definitions[entry])
        # The function's module, which it holds: what its memory belongs to.
        function: Callable[..., Any] = self._new(definition, own, (code, self))
        return function


@cache
def trampoline() -> Trampoline | None:
    """Returns what makes built-in functions of kernels; None where Python has another layout."""
    return Trampoline() if layout_is_known() else None


def layout_is_known() -> bool:
    """Says whether arrays have their data and their class where the text looks for them."""
    if sys.implementation.name != "cpython" or not hasattr(ctypes, "pythonapi"):
        return False
    if np.ndarray.__basicsize__ < OBJECT_HEADER + WORD or not all(
        hasattr(ctypes.pythonapi, name) for name in (*API, "PyCFunction_NewEx")
    ):
        return False
    many = np.arange(60.0).reshape(3, 4, 5)
    fixed = np.frombuffer(b"12345678", np.uint8)
    probes = [many, many[1:, ::2, 3], many.T, many[::-1], many[:0], fixed, fixed[3:], np.array(1.5)]
    probes += [np.zeros(3, kind) for kind in (bool, np.float16, np.complex64, np.int8)]
    return all(
        word_of(probe, OBJECT_HEADER) == probe.__array_interface__["data"][0]
        and word_of(probe, OBJECT_HEADER - WORD) == id(np.ndarray)
        for probe in probes
    )
