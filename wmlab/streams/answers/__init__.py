"""Answers from a recording: what held the bounds, what each straggler cost, who owned the buckets, what happened."""
