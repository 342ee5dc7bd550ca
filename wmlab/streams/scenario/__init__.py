"""What to run, as validated values: the scenario, its parties, their noting policies, and the script of events."""
