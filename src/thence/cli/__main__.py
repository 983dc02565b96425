"""`python -m thence.cli`, the same as `thence`."""

import sys

from thence.cli import main

sys.exit(main())
