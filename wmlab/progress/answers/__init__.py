"""What is said of query plans: what holds a watermark at a moment and over a run, in one vocabulary."""
