"""Costs of protocols on recorded traffic: replay, profile, recommendation."""

from thence.tables.costing.recommend import Recommendation, recommend
from thence.tables.costing.replay import Cost, has_arrivals, prefix, replay_run
from thence.tables.costing.traffic import Profile, profile

__all__ = ["Cost", "Profile", "Recommendation", "has_arrivals", "prefix", "profile", "recommend", "replay_run"]
