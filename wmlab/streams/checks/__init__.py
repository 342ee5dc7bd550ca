"""The check of a recording of streams: invariants I1 to I12, computed by Spark."""
