"""The simulator: a simulated clock, a segment store, a controller, writers, readers and a script of faults."""
