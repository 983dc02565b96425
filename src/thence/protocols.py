"""The protocols, as users import them; they live in `thence.core.protocols`."""

from thence.core.protocols import *  # noqa: F403
from thence.core.protocols import __all__ as __all__
