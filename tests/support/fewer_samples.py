"""Which of the samples of a primitive say what no other sample says."""

from functools import cache
from zlib import crc32

from functensor.primitives.core.families import batch_elementwise, infer_elementwise


def is_special(primitive):
    """Says whether a primitive is a special function of elements, whose values are slow."""
    special = primitive.module.startswith("functensor.primitives.special.")
    return special and primitive.family == "elementwise"


@cache
def few_samples(primitive):
    """Returns a primitive's samples, without those elementwise ones of which others say the same.

    Elementwise primitives are declared with all ways in which shapes broadcast, once more for every
    choice of parameters. One code infers shapes and broadcasts for all of them, but for those with
    code of their own, which keep all samples. One way stays for each choice, and the next primitive
    has another one. With the first choice operands without axes, and without elements, stay.
    """
    if primitive.infer is not infer_elementwise or primitive.batch is not batch_elementwise:
        return primitive.samples
    choices = []
    for sample in primitive.samples:
        if not choices or choices[-1][0].params != sample.params:
            choices.append([])
        choices[-1].append(sample)
    if min(map(len, choices), default=0) < 4:
        return primitive.samples
    kept = []
    for number, (scalar, full, empty, *broadcast) in enumerate(choices):
        kept += [full] if number else [scalar, full, empty]
        kept.append(broadcast[(crc32(primitive.name.encode()) + number) % len(broadcast)])
    return kept
