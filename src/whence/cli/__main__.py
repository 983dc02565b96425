"""`python -m whence.cli`, the same as `whence`."""

import sys

from whence.cli import main

sys.exit(main())
