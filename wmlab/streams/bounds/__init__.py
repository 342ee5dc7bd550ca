"""Time bounds, and the perfect watermark to compare them with, as functions from DataFrame to DataFrame."""
