"""The rules in motion: a simulated clock, a segment store, a controller, writers, readers and a script of faults."""
