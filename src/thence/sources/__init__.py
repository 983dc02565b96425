"""Adapters from foreign records to arrivals, as users import them; they live in `thence.tables.sources`."""

from thence.tables.sources import *  # noqa: F403
from thence.tables.sources import __all__ as __all__
