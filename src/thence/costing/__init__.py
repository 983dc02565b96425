"""What a protocol would cost on recorded traffic: replay, profile, recommendation. Plain Python, standard library."""

from thence.costing.profile import Profile, profile
from thence.costing.recommend import Recommendation, recommend
from thence.costing.replay import Cost, has_arrivals, prefix, replay

__all__ = ["Cost", "Profile", "Recommendation", "has_arrivals", "prefix", "profile", "recommend", "replay"]
