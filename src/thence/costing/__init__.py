"""What a protocol would cost on recorded traffic: replay, profile, recommendation."""

from thence.costing.recommending import Recommendation, recommend
from thence.costing.replaying import Cost, has_arrivals, prefix, replay
from thence.costing.traffic import Profile, profile

__all__ = ["Cost", "Profile", "Recommendation", "has_arrivals", "prefix", "profile", "recommend", "replay"]
