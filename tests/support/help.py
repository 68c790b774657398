"""What ``help`` prints, in all versions of Python."""

import functools
import pydoc
import re
import sys


def helped(value):
    """Returns the lines of what ``help`` prints, a signature on one of them."""
    shown = pydoc.plain(pydoc.render_doc(value, title="%s"))
    # Since Python 3.13 a long signature has a line for each parameter.
    shown = re.sub(r"\(\n +", "(", shown)
    shown = re.sub(r"(?<=[\w'=)/*\]]),\n +(?=[\w*/])", ", ", shown)
    return re.sub(r"\n *\)", ")", shown).splitlines()


def first_line(value, signature):
    """Returns the line that ``help`` begins with, for the result of a transformation."""
    # Python 3.13, and no other version, documents objects like `functools.partial` as data.
    is_data = sys.version_info[:2] == (3, 13) and isinstance(value, functools.partial)
    return f"{value.__name__} = {value!r}" if is_data else signature
