"""Every printed form that fails, by name: for tests and the explorer only, never registered."""

from __future__ import annotations

from thence.protocols import printed_bounded, printed_ks
from thence.protocols.variant import Variant

VARIANTS: dict[str, Variant] = {variant.name: variant for variant in (*printed_ks.VARIANTS, *printed_bounded.VARIANTS)}
