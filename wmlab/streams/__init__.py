"""Watermarks of streams with segments, as in Pravega: two-sided time bounds of readers."""
