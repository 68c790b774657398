"""Threads that take and write views of one tensor at the same time lose no write."""

import sys
import threading

import numpy

import functensor as ft
import functensor.numpy as np
from functensor.tensors.views import viewing


def test_a_view_sees_what_is_written_while_it_is_taken():
    x = ft.Tensor(numpy.zeros((2, 3)))
    row, written = x[1], []

    def transposed(self):
        out = ft.Tensor(np.transpose(self))
        if not written:
            # Another thread writes before the base knows of the view.
            written.append(threading.Thread(target=lambda: row.add_(1)))
            written[0].start()
            written[0].join()
        return out

    view = viewing(transposed)(x)
    assert view.tolist() == x.T.tolist() == [[0.0, 1.0]] * 3
    view[0].add_(1)
    assert x.tolist() == [[1.0, 0.0, 0.0], [2.0, 1.0, 1.0]]


def test_threads_write_to_parts_of_one_tensor():
    x = ft.Tensor(numpy.zeros((4, 3)))
    rows = list(x)

    def work(i):
        for _ in range(100):
            rows[i].add_(1)
            x.T[1, i].add_(1)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert x.tolist() == [[100.0, 200.0, 100.0]] * 4
    assert [row.tolist() for row in rows] == x.tolist()
