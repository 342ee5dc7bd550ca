"""What the models share: recordings, values, words, charts, checks. Knows none of the models."""
