"""Stamps, dependency logs and snapshots as bytes: one codec, strict about what others send."""
