"""Printed forms that fail, one module for each part of the papers: for tests, `reproduce` and the explorer only.

`VARIANTS` are all of them by name, the rejected designs of ours included; none is in the registry.
"""

from __future__ import annotations

from thence.core.model.plain import Option
from thence.lab.explorer.setting import Setting, Variant
from thence.lab.papers import rejected_designs
from thence.lab.papers.variants import bounded, ft, ks, overlay, serial, topology

MODULES = (ks, serial, bounded, topology, ft, overlay, rejected_designs)
VARIANTS: dict[str, Variant] = {variant.name: variant for module in MODULES for variant in module.VARIANTS}


def setting_of(
    protocol: str, processes: int = 3, messages: int = 3, destinations: str = "unicast", **how: Option
) -> Setting:
    """Return a setting of a registered protocol or of a printed form, whichever has that name."""
    return Setting(protocol, processes, messages, destinations, variant=VARIANTS.get(protocol), **how)
