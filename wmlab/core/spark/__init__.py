"""Spark: the session, schemas, and the judge that all models share."""
