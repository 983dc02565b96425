"""What a protocol would cost on recorded traffic: replay, profile, recommendation. Plain Python, standard library."""

from whence.cost.profile import Profile, profile
from whence.cost.recommend import Recommendation, recommend
from whence.cost.replay import Cost, has_arrivals, prefix, replay

__all__ = ["Cost", "Profile", "Recommendation", "has_arrivals", "prefix", "profile", "recommend", "replay"]
