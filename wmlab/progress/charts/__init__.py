"""Charts of progress by origin, sequence and chunk: a table in, a picture with its answer as a sentence out."""

from wmlab.progress.charts.firing import windows_firing
from wmlab.progress.charts.progress import progress, sequence_prefix

__all__ = ["progress", "sequence_prefix", "windows_firing"]
