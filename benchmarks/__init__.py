"""Side-by-side measurements, peers included: `python -m benchmarks`, see README.md."""
