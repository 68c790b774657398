"""Sources of keys, and the check that finds keys which are used twice."""

import copy
import os
import pickle
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import functensor as ft
from functensor import random

KEY = random.key(2026)


def host(x):
    return np.asarray(x)


def caught_in(call):
    """Returns the warnings that a call gives where reuse is checked."""
    with warnings.catch_warnings(record=True) as caught, random.check_reuse():
        warnings.simplefilter("always")
        call()
    return caught


# -- streams of keys


def test_a_stream_gives_fresh_keys_by_the_documented_scheme():
    keys = random.KeyStream(KEY)
    drawn = [host(keys()), host(next(keys)), *host(keys(3)), *host(keys((2, 2))).reshape(4, 2)]
    raw = np.random.Philox(key=host(KEY), counter=np.array([0, 0, 0, 3], np.uint64)).random_raw(36)
    np.testing.assert_array_equal(drawn, raw.reshape(9, 4)[:, :2])
    assert repr(keys) == "KeyStream(key(2026), position=9)"
    others = [*random.split(KEY, 9), random.fold_in(KEY, 0), KEY]
    assert len({tuple(k) for k in [*map(tuple, drawn), *map(tuple, map(host, others))]}) == 20


def test_a_stream_of_a_seed_and_one_of_its_key_are_alike():
    for seed in (0, 7, np.int64(7), 2**70):
        one = random.KeyStream(seed)()
        np.testing.assert_array_equal(one, random.KeyStream(random.key(int(seed)))())
    first = [k.tolist() for k, _ in zip(random.KeyStream(1), range(3))]
    assert len({tuple(k) for k in first}) == 3
    with pytest.raises(TypeError, match="expected a key"):
        random.KeyStream(np.zeros(2))


def pickled(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
def test_copies_of_a_stream_continue_where_it_was(again):
    keys = random.KeyStream(3)
    keys(5)
    other = again(keys)
    np.testing.assert_array_equal(other(), keys())
    keys()
    assert (repr(other), repr(keys)) == (
        "KeyStream(key(3), position=6)",
        "KeyStream(key(3), position=7)",
    )


def test_streams_under_transformations():
    def noisy(key, x):
        keys = random.KeyStream(key)
        return x * random.normal(keys()) + random.normal(keys())

    many = random.split(KEY, 4)
    wanted = [noisy(k, 2.0) for k in many]
    np.testing.assert_array_equal(ft.vmap(noisy, in_axes=(0, None))(many, 2.0), wanted)
    np.testing.assert_array_equal(ft.make_program(noisy)(KEY, 2.0)(many[1], 2.0), wanted[1])
    keys = random.KeyStream(KEY)
    slope = ft.grad(lambda x: x * random.normal(keys()))(1.0)
    assert slope == random.normal(random.KeyStream(KEY)())
    outside = random.KeyStream(KEY)
    same = ft.vmap(lambda x: x + random.normal(outside()))(np.zeros(3))
    assert len(set(same.tolist())) == 1


# -- keys that are used twice


def test_the_warning_names_both_lines():
    def twice():
        key = random.key(5)
        random.normal(key)
        random.uniform(key)

    (caught,) = caught_in(twice)
    line = twice.__code__.co_firstlineno
    assert caught.category is random.KeyReuseWarning
    assert (caught.filename, caught.lineno) == (__file__, line + 3)
    assert str(caught.message) == (
        f"a key was used twice, which gives the same numbers twice: first at {__file__}:{line + 2}"
        f", and again at {__file__}:{line + 3}\n"
        f"  at {__file__}:{line + 3}\n"
        "  fix: first, second = random.split(key), or keys = random.KeyStream(key) and keys() for "
        "each use\n"
        "  see python -m functensor.errors 21"
    )


@pytest.mark.parametrize(
    "use",
    [
        lambda key: (random.split(key), random.normal(key)),
        lambda key: (random.gamma(key, 2.0), random.gamma(key, 2.0)),
        lambda key: (random.split(key)[0], random.split(key)[1]),
        lambda key: [random.normal(random.fold_in(key, 1)) for _ in range(2)],
        lambda key: [random.normal(random.split(key, 2)[0]), random.poisson(key, 1.0)],
        lambda key: (random.normal(np.array(key)), random.permutation(key, 3)),
        lambda key: (random.KeyStream(key), random.KeyStream(key)),
        lambda key: ft.grad(lambda x: x * random.normal(key) * random.uniform(key))(1.0),
        lambda key: ft.vmap(lambda x: x * random.normal(key) * random.uniform(key))(np.ones(2)),
    ],
)
def test_a_second_use_warns_once(use):
    (caught,) = caught_in(lambda: use(random.key(1)))
    assert caught.category is random.KeyReuseWarning


@pytest.mark.parametrize(
    "use",
    [
        lambda key: [random.normal(k) for k in random.split(key, 3)],
        lambda key: [random.normal(random.fold_in(key, i)) for i in range(3)],
        lambda key: [random.fold_in(key, 1), random.normal(key), random.fold_in(key, 1)],
        lambda key: [random.beta(k, 1.0, 2.0) for k in random.KeyStream(key)(3)],
        lambda key: random.choice(key, 5, (3,), replace=False, p=np.ones(5)),
        lambda key: random.multinomial(key, 9, np.ones(3)),
        lambda key: random.multivariate_normal(key, np.zeros(2), np.eye(2)),
        lambda key: [random.normal(random.key(3)), random.normal(random.key(3))],
        lambda key: ft.vmap(random.normal)(random.split(key, 2)),
        lambda key: ft.hessian(lambda x: random.gamma(key, x))(2.0),
    ],
)
def test_one_use_of_each_key_does_not_warn(use):
    assert caught_in(lambda: use(random.key(1))) == []


def test_the_check_is_off_unless_it_is_asked_for():
    key = random.key(9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        random.normal(key)
        random.normal(key)
        random.warn_on_reuse()
        try:
            random.normal(key)
            with random.check_reuse():
                random.normal(key)
            with pytest.raises(random.KeyReuseWarning, match="used twice"):
                random.normal(key)
        finally:
            random.warn_on_reuse(False)
        random.normal(key)


def test_an_environment_variable_switches_the_check_on(tmp_path):
    script = tmp_path / "twice.py"
    script.write_text(
        "from functensor import random\nkey = random.key(0)\nrandom.bits(key)\nrandom.bits(key)\n"
    )
    for value, wanted in (("1", [3, 4, 4]), ("0", [])):
        env = {**os.environ, "FUNCTENSOR_CHECK_KEYS": value}
        done = subprocess.run(
            [sys.executable, script], env=env, capture_output=True, text=True, check=True
        )
        lines = done.stderr.partition("fix:")[0]
        found = [int(n) for n in re.findall(rf"{re.escape(str(script))}:(\d+)(?!:)", lines)]
        assert found == wanted, done.stderr


def test_old_keys_are_forgotten(monkeypatch):
    monkeypatch.setattr("functensor.random.key_reuse.CAPACITY", 3)
    keys = random.split(KEY, 6)
    rows = [keys[i] for i in range(6)]
    assert caught_in(lambda: [random.bits(k) for k in [*rows, rows[0]]]) == []
    assert len(caught_in(lambda: [random.bits(k) for k in [*rows, rows[5]]])) == 1
