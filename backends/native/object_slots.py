"""Slots of many objects at once, by machine code: what a class keeps in one of its ``__slots__``.

Python needs 30 to 150 nanoseconds for each object, and these functions 10. They know where objects
hold their class, the count of their references and the slot, and where weak references hold what
they refer to. `slot_calls` proves all of it on samples before anybody uses them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from .array_objects import OBJECT_HEADER, word_of
from .entry import objects_call, trampoline
from .instruction_sets import NativeUnavailable
from .machine import FEW_PASSES, NotCompiled, machine_code
from .signals import INTERRUPTED

__all__ = ["SlotCalls", "slot_calls"]

POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)
# The header of objects where one lock is for all: the count of references, and the class.
PLAIN_HEADER = 2 * POINTER_BYTES
# The references of what only an object's slot and a list have.
REFERENCES_ALONE = 2

SLOTS_TEXT = """
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @PyErr_Occurred()

; Of what is no list the size is -1, and an error is raised.
define internal i1 @are_alike(ptr %list, ptr %other) alwaysinline {{
  %count = call i64 @PyList_Size(ptr %list)
  %places = call i64 @PyList_Size(ptr %other)
  %same = icmp eq i64 %count, %places
  %right = icmp sge i64 %count, 0
  %alike = and i1 %same, %right
  ret i1 %alike
}}

define internal i64 @not_done() noinline {{
  %error = call ptr @PyErr_Occurred()
  %well = icmp eq ptr %error, null
  %status = select i1 %well, i64 1, i64 {interrupted}
  ret i64 %status
}}

; What nobody changes meanwhile: no code of Python's runs.
define internal ptr @items_of(ptr %list) alwaysinline {{
  %place = getelementptr i8, ptr %list, i64 {items}
  %found = load ptr, ptr %place
  ret ptr %found
}}

; Counts of objects that live for ever have the sign of negative numbers.
define internal void @refer(ptr %object) alwaysinline {{
  %count = load i32, ptr %object
  %counts = icmp sge i32 %count, 0
  br i1 %counts, label %more, label %done
more:
  %next = add i32 %count, 1
  store i32 %next, ptr %object
  br label %done
done:
  ret void
}}

define internal ptr @object(ptr %objects, i64 %number) alwaysinline {{
  %place = getelementptr ptr, ptr %objects, i64 %number
  %found = load ptr, ptr %place
  ret ptr %found
}}

define internal ptr @slot_of(ptr %object) alwaysinline {{
  %place = getelementptr i8, ptr %object, i64 {slot}
  ret ptr %place
}}

define internal i1 @is_kind(ptr %object, ptr %kind) alwaysinline {{
  %place = getelementptr i8, ptr %object, i64 {class_}
  %class = load ptr, ptr %place
  %same = icmp eq ptr %class, %kind
  ret i1 %same
}}

; objects: the class, the class of what slots get, the list of these, the list that objects are for
define i64 @slots_made(ptr %objects) {{
  %kind = call ptr @object(ptr %objects, i64 0)
  %inner = call ptr @object(ptr %objects, i64 1)
  %given = call ptr @object(ptr %objects, i64 2)
  %outs = call ptr @object(ptr %objects, i64 3)
  %count = call i64 @PyList_Size(ptr %given)
  %alike = call i1 @are_alike(ptr %given, ptr %outs)
  br i1 %alike, label %check_head, label %other
check_head:
  %i = phi i64 [0, %0], [%i_next, %check_next]
  %checks = icmp slt i64 %i, %count
  br i1 %checks, label %check, label %head
check:
  %x = call ptr @PyList_GetItem(ptr %given, i64 %i)
  %fits = call i1 @is_kind(ptr %x, ptr %inner)
  br i1 %fits, label %check_next, label %other
check_next:
  %i_next = add i64 %i, 1
  br label %check_head
head:
  %j = phi i64 [0, %check_head], [%j_next, %set]
  %goes = icmp slt i64 %j, %count
  br i1 %goes, label %body, label %done
body:
  %made = call ptr @PyType_GenericAlloc(ptr %kind, i64 0)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %raised, label %set
set:
  %value = call ptr @PyList_GetItem(ptr %given, i64 %j)
  call void @refer(ptr %value)
  %place = call ptr @slot_of(ptr %made)
  store ptr %value, ptr %place
  %put = call i32 @PyList_SetItem(ptr %outs, i64 %j, ptr %made)
  %j_next = add i64 %j, 1
  br label %head
done:
  ret i64 0
other:
  %status = call i64 @not_done()
  ret i64 %status
raised:
  ret i64 {interrupted}
}}

; objects: the class, the list of objects, the list of weak references, the list for what slots hold
define i64 @slots_same(ptr %objects) {{
  %kind = call ptr @object(ptr %objects, i64 0)
  %given = call ptr @object(ptr %objects, i64 1)
  %known = call ptr @object(ptr %objects, i64 2)
  %outs = call ptr @object(ptr %objects, i64 3)
  %count = call i64 @PyList_Size(ptr %given)
  %enough = call i1 @are_alike(ptr %given, ptr %known)
  %room = call i1 @are_alike(ptr %given, ptr %outs)
  %alike = and i1 %enough, %room
  br i1 %alike, label %begin, label %other
begin:
  %objects_given = call ptr @items_of(ptr %given)
  %references = call ptr @items_of(ptr %known)
  br label %head
head:
  %i = phi i64 [0, %begin], [%i_next, %set]
  %goes = icmp slt i64 %i, %count
  br i1 %goes, label %check, label %done
check:
  %x = call ptr @object(ptr %objects_given, i64 %i)
  %fits = call i1 @is_kind(ptr %x, ptr %kind)
  br i1 %fits, label %compare, label %other
compare:
  %place = call ptr @slot_of(ptr %x)
  %value = load ptr, ptr %place
  %reference = call ptr @object(ptr %references, i64 %i)
  %referent_place = getelementptr i8, ptr %reference, i64 {referent}
  %referent = load ptr, ptr %referent_place
  %same = icmp eq ptr %value, %referent
  br i1 %same, label %set, label %other
set:
  call void @refer(ptr %value)
  %put = call i32 @PyList_SetItem(ptr %outs, i64 %i, ptr %value)
  %i_next = add i64 %i, 1
  br label %head
done:
  ret i64 0
other:
  %status = call i64 @not_done()
  ret i64 %status
}}

; objects: the class, the list of objects, the list of what their slots hold, what these get in its
; place, an array of numbers: how many, and which of them
define i64 @slots_taken(ptr %objects) {{
  %kind = call ptr @object(ptr %objects, i64 0)
  %given = call ptr @object(ptr %objects, i64 1)
  %values = call ptr @object(ptr %objects, i64 2)
  %gone = call ptr @object(ptr %objects, i64 3)
  %array = call ptr @object(ptr %objects, i64 4)
  %words_place = getelementptr i8, ptr %array, i64 {data}
  %words = load ptr, ptr %words_place
  %count = load i64, ptr %words
  %objects_there = call i64 @PyList_Size(ptr %given)
  %alike = call i1 @are_alike(ptr %given, ptr %values)
  br i1 %alike, label %begin, label %other
begin:
  %objects_given = call ptr @items_of(ptr %given)
  %values_listed = call ptr @items_of(ptr %values)
  br label %check_head
check_head:
  %i = phi i64 [0, %begin], [%i_next, %count_references]
  %checks = icmp slt i64 %i, %count
  br i1 %checks, label %check, label %head
check:
  %i_next = add i64 %i, 1
  %number_place = getelementptr i64, ptr %words, i64 %i_next
  %number = load i64, ptr %number_place
  %within = icmp ult i64 %number, %objects_there
  br i1 %within, label %check_kind, label %other
check_kind:
  %x = call ptr @object(ptr %objects_given, i64 %number)
  %fits = call i1 @is_kind(ptr %x, ptr %kind)
  br i1 %fits, label %compare, label %other
compare:
  %place = call ptr @slot_of(ptr %x)
  %value = load ptr, ptr %place
  %listed = call ptr @object(ptr %values_listed, i64 %number)
  %same = icmp eq ptr %value, %listed
  br i1 %same, label %count_references, label %other
count_references:
  %references = load i32, ptr %value
  %alone = icmp eq i32 %references, {alone}
  br i1 %alone, label %check_head, label %other
head:
  %j = phi i64 [0, %check_head], [%j_next, %body], [%j_next, %give]
  %goes = icmp slt i64 %j, %count
  br i1 %goes, label %body, label %done
body:
  %j_next = add i64 %j, 1
  %taken_place = getelementptr i64, ptr %words, i64 %j_next
  %taken = load i64, ptr %taken_place
  %y = call ptr @object(ptr %objects_given, i64 %taken)
  %old_place = call ptr @slot_of(ptr %y)
  %old = load ptr, ptr %old_place
  %again = icmp eq ptr %old, %gone
  br i1 %again, label %head, label %give
give:
  call void @refer(ptr %gone)
  store ptr %gone, ptr %old_place
  ; The list of values has it.
  store i32 {listed}, ptr %old
  br label %head
done:
  ret i64 0
other:
  %status = call i64 @not_done()
  ret i64 %status
}}
"""


class SlotCalls(NamedTuple):
    """Functions of lists of objects of one class; each returns None where it has done its work.

    Elsewhere, as where an object is of another class, it returns True, and has changed nothing but
    the list that it was to fill. Of what is no list it raises SystemError.

    Attributes:
        made: ``made(kind, inner, values, outs)`` fills a list with new objects, whose slots hold
            the values, all of which are of the class ``inner``.
        same: ``same(kind, objects, references, outs)`` says that weak references are to what the
            slots hold, and fills a list with that.
        taken: ``taken(kind, objects, values, gone, places)`` puts something in the place of what
            slots hold where nobody but them and the list of values has it. An array of int64
            has how many objects these are, and their numbers.
    """

    made: Callable[..., Any]
    same: Callable[..., Any]
    taken: Callable[..., Any]


def slot_calls(kind: type, name: str) -> SlotCalls | None:
    """Returns such functions for a slot of a class; None where there is no machine code for them.

    Args:
        kind: the class, whose objects are made without ``__init__``.
        name: the name of the slot.
    """
    if sys.byteorder != "little":
        return None
    counts = {"slots_made": 4, "slots_same": 4, "slots_taken": 5}
    try:
        # Without it nobody knows how objects lie.
        offset = None if trampoline() is None else offset_of(kind, name)
        if offset is None:
            return None
        places = {"slot": offset, "class_": OBJECT_HEADER - POINTER_BYTES, "data": OBJECT_HEADER}
        places |= {"items": OBJECT_HEADER + POINTER_BYTES, "referent": OBJECT_HEADER}
        text = FEW_PASSES + SLOTS_TEXT.format(
            **places, alone=REFERENCES_ALONE, listed=REFERENCES_ALONE - 1, interrupted=INTERRUPTED
        )
        code = machine_code(text, [*counts])
    except (NativeUnavailable, NotCompiled):
        return None
    calls = SlotCalls(
        *[objects_call(code, name, count, keeps_lock=True) for name, count in counts.items()]
    )
    return calls if all(proofs(calls, kind, name)) else None


def offset_of(kind: Any, name: str) -> int | None:
    """Returns where objects of a class hold a slot; None where that is not found."""
    if OBJECT_HEADER != PLAIN_HEADER:
        return None
    found = set()
    for _ in range(2):
        sample, value = object.__new__(kind), object()
        setattr(sample, name, value)
        offsets = range(OBJECT_HEADER, kind.__basicsize__, POINTER_BYTES)
        found.add((*[offset for offset in offsets if word_of(sample, offset) == id(value)],))
    (places, *others) = found
    return places[0] if not others and len(places) == 1 else None


def proofs(calls: SlotCalls, kind: Any, name: str) -> Any:
    """Yields whether functions do what they are to do, on samples."""
    values: list[Any] = [np.ones(1), np.ones(2), np.ones(3)]
    outs: list[Any] = [None] * len(values)
    yield calls.made(kind, np.ndarray, values, outs) is None
    yield all(type(x) is kind and getattr(x, name) is y for x, y in zip(outs, values))
    yield calls.made(kind, np.ndarray, [values[0], 1.0], outs[:2]) is True
    yield calls.made(kind, np.ndarray, values, outs[:2]) is True
    references: list[Any] = [*map(ref, values)]
    held: list[Any] = [None] * len(values)
    yield calls.same(kind, outs, references, held) is None
    yield [*map(id, held)] == [*map(id, values)]
    yield calls.same(kind, outs[::-1], references, held[:]) is True
    yield calls.same(kind, [*outs[:2], values[2]], references, held[:]) is True
    del held
    places, gone = np.array([2, 0, 2], np.int64), object()
    another = values[2]
    yield calls.taken(kind, outs, values, gone, places) is True
    yield [*map(id, values)] == [id(getattr(x, name)) for x in outs]
    del another
    yield calls.taken(kind, outs, values, gone, places) is None
    yield getattr(outs[0], name) is gone is getattr(outs[2], name)
    yield getattr(outs[1], name) is values[1]
    del values[0], outs[0]
    # What is gone is the same as nothing.
    yield references[0]() is None and calls.same(kind, outs, references[:2], [None] * 2) is True
