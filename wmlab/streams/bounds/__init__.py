"""Time bounds and what they are held against, as functions from DataFrame to DataFrame."""
