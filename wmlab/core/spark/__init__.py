"""Spark: the session, schemas, and the invariants, findings and verdicts that the checks of all models share."""
