"""The check of a recording of streams: invariants I1 to I9, computed by Spark."""
