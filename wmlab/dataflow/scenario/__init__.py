"""The dataflow as a validated value: vertices, edges, faults."""
