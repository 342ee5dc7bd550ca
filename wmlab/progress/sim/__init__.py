"""Query plans in motion: sources that cut buffers, a pool of workers that executes them, operators that follow time."""
