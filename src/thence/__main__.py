"""`python -m thence`, the same as `thence`."""

import sys

from thence.cli import main

sys.exit(main())
