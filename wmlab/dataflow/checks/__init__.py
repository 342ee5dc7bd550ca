"""The check of a recorded dataflow: invariants K1 to K14, computed by Spark."""
