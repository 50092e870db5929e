"""`python -m gafixer`."""

import os
import sys

# `-m` looks for modules in the working directory first: a repository that is scanned must not stand in for a library.
if __name__ == "__main__" and sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(os.curdir):
    del sys.path[0]

from gafixer.cli import main

if __name__ == "__main__":
    main()
