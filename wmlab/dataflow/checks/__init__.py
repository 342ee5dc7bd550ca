"""The check of a recorded dataflow: invariants K1 to K15, computed by Spark."""
