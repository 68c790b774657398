"""Operations that have begun end once, whatever others did not end."""

import sys
import threading

from functensor.hooks.operation import Operation
from functensor.hooks.running import Running


def operation():
    return Operation("sin", {"axis": 0})


def test_operations_end_in_any_nesting():
    running, a, b = Running(), operation(), operation()
    assert running.innermost() is None
    running.begin(a, "a")
    running.begin(b, "b")
    assert running.innermost() == "b"
    assert running.end(b) == "b"
    assert running.innermost() == "a"
    # Another output of the same operation.
    assert running.end(b) is None
    assert running.end(a) == "a"
    assert running.innermost() is None


def test_an_operation_that_never_ends_is_dropped_with_what_is_around_it():
    running, a, b = Running(), operation(), operation()
    running.begin(a, "a")
    running.begin(b, "b")
    assert running.end(a) == "a"
    assert running.end(b) is None


def test_a_second_run_ends_with_another_operation_of_the_same_parameters():
    running, op = Running(), operation()
    running.begin(op, "note")
    assert running.end(op.at("replay")) == "note"


def test_the_same_operation_may_run_within_itself():
    running, op = Running(), operation()
    running.begin(op, "outer")
    running.begin(op, "inner")
    assert [running.end(op), running.end(op), running.end(op)] == ["inner", "outer", None]


def test_each_thread_has_its_own():
    running, op, found = Running(), operation(), []
    running.begin(op, "here")
    thread = threading.Thread(target=lambda: found.append(running.end(op)))
    thread.start()
    thread.join()
    assert found == [None]
    assert running.end(op) == "here"


def test_operations_that_never_end_do_not_pile_up():
    running, kept = Running(), [operation() for _ in range(sys.getrecursionlimit() + 100)]
    for number, op in enumerate(kept):
        running.begin(op, number)
    assert running.end(kept[0]) is None
    assert running.end(kept[100]) == 100
