"""What to run, as validated values: the scenario, its parts, their noting policies, and the script of events."""
