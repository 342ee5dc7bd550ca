"""Answers from a recording: verdicts, what held the bounds, what each holder cost, and what happened."""
