"""Answers from a recording: what held the bounds, and for how long, who owned the buckets, what happened."""
