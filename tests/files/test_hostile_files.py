"""Damaged and hostile files: an error that names the file, nothing loaded, little memory."""

import io
import json
import re
import struct
import sys
import tracemalloc
import zlib
from copy import deepcopy

import numpy
import pytest
from support.long_forms import sized
from support.saved_trees import bits, same, tree_of_every_kind

import functensor as ft
import functensor.numpy as np
from functensor import torch

REFUSED = (ft.errors.FileError, ft.errors.TreeMismatchError)
# What Python's own objects of a small file take, and the text of an error; and what its frames
# take for a tree of as many levels as there may be.
ALLOWED_BYTES, ALLOWED_FOR_LEVELS = 64 * 1024, 320 * 1024


def levels_of_json():
    """Returns how many lists inside of each other Python reads: 1,000, or 10,000 in others."""
    levels = 1
    while levels < 100_000:
        try:
            json.loads("[" * levels + "]" * levels)
        except RecursionError:
            break
        levels += 500
    return levels


# The lists of a text that is too deep, as far as they are read.
ALLOWED_FOR_LEVELS += levels_of_json() * sys.getsizeof([[]])


def packed(header, data=b""):
    """Returns a file of a header, which is text, bytes or JSON, and data."""
    text = header if isinstance(header, bytes | str) else json.dumps(header)
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw + data


def signed(structure, arrays=None, data=b""):
    """Returns a file with a structure, as JSON or text, whose checksum is right."""
    text = structure if isinstance(structure, str) else json.dumps(structure)
    note = f"{zlib.crc32(text.encode()):08x} {text}"
    return packed({"__metadata__": {"functensor": note}, **(arrays or {})}, data)


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    """Returns what a header says of an array."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def text_entry(name="a", dtype='"F32"', shape="[1]", offsets="[0,4]"):
    """Returns the same as text, of any parts."""
    return f'"{name}":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}'


FOUR = b"\0\0\0\0"
TREE = {"version": 1, "checksums": {}}
ARRAY = {"a": entry()}
CHECKED = {"version": 1, "checksums": {"a": zlib.crc32(FOUR, zlib.crc32(b"a F32 [1]"))}}
HOSTILE = {
    "nothing": b"",
    "seven bytes": b"\0" * 7,
    "a header of length 0": struct.pack("<Q", 0),
    "a header longer than the file": struct.pack("<Q", 100) + b"{}",
    "a header of 2**64 - 1 bytes": b"\xff" * 8 + b"{}",
    "a list": packed("[]"),
    "a number": packed("1"),
    "no end": packed("{"),
    "words after the end": packed("{} x"),
    "a null byte after the end": packed(b"{}\0"),
    "NaN": packed("NaN"),
    "a name twice": packed("{" + text_entry() + "," + text_entry() + "}", FOUR),
    "dtype twice": packed('{"a":{"dtype":"F32","dtype":"F32","shape":[1]}}', FOUR),
    "metadata twice": packed('{"__metadata__":{"x":"1"},"__metadata__":{"x":"1"}}'),
    "a note twice": packed('{"__metadata__":{"x":"1","x":"2"}}'),
    "a note that is a number": packed('{"__metadata__":{"x":1}}'),
    "a note that is a tree": packed('{"__metadata__":{"x":{"y":"z"}}}'),
    "one member more": packed('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}', FOUR),
    "one member less": packed('{"a":{"dtype":"F32","shape":[1]}}', FOUR),
    "NaN as a length": packed("{" + text_entry(shape="[NaN]") + "}", FOUR),
    "a fraction as a length": packed("{" + text_entry(shape="[1.0]") + "}", FOUR),
    "a negative length": packed("{" + text_entry(shape="[-1]") + "}", FOUR),
    "a length in another base": packed("{" + text_entry(shape="[1e0]") + "}", FOUR),
    "a length of 5,000 digits": packed("{" + text_entry(shape=f"[{'9' * 5000}]") + "}", FOUR),
    "65 axes": packed({"a": entry(shape=[1] * 65)}, FOUR),
    "an element for 2**62": packed({"a": entry("U8", (2**62,), (0, 1))}, b"\0"),
    "2**62 by 2**62 by 0": packed({"a": entry("U8", (2**62, 2**62, 0), (0, 0))}),
    "2**62 bytes": packed({"a": entry("U8", (2**62,), (0, 2**62))}, FOUR),
    "a product that wraps to 4": packed({"a": entry("F32", (2**32, 2**32, 1), (0, 4))}, FOUR),
    "a dtype that is not known": packed({"a": entry("F128")}, FOUR),
    "a dtype of a module": packed({"a": entry("os.system")}, FOUR),
    "three offsets": packed({"a": entry(offsets=(0, 4, 8))}, FOUR),
    "offsets backwards": packed({"a": entry(offsets=(4, 0))}, FOUR),
    "offsets after the end": packed({"a": entry(offsets=(4, 8))}, FOUR),
    "a gap": packed({"a": entry(), "b": entry(offsets=(8, 12))}, FOUR * 3),
    "arrays that overlap": packed({"a": entry(), "b": entry(offsets=(2, 6))}, FOUR + b"\0\0"),
    "arrays in one place": packed({"a": entry(), "b": entry()}, FOUR),
    "data after the arrays": packed({"a": entry()}, FOUR * 2),
    "data cut off": packed({"a": entry()}, b"\0\0"),
    "no UTF-8": packed(b'{"\xff\xfe":' + text_entry().encode()[4:] + b"}", FOUR),
    "half of a character": packed(b'{"\xc3":' + text_entry().encode()[4:] + b"}", FOUR),
    "half of a pair": packed('{"\\ud800":' + text_entry()[4:] + "}", FOUR),
    "a line break in a name": packed(b'{"a\nb":' + text_entry().encode()[4:] + b"}", FOUR),
    "an escape that is none": packed('{"\\x61":' + text_entry()[4:] + "}", FOUR),
    "100,000 brackets": packed("[" * 100_000),
    "100,000 objects": packed('{"a":' * 100_000),
    "200,000 empty lists": packed('{"a":[' + "[]," * 200_000 + "[]]}"),
    "a zip archive": b"PK\x03\x04" + b"\0" * 40,
    "a pickle": b"\x80\x04\x95\x1c\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94",
    "a boolean of 2": packed({"a": entry("BOOL", (1,), (0, 1))}, b"\2"),
    "a structure without checksum": packed({"__metadata__": {"functensor": json.dumps(TREE)}}),
    "a structure that is no JSON": signed("{"),
    "a structure with NaN": signed('{"version":1,"checksums":{},"tree":NaN}'),
    "a structure with a key twice": signed('{"version":1,"version":1,"checksums":{},"tree":1}'),
    "a structure of 100,000 levels": signed("[" * 100_000),
    "a structure of 5,000 digits": signed(f'{{"version":1,"checksums":{{}},"tree":{"9" * 5000}}}'),
    "another version": signed({"version": 2, "tree": None}),
    "no checksums": signed({"version": 1, "tree": None}),
    "no checksum of an array": signed({**TREE, "tree": {"array": "a"}}, ARRAY, FOUR),
    "a wrong checksum": signed(
        {**CHECKED, "checksums": {"a": 1}, "tree": {"array": "a"}}, ARRAY, FOUR
    ),
    "an array that is not there": signed({**TREE, "tree": {"array": "a"}}),
    "an array without a name": signed({**TREE, "tree": {"array": ["a"]}}),
    "an array for NumPy and for us": signed(
        {**CHECKED, "tree": {"list": [{"array": "a"}, {"numpy": "a"}]}}, ARRAY, FOUR
    ),
    "complex numbers that are no pairs": signed(
        {**CHECKED, "tree": {"array": "a", "complex": True}}, ARRAY, FOUR
    ),
    "a scalar with axes": signed({**CHECKED, "tree": {"scalar": "a"}}, ARRAY, FOUR),
    "a class by its name": signed({**TREE, "tree": {"os.system": "true"}}),
    "a list of no list": signed({**TREE, "tree": {"list": {"a": 1}}}),
    "a dict of no pairs": signed({**TREE, "tree": {"dict": [["a"]]}}),
    "a dict with a key twice": signed({**TREE, "tree": {"dict": [["a", 1], ["a", 2]]}}),
    "a key that is a list": signed({**TREE, "tree": {"dict": [[{"list": []}, 2]]}}),
    "an empty node": signed({**TREE, "tree": {}}),
    "a float that is none": signed({**TREE, "tree": {"float": "x"}}),
    "a float that is too large": signed({**TREE, "tree": {"float": "0x1p99999"}}),
    "a complex number of one part": signed({**TREE, "tree": {"complex": ["0x1p0"]}}),
    "draws without a seed": signed({**TREE, "tree": {"draws": ["a", 1]}}),
    "keys without a key": signed({**TREE, "tree": {"keys": [{"array": "a"}, 0]}}),
    "keys of floats": signed({**CHECKED, "tree": {"keys": [{"array": "a"}, 0]}}, ARRAY, FOUR),
    "300 levels": signed(json.dumps(TREE)[:-1] + ',"tree":' + '{"list":[' * 300 + "]}" * 300 + "}"),
}


# Files that are whole, but not all that is asked of them.
FITTING_MAPPED = {"a wrong checksum"}


def header_length(content):
    """Returns how many bytes of a file its header takes, as far as it has them."""
    return min(int.from_bytes(content[:8], "little"), max(len(content) - 8, 0))


def outcome(call, content, allowed=ALLOWED_BYTES):
    """Returns what a call gives: a tree, or one of our errors; it must not take much memory."""
    tracemalloc.start()
    try:
        try:
            out = call()
        except REFUSED as error:
            out = error
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The header, and twice its text.
    assert peak <= len(content) + 2 * header_length(content) + allowed
    return out


@pytest.fixture
def path(tmp_path):
    # What is imported for the first file, and for the first error, counts for none.
    ft.save(tmp_path / "first.safetensors", np.ones(2, "bfloat16"))
    ft.load(tmp_path / "first.safetensors", np.ones(2, "bfloat16"))
    for first in (b"", packed("[")):
        with pytest.raises(ft.errors.FileError):
            torch.load(io.BytesIO(first))
    return tmp_path / "hostile.safetensors"


def test_all_hostile_files_are_errors_that_name_them(path):
    like = {"a": np.ones(1, "float32")}
    for name, content in HOSTILE.items():
        path.write_bytes(content)
        calls = [
            lambda: ft.load(path),
            lambda: ft.load(path, like),
            lambda content=content: torch.load(io.BytesIO(content)),
        ]
        if name not in FITTING_MAPPED:
            calls.append(lambda: ft.load(path, mmap=True))
        allowed = ALLOWED_FOR_LEVELS if "levels" in name else ALLOWED_BYTES
        for call in calls:
            found = outcome(call, content, allowed)
            assert isinstance(found, REFUSED), name
            assert re.match(r".*hostile\.safetensors|the open file", str(found)), name
            assert "expected" in str(found), name
            assert f"\n  at {__file__}:" in str(found), name
    assert len(HOSTILE) > 70


def test_objects_of_a_dense_structure_take_a_multiple_of_its_text(path):
    # Whole, though nobody would write it: 5,000 lists of nothing.
    tree = json.dumps(TREE)[:-1] + ',"tree":{"list":[' + '{"list":[]},' * 4_999 + '{"list":[]}]}}'
    path.write_bytes(signed(tree))
    tracemalloc.start()
    assert ft.load(path) == [[] for _ in range(5_000)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * path.stat().st_size


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """Returns the bytes of a saved tree, of a plain file, and of a module's state."""
    folder = tmp_path_factory.mktemp("valid")
    ft.save(folder / "tree", tree_of_every_kind(), metadata={"a": [1, None]})
    ft.save(folder / "module", module())
    arrays = {"b": entry("I16", (2, 3), (0, 12)), "a": entry("F64", (1,), (12, 20))}
    plain = packed(arrays, b"1" * 20)
    return [(folder / "tree").read_bytes(), (folder / "module").read_bytes(), plain]


def module():
    """Returns a module of a few parameters."""
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))


def mutated(rng, content):
    """Returns a file with some of its bytes flipped, cut off, doubled, or taken from elsewhere."""
    out = bytearray(content)
    kind = rng.integers(6)
    # Half of the changes are to the header.
    end = len(out) if rng.integers(2) else 8 + header_length(content)
    at = int(rng.integers(end))
    if kind == 0:
        return bytes(out[: rng.integers(len(out))])
    if kind == 1:
        for _ in range(rng.integers(1, 4)):
            out[rng.integers(end)] ^= 1 << rng.integers(8)
    elif kind == 2:
        length = int(rng.integers(1, 40))
        out[at : at + length] = rng.bytes(length)
    elif kind == 3:
        out[at:at] = out[at : at + int(rng.integers(1, 60))]
    elif kind == 4:
        words = [b"0", b"9" * 25, b'"', b"[", b"}", b",", b"NaN", b"-", b"\\u", b"e9", b" "]
        out[at : at + 1] = words[rng.integers(len(words))]
    else:
        out[:8] = struct.pack("<Q", int(rng.integers(2**63)) >> int(rng.integers(63)))
    return bytes(out)


@pytest.mark.long
def test_files_that_were_changed_at_random_are_whole_or_refused(path, valid):
    """Each is loaded without and with a structure, into a module, mapped, and from memory."""
    rng = numpy.random.default_rng()
    # Whatever is loaded into it has the values that it has, or is refused.
    target = module()
    path.write_bytes(valid[1])
    ft.load(path, target)
    before = {name: bits(x) for name, x in target.state_dict().items()}
    whole = {}
    for content in valid:
        path.write_bytes(content)
        whole[content] = ft.load(path)
    refused, count = 0, sized(120, 9_000)
    for i in range(count):
        original = valid[i % 3]
        content = mutated(rng, original)
        path.write_bytes(content)
        way = rng.integers(4)
        if way == 0:
            found = outcome(lambda: ft.load(path, mmap=True), content)
        elif way == 1 and original is valid[1]:
            found = outcome(lambda: ft.load(path, target), content)
            assert {name: bits(x) for name, x in target.state_dict().items()} == before
        elif way == 2:
            found = outcome(lambda content=content: torch.load(io.BytesIO(content)), content)
        else:
            found = outcome(lambda: ft.load(path), content)
            # A plain file has no checksums.
            if not isinstance(found, REFUSED) and original is not valid[2]:
                assert same(found, whole[original]), content
        refused += isinstance(found, REFUSED)
    assert refused > count / 2


def nodes_of(node):
    """Yields all lists and dicts within a structure."""
    if isinstance(node, dict | list):
        yield node
        for child in node.values() if isinstance(node, dict) else node:
            yield from nodes_of(child)


JUNK = [
    None, True, -1, 2**70, 1.5, "a", "", [], {}, [[]], {"list": 1}, {"array": "w"}, {"numpy": "w"},
    {"tensor": "w", "grad": True, "same": 0}, {"scalar": "w"}, {"array": "w", "complex": True},
    {"keys": [{"array": "w"}, -1]}, {"draws": [1, -1]}, {"state": {"state": 1}}, {"float": "inf"},
    {"int": "0xz"}, {"tuple": [{"dict": []}]}, {"fields": [["__class__", 1]]}, {"object": [[1, 1]]},
]  # fmt: skip


@pytest.mark.long
def test_structures_that_were_changed_at_random_are_trees_or_refused(path, valid):
    """Their checksums are right, as an attacker's are."""
    rng = numpy.random.default_rng()
    content = valid[0]
    length = header_length(content)
    header = json.loads(content[8 : 8 + length])
    text = header.pop("__metadata__")["functensor"][9:]
    like, refused, count = tree_of_every_kind(), 0, sized(30, 1000)
    for _ in range(count):
        structure = json.loads(text)
        for _ in range(rng.integers(1, 3)):
            nodes = list(nodes_of(structure["tree"]))
            node = nodes[rng.integers(len(nodes))]
            keys = [*node] if isinstance(node, dict) else [*range(len(node))]
            if keys:
                key = keys[rng.integers(len(keys))]
                node[key] = deepcopy(JUNK[rng.integers(len(JUNK))])
        changed = signed(structure, header, content[8 + length :])
        path.write_bytes(changed)
        call = (lambda: ft.load(path, like)) if rng.integers(2) else (lambda: ft.load(path))
        refused += isinstance(outcome(call, changed), REFUSED)
    assert refused > count / 4
