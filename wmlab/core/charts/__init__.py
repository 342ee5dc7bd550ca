"""Charts as values: scenes, axes, and what draws them."""
