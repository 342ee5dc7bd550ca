"""What the models share: recordings, values, words, charts, the judge. Knows none of the models."""
