"""``python -m functensor``: the command ``functensor``."""

import sys

from .doctor.command import main

if __name__ == "__main__":
    sys.exit(main())
