"""The check of recorded query plans: invariants N1 to N12, computed by Spark."""
