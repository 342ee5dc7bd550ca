"""What holds the watermark of a query, and who held it."""
