"""A dataflow in motion: sources, instances and queues on one simulated clock, with snapshots, restarts and faults."""
