"""For test suites, as users import it; it lives in `thence.tables.testing`."""

from thence.tables.testing import assert_causal

__all__ = ["assert_causal"]
