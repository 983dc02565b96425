"""Chapter 7 of Rodrigues and Veríssimo: its networks, and how large stamps and histories are on them."""

from thence.lab.papers.chapter7.experiments import StampSizes, stamp_sizes
from thence.lab.papers.chapter7.networks import PLACEMENTS, GroupNetwork, broadcasts, gateway, office

__all__ = ["PLACEMENTS", "GroupNetwork", "StampSizes", "broadcasts", "gateway", "office", "stamp_sizes"]
