"""The check of recorded query plans: invariants N1 to N11, computed by Spark."""
