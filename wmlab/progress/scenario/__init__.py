"""Query plans as validated values: queries, sources, operators, workers."""
